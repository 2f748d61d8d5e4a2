// Answers being written. One at a time per conversation; several conversations may be answered at once, also off screen.
import { announce } from "./dom.js";
import { ServerError, streamChat } from "./client.js";
import { addMessage, messagesFor } from "./tree.js";
import { samplingOf } from "./settings.js";
import { emit, state } from "./state.js";

const running = new Map();  // conversation id -> { controller, node, conversation }
const saveEveryMs = 1500;

export const isRunning = (conversation) => running.has(conversation.id);

export function stop(conversation) {
    running.get(conversation.id)?.controller.abort();
}

// Answers the user's message `parentId` with a new sibling, or into `node` when an attempt before gave nothing.
export function answer(conversation, parentId, node = null) {
    stop(conversation);
    if (node) Object.assign(node, { text: "", reasoning: undefined, state: "streaming", error: undefined, stats: undefined });
    else node = addMessage(conversation, parentId, "assistant", "", "streaming");
    const run = { controller: new AbortController(), node, conversation };
    running.set(conversation.id, run);
    state.library.save(conversation);
    emit("conversation");
    emit("running");
    emit("list");
    void write(run, parentId);
    return node;
}

async function write(run, parentId) {
    const { conversation, node, controller } = run;
    const model = conversation.settings.model || state.models[0]?.id;
    const started = performance.now();
    let first = null;
    let last = started;
    let pieces = 0;
    let savedAt = started;
    let usage = null;
    const body = { model, messages: messagesFor(conversation, parentId), ...samplingOf(conversation.settings) };
    node.stats = { model };
    try {
        for await (const event of streamChat(body, controller.signal)) {
            if (event.usage) usage = event.usage;
            if (event.finish) node.stats.finish = event.finish;
            const piece = event.text ?? event.reasoning;
            if (piece === undefined) continue;
            last = performance.now();
            first ??= last;
            pieces += 1;
            if (event.text) node.text += event.text;
            else node.reasoning = (node.reasoning ?? "") + event.reasoning;
            Object.assign(node.stats, speed(pieces, started, first, last));
            if (last - savedAt > saveEveryMs) {
                savedAt = last;
                state.library.save(conversation);
            }
            emit("message", { conversation, node });
        }
        node.state = "done";
    } catch (error) {
        if (controller.signal.aborted) {
            node.state = "stopped";
        } else {
            const known = error instanceof ServerError ? error : new ServerError("server", `The page failed: ${error.message}`);
            node.state = node.text ? "lost" : "failed";
            node.error = { kind: known.kind, message: known.message, retryAfterSeconds: known.retryAfterSeconds };
            if (known.kind === "network" || known.kind === "lost") emit("unreachable");
            if (known.kind === "key") emit("key-wanted", { reason: known.message, retry: () => answer(conversation, parentId, node) });
        }
    }
    if (usage) {
        Object.assign(node.stats, speed(usage.completion_tokens ?? pieces, started, first, last), {
            promptTokens: usage.prompt_tokens,
            cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
        });
    }
    finish(run);
}

function speed(tokens, started, first, last) {
    const seconds = first === null ? 0 : (last - first) / 1000;
    return {
        answerTokens: tokens,
        firstTokenMs: first === null ? undefined : Math.round(first - started),
        // The first token's time is the prompt's; the others share the rest. They come a frame of the screen at a time,
        // so that what took only a few frames has no speed to tell.
        tokensPerSecond: tokens > 1 && seconds >= 0.1 ? (tokens - 1) / seconds : undefined,
    };
}

function finish(run) {
    const { conversation, node } = run;
    if (running.get(conversation.id) === run) running.delete(conversation.id);
    conversation.updated = Date.now();
    state.library.save(conversation);
    emit("message", { conversation, node, ended: true });
    emit("running");
    emit("list");
    const said = { done: "The answer is complete", stopped: "Stopped", lost: "The connection was lost; what came is kept", failed: node.error?.message };
    announce(said[node.state] ?? "");
}

// What is still being written goes to storage before the page does.
addEventListener("pagehide", () => {
    for (const { conversation } of running.values()) state.library.save(conversation);
});
