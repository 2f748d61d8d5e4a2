// The messages of the path on the screen. Elements are kept by message, so switching a branch redraws only what differs.
import { answer, isRunning, stop } from "./answers.js";
import { byId, copyButton, element, icon, iconButton } from "./dom.js";
import { renderMarkdown } from "./markdown.js";
import { addMessage, activePath, choose, isEmpty, siblingAt, siblings } from "./tree.js";
import { emit, on, state } from "./state.js";

const shown = new Map();  // message id -> { article, node, update }
const dirty = new Set();
let frame = 0;
let editing = null;       // message id

const scroller = () => byId("scroller");

export function setUpTranscript() {
    on("conversation", draw);
    on("message", ({ conversation, node, ended }) => {
        if (conversation !== state.conversation || !shown.has(node.id)) return;
        if (ended) {
            shown.get(node.id).update();
            follow();
            return;
        }
        dirty.add(node.id);
        frame ||= requestAnimationFrame(flush);
    });
    scroller().addEventListener("scroll", showJump, { passive: true });
    byId("to-bottom").addEventListener("click", () => scrollToEnd("smooth"));
    new ResizeObserver(() => { if (sticky) scrollToEnd(); showJump(); }).observe(byId("transcript"));
}

function flush() {
    frame = 0;
    for (const id of dirty) shown.get(id)?.update();
    dirty.clear();
    follow();
}

// --- scrolling: stays at the end while the reader is there, and leaves them alone when they are not ---

let sticky = true;
let lastTop = 0;

function showJump() {
    const { scrollHeight, scrollTop, clientHeight } = scroller();
    const distance = scrollHeight - scrollTop - clientHeight;
    // The slightest move upwards lets go: a slow finger must be able to leave a growing answer.
    if (scrollTop < lastTop && distance > 2) sticky = false;
    else if (distance < 24) sticky = true;
    lastTop = scrollTop;
    byId("to-bottom").hidden = distance < 160;
}

function follow() {
    if (sticky) scrollToEnd();
}

export function scrollToEnd(behavior = "instant") {
    sticky = true;
    scroller().scrollTo({ top: scroller().scrollHeight, behavior });
}

// --- drawing ---

let drawnConversation = null;

function draw() {
    const { conversation } = state;
    const path = activePath(conversation);
    const other = drawnConversation !== conversation;
    if (other) {
        editing = null;
        shown.clear();
    }
    drawnConversation = conversation;
    byId("welcome").hidden = !isEmpty(conversation);
    const visible = new Set(path.map((node) => node.id));
    for (const id of [...shown.keys()]) if (!visible.has(id)) shown.delete(id);
    const articles = path.map((node) => {
        if (!shown.has(node.id)) shown.set(node.id, view(conversation, node));
        const entry = shown.get(node.id);
        entry.update();
        return entry.article;
    });
    const transcript = byId("transcript");
    // Nodes that stay in place must not be moved: moving loses focus and the selection.
    let at = transcript.firstChild;
    for (const article of articles) {
        if (article === at) at = at.nextSibling;
        else transcript.insertBefore(article, at);
    }
    while (at) {
        const next = at.nextSibling;
        at.remove();
        at = next;
    }
    if (other) scrollToEnd();
    showJump();
}

function view(conversation, node) {
    const isUser = node.role === "user";
    const body = element("div", { class: "message-body" });
    const foot = element("div", { class: "message-foot" });
    const article = element("article", { class: `message ${isUser ? "from-user" : "from-model"}`, tabindex: "-1", "aria-label": isUser ? "You" : "Answer", "data-id": node.id }, body, foot);
    let drawnText = null;
    let drawnState = null;
    let drawnSiblings = null;

    function update() {
        if (editing === node.id) return;
        const place = placeAmong();
        if (node.text !== drawnText || node.state !== drawnState) {
            if (isUser) body.textContent = node.text;
            else drawAnswer();
        }
        const live = node.state === "streaming";
        if (live) drawLiveFoot();
        else if (node.state !== drawnState || place !== drawnSiblings) drawFoot();
        [drawnText, drawnState, drawnSiblings] = [node.text, node.state, place];
    }

    function placeAmong() {
        const all = siblings(conversation, node);
        return `${all.indexOf(node.id) + 1}/${all.length}`;
    }

    function drawAnswer() {
        const live = node.state === "streaming";
        article.classList.toggle("live", live);
        article.setAttribute("aria-busy", String(live));
        let prose = body.querySelector(":scope > .prose");
        if (!prose) {
            // Polite and busy while it grows: screen readers speak the whole answer once it is there.
            prose = element("div", { class: "prose", "aria-live": live ? "polite" : "off" });
            body.replaceChildren(prose);
        }
        prose.setAttribute("aria-busy", String(live));
        const { thought, rest, open } = splitThought(node);
        drawThought(body, thought, open && live);
        renderMarkdown(prose, rest);
        body.querySelector(":scope > .waiting")?.remove();
        if (live && !node.text && !thought) body.append(element("p", { class: "waiting" }, element("span", { class: "ember" }), "Reading the conversation"));
        body.querySelector(":scope > .note")?.remove();
        const note = ending(conversation, node);
        if (note) body.append(note);
    }

    function drawFoot() {
        const actions = element("div", { class: "actions" });
        const arrows = siblingArrows(conversation, node);
        if (isUser) {
            actions.append(copyButton("Copy", () => node.text), iconButton("edit", "Edit into a new branch", () => edit(conversation, node)));
            foot.replaceChildren(...[actions, arrows].filter(Boolean));
        } else {
            const again = iconButton("again", "Answer again, as a new branch", () => answer(conversation, node.parent));
            // Nothing came: the note above has the one button that makes sense.
            if (node.text) actions.append(copyButton("Copy the answer", () => node.text), again, iconButton("edit", "Edit the answer into a new branch", () => edit(conversation, node)));
            else if (node.state !== "failed") actions.append(again);
            foot.replaceChildren(...[arrows, statistics(node), actions].filter(Boolean));
        }
    }

    function drawLiveFoot() {
        const { tokensPerSecond, answerTokens } = node.stats ?? {};
        const words = answerTokens ? `${answerTokens} tokens${tokensPerSecond ? ` · ${tokensPerSecond.toFixed(1)} tok/s` : ""}` : "";
        let line = foot.querySelector(":scope > .statistics");
        if (!line || drawnState !== "streaming" || placeAmong() !== drawnSiblings) {
            line = element("span", { class: "statistics" });
            foot.replaceChildren(...[siblingArrows(conversation, node), line].filter(Boolean));
        }
        line.textContent = words;
    }

    return { article, node, update };
}

