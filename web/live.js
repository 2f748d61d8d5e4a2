// The server's figures while the panel is open: /metrics once a second, turned into rates and drawn.
import { metricsText } from "./client.js";
import { element } from "./dom.js";
import { Plot } from "./plot.js";

const everyMs = 1000;

// Prometheus text to a Map of name -> value over all its labels: the sum, but of shares the largest. A histogram's buckets
// are not needed, only _sum and _count.
export function parseMetrics(text) {
    const values = new Map();
    for (const line of text.split("\n")) {
        const match = /^([A-Za-z_:][\w:]*)(?:\{[^}]*\})?\s+([-+]?[\d.eE+-]+|NaN|[-+]?Inf)/.exec(line);
        if (!match || match[1].endsWith("_bucket")) continue;
        const value = Number(match[2]);
        if (!Number.isFinite(value)) continue;
        const before = values.get(match[1]) ?? 0;
        values.set(match[1], match[1].endsWith("_perc") ? Math.max(before, value) : before + value);
    }
    return values;
}

// What happened between two readings. A counter that went down means that the server was restarted.
export function rates(before, now, seconds) {
    const grown = (name) => {
        if (!now.has(name)) return null;
        const difference = now.get(name) - (before.get(name) ?? 0);
        return difference >= 0 ? difference : now.get(name);
    };
    const perSecond = (name) => (grown(name) === null ? null : grown(name) / seconds);
    const ratio = (above, below) => (grown(below) ? Math.max(0, grown(above) ?? 0) / grown(below) : null);
    const gauge = (name) => now.get(name) ?? null;
    const usage = gauge("hearth_kv_cache_usage_perc");
    return {
        written: perSecond("hearth_generation_tokens_total"),
        read: perSecond("hearth_prompt_tokens_total"),
        reuse: ratio("hearth_prefix_cache_hits_total", "hearth_prefix_cache_queries_total"),
        batch: ratio("hearth_batch_size_sum", "hearth_batch_size_count"),
        kv: usage,
        running: gauge("hearth_num_requests_running"),
        waiting: gauge("hearth_num_requests_waiting"),
    };
}

let stopPolling = null;

export function openLive(body) {
    const percent = (value) => `${(value * 100).toFixed(value > 0 && value < 0.0995 ? 1 : 0)} %`;
    const count = (value) => (value < 10 && value % 1 !== 0 ? value.toFixed(1) : Math.round(value).toLocaleString("en"));
    const plots = {
        written: new Plot({ label: "Tokens written per second", help: "All conversations of this server together", format: count, least: 10 }),
        read: new Plot({ label: "Prompt tokens per second", help: "Tokens of prompts, computed and reused", format: count, least: 10 }),
        reuse: new Plot({ label: "Prompt reused, latest", help: "Share of the prompts' tokens found in the cache instead of being computed", format: percent, top: 1, hold: true }),
        batch: new Plot({ label: "Batch size", help: "Answers computed together in one step, on average", format: count, least: 2 }),
        kv: new Plot({ label: "KV cache in use", help: "Share of the memory for conversations that is taken", format: percent, top: 1 }),
    };
    const queue = element("p", { class: "live-queue" });
    const state = element("p", { class: "hint" }, "Read once a second while this panel is open.");
    body.replaceChildren(queue, ...Object.values(plots).map((plot) => plot.node), state);
    const controller = new AbortController();
    let before = null;
    let readAt = 0;
    let timer = 0;

    async function poll() {
        try {
            const now = parseMetrics(await metricsText(controller.signal));
            const at = performance.now();
            if (before) {
                const figures = rates(before, now, (at - readAt) / 1000);
                for (const [name, plot] of Object.entries(plots)) plot.push(figures[name]);
                queue.textContent = figures.running === null ? "" : `${figures.running} running, ${figures.waiting ?? 0} waiting`;
            }
            [before, readAt] = [now, at];
            state.textContent = "Read once a second while this panel is open.";
        } catch (error) {
            if (controller.signal.aborted) return;
            before = null;
            for (const plot of Object.values(plots)) plot.push(null);
            state.textContent = `${error.message} Trying again.`;
        }
        timer = setTimeout(poll, document.hidden ? everyMs * 10 : everyMs);
    }

    stopPolling = () => {
        controller.abort();
        clearTimeout(timer);
    };
    void poll();
}

export function closeLive() {
    stopPolling?.();
    stopPolling = null;
}
