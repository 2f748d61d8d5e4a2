// Inline markdown to DOM nodes: code, strong, emphasis, strike, links, line breaks. Text stays text; an address becomes a
// link only when it is http, https or mailto. Every search for a closing mark is bounded, so hostile text costs linear time.
import { element } from "./dom.js";

const searchLimit = 2000;
const depthLimit = 6;
const escapable = /[!-/:-@[-`{-~]/;
const bareLink = /^https?:\/\/[^\s<>"'`]{1,800}/i;
const wordCharacter = /[\p{L}\p{N}]/u;

export function inline(text, depth = 0) {
    const nodes = [];
    let plain = "";
    const flush = () => {
        if (plain) nodes.push(document.createTextNode(plain));
        plain = "";
    };
    const push = (node) => {
        flush();
        nodes.push(node);
    };
    let at = 0;
    while (at < text.length) {
        const character = text[at];
        const found = depth < depthLimit ? special(text, at, character, depth) : null;
        if (found) {
            if (typeof found.node === "string") plain += found.node;
            else push(found.node);
            at = found.end;
        } else {
            plain += character;
            at += 1;
        }
    }
    flush();
    return nodes;
}

function special(text, at, character, depth) {
    switch (character) {
        case "\\":
            if (text[at + 1] === "\n") return { node: element("br"), end: at + 2 };
            return escapable.test(text[at + 1] ?? "") ? { node: text[at + 1], end: at + 2 } : null;
        case "\n":
            // Models break lines where they mean it: a single newline stays a line break.
            return { node: element("br"), end: at + 1 };
        case "`":
            return codeSpan(text, at);
        case "*":
        case "_":
            return emphasis(text, at, character, depth);
        case "~":
            return text[at + 1] === "~" ? wrapped(text, at, "~~", "del", depth) : null;
        case "!":
            // An image would be a request to somewhere else: only its words are shown, as a link.
            return text[at + 1] === "[" ? link(text, at + 1, depth) : null;
        case "[":
            return link(text, at, depth);
        case "<":
            return bracketedLink(text, at);
        case "h":
        case "H":
            return at === 0 || !wordCharacter.test(text[at - 1]) ? bare(text, at) : null;
        default:
            return null;
    }
}

function find(text, wanted, from) {
    const window = text.slice(from, from + searchLimit);
    const position = window.indexOf(wanted);
    return position < 0 ? -1 : from + position;
}

function codeSpan(text, at) {
    let run = 1;
    while (text[at + run] === "`") run += 1;
    const mark = "`".repeat(run);
    let close = find(text, mark, at + run);
    while (close >= 0 && text[close + run] === "`") {
        // A longer run is not the end of this one.
        let after = close;
        while (text[after] === "`") after += 1;
        close = after - at > searchLimit ? -1 : find(text, mark, after);
    }
    if (close < 0) return { node: mark, end: at + run };
    const code = text.slice(at + run, close).replace(/\n/g, " ");
    const trimmed = code.length > 2 && code.startsWith(" ") && code.endsWith(" ") ? code.slice(1, -1) : code;
    return { node: element("code", {}, trimmed), end: close + run };
}

function emphasis(text, at, mark, depth) {
    let run = 1;
    while (text[at + run] === mark) run += 1;
    const before = text[at - 1] ?? " ";
    const after = text[at + run] ?? " ";
    // snake_case stays what it is, and "2 * 3" too.
    if (/\s/.test(after) || (mark === "_" && wordCharacter.test(before))) return { node: mark.repeat(run), end: at + run };
    for (const [length, tags] of [[3, ["strong", "em"]], [2, ["strong"]], [1, ["em"]]]) {
        if (run !== length) continue;
        const closing = mark.repeat(length);
        let close = at + run;
        for (;;) {
            close = find(text, closing, close);
            if (close < 0 || close - at > searchLimit) break;
            const opensWord = mark === "_" && wordCharacter.test(text[close + length] ?? " ");
            const longer = text[close + length] === mark || text[close - 1] === mark;
            if (!/\s/.test(text[close - 1]) && !opensWord && (!longer || length === 3)) {
                const inside = element(tags.at(-1), {}, ...inline(text.slice(at + run, close), depth + 1));
                const node = tags.length > 1 ? element(tags[0], {}, inside) : inside;
                return { node, end: close + length };
            }
            while (text[close] === mark) close += 1;
        }
    }
    return { node: mark.repeat(run), end: at + run };
}

function wrapped(text, at, mark, tag, depth) {
    const close = find(text, mark, at + mark.length);
    if (close < 0 || close === at + mark.length) return null;
    return { node: element(tag, {}, ...inline(text.slice(at + mark.length, close), depth + 1)), end: close + mark.length };
}

// [words](address "title")
function link(text, at, depth) {
    const window = text.slice(at, at + searchLimit);
    let nesting = 0;
    let close = -1;
    for (let i = 0; i < window.length; i += 1) {
        if (window[i] === "\\") i += 1;
        else if (window[i] === "[") nesting += 1;
        else if (window[i] === "]" && (nesting -= 1) === 0) {
            close = i;
            break;
        }
        if (nesting > 4) return null;
    }
    if (close < 0 || window[close + 1] !== "(") return null;
    const match = /^\(\s*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+["'][^"']*["'])?\s*\)/.exec(window.slice(close + 1, close + 1000));
    if (!match) return null;
    const words = window.slice(1, close);
    const end = at + close + 1 + match[0].length;
    const href = safeAddress(match[1]);
    if (!href) return { node: element("span", {}, ...inline(words, depth + 1)), end };
    return { node: anchor(href, inline(words || href, depthLimit)), end };
}

function bracketedLink(text, at) {
    const match = /^<((?:https?:\/\/|mailto:)[^\s<>]{1,800})>/i.exec(text.slice(at, at + 820));
    const href = match && safeAddress(match[1]);
    return href ? { node: anchor(href, [match[1]]), end: at + match[0].length } : null;
}

function bare(text, at) {
    if (text[at + 1] !== "t" && text[at + 1] !== "T") return null;
    const match = bareLink.exec(text.slice(at, at + 820));
    if (!match) return null;
    const address = match[0].replace(/[).,;:!?*_\]]+$/, "");
    const href = safeAddress(address);
    return href ? { node: anchor(href, [address]), end: at + address.length } : null;
}

function safeAddress(address) {
    try {
        const url = new URL(address);
        return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
    } catch {
        return null;  // relative addresses too: an answer has no business pointing into this server
    }
}

// The address is in the tooltip, so that words cannot hide where a link leads.
function anchor(href, children) {
    return element("a", { href, title: href, target: "_blank", rel: "noopener noreferrer nofollow" }, ...children);
}