// Models that think aloud put it between <think> marks at the start, or the server sends it apart.
function splitThought(node) {
    if (node.reasoning) return { thought: node.reasoning, rest: node.text, open: !node.text };
    const match = /^\s*<think>([^]*?)(<\/think>|$)/.exec(node.text);
    if (!match) return { thought: "", rest: node.text, open: false };
    return { thought: match[1].trim(), rest: node.text.slice(match[0].length), open: match[2] === "" };
}

function drawThought(body, thought, open) {
    let details = body.querySelector(":scope > .thought");
    if (!thought) {
        details?.remove();
        return;
    }
    if (!details) {
        details = element("details", { class: "thought" }, element("summary", {}, "Thoughts"), element("div", { class: "prose" }));
        body.prepend(details);
    }
    details.firstChild.textContent = open ? "Thinking…" : "Thoughts";
    renderMarkdown(details.lastChild, thought);
}

function siblingArrows(conversation, node) {
    const all = siblings(conversation, node);
    if (all.length < 2) return null;
    const at = all.indexOf(node.id);
    const go = (step) => {
        switchSibling(conversation, node, step);
        // The arrows of the sibling take over the focus, so that the same key goes on.
        const next = shown.get(conversation.nodes.get(node.parent).chosen)?.article;
        const wanted = next?.querySelector(step < 0 ? ".siblings button:first-child" : ".siblings button:last-child");
        (wanted?.disabled ? next.querySelector(".siblings button:not(:disabled)") : wanted)?.focus();
    };
    const left = iconButton("left", "Earlier version", () => go(-1));
    const right = iconButton("right", "Later version", () => go(1));
    left.disabled = at === 0;
    right.disabled = at === all.length - 1;
    return element("div", { class: "siblings", role: "group", "aria-label": `Version ${at + 1} of ${all.length}` }, left, element("span", {}, `${at + 1}/${all.length}`), right);
}

export function switchSibling(conversation, node, step) {
    const id = siblingAt(conversation, node, step);
    if (!id) return false;
    const before = shown.get(node.id)?.article.getBoundingClientRect().top;
    choose(conversation, id);
    state.library.save(conversation);
    sticky = false;
    emit("conversation");
    // The switched message stays where the eye is.
    const after = shown.get(id)?.article.getBoundingClientRect().top;
    if (before !== undefined && after !== undefined) scroller().scrollTop += after - before;
    return true;
}

// "812 tokens, 790 reused · 41.8 tok/s · 0.3 s to first token", with the reused share as a bar.
function statistics(node) {
    const stats = node.stats;
    if (!stats || (stats.answerTokens === undefined && stats.promptTokens === undefined)) return null;
    // With one model its name would say nothing.
    const parts = state.models.length > 1 && stats.model ? [stats.model] : [];
    const number = (value) => value.toLocaleString("en");
    let bar = null;
    if (Number.isFinite(stats.promptTokens)) {
        const reused = Math.min(stats.cachedTokens ?? 0, stats.promptTokens);
        const share = stats.promptTokens > 0 ? reused / stats.promptTokens : 0;
        bar = element("span", { class: "reuse", "aria-hidden": "true" }, element("span", {}));
        bar.firstChild.style.width = `${share * 100}%`;
        parts.push(`${number(stats.promptTokens)} tokens, ${reused > 0 ? `${number(reused)} reused` : "none reused"}`);
    } else if (stats.answerTokens) {
        parts.push(`${number(stats.answerTokens)} tokens written`);
    }
    if (stats.tokensPerSecond) parts.push(`${stats.tokensPerSecond.toFixed(1)} tok/s`);
    if (stats.firstTokenMs !== undefined) parts.push(`${seconds(stats.firstTokenMs)} to first token`);
    const title = [stats.model, stats.answerTokens !== undefined && `${number(stats.answerTokens)} tokens written`,
        stats.cachedTokens > 0 && `${number(stats.cachedTokens)} tokens of the prompt were already computed`].filter(Boolean).join("\n");
    // Lines break between the figures, never inside one.
    const words = parts.flatMap((part, index) => [index > 0 && " · ", element("span", {}, part)]);
    return element("span", { class: "statistics", title }, bar, element("span", { class: "figures" }, ...words));
}

