// The map of a conversation: every message a row, every fork one step to the right, the path on the screen in colour.
import { element, svg } from "./dom.js";
import { activePath, choose, forkCount, rootId, snippet } from "./tree.js";
import { showMessage } from "./transcript.js";
import { emit, on, state } from "./state.js";

const rowHeight = 30;
const laneWidth = 14;
const laneLimit = 9;  // deeper forks stay in the last lane: the words need the room

let container = null;

export function setUpBranches() {
    on("conversation", () => container && draw());
    on("message", ({ conversation, ended }) => container && ended && conversation === state.conversation && draw());
}

export function openBranches(body) {
    container = body;
    draw();
    container.querySelector('[aria-current="true"]')?.scrollIntoView({ block: "nearest" });
}

export function closeBranches() {
    container = null;
}

// Depth first, without recursion: conversations can be thousands of messages long.
function layOut(conversation) {
    const rows = [];
    const rowOf = new Map();
    const stack = [...conversation.nodes.get(rootId).children].reverse().map((id) => ({ id, lane: 0 }));
    while (stack.length > 0) {
        const { id, lane } = stack.pop();
        const node = conversation.nodes.get(id);
        rowOf.set(id, rows.length);
        rows.push({ node, lane });
        const next = node.children.length > 1 ? Math.min(lane + 1, laneLimit) : lane;
        for (const child of [...node.children].reverse()) stack.push({ id: child, lane: next });
    }
    return { rows, rowOf };
}

const kind = (node, active) => `${node.role === "user" ? "user" : "answer"} ${active.has(node.id) ? "on" : "off"}`;

function draw() {
    const { conversation } = state;
    const { rows, rowOf } = layOut(conversation);
    if (rows.length === 0) {
        container.replaceChildren(element("p", { class: "hint" }, "Edit a message or ask for another answer: each version becomes a branch, and all of them are drawn here."));
        return;
    }
    const path = activePath(conversation);
    const active = new Set(path.map((node) => node.id));
    const width = laneWidth * (1 + rows.reduce((most, row) => Math.max(most, row.lane), 0)) + 6;
    const x = (lane) => 9 + lane * laneWidth;
    const y = (row) => row * rowHeight + rowHeight / 2;
    const quiet = [];
    const bright = [];
    rows.forEach(({ node, lane }, row) => {
        const parentRow = rowOf.get(node.parent);
        if (parentRow === undefined) return;
        const from = x(rows[parentRow].lane);
        const to = x(lane);
        const d = from === to
            ? `M${from} ${y(parentRow)}V${y(row)}`
            : `M${from} ${y(parentRow)}V${y(row) - 8}Q${from} ${y(row)} ${from + 8} ${y(row)}H${to}`;
        (active.has(node.id) ? bright : quiet).push(svg("path", { d, class: active.has(node.id) ? "on" : "off" }));
    });
    const dots = rows.map(({ node, lane }, row) => svg("circle", {
        cx: x(lane), cy: y(row), r: node.role === "user" ? 3.5 : 4.5, class: kind(node, active) }));
    const picture = svg("svg", { class: "branch-lines", width, height: rows.length * rowHeight, "aria-hidden": "true" }, ...quiet, ...bright, ...dots);
    const last = path.at(-1);
    const list = element("ol", { class: "branch-rows" }, ...rows.map(({ node, lane }) => {
        const button = element("button", {
            type: "button", class: `branch-row ${kind(node, active)}`,
            "aria-current": node === last ? "true" : null, title: snippet(node.text, 300), onclick: () => go(node) },
            element("span", {}, snippet(plainWords(node.text), 80) || (node.state === "failed" ? "no answer" : "…")));
        button.style.paddingInlineStart = `${x(lane) + 12}px`;
        return element("li", {}, button);
    }));
    const forks = forkCount(conversation);
    container.replaceChildren(
        element("p", { class: "hint" }, `${rows.length} messages, ${forks === 0 ? "no fork yet" : `${forks + 1} branches`}. What branches share is computed once.`),
        element("div", { class: "branch-map" }, picture, list));
}

// A hint of the text, without the marks of Markdown.
function plainWords(text) {
    return text.slice(0, 400).replace(/<\/?think>/g, "").replace(/^\s*```\w*\n/, "").replace(/[*`#>|~]+/g, "");
}

function go(node) {
    choose(state.conversation, node.id);
    state.library.save(state.conversation);
    emit("conversation");
    showMessage(node.id);
}
