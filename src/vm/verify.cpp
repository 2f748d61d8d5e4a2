#include "vm/verify.h"

#include <algorithm>
#include <unordered_map>

#include "base/check.h"

namespace hearth::vm {

template <typename Number>
TraceVerifier<Number>::TraceVerifier(const Transformer& transformer, ThreadPool& pool)
    : transformer_(transformer), pool_(pool) {}

template <typename Number>
void TraceVerifier<Number>::begin(std::span<const Token> prompt) {
    tokens_.assign(prompt.begin(), prompt.end());
    ahead_ = std::make_unique<Engine<Number>>(transformer_.forward, transformer_.plans.get());
    ahead_->share_history(tokens_);
    // The last token's prediction is the first one to be checked: it opens the first block.
    for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) ahead_->feed_state(tokens_[i]);
    next_ = tokens_.size() - 1;
}

// Each block is fed from its first token on; the prediction after token i is compared with token i + 1.
template <typename Number>
std::vector<typename TraceVerifier<Number>::Job> TraceVerifier<Number>::prepare(std::size_t count) {
    std::vector<Job> jobs;
    for (std::size_t i = 0; i < count && next_ + 1 < tokens_.size(); ++i) {
        Job job;
        job.first = next_;
        job.end = std::min(next_ + kBlock, tokens_.size() - 1);
        job.engine = std::make_unique<Engine<Number>>(ahead_->clone());
        for (std::size_t k = job.first; k < job.end; ++k) ahead_->feed_state(tokens_[k]);
        next_ = job.end;
        jobs.push_back(std::move(job));
    }
    return jobs;
}

template <typename Number>
void TraceVerifier<Number>::run(Job& job, std::span<const Token> tokens) {
    for (std::size_t i = job.first; i < job.end; ++i) {
        job.engine->feed(tokens[i]);
        const Token predicted = job.engine->predict();
        if (predicted == tokens[i + 1]) continue;
        job.mismatch = Mismatch{i + 1, tokens[i + 1], predicted, job.engine->cursor()};
        break;
    }
    job.engine.reset();
}

// With one thread nothing needs to run ahead.
template <typename Number>
std::optional<Mismatch> TraceVerifier<Number>::check_alone(const std::function<bool(std::uint64_t)>& go_on) {
    while (next_ + 1 < tokens_.size()) {
        ahead_->feed(tokens_[next_]);
        const Token predicted = ahead_->predict();
        ++next_;
        if (predicted != tokens_[next_]) return Mismatch{next_, tokens_[next_], predicted, ahead_->cursor()};
        if (next_ % kBlock == 0 && go_on && !go_on(next_)) {
            stopped_ = true;
            return std::nullopt;
        }
    }
    return std::nullopt;
}

template <typename Number>
std::optional<Mismatch> TraceVerifier<Number>::check(std::span<const Token> tokens,
                                                     const std::function<bool(std::uint64_t)>& go_on) {
    CHECK(ahead_ != nullptr);
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    ahead_->share_history(tokens_);
    const std::size_t width = pool_.size();
    if (width == 1) return check_alone(go_on);
    std::vector<Job> jobs = prepare(width);
    while (!jobs.empty()) {
        std::vector<Job> following;
        // Item 0 goes first: the next round is prepared while this one is checked.
        pool_.for_each(jobs.size() + 1, [&](std::size_t item, std::size_t) {
            if (item == 0) {
                following = prepare(width);
            } else {
                run(jobs[item - 1], tokens_);
            }
        });
        for (const Job& job : jobs) {
            if (job.mismatch) return job.mismatch;
        }
        if (go_on && !go_on(jobs.back().end)) {
            stopped_ = true;
            return std::nullopt;
        }
        jobs = std::move(following);
    }
    return std::nullopt;
}

template class TraceVerifier<std::int64_t>;
template class TraceVerifier<double>;

std::string describe(const Mismatch& mismatch, const Program& program, std::span<const Token> tokens) {
    std::string text = "position " + std::to_string(mismatch.position) + ": the trace says " +
                       token_name(mismatch.expected) + ", the model " + token_name(mismatch.predicted);
    if (mismatch.pc < program.code.size()) {
        text += "; at instruction " + std::to_string(mismatch.pc) + " (" + instruction_text(program.code[mismatch.pc]) +
                ") of " + position_text(program, mismatch.pc);
    }
    text += "; after";
    const std::size_t first = mismatch.position > 8 ? mismatch.position - 8 : 0;
    for (std::size_t i = first; i < mismatch.position; ++i) text += " " + token_name(tokens[i]);
    return text;
}

Result<TraceParts> split_trace(std::span<const Token> tokens) {
    const auto bad = [](const std::string& what) { return Error{ErrorCode::InvalidModel, "trace: " + what}; };
    if (tokens.empty() || tokens[0] != token::kBegin) return bad("does not begin with {");
    const auto start = std::find(tokens.begin(), tokens.end(), token::kStart);
    if (start == tokens.end()) return bad("has no start token");
    for (auto next = tokens.begin(); next != tokens.end(); ++next) {
        const bool in_prompt = next <= start;
        const bool is_opcode = *next >= token::kOpcode;
        const bool wrong = in_prompt ? is_stop(*next) : *next == token::kStart || is_opcode;
        if (wrong || (next != tokens.begin() && *next == token::kBegin)) {
            return bad(token_name(*next) + " at position " + std::to_string(next - tokens.begin()));
        }
        if (is_stop(*next) && next + 1 != tokens.end()) return bad("goes on after its end");
    }
    const std::size_t prompt = static_cast<std::size_t>(start - tokens.begin()) + 1;
    return TraceParts{tokens.subspan(0, prompt), tokens.subspan(prompt)};
}

Result<std::vector<Token>> parse_trace(std::string_view text) {
    std::unordered_map<std::string, Token> names;
    for (Token t = 0; t < token::kCount; ++t) names.emplace(token_name(t), t);
    std::vector<Token> tokens;
    const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
    for (std::size_t i = 0; i < text.size();) {
        if (is_space(text[i])) {
            ++i;
            continue;
        }
        std::size_t end = i;
        while (end < text.size() && !is_space(text[end])) ++end;
        const auto found = names.find(std::string(text.substr(i, end - i)));
        if (found == names.end()) {
            return Error{ErrorCode::InvalidModel, "trace: unknown token '" +
                                                      std::string(text.substr(i, std::min<std::size_t>(end - i, 40))) +
                                                      "' at position " + std::to_string(tokens.size())};
        }
        tokens.push_back(found->second);
        i = end;
    }
    return tokens;
}

}  // namespace hearth::vm
