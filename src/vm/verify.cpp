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
    engine_ = std::make_unique<Engine<Number>>(transformer_.forward, transformer_.plans.get());
    engine_->share_history(tokens_);
    // The last token's prediction is the first one to be checked.
    for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) engine_->feed(tokens_[i]);
    next_ = tokens_.size() - 1;
    engine_->freeze();
    if (pool_.size() > 1) ahead_ = Forerunner<Number>::create(transformer_.forward, *engine_, tokens_);
}

// Lets the machine run to a position or a little further; false where it does not say what the trace says.
template <typename Number>
bool TraceVerifier<Number>::run_ahead(std::size_t position) {
    const std::size_t first = static_cast<std::size_t>(ahead_->position());
    std::vector<Token> proposed;
    ahead_->advance(proposed, position);
    const std::size_t known = std::min(proposed.size(), tokens_.size() - first);
    return ahead_->running() && std::equal(proposed.begin(), proposed.begin() + static_cast<std::ptrdiff_t>(known),
                                           tokens_.begin() + static_cast<std::ptrdiff_t>(first));
}

// The block that begins at the cut. The last one takes all that is left.
template <typename Number>
std::unique_ptr<typename TraceVerifier<Number>::Block> TraceVerifier<Number>::prepare() {
    auto block = std::make_unique<Block>();
    block->first = cut_;
    block->end = tokens_.size() - 1;
    block->early = std::move(cut_early_);
    block->engine =
        cut_engine_ != nullptr ? std::move(cut_engine_) : std::make_unique<Engine<Number>>(engine_->clone());
    constexpr std::size_t kNeeded = 2 * kBlock;  // what is left must be worth a block of its own
    if (ahead_ == nullptr || tokens_.size() - cut_ <= kNeeded) return block;
    const auto run_to = [&](std::size_t position, std::unique_ptr<Engine<Number>>& engine) {
        if (!run_ahead(position)) return false;
        engine = std::make_unique<Engine<Number>>(ahead_->engine());
        return true;
    };
    if (run_to(cut_ + kBlock, cut_early_) && run_to(ahead_->position() + Forerunner<Number>::kWarmUp, cut_engine_)) {
        cut_ = static_cast<std::size_t>(cut_engine_->position());
        block->end = cut_;
    } else {
        ahead_.reset();
    }
    return block;
}

// Each block is fed from its first token on; the prediction after token i is compared with token i + 1.
template <typename Number>
void TraceVerifier<Number>::run(Block& block) const {
    Engine<Number>& engine = *block.engine;
    engine.share_history(tokens_);
    if (block.early != nullptr) {
        Engine<Number>& early = *block.early;
        early.share_history(tokens_);
        while (early.position() < block.first) early.feed(tokens_[static_cast<std::size_t>(early.position())]);
        engine.take_recent(early);
        block.early.reset();
        block.start = std::make_unique<Engine<Number>>(engine.clone());
    }
    for (std::size_t i = block.first; i < block.end; ++i) {
        engine.feed(tokens_[i]);
        const Token predicted = engine.predict();
        if (predicted == tokens_[i + 1]) continue;
        block.mismatch = Mismatch{i + 1, tokens_[i + 1], predicted, engine.cursor()};
        return;
    }
}

// Takes finished blocks from the front. Their order is the proof: the state at a block's beginning is the model's own,
// or it is equal to the one that the block before, already proved, has ended with.
template <typename Number>
void TraceVerifier<Number>::settle(const std::function<bool(std::uint64_t)>& go_on) {
    while (!over_ && !blocks_.empty() && blocks_.front()->stage == Block::Stage::Done) {
        Block& block = *blocks_.front();
        if (block.start != nullptr && !block.start->same_state(*engine_)) {
            wrong_assumption_ = true;
        } else {
            if (block.start != nullptr) ++assumed_;
            mismatch_ = block.mismatch;
            engine_ = std::move(block.engine);
            next_ = block.end;
            if (!mismatch_ && go_on && !go_on(next_)) stopped_ = true;
        }
        blocks_.pop_front();
        over_ = wrong_assumption_ || mismatch_ || stopped_ || (cut_all_ && blocks_.empty() && !preparing_);
    }
}

// What every worker does: prepare where too little is ready, else check a block, until all is settled.
template <typename Number>
void TraceVerifier<Number>::work(const std::function<bool(std::uint64_t)>& go_on) {
    const std::size_t width = pool_.size();
    std::unique_lock lock(mutex_);
    while (!over_) {
        const auto is_ready = [](const auto& block) { return block->stage == Block::Stage::Ready; };
        const auto ready = std::find_if(blocks_.begin(), blocks_.end(), is_ready);
        const bool may_prepare = !preparing_ && !cut_all_ && blocks_.size() < 4 * width;
        const std::size_t ready_count =
            static_cast<std::size_t>(std::count_if(blocks_.begin(), blocks_.end(), is_ready));
        if (may_prepare && ready_count < width) {
            preparing_ = true;
            lock.unlock();
            std::unique_ptr<Block> block = prepare();
            lock.lock();
            preparing_ = false;
            cut_all_ = block->end == tokens_.size() - 1;
            blocks_.push_back(std::move(block));
        } else if (ready != blocks_.end()) {
            Block& block = **ready;
            block.stage = Block::Stage::Running;
            lock.unlock();
            run(block);
            lock.lock();
            block.stage = Block::Stage::Done;
            settle(go_on);
        } else {
            changed_.wait(lock);
            continue;
        }
        changed_.notify_all();
    }
}

// With one thread nothing needs to run ahead.
template <typename Number>
std::optional<Mismatch> TraceVerifier<Number>::check_alone(const std::function<bool(std::uint64_t)>& go_on) {
    while (next_ + 1 < tokens_.size()) {
        engine_->feed(tokens_[next_]);
        const Token predicted = engine_->predict();
        ++next_;
        if (predicted != tokens_[next_]) return Mismatch{next_, tokens_[next_], predicted, engine_->cursor()};
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
    CHECK(engine_ != nullptr);
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    if (next_ + 1 >= tokens_.size()) return std::nullopt;
    if (ahead_ != nullptr) {
        engine_->freeze();
        cut_ = next_;
        cut_early_.reset();
        cut_engine_.reset();
        cut_all_ = over_ = false;
        pool_.for_each(pool_.size(), [&](std::size_t, std::size_t) { work(go_on); });
        // Others may have been at later blocks when the end was found.
        blocks_.clear();
        if (!wrong_assumption_) return mismatch_;
        ahead_.reset();
    }
    engine_->share_history(tokens_);
    return check_alone(go_on);
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
