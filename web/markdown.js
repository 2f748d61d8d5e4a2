// Markdown to DOM nodes, for text that grows: a block whose source has not changed keeps its element, so a long answer
// costs only its last block per frame.
import { copyButton, element } from "./dom.js";
import { inline } from "./inline.js";
import { highlight } from "./highlight.js";

const depthLimit = 6;
// Each pattern can match a line in one way only: on a long line that nearly matches, trying them all takes minutes.
const fenceStart = /^( {0,3})(`{3,}(?!`)|~{3,}(?!~))([^`\n]*)$/;
const heading = /^ {0,3}(#{1,6})\s+(.*)$/s;
const rule = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const quote = /^ {0,3}> ?/;
const item = /^( *)([-*+]|\d{1,9}[.)])(\s+|$)/;

// Shows `text` in `container`, keeping what is already there and unchanged.
export function renderMarkdown(container, text) {
    const blocks = split(text.replace(/\r\n?/g, "\n").replace(/\t/g, "    "));
    const old = container.markdownBlocks ?? [];
    let same = 0;
    while (same < old.length && same < blocks.length && old[same].kind === blocks[same].kind && old[same].source === blocks[same].source) {
        blocks[same].node = old[same].node;
        same += 1;
    }
    // A code block that grows keeps its element too: its scroll position belongs to the reader.
    if (old[same]?.kind === "code" && blocks[same]?.kind === "code" && firstLine(old[same].source) === firstLine(blocks[same].source)) {
        blocks[same].node = old[same].node;
        showCode(blocks[same].node, blocks[same].source);
        same += 1;
    }
    for (const block of old.slice(same)) block.node.remove();
    for (const block of blocks.slice(same)) {
        block.node = build(block, 0);
        container.append(block.node);
    }
    container.markdownBlocks = blocks;
}

// Cuts text into blocks: { kind, source, ... }. The source is enough to tell whether a block has changed.
function split(text) {
    const lines = text.split("\n");
    const blocks = [];
    let at = 0;
    while (at < lines.length) {
        const line = lines[at];
        if (line.trim() === "") {
            at += 1;
            continue;
        }
        const fence = fenceStart.exec(line);
        let end;
        let kind;
        if (fence) [kind, end] = ["code", endOfFence(lines, at, fence)];
        else if (heading.test(line)) [kind, end] = ["heading", at + 1];
        else if (rule.test(line)) [kind, end] = ["rule", at + 1];
        else if (quote.test(line)) [kind, end] = ["quote", endWhile(lines, at, (next) => next.trim() !== "" && !fenceStart.test(next))];
        else if (item.test(line)) [kind, end] = ["list", endOfList(lines, at)];
        else if (isTable(lines, at)) [kind, end] = ["table", endWhile(lines, at, (next) => next.includes("|"))];
        else [kind, end] = ["paragraph", endOfParagraph(lines, at)];
        blocks.push({ kind, source: lines.slice(at, end).join("\n") });
        at = end;
    }
    return blocks;
}

function endWhile(lines, at, holds) {
    let end = at + 1;
    while (end < lines.length && holds(lines[end])) end += 1;
    return end;
}

function endOfFence(lines, at, fence) {
    const [, , mark] = fence;
    for (let i = at + 1; i < lines.length; i += 1) {
        const line = lines[i].trim();
        if (line.length >= mark.length && line === mark[0].repeat(line.length)) return i + 1;
    }
    return lines.length;  // still being written
}

function endOfList(lines, at) {
    const base = item.exec(lines[at])[1].length;
    let end = at + 1;
    while (end < lines.length) {
        const line = lines[end];
        if (line.trim() === "") {
            // A gap belongs to the list when the list goes on after it.
            const next = lines[end + 1];
            if (next === undefined || next.trim() === "") break;
            if (!(item.test(next) && !rule.test(next)) && indentation(next) <= base + 1) break;
        } else if (indentation(line) <= base && !item.test(line) && (lines[end - 1].trim() === "" || startsBlock(lines, end))) {
            break;
        } else if (indentation(line) <= base && rule.test(line)) {
            break;
        }
        end += 1;
    }
    return end;
}

function endOfParagraph(lines, at) {
    return endWhile(lines, at, (next) => next.trim() !== "" && !startsBlock([next], 0) && !/^ {0,3}([-*+]|1[.)])\s+\S/.test(next));
}

function startsBlock(lines, at) {
    const line = lines[at];
    return fenceStart.test(line) || heading.test(line) || rule.test(line) || quote.test(line);
}

function isTable(lines, at) {
    return lines[at].includes("|") && at + 1 < lines.length && isTableRule(lines[at + 1]);
}

function isTableRule(line) {
    return indentation(line) <= 3 && cells(line).every((cell) => /^:?-+:?$/.test(cell));
}

const firstLine = (source) => source.split("\n", 1)[0];
const indentation = (line) => line.length - line.trimStart().length;

function build(block, depth) {
    switch (block.kind) {
        case "code":
            return codeBlock(block.source);
        case "heading": {
            const [, marks, rest] = heading.exec(block.source);
            const words = rest.trim().replace(/(^|\s)#+$/, "").trimEnd();
            // The page has its own first and second level.
            return element(`h${Math.min(6, marks.length + 2)}`, { class: `level-${marks.length}` }, ...inline(words));
        }
        case "rule":
            return element("hr");
        case "quote":
            return element("blockquote", {}, ...children(block.source.split("\n").map((line) => line.replace(quote, "")).join("\n"), depth));
        case "list":
            return list(block.source, depth);
        case "table":
            return table(block.source);
        default:
            return element("p", {}, ...inline(block.source.split("\n").map((line) => line.trim()).join("\n")));
    }
}

function children(text, depth) {
    if (depth >= depthLimit) return [element("p", {}, text)];
    return split(text).map((block) => build(block, depth + 1));
}

function codeBlock(source) {
    const language = fenceStart.exec(firstLine(source))[3].trim().split(/\s+/)[0].slice(0, 24);
    const code = element("code", { "data-language": language });
    const figure = element("figure", { class: "code" },
        element("figcaption", {}, element("span", {}, language || "text"), copyButton("Copy the code", () => code.textContent)),
        element("pre", { tabindex: "0", "aria-label": `Code${language ? `, ${language}` : ""}` }, code));
    showCode(figure, source);
    return figure;
}

function showCode(figure, source) {
    const lines = source.split("\n");
    const [, indent, mark] = fenceStart.exec(lines[0]);
    const last = lines.at(-1).trim();
    const closed = lines.length > 1 && last.length >= mark.length && last === mark[0].repeat(last.length);
    const text = lines.slice(1, closed ? -1 : undefined).map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line)).join("\n");
    const code = figure.querySelector("code");
    code.replaceChildren(...highlight(text, code.dataset.language));
}

function list(source, depth) {
    const lines = source.split("\n");
    const base = item.exec(lines[0])[1].length;
    const ordered = /\d/.test(item.exec(lines[0])[2]);
    const items = [];
    let width = 0;
    for (const line of lines) {
        const match = item.exec(line);
        if (match && match[1].length <= base + 1) {
            width = match[0].length;
            items.push([line.slice(width)]);
        } else {
            // What is indented less than its item's text is the item's text too, as long as nothing else claims it.
            items.at(-1).push(line.slice(Math.min(width, indentation(line))));
        }
    }
    const loose = lines.some((line, index) => line.trim() === "" && index < lines.length - 1);
    const start = ordered ? parseInt(item.exec(lines[0])[2], 10) : 1;
    const node = element(ordered ? "ol" : "ul", { class: loose ? "loose" : null, start: start === 1 ? null : start });
    for (const part of items) node.append(listItem(part.join("\n"), depth));
    return node;
}

function listItem(text, depth) {
    const task = /^\[([ xX])\]\s+/.exec(text);
    const nodes = children(task ? text.slice(task[0].length) : text, depth);
    // A lone paragraph is the item itself.
    if (nodes[0]?.tagName === "P") nodes.splice(0, 1, ...nodes[0].childNodes);
    if (!task) return element("li", {}, ...nodes);
    const box = element("input", { type: "checkbox", disabled: true, "aria-label": task[1] === " " ? "open" : "done" });
    box.checked = task[1] !== " ";
    return element("li", { class: "task" }, box, ...nodes);
}

function table(source) {
    const [head, ruler, ...rows] = source.split("\n");
    const sides = cells(ruler).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "end") : "start"));
    const row = (line, tag) => {
        const parts = cells(line);
        return element("tr", {}, ...sides.map((side, index) => element(tag, { class: `align-${side}` }, ...inline(parts[index] ?? ""))));
    };
    return element("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" },
        element("table", {}, element("thead", {}, row(head, "th")), element("tbody", {}, ...rows.map((line) => row(line, "td")))));
}

function cells(line) {
    const trimmed = line.trim().replace(/^\|/, "").replace(/\|$/, "");
    const parts = [];
    let cell = "";
    for (let i = 0; i < trimmed.length; i += 1) {
        if (trimmed[i] === "\\" && trimmed[i + 1] === "|") {
            cell += "|";
            i += 1;
        } else if (trimmed[i] === "|") {
            parts.push(cell.trim());
            cell = "";
        } else {
            cell += trimmed[i];
        }
    }
    parts.push(cell.trim());
    return parts;
}
