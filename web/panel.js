// The panel at the side: one at a time, branches or live figures.
import { closeBranches, openBranches } from "./branches.js";
import { byId } from "./dom.js";
import { closeLive, openLive } from "./live.js";
import { narrow } from "./sidebar.js";

const panels = {
    branches: { title: "Branches", open: openBranches, close: closeBranches, button: "show-branches" },
    live: { title: "Live figures", open: openLive, close: closeLive, button: "show-live" },
};
let panel = null;

function showPanel(name) {
    if (panel) {
        panels[panel].close();
        byId(panels[panel].button).setAttribute("aria-pressed", "false");
    }
    panel = panel === name ? null : name;
    byId("drawer").hidden = panel === null;
    byId("shell").classList.toggle("drawer-open", panel !== null);
    if (!panel) return;
    byId("drawer-title").textContent = panels[panel].title;
    byId(panels[panel].button).setAttribute("aria-pressed", "true");
    panels[panel].open(byId("drawer-body"));
    if (narrow()) byId("drawer-close").focus();
}

export function closePanel() {
    const button = panel && byId(panels[panel].button);
    if (panel) showPanel(panel);
    button?.focus();
}

// Gives whether there was one to close.
export function closeOpenPanel() {
    if (!panel) return false;
    closePanel();
    return true;
}

export function setUpPanel() {
    for (const [name, { button }] of Object.entries(panels)) byId(button).addEventListener("click", () => showPanel(name));
    byId("drawer-close").addEventListener("click", closePanel);
}
