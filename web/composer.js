// The field messages are written in, its send button that stops, and what is suggested for a beginning.
import { answer, isRunning, stop } from "./answers.js";
import { announce, byId, element, icon } from "./dom.js";
import { on, state } from "./state.js";
import { scrollToEnd } from "./transcript.js";
import { activeLeaf, activePath, addMessage } from "./tree.js";

const suggestions = [
    "Explain why the sky is blue, as if to a curious child",
    "Write a short poem about winter light",
    "Make a table of the planets with their size and day length",
    "Write a Python function that finds the primes below n",
];
const text = byId("composer-text");
const draftName = "hearth.drafts";
let draftOf = null;  // the conversation the words in the field belong to

function fit() {
    text.style.height = "auto";
    text.style.height = `${Math.min(text.scrollHeight, innerHeight * 0.4)}px`;
}

function send() {
    const { conversation } = state;
    const words = text.value.trim();
    if (!words || isRunning(conversation)) return;
    if (state.server.status === "loading") {
        announce("The model is still being loaded");
        return;
    }
    text.value = "";
    keepDraft();
    fit();
    drawSend();
    const leaf = activeLeaf(conversation);
    const message = addMessage(conversation, leaf.id, "user", words);
    answer(conversation, message.id);
    scrollToEnd();
}

// Words that were not sent stay with their conversation, for as long as the tab.
function drafts() {
    try {
        return JSON.parse(sessionStorage.getItem(draftName)) ?? {};
    } catch {
        return {};
    }
}

function keepDraft() {
    if (!draftOf) return;
    const all = drafts();
    if (text.value) all[draftOf.id] = text.value;
    else delete all[draftOf.id];
    try {
        sessionStorage.setItem(draftName, JSON.stringify(all));
    } catch {
        // Then they are lost on reload.
    }
}

function showDraft() {
    if (draftOf === state.conversation) return;
    draftOf = state.conversation;
    text.value = drafts()[draftOf.id] ?? "";
    fit();
}

// How full the model's memory is; the whole conversation must fit into it.
function drawContext() {
    const last = activePath(state.conversation).findLast((node) => Number.isFinite(node.stats?.promptTokens));
    const limit = state.models.find((model) => model.id === last?.stats.model)?.context_length;
    const note = byId("dock-note");
    if (!last || !limit) {
        note.textContent = "Models make mistakes; check what matters.";
        note.classList.remove("tight");
        return;
    }
    const used = last.stats.promptTokens + (last.stats.answerTokens ?? 0);
    note.textContent = `${used.toLocaleString("en")} of ${limit.toLocaleString("en")} tokens of context`;
    note.classList.toggle("tight", used > limit * 0.85);
}

function drawSend() {
    const busy = isRunning(state.conversation);
    const button = byId("send");
    button.classList.toggle("stop", busy);
    button.replaceChildren(icon(busy ? "stop" : "send"));
    button.setAttribute("aria-label", busy ? "Stop" : "Send");
    button.title = busy ? "Stop (Esc)" : "Send (Enter)";
    button.disabled = !busy && (text.value.trim() === "" || state.server.status === "loading");
}

export function setUpComposer() {
    text.addEventListener("input", () => {
        fit();
        drawSend();
        keepDraft();
    });
    text.addEventListener("keydown", (event) => {
        // While an input method composes, Enter belongs to it.
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        send();
    });
    byId("composer").addEventListener("submit", (event) => {
        event.preventDefault();
        if (isRunning(state.conversation)) stop(state.conversation);
        else send();
    });
    byId("suggestions").replaceChildren(...suggestions.map((words) => element("li", {}, element("button", { type: "button", class: "suggestion", onclick: () => {
        text.value = words;
        fit();
        drawSend();
        send();
    } }, words))));
    fit();
    on("conversation", showDraft);
    for (const event of ["running", "conversation", "server"]) {
        on(event, drawSend);
        on(event, drawContext);
    }
}
