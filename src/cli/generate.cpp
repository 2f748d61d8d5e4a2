#include "cli/generate.h"

#include <algorithm>

#include "base/clock.h"
#include "base/hash.h"
#include "cli/console.h"
#include "cli/interrupt.h"

namespace hearth {

namespace {

std::size_t common_prefix(const Sequence& sequence, std::span<const TokenId> prompt) {
    const std::size_t limit = std::min(sequence.length(), prompt.size());
    std::size_t common = 0;
    while (common < limit && sequence.token(common) == prompt[common]) ++common;
    return common;
}

// Feeds what is pending; nothing when interrupted between two steps.
Result<std::optional<Logits>> feed_prompt(Engine& engine, Sequence& sequence, std::size_t chunk) {
    const std::size_t limit = chunk == 0 ? engine.batch_rows() : std::min(chunk, engine.batch_rows());
    for (;;) {
        const std::size_t rows = std::min(sequence.pending(), limit);
        const bool last = rows == sequence.pending();
        const Feed feed{&sequence, rows, last ? Want::Last : Want::None};
        Logits logits = TRY(engine.forward({&feed, 1}));
        if (last) return std::optional<Logits>(logits);
        if (InterruptScope::requested()) return std::optional<Logits>();
    }
}

}  // namespace

std::string_view name_of(StopReason reason) {
    switch (reason) {
        case StopReason::End: return "end";
        case StopReason::StopString: return "stop";
        case StopReason::Length: return "length";
        case StopReason::Context: return "context";
        case StopReason::Interrupted: return "interrupted";
    }
    return "end";
}

double Generation::prompt_rate() const {
    return prompt_seconds > 0 ? static_cast<double>(prompt_tokens - cached_tokens) / prompt_seconds : 0.0;
}

double Generation::decode_rate() const {
    return decode_seconds > 0 ? static_cast<double>(decode_steps) / decode_seconds : 0.0;
}

Result<Generation> generate(Sequence& sequence, std::span<const TokenId> prompt, const GenerateOptions& options,
                            const std::function<bool(std::string_view)>& on_text) {
    Engine& engine = sequence.engine();
    const PlacedCaller placed(engine.pool());
    const Tokenizer& tokenizer = engine.tokenizer();
    if (prompt.empty()) return Error{ErrorCode::Usage, "the prompt is empty: there is nothing to continue"};
    if (prompt.size() > engine.context()) {
        return Error{ErrorCode::Usage, "the prompt has " + std::to_string(prompt.size()) +
                                           " tokens, the context has room for " + std::to_string(engine.context()) +
                                           " (--ctx)"};
    }
    Generation result;
    result.prompt_tokens = prompt.size();
    const double started = monotonic_seconds();
    const std::size_t common = common_prefix(sequence, prompt);
    TRY(sequence.regress(Time{static_cast<std::uint32_t>(common)}));
    TRY(sequence.append(prompt.subspan(common)));
    sequence.recompute_last();
    result.cached_tokens = sequence.computed();
    std::optional<Logits> logits = TRY(feed_prompt(engine, sequence, options.chunk));
    double decode_started = monotonic_seconds();
    result.prompt_seconds = decode_started - started;
    if (!logits) {
        result.reason = StopReason::Interrupted;
        return result;
    }
    std::string piece;
    const auto hand_out = [&] {
        result.text += piece;
        const bool wanted = piece.empty() || on_text(piece);
        piece.clear();
        return wanted;
    };
    for (;;) {
        const LogitRow row = logits->sampler_row(logits->rows() - 1);
        const SampledToken sampled = TRY(sequence.sample(row));
        if (options.hash_logits) result.logits_hash = hash_bytes(std::as_bytes(row.logits), result.logits_hash);
        if (tokenizer.ends_generation(sampled.token)) {
            result.reason = StopReason::End;
            break;
        }
        if (sequence.length() >= engine.context()) {
            result.reason = StopReason::Context;
            break;
        }
        TRY(sequence.accept(sampled.token, piece));
        result.tokens.push_back(sampled.token);
        const bool wanted = hand_out();
        if (!wanted || InterruptScope::requested()) {
            result.reason = StopReason::Interrupted;
            break;
        }
        if (sequence.stopped()) {
            result.reason = StopReason::StopString;
            break;
        }
        if (options.max_tokens > 0 && result.tokens.size() >= options.max_tokens) {
            result.reason = StopReason::Length;
            break;
        }
        const Feed feed{&sequence, 1, Want::Last};
        logits = TRY(engine.forward({&feed, 1}));
        ++result.decode_steps;
    }
    result.decode_seconds = monotonic_seconds() - decode_started;
    sequence.finish_text(piece);
    static_cast<void>(hand_out());
    return result;
}

std::string closing_line(const Generation& generation, std::size_t weight_bytes, double read_gb_per_s,
                         std::size_t threads) {
    std::string line = "prompt " + std::to_string(generation.prompt_tokens) + " tok";
    if (generation.cached_tokens > 0) line += " (" + std::to_string(generation.cached_tokens) + " cached)";
    line +=
        " " + format_number(generation.prompt_seconds, 2) + " s · " + std::to_string(generation.tokens.size()) + " tok";
    if (generation.decode_steps > 0) {
        line += " " + format_number(generation.decode_rate(), 1) + " tok/s";
        if (read_gb_per_s > 0) {
            const double share = static_cast<double>(weight_bytes) * generation.decode_rate() / (read_gb_per_s * 1e9);
            line += " · " + format_number(share * 100, 0) + " % of the memory roof";
        }
    }
    return line + " · cpu " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

}  // namespace hearth
