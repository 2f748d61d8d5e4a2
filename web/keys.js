// The keyboard: what the keys do, and the list that says so.
import { isRunning, stop } from "./answers.js";
import { announce, byId, element } from "./dom.js";
import { closeOpenPanel } from "./panel.js";
import { closeOnNarrow, startConversation } from "./sidebar.js";
import { state } from "./state.js";
import { edit, focusMessage, messageInFocus, switchSibling } from "./transcript.js";

const apple = /Mac|iPhone|iPad/.test(navigator.platform);
const text = byId("composer-text");

const keys = [
    ["Enter", "Send"],
    ["Shift Enter", "New line"],
    ["Esc", "Stop the answer, close a panel"],
    [apple ? "⌘ K" : "Ctrl K", "New conversation"],
    ["Alt ↑ ↓", "Walk over the messages"],
    ["Alt ← →", "Switch between versions of a message"],
    ["E", "Edit the message in focus into a new branch"],
    ["/", "Go to the message field"],
    ["?", "This list"],
];

export function setUpKeys() {
    byId("new-key").textContent = apple ? "⌘K" : "Ctrl K";
    byId("keys-list").replaceChildren(...keys.flatMap(([combination, words]) => [
        element("dt", {}, ...combination.split(" ").map((key) => element("kbd", {}, key))), element("dd", {}, words)]));
    const dialog = byId("keys-dialog");
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    byId("show-keys").addEventListener("click", () => dialog.showModal());
    document.addEventListener("keydown", onKey);
}

function onKey(event) {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    const field = event.target.closest?.("input, textarea, select");
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        startConversation();
        return;
    }
    if (event.key === "Escape") {
        if (document.querySelector(":popover-open")) return;
        if (byId("shell").classList.contains("sidebar-open")) closeOnNarrow();
        else if (isRunning(state.conversation)) stop(state.conversation);
        else if (!closeOpenPanel()) text.focus();
        return;
    }
    // In a field with words in it, Alt and arrows move by words.
    if (event.altKey && !event.ctrlKey && !event.metaKey && !(field && field.value)) return onArrow(event);
    if (field || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "?") byId("keys-dialog").showModal();
    else if (event.key === "/") text.focus();
    else if (event.key === "e" && event.target.matches(".message")) edit(state.conversation, messageInFocus());
    else return;
    event.preventDefault();
}

function onArrow(event) {
    const across = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const along = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!across && !along) return;
    event.preventDefault();
    if (along) {
        focusMessage(along);
        return;
    }
    const node = messageInFocus();
    if (!node || !switchSibling(state.conversation, node, across)) return;
    const { chosen, children } = state.conversation.nodes.get(node.parent);
    announce(`Version ${children.indexOf(chosen) + 1} of ${children.length}`);
    if (document.activeElement !== text) document.querySelector(`.message[data-id="${chosen}"]`)?.focus({ preventScroll: true });
}
