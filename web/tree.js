// A conversation is a tree of messages: an edit or a second answer is a sibling, and nothing is ever overwritten. Each node
// remembers which of its children was looked at last; following these from the root gives the path on the screen.

export const schemaVersion = 1;
export const rootId = "root";
export const settingTexts = ["model", "system"];
export const settingNumbers = ["temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_tokens", "seed"];

const roles = new Set(["user", "assistant"]);
const states = new Set(["done", "streaming", "stopped", "lost", "failed"]);
const statNames = ["promptTokens", "cachedTokens", "answerTokens", "firstTokenMs", "tokensPerSecond"];

// crypto.randomUUID is missing on plain http beyond localhost.
export function newId() {
    return Array.from(crypto.getRandomValues(new Uint8Array(9)), (byte) => byte.toString(36).padStart(2, "0")).join("");
}

export function createConversation(settings = {}, now = Date.now()) {
    const root = { id: rootId, parent: null, role: "root", text: "", created: now, state: "done", children: [], chosen: null };
    return { id: newId(), title: "", created: now, updated: now, settings: { ...settings }, nodes: new Map([[rootId, root]]) };
}

export function addMessage(conversation, parentId, role, text, state = "done") {
    const parent = conversation.nodes.get(parentId);
    const node = { id: newId(), parent: parentId, role, text, created: Date.now(), state, children: [], chosen: null };
    conversation.nodes.set(node.id, node);
    parent.children.push(node.id);
    parent.chosen = node.id;
    conversation.updated = node.created;
    return node;
}

// The messages on the screen, oldest first.
export function activePath(conversation) {
    const path = [];
    let node = conversation.nodes.get(rootId);
    while (node.chosen !== null) {
        node = conversation.nodes.get(node.chosen);
        path.push(node);
    }
    return path;
}

export function pathTo(conversation, id) {
    const path = [];
    for (let node = conversation.nodes.get(id); node && node.id !== rootId; node = conversation.nodes.get(node.parent)) path.push(node);
    return path.reverse();
}

export function activeLeaf(conversation) {
    return activePath(conversation).at(-1) ?? conversation.nodes.get(rootId);
}

export function siblings(conversation, node) {
    return conversation.nodes.get(node.parent).children;
}

// Brings a message onto the screen; below it, the path that was looked at last.
export function choose(conversation, id) {
    for (const node of pathTo(conversation, id)) conversation.nodes.get(node.parent).chosen = node.id;
}

export function siblingAt(conversation, node, step) {
    const all = siblings(conversation, node);
    return all[all.indexOf(node.id) + step] ?? null;
}

export function forkCount(conversation) {
    let forks = 0;
    for (const node of conversation.nodes.values()) forks += Math.max(0, node.children.length - 1);
    return forks;
}

export function isEmpty(conversation) {
    return conversation.nodes.size === 1;
}

export function titleOf(conversation) {
    if (conversation.title) return conversation.title;
    const first = conversation.nodes.get(rootId).children[0];
    if (!first) return "New conversation";
    return snippet(conversation.nodes.get(first).text, 60) || "New conversation";
}

export function snippet(text, length) {
    const line = text.slice(0, length * 4).replace(/\s+/g, " ").trim();
    return line.length > length ? `${line.slice(0, length - 1).trimEnd()}…` : line;
}

// What the server is sent to answer the message `id`. Answers that never came are left out, and messages of one role in a
// row are joined: many chat templates refuse anything but taking turns.
export function messagesFor(conversation, id) {
    const messages = [];
    const system = (conversation.settings.system ?? "").trim();
    if (system) messages.push({ role: "system", content: system });
    for (const node of pathTo(conversation, id)) {
        if (node.role === "assistant" && node.text === "") continue;
        const last = messages.at(-1);
        if (last && last.role === node.role) last.content += `\n\n${node.text}`;
        else messages.push({ role: node.role, content: node.text });
    }
    return messages;
}

// --- to and from plain data ---

