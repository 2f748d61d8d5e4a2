// Making elements. Nothing in the page ever turns a string into markup: text goes in as text nodes, always.

const svgNamespace = "http://www.w3.org/2000/svg";

// element("button", { class: "x", "aria-label": "y", onclick: f }, child, "text", ...)
export function element(tag, attributes = {}, ...children) {
    return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
    return fill(document.createElementNS(svgNamespace, tag), attributes, children);
}

function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
        if (value === undefined || value === null || value === false) continue;
        if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
        else node.setAttribute(name, value === true ? "" : String(value));
    }
    node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
    return node;
}

export function icon(name, extra = "") {
    return svg("svg", { class: `icon ${extra}`.trim(), "aria-hidden": "true" }, svg("use", { href: `#icon-${name}` }));
}

export function iconButton(name, label, onclick, extra = "") {
    return element("button", { type: "button", class: `icon-button ${extra}`.trim(), "aria-label": label, title: label, onclick }, icon(name));
}

export const byId = (id) => document.getElementById(id);

// navigator.clipboard exists only on https and localhost; a phone that reaches the machine by its address has neither.
export async function copyText(text) {
    if (navigator.clipboard) {
        try {
            await navigator.clipboard.writeText(text);
            return true;
        } catch {
            // Permission refused: try the old way.
        }
    }
    const area = element("textarea", { class: "visually-hidden", readonly: true });
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
}

// A button that copies, and says so for a moment.
export function copyButton(label, text, extra = "") {
    const button = iconButton("copy", label, async () => {
        const copied = await copyText(text());
        button.replaceChildren(icon(copied ? "check" : "close"));
        announce(copied ? "Copied" : "Copying was refused by the browser");
        setTimeout(() => button.replaceChildren(icon("copy")), 1400);
    }, extra);
    return button;
}

export function download(name, type, text) {
    const address = URL.createObjectURL(new Blob([text], { type }));
    const link = element("a", { href: address, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// Said by screen readers, seen by nobody.
export function announce(text) {
    byId("announcer").textContent = text;
}

// A line at the edge of the screen that goes by itself. `action` is { label, run }.
export function toast(text, action = null, seconds = 8) {
    const line = element("div", { class: "toast" }, element("span", {}, text));
    const close = () => {
        clearTimeout(timer);
        line.remove();
    };
    const timer = setTimeout(close, seconds * 1000);
    if (action) {
        line.append(element("button", { type: "button", class: "toast-action", onclick: () => { close(); action.run(); } }, action.label));
    }
    line.append(iconButton("close", "Dismiss", close));
    byId("toasts").append(line);
    return close;
}
