// The list of conversations: open, rename, export, delete with a way back.
import { isRunning, stop } from "./answers.js";
import { byId, download, element, icon, iconButton, toast } from "./dom.js";
import { fromPlain, isEmpty, newId, titleOf, toMarkdown, toPlain } from "./tree.js";
import { emit, on, state } from "./state.js";

const filterFrom = 8;   // fewer are found by eye
let renaming = null;    // conversation id

export function setUpSidebar() {
    on("list", draw);
    on("conversation", draw);
    byId("new-conversation").addEventListener("click", startConversation);
    byId("filter").addEventListener("input", draw);
    byId("import").addEventListener("click", () => byId("import-file").click());
    byId("import-file").addEventListener("change", importFile);
    byId("sidebar-toggle").addEventListener("click", toggleSidebar);
    byId("sidebar-close").addEventListener("click", closeOnNarrow);
    byId("scrim").addEventListener("click", closeOnNarrow);
}

export const narrow = () => matchMedia("(max-width: 820px)").matches;

function toggleSidebar() {
    const shell = byId("shell");
    if (narrow()) {
        const open = !shell.classList.contains("sidebar-open");
        shell.classList.toggle("sidebar-open", open);
        byId("scrim").hidden = !open;
        if (open) byId("new-conversation").focus();
    } else {
        shell.classList.toggle("sidebar-hidden");
    }
}

export function closeOnNarrow() {
    byId("shell").classList.remove("sidebar-open");
    byId("scrim").hidden = true;
}

export function startConversation() {
    closeOnNarrow();
    // One empty conversation is enough.
    if (!isEmpty(state.conversation)) {
        const empty = state.library.list().find(isEmpty);
        state.conversation = empty ?? state.library.create(state.conversation.settings);
        emit("conversation");
    }
    byId("composer-text").focus();
}

function open(conversation) {
    closeOnNarrow();
    if (state.conversation === conversation) return;
    state.conversation = conversation;
    emit("conversation");
    if (!narrow()) byId("composer-text").focus();
}

// --- drawing ---

function draw() {
    const all = state.library.list().filter((conversation) => !isEmpty(conversation));
    const filter = byId("filter");
    filter.hidden = all.length < filterFrom && filter.value === "";
    const words = filter.value.trim().toLowerCase();
    const wanted = words ? all.filter((conversation) => contains(conversation, words)) : all;
    const rows = [];
    let group = null;
    for (const conversation of wanted) {
        const name = ageOf(conversation.updated);
        if (name !== group) rows.push(element("li", { class: "group" }, name));
        group = name;
        rows.push(row(conversation));
    }
    if (wanted.length === 0) rows.push(element("li", { class: "nothing" }, words ? "Nothing found" : "Conversations appear here. They stay in this browser."));
    const focused = document.activeElement?.closest?.(".conversation");
    const wasMore = document.activeElement?.classList.contains("more");
    byId("conversations").replaceChildren(...rows);
    // Redrawing must not take the focus away from somebody who is in the list.
    if (focused) byId("conversations").querySelector(`[data-id="${focused.dataset.id}"] ${wasMore ? ".more" : ".conversation-open"}`)?.focus();
    byId("title").textContent = titleOf(state.conversation);
    document.title = isEmpty(state.conversation) ? "Hearth" : `${titleOf(state.conversation)} · Hearth`;
    const field = byId("conversations").querySelector(".rename");
    if (field && document.activeElement !== field) {
        field.focus();
        field.select();
    }
}

function contains(conversation, words) {
    if (titleOf(conversation).toLowerCase().includes(words)) return true;
    for (const node of conversation.nodes.values()) if (node.text.toLowerCase().includes(words)) return true;
    return false;
}

function ageOf(time) {
    const today = new Date().setHours(0, 0, 0, 0);
    const day = 86_400_000;
    if (time >= today) return "Today";
    if (time >= today - day) return "Yesterday";
    if (time >= today - 7 * day) return "This week";
    if (time >= today - 31 * day) return "This month";
    return "Earlier";
}