export function toPlain(conversation) {
    const { id, title, created, updated, settings } = conversation;
    const nodes = [];
    for (const node of conversation.nodes.values()) {
        const { children, ...rest } = node;
        nodes.push(rest);
    }
    return { schema: schemaVersion, id, title, created, updated, settings, nodes };
}

// Takes over what is of the right type and nothing else: a wrong one would break the page each time it is drawn.
function pick(entry, texts, numbers) {
    const picked = {};
    if (typeof entry !== "object" || entry === null) return picked;
    for (const name of texts) if (typeof entry[name] === "string") picked[name] = entry[name];
    for (const name of numbers) if (Number.isFinite(entry[name])) picked[name] = entry[name];
    return picked;
}

function pickNode(entry) {
    const node = { id: entry.id, parent: entry.parent, role: entry.role, text: entry.text, state: "done", children: [], chosen: entry.chosen };
    Object.assign(node, pick(entry, ["reasoning"], ["created"]));
    if (states.has(entry.state)) node.state = entry.state;
    // The page was closed while this was being written.
    if (node.state === "streaming") node.state = "lost";
    if (entry.stats) node.stats = pick(entry.stats, ["model", "finish"], statNames);
    if (entry.error) node.error = pick(entry.error, ["kind", "message"], ["retryAfterSeconds"]);
    return node;
}

// Gives null for what is not a conversation: storage and imported files are as foreign as the network.
export function fromPlain(plain) {
    if (typeof plain !== "object" || plain === null || plain.schema !== schemaVersion) return null;
    if (typeof plain.id !== "string" || !/^[0-9a-z]{6,40}$/.test(plain.id) || !Array.isArray(plain.nodes)) return null;
    const nodes = new Map();
    for (const entry of plain.nodes) {
        if (typeof entry !== "object" || entry === null || typeof entry.id !== "string" || typeof entry.text !== "string") return null;
        if (nodes.has(entry.id)) return null;
        const isRoot = entry.id === rootId;
        if (isRoot ? entry.parent !== null : !roles.has(entry.role)) return null;
        // A parent comes before its children, so there are no cycles.
        if (!isRoot && !nodes.has(entry.parent)) return null;
        nodes.set(entry.id, pickNode(entry));
        if (!isRoot) nodes.get(entry.parent).children.push(entry.id);
    }
    if (!nodes.has(rootId)) return null;
    for (const node of nodes.values()) {
        if (!node.children.includes(node.chosen)) node.chosen = node.children.at(-1) ?? null;
    }
    const now = Date.now();
    return { title: "", created: now, updated: now, ...pick(plain, ["id", "title"], ["created", "updated"]), settings: pick(plain.settings, settingTexts, settingNumbers), nodes };
}

// Takes over what another tab has added. Messages are only ever added, so both sides' additions can be kept.
export function mergeInto(conversation, other) {
    for (const node of other.nodes.values()) {
        const own = conversation.nodes.get(node.id);
        if (!own) {
            conversation.nodes.set(node.id, { ...node, children: [] });
            conversation.nodes.get(node.parent).children.push(node.id);
        } else if (own.state !== "streaming" && own.text.length < node.text.length) {
            Object.assign(own, { text: node.text, state: node.state, stats: node.stats, error: node.error });
        }
    }
    for (const node of conversation.nodes.values()) node.chosen ??= node.children.at(-1) ?? null;
    if (other.updated > conversation.updated) {
        conversation.updated = other.updated;
        conversation.title = other.title;
    }
}

// The path on the screen as a document.
export function toMarkdown(conversation) {
    const lines = [`# ${titleOf(conversation)}`, "", `*${new Date(conversation.created).toISOString().slice(0, 16).replace("T", " ")} UTC*`, ""];
    const system = (conversation.settings.system ?? "").trim();
    if (system) lines.push(`> System: ${system.replace(/\n/g, "\n> ")}`, "");
    for (const node of activePath(conversation)) {
        lines.push(node.role === "user" ? "**You**" : `**${node.stats?.model ?? "Assistant"}**`, "", node.text, "");
        if (node.state === "stopped" || node.state === "lost") lines.push("*(ends here: the answer was cut off)*", "");
    }
    return lines.join("\n");
}