function seconds(ms) {
    return ms < 95 ? `${(ms / 1000).toFixed(2)} s` : `${(ms / 1000).toFixed(1)} s`;
}

// What is said under an answer that did not end by itself.
function ending(conversation, node) {
    const again = (label, run) => element("button", { type: "button", class: "button small", onclick: run }, icon("again"), label);
    if (node.state === "failed") {
        const retry = again("Try again", () => answer(conversation, node.parent, node));
        const wait = node.error?.retryAfterSeconds ? ` It asks to wait ${node.error.retryAfterSeconds} s.` : "";
        const words = `${node.error?.message ?? "No answer came."}${wait}`;
        return element("div", { class: "note error", role: "alert" }, element("p", {}, words), retry);
    }
    if (node.state === "lost") {
        const message = node.error?.message ?? "The page was closed while this was being written.";
        return element("div", { class: "note warning", role: "alert" }, element("p", {}, `${message} What came before is kept.`), again("Answer again", () => answer(conversation, node.parent)));
    }
    if (node.state === "stopped") return element("p", { class: "note quiet" }, node.text ? "Stopped." : "Stopped before the first word.");
    if (node.state === "done" && node.stats?.finish === "length") return element("p", { class: "note quiet" }, "Cut at the token limit. The settings can allow longer answers.");
    if (node.state === "done" && !node.text && !node.reasoning) return element("p", { class: "note quiet" }, "The model answered with nothing.");
    return null;
}

// --- editing: always a new branch, never a change ---

export function edit(conversation, node) {
    if (editing) shown.get(editing)?.cancel?.();
    const entry = shown.get(node.id);
    if (!entry) return;
    const isUser = node.role === "user";
    editing = node.id;
    const area = element("textarea", { class: "field edit-area", "aria-label": isUser ? "Edit the message" : "Edit the answer", rows: "1" });
    area.value = node.text;
    const fit = () => {
        area.style.height = "auto";
        area.style.height = `${Math.min(area.scrollHeight + 2, innerHeight * 0.5)}px`;
    };
    const form = element("form", { class: "editor" }, area, element("div", { class: "row-end" },
        element("button", { type: "button", class: "button small", onclick: () => close() }, "Cancel"),
        element("button", { type: "submit", class: "button small primary" }, isUser ? "Send as new branch" : "Keep as new branch")));
    const close = () => {
        editing = null;
        form.remove();
        entry.article.classList.remove("editing");
        entry.cancel = null;
        byId("composer-text").focus({ preventScroll: true });
    };
    entry.cancel = close;
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        const text = area.value.trim();
        if (!text) return;
        close();
        if (text === node.text.trim() && !isUser) return;
        if (isRunning(conversation)) stop(conversation);
        const sibling = addMessage(conversation, node.parent, node.role, text);
        if (isUser) {
            answer(conversation, sibling.id);
            scrollToEnd();
        } else {
            sibling.stats = { model: "edited by hand" };
            state.library.save(conversation);
            emit("conversation");
        }
    });
    area.addEventListener("input", fit);
    area.addEventListener("keydown", (event) => {
        if (event.key === "Escape") {
            event.stopPropagation();
            close();
        } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing && (isUser || event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            form.requestSubmit();
        }
    });
    entry.article.classList.add("editing");
    entry.article.append(form);
    fit();
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
}

// The message the keyboard means: the focused one, else the last one that has versions.
export function messageInFocus() {
    const id = document.activeElement?.closest?.(".message")?.dataset.id;
    if (id && shown.has(id)) return shown.get(id).node;
    return activePath(state.conversation).findLast((node) => siblings(state.conversation, node).length > 1) ?? null;
}

export function focusMessage(step) {
    const articles = [...byId("transcript").children];
    if (articles.length === 0) return;
    const at = articles.indexOf(document.activeElement?.closest?.(".message"));
    const next = at < 0 ? articles.length - 1 : Math.min(articles.length - 1, Math.max(0, at + step));
    articles[next].focus({ preventScroll: true });
    articles[next].scrollIntoView({ block: "nearest" });
}

export function showMessage(id) {
    const article = shown.get(id)?.article;
    article?.scrollIntoView({ block: "center", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth" });
    article?.focus({ preventScroll: true });
}
