// The field messages are written in, its send button that stops, and what is suggested for a beginning.
import { answer, isRunning, stop } from "./answers.js";
import { announce, byId, element, icon } from "./dom.js";
import { on, state } from "./state.js";
import { scrollToEnd } from "./transcript.js";
import { activeLeaf, addMessage } from "./tree.js";

const suggestions = [
    "Explain why the sky is blue, as if to a curious child",
    "Write a short poem about winter light",
    "Make a table of the planets with their size and day length",
    "Write a Python function that finds the primes below n",
];
const text = byId("composer-text");

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
    fit();
    drawSend();
    const leaf = activeLeaf(conversation);
    const message = addMessage(conversation, leaf.id, "user", words);
    answer(conversation, message.id);
    scrollToEnd();
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
    on("running", drawSend);
    on("conversation", drawSend);
    on("server", drawSend);
}
