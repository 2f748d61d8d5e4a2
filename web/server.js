// Whether the server can answer: loading, ready, away, or in want of a key. Says so above the conversation.
import { health, keepKey, models } from "./client.js";
import { byId, element } from "./dom.js";
import { emit, on, state } from "./state.js";

const loadingEveryMs = 400;
const awayEveryMs = 2000;

let trouble = null;     // of the browser's storage, in words
let retryWithKey = null;
let watching = null;    // the promise of the one loop that asks

export function setUpServer() {
    const dialog = byId("key-dialog");
    byId("key-close").addEventListener("click", () => dialog.close());
    byId("key-form").addEventListener("submit", async () => {
        keepKey(byId("key-input").value.trim());
        const retry = retryWithKey;
        retryWithKey = null;
        await watchServer();
        if (state.server.status === "ok") retry?.();
    });
    on("key-wanted", ({ reason, retry }) => askForKey(reason, retry));
    on("server", draw);
    // An answer that could not reach the server says that it is gone; ask until it is back.
    on("unreachable", () => void watchServer());
}

export function setTrouble(words) {
    trouble = words;
    draw();
}

// Asks until the server is ready or wants a key.
export function watchServer() {
    watching ??= watch().finally(() => { watching = null; });
    return watching;
}

async function watch() {
    for (;;) {
        let wait = awayEveryMs;
        try {
            const now = await health();
            if (now.status === "loading" && !now.ready) {
                setServer("loading", now.message, now.progress);
                wait = loadingEveryMs;
            } else if (now.status === "failed") {
                setServer("away", `The server could not load the model. ${now.message ?? ""}`.trim());
            } else if (now.status === "draining") {
                setServer("away", "The server is shutting down.");
            } else {
                state.models = await models();
                setServer("ok");
                // The other models appear in the list as they become ready.
                if (now.status !== "loading") return;
            }
        } catch (error) {
            if (error.kind === "key") {
                setServer("key", error.message);
                askForKey(error.message, null);
                return;
            }
            setServer("away", error.message);
        }
        await new Promise((resolve) => setTimeout(resolve, wait));
    }
}

function setServer(status, message = null, progress = null) {
    state.server = { status, message, progress };
    emit("server");
}

function askForKey(reason, retry) {
    retryWithKey = retry;
    byId("key-reason").textContent = reason;
    byId("key-input").value = "";
    if (!byId("key-dialog").open) byId("key-dialog").showModal();
}

function draw() {
    const { status, progress, message } = state.server;
    const banner = byId("banner");
    const say = (...parts) => banner.replaceChildren(...parts);
    let bad = false;
    if (status === "loading") {
        const share = progress === null ? null : Math.round(progress * 100);
        say(element("span", {}, share === null ? "The model is being loaded" : `The model is being loaded, ${share} %`),
            element("progress", { max: "100", value: share, "aria-label": "Loading the model" }));
    } else if (status === "away") {
        bad = true;
        say(element("span", {}, message));
    } else if (status === "key") {
        say(element("span", {}, "This server asks for a key."),
            element("button", { type: "button", class: "button small", onclick: () => askForKey(message, null) }, "Enter the key"));
    } else if (trouble) {
        bad = true;
        say(element("span", {}, trouble));
    } else {
        say();
    }
    banner.classList.toggle("bad", bad);
    // A percentage read aloud every half second helps nobody.
    banner.setAttribute("aria-live", status === "loading" ? "off" : "polite");
    banner.hidden = banner.childElementCount === 0;
    const count = state.models.length;
    byId("welcome-model").textContent = count === 0 ? "" : count === 1 ? `${state.models[0].id} is ready.` : `${count} models are ready.`;
}
