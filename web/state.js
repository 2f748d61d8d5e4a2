// What the page knows, and who wants to hear when it changes. Views never call each other; they listen here.

const listeners = new Map();

export const state = {
    library: null,
    conversation: null,   // the one on the screen
    models: [],
    server: { status: "unknown", progress: null, message: null },  // "unknown", "loading", "ok", "away", "key"
};

// conversation: another one is shown, or its path changed. message: one message's text or state changed (with it).
// list: the side bar must be redrawn. server: models or readiness changed. running: an answer began or ended.
// key-wanted: the server refused for want of a key. unreachable: it did not answer at all. settings: one was changed.
export function on(event, listener) {
    if (!listeners.has(event)) listeners.set(event, []);
    listeners.get(event).push(listener);
}

export function emit(event, detail) {
    for (const listener of listeners.get(event) ?? []) listener(detail);
}