function row(conversation) {
    if (renaming === conversation.id) return element("li", {}, renameField(conversation));
    const current = conversation === state.conversation;
    const more = iconButton("more", `Actions for ${titleOf(conversation)}`, (event) => openMenu(conversation, event.currentTarget), "more");
    more.setAttribute("aria-haspopup", "menu");
    return element("li", { class: `conversation${current ? " current" : ""}`, "data-id": conversation.id },
        element("button", { type: "button", class: "conversation-open", "aria-current": current ? "true" : null, title: titleOf(conversation), onclick: () => open(conversation), ondblclick: () => rename(conversation) },
            isRunning(conversation) && element("span", { class: "ember", title: "Being answered" }),
            element("span", { class: "conversation-title" }, titleOf(conversation))),
        more);
}

// --- what can be done with one ---

function openMenu(conversation, anchor) {
    const menu = byId("menu");
    const entry = (name, label, run, extra = "") => element("button", { type: "button", role: "menuitem", class: `menu-item ${extra}`.trim(), onclick: () => { menu.hidePopover(); run(); } }, icon(name), label);
    menu.replaceChildren(
        entry("edit", "Rename", () => rename(conversation)),
        entry("export", "Export as Markdown", () => download(`${fileName(conversation)}.md`, "text/markdown", toMarkdown(conversation))),
        entry("export", "Export as JSON", () => download(`${fileName(conversation)}.json`, "application/json", JSON.stringify(toPlain(conversation), null, 1))),
        entry("trash", "Delete", () => remove(conversation), "danger"));
    menu.showPopover();
    const place = anchor.getBoundingClientRect();
    const { offsetWidth, offsetHeight } = menu;
    menu.style.left = `${Math.max(8, Math.min(place.left, innerWidth - offsetWidth - 8))}px`;
    menu.style.top = `${place.bottom + 4 + offsetHeight > innerHeight ? Math.max(8, place.top - offsetHeight - 4) : place.bottom + 4}px`;
    menu.firstChild.focus();
    menu.onkeydown = (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (!step) return;
        event.preventDefault();
        const items = [...menu.children];
        items[(items.indexOf(document.activeElement) + step + items.length) % items.length].focus();
    };
}

function fileName(conversation) {
    return titleOf(conversation).toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "conversation";
}

function rename(conversation) {
    renaming = conversation.id;
    draw();
}

function renameField(conversation) {
    const field = element("input", { class: "field rename", "aria-label": "Name of the conversation", maxlength: "120" });
    field.value = titleOf(conversation);
    let over = false;
    const end = (keep) => {
        if (over) return;  // removing the field blurs it, which would end it again
        over = true;
        renaming = null;
        if (keep && field.value.trim() && field.value.trim() !== titleOf(conversation)) {
            conversation.title = field.value.trim();
            state.library.save(conversation);
        }
        draw();
        byId("conversations").querySelector(`[data-id="${conversation.id}"] .conversation-open`)?.focus();
    };
    field.addEventListener("keydown", (event) => {
        event.stopPropagation();
        if (event.key === "Enter") end(true);
        if (event.key === "Escape") end(false);
    });
    field.addEventListener("blur", () => end(true));
    return field;
}

function remove(conversation) {
    stop(conversation);
    state.library.remove(conversation);
    if (state.conversation === conversation) {
        state.conversation = state.library.list()[0] ?? state.library.create(conversation.settings);
        emit("conversation");
    }
    emit("list");
    if (!narrow()) byId("composer-text").focus();
    toast(`Deleted “${titleOf(conversation)}”`, { label: "Undo", run: () => {
        state.library.restore(conversation);
        state.conversation = conversation;
        emit("conversation");
    } });
}

async function importFile(event) {
    const [file] = event.target.files;
    event.target.value = "";
    if (!file) return;
    let conversation = null;
    try {
        conversation = fromPlain(JSON.parse(await file.text()));
    } catch {
        // Said below.
    }
    if (!conversation) {
        toast(`${file.name} is not a conversation exported by Hearth.`);
        return;
    }
    // A copy beside the original, never over it.
    if (state.library.conversations.has(conversation.id)) conversation.id = newId();
    conversation.updated = Date.now();
    state.library.restore(conversation);
    state.conversation = conversation;
    emit("conversation");
    toast(`Imported “${titleOf(conversation)}”`, null, 4);
}
