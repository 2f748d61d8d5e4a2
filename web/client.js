// Talks to the server: health, models, figures, and the stream of an answer.

const keyName = "hearth.key";

export class ServerError extends Error {
    // kind: "key", "busy", "request", "server", "network", "lost"
    constructor(kind, message, retryAfterSeconds = 0) {
        super(message);
        this.kind = kind;
        this.retryAfterSeconds = retryAfterSeconds;
    }
}

// The session's storage only: a key should not outlive the tab.
export function readKey() {
    try {
        return sessionStorage.getItem(keyName) ?? "";
    } catch {
        return "";
    }
}

export function keepKey(key) {
    try {
        sessionStorage.setItem(keyName, key);
    } catch {
        heldKey = key;
    }
}

let heldKey = "";

function headers(extra = {}) {
    const key = readKey() || heldKey;
    return key ? { ...extra, Authorization: `Bearer ${key}` } : extra;
}

async function request(path, options = {}) {
    let response;
    try {
        response = await fetch(path, { ...options, headers: headers(options.headers), cache: "no-store" });
    } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new ServerError("network", "The server cannot be reached. Is hearth still running?");
    }
    if (response.ok || path === "health") return response;
    throw await refusal(response);
}

async function refusal(response) {
    let message = "";
    try {
        const text = await response.text();
        message = readMessage(JSON.parse(text)) ?? text.slice(0, 300);
    } catch {
        // No words came with it; the status says enough.
    }
    switch (response.status) {
        case 401:
            return new ServerError("key", message || "The server asks for an API key.");
        case 403:
            return new ServerError("request", message || "The server does not answer pages from this address.");
        case 404:
            return new ServerError("request", message || "The server does not know this request.");
        case 413:
            return new ServerError("request", message || "The conversation is larger than the server takes in one request.");
        case 429:
        case 503: {
            const wait = Number(response.headers.get("Retry-After")) || 0;
            return new ServerError("busy", message || "The server is busy.", Math.min(wait, 600));
        }
        default:
            if (response.status < 500) return new ServerError("request", message || `The server refused the request (${response.status}).`);
            return new ServerError("server", message || `The server failed (${response.status}).`);
    }
}

function readMessage(body) {
    const message = body?.error?.message ?? body?.message;
    return typeof message === "string" && message ? message : null;
}

// { status: "ok" | "loading" | "failed" | "draining" | ..., progress: 0..1 or null, message }. With several models, ready
// means that one of them can answer; the progress is that of the one that is being loaded.
export async function health() {
    const response = await request("health");
    let body = {};
    try {
        body = await response.json();
    } catch {
        // Some proxies answer in HTML.
    }
    const parts = Array.isArray(body.models) ? body.models : [];
    const loading = parts.find((model) => model.status === "loading") ?? body;
    const failed = parts.find((model) => typeof model.error === "string");
    return {
        status: typeof body.status === "string" ? body.status : response.ok ? "ok" : "failed",
        ready: parts.some((model) => model.status === "ready"),
        progress: Number.isFinite(loading.progress) ? loading.progress : null,
        message: failed?.error ?? readMessage(body),
    };
}

// Those that can answer now.
export async function models() {
    const body = await (await request("v1/models")).json();
    if (!Array.isArray(body.data)) return [];
    return body.data.filter((model) => typeof model?.id === "string" && (model.status ?? "ready") === "ready");
}

export async function metricsText(signal) {
    return (await request("metrics", { signal })).text();
}

// Gives { text }, { reasoning }, { finish }, { usage } as they come. Ends normally only after the server's [DONE].
export async function* streamChat(body, signal) {
    const response = await request("v1/chat/completions", {
        method: "POST",
        signal,
        headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
        body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    });
    let done = false;
    for await (const data of events(response.body, signal)) {
        if (data === "[DONE]") {
            done = true;
            break;
        }
        let chunk;
        try {
            chunk = JSON.parse(data);
        } catch {
            throw new ServerError("server", "The server sent something that is not JSON.");
        }
        if (chunk.error) throw new ServerError("server", readMessage(chunk) ?? "The server failed while answering.");
        const choice = chunk.choices?.[0];
        if (typeof choice?.delta?.reasoning_content === "string" && choice.delta.reasoning_content) yield { reasoning: choice.delta.reasoning_content };
        if (typeof choice?.delta?.content === "string" && choice.delta.content) yield { text: choice.delta.content };
        if (choice?.finish_reason) yield { finish: choice.finish_reason };
        if (chunk.usage) yield { usage: chunk.usage };
    }
    if (!done) throw new ServerError("lost", "The connection was lost here.");
}

// The data of server-sent events. Lines may end in \n, \r\n or \r, and a piece of the network may end anywhere.
export async function* events(body, signal) {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let pending = "";
    let data = [];
    try {
        for (;;) {
            let piece;
            try {
                piece = await reader.read();
            } catch (error) {
                if (signal?.aborted) throw error;
                throw new ServerError("lost", "The connection was lost here.");
            }
            pending += piece.done ? decoder.decode() : decoder.decode(piece.value, { stream: true });
            // A trailing \r may be half of \r\n: it waits for the next piece.
            const held = !piece.done && pending.endsWith("\r") ? 1 : 0;
            const lines = pending.slice(0, pending.length - held).split(/\r\n|\n|\r/);
            pending = lines.pop() + pending.slice(pending.length - held);
            for (const line of lines) {
                if (line === "") {
                    if (data.length > 0) yield data.join("\n");
                    data = [];
                } else if (line.startsWith("data:")) {
                    data.push(line.slice(line[5] === " " ? 6 : 5));
                }
            }
            if (piece.done) return;
        }
    } finally {
        reader.cancel().catch(() => {});
    }
}
