#include "engine/sequence.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "engine/engine_state.h"

namespace hearth {

Sequence::Sequence(std::shared_ptr<Engine> engine, std::shared_ptr<const SamplingOptions> options,
                   std::shared_ptr<const StopStrings> stops)
    : engine_(std::move(engine)), options_(std::move(options)), stops_(std::move(stops)) {}

Sequence::Sequence(Sequence&& other) noexcept
    : engine_(std::move(other.engine_)),
      options_(std::move(other.options_)),
      stops_(std::move(other.stops_)),
      grammar_(std::move(other.grammar_)),
      chain_(std::exchange(other.chain_, Chain{})),
      text_(other.text_),
      foreign_(other.foreign_),
      block_table_(std::move(other.block_table_)),
      table_valid_(std::exchange(other.table_valid_, 0)),
      parked_(std::move(other.parked_)),
      recent_(std::move(other.recent_)) {}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
    if (this == &other) return *this;
    if (engine_) tree().release(chain_);
    engine_ = std::move(other.engine_);
    options_ = std::move(other.options_);
    stops_ = std::move(other.stops_);
    grammar_ = std::move(other.grammar_);
    chain_ = std::exchange(other.chain_, Chain{});
    text_ = other.text_;
    foreign_ = other.foreign_;
    block_table_ = std::move(other.block_table_);
    table_valid_ = std::exchange(other.table_valid_, 0);
    parked_ = std::move(other.parked_);
    recent_ = std::move(other.recent_);
    return *this;
}

Sequence::~Sequence() {
    if (engine_) tree().release(chain_);
}

BlockTree& Sequence::tree() const {
    return *engine_->impl().tree;
}

Status Sequence::push(TokenId token, const TextState& text) {
    PositionRecord record{token, {}};
    static_assert(sizeof(TextState) <= sizeof record.note && std::is_trivially_copyable_v<TextState>);
    std::memcpy(record.note.data(), &text, sizeof text);
    return tree().push(chain_, record);
}

Status Sequence::append(std::span<const TokenId> tokens) {
    const Tokenizer& tokenizer = engine_->tokenizer();
    if (length() + tokens.size() > engine_->context()) {
        return Error{ErrorCode::Usage, "the prompt needs " + std::to_string(length() + tokens.size()) +
                                           " tokens, the context has " + std::to_string(engine_->context())};
    }
    const Time before = mark();
    for (const TokenId token : tokens) {
        if (!tokenizer.contains(token)) {
            TRY(regress(before));
            return Error{ErrorCode::Usage, "token " + std::to_string(token) + " is not in the vocabulary"};
        }
        TextState text;
        text.detokenizer.begun = text_.detokenizer.begun != 0 || tokenizer.kind(token) != TokenKind::Control ? 1 : 0;
        if (Status pushed = push(token, text); !pushed.ok()) {
            TRY(regress(before));
            return pushed;
        }
        text_ = text;
    }
    return {};
}

Status Sequence::accept(TokenId token, std::string& text) {
    if (length() >= engine_->context()) {
        return Error{ErrorCode::OutOfResources,
                     "the context of " + std::to_string(engine_->context()) + " tokens is full"};
    }
    TextState next = text_;
    if (grammar_ && !engine_->tokenizer().ends_generation(token)) {
        next.grammar = TRY(grammar_->advance(text_.grammar, token));
    }
    const std::size_t before = text.size();
    if (!stops_ || stops_->empty()) {
        detokenize(engine_->tokenizer(), token, next.detokenizer, text);
    } else if (next.stopped == 0) {
        // What may become a stop string stays back; the automaton's state knows those bytes.
        text += stops_->held_text(next.stop);
        const std::size_t begin = text.size();
        detokenize(engine_->tokenizer(), token, next.detokenizer, text);
        const StopStrings::Scan scan = stops_->scan(next.stop, std::string_view(text).substr(begin));
        next.stop = scan.state;
        next.stopped = scan.stopped ? 1 : 0;
        text.resize(scan.stopped ? begin + scan.keep - scan.withdrawn : text.size() - scan.held);
    }
    if (Status pushed = push(token, next); !pushed.ok()) {
        text.resize(before);
        return pushed;
    }
    text_ = next;
    return {};
}

void Sequence::finish_text(std::string& text) {
    if (stopped()) return;
    if (stops_) text += stops_->held_text(text_.stop);
    text_.stop = 0;
    flush(text_.detokenizer, text);
}

TokenId Sequence::token(std::size_t position) const {
    return tree().at(chain_, static_cast<std::uint32_t>(position)).token;
}

std::vector<TokenId> Sequence::tokens() const {
    std::vector<TokenId> all;
    copy_last_tokens(length(), all);
    return all;
}

// In one walk over the blocks, from the last to the first that is needed.
void Sequence::copy_last_tokens(std::size_t count, std::vector<TokenId>& out) const {
    out.resize(count);
    const std::size_t first = length() - count;
    std::size_t end = length();
    for (std::uint32_t block = chain_.tip; end > first; block = tree().parent(block)) {
        const std::size_t base = (end - 1) / kKvBlockTokens * kKvBlockTokens;
        const std::size_t begin = std::max(base, first);
        std::ranges::transform(tree().records(block).subspan(begin - base, end - begin),
                               out.begin() + static_cast<std::ptrdiff_t>(begin - first), &PositionRecord::token);
        end = begin;
    }
}

Result<SampledToken> Sequence::sample(const LogitRow& logits) {
    return sample(logits, engine_->impl().sampler_scratch);
}

Result<SampledToken> Sequence::sample(const LogitRow& logits, SamplerScratch& scratch) {
    const SamplingOptions& options = *options_;
    recent_.clear();
    const bool penalised =
        options.repetition_penalty != 1 || options.frequency_penalty != 0 || options.presence_penalty != 0;
    if (penalised) {
        const std::size_t count = std::min<std::size_t>(options.penalty_last, length());
        recent_.reserve(std::min<std::size_t>(options.penalty_last, engine_->context()));
        copy_last_tokens(count, recent_);
    }
    std::span<const std::uint64_t> mask;
    if (grammar_) mask = TRY(grammar_->mask(text_.grammar));
    return hearth::sample(logits, options, recent_, length(), scratch, mask);
}

void Sequence::begin_answer(std::shared_ptr<const SamplingOptions> options, std::shared_ptr<const StopStrings> stops,
                            std::shared_ptr<TokenGrammar> grammar) {
    options_ = std::move(options);
    stops_ = std::move(stops);
    grammar_ = std::move(grammar);
    foreign_ = chain_.length;
    restore_text();
}

void Sequence::adopt(Chain prefix) {
    CHECK(chain_.length == 0 && !parked());
    chain_ = prefix;
    foreign_ = prefix.length;
    table_valid_ = 0;
    restore_text();
}

void Sequence::park() {
    parked_.resize(chain_.length);
    std::uint32_t block = chain_.tip;
    for (std::size_t begin = (chain_.length - 1) / kKvBlockTokens * kKvBlockTokens; block != Chain::kNone;
         begin -= kKvBlockTokens) {
        const std::size_t count = std::min(kKvBlockTokens, parked_.size() - begin);
        std::copy_n(tree().records(block).begin(), count, parked_.begin() + static_cast<std::ptrdiff_t>(begin));
        block = tree().parent(block);
    }
    tree().release(chain_);
    table_valid_ = 0;
}

Status Sequence::unpark(Chain prefix) {
    CHECK(parked() && chain_.length == 0 && prefix.length <= parked_.size());
    chain_ = prefix;
    table_valid_ = 0;
    while (chain_.length < parked_.size()) {
        if (Status pushed = tree().push(chain_, parked_[chain_.length]); !pushed.ok()) {
            tree().release(chain_);
            return pushed;
        }
    }
    foreign_ = std::max(foreign_, prefix.length);
    std::memcpy(&text_, parked_.back().note.data(), sizeof text_);
    if (foreign_ == chain_.length) restore_text();
    parked_.clear();
    return {};
}

// What stands in the notes of foreign positions belongs to other stop strings or another grammar: there the text
// begins anew, but for whether anything came before.
void Sequence::restore_text() {
    text_ = TextState{};
    if (chain_.length <= foreign_) {
        const Tokenizer& tokenizer = engine_->tokenizer();
        for (std::size_t i = 0; i < chain_.length && text_.detokenizer.begun == 0; ++i) {
            if (tokenizer.kind(token(i)) != TokenKind::Control) text_.detokenizer.begun = 1;
        }
        return;
    }
    std::memcpy(&text_, tree().at(chain_, chain_.length - 1).note.data(), sizeof text_);
}

Status Sequence::regress(Time time) {
    if (time.position > chain_.length) {
        return Error{ErrorCode::Usage, "cannot regress to time " + std::to_string(time.position) + ": it is " +
                                           std::to_string(chain_.length) + " now"};
    }
    tree().truncate(chain_, time.position);
    table_valid_ = std::min<std::size_t>(table_valid_, time.position / kKvBlockTokens);
    foreign_ = std::min(foreign_, time.position);
    restore_text();
    return {};
}

Result<Sequence> Sequence::fork(Time time) const {
    if (time.position > chain_.length) {
        return Error{ErrorCode::Usage, "cannot fork at time " + std::to_string(time.position) + ": it is " +
                                           std::to_string(chain_.length) + " now"};
    }
    Sequence sibling(engine_, options_, stops_);
    sibling.grammar_ = grammar_;
    sibling.chain_ = tree().fork(chain_, time.position);
    sibling.foreign_ = std::min(foreign_, time.position);
    sibling.restore_text();
    return sibling;
}

void Sequence::recompute_last() {
    if (pending() == 0 && chain_.length > 0) --chain_.computed;
}

Result<const std::uint32_t*> Sequence::prepare_blocks() {
    TRY(tree().own_pending_blocks(chain_));
    if (block_table_.empty()) block_table_.resize(engine_->context() / kKvBlockTokens + 1);
    // Blocks full of computed positions stay what they are until the sequence goes back before them.
    const std::size_t full = chain_.computed / kKvBlockTokens;
    tree().write_block_table(chain_, block_table_, std::min(table_valid_, full));
    table_valid_ = full;
    return block_table_.data();
}

Result<Logits> forward_pending(Engine& engine, Sequence& sequence, std::size_t chunk) {
    if (chunk == 0) chunk = engine.batch_rows();
    sequence.recompute_last();
    if (sequence.pending() == 0) return Error{ErrorCode::Usage, "the sequence is empty: there is nothing to compute"};
    for (;;) {
        const std::size_t rows = std::min({sequence.pending(), chunk, engine.batch_rows()});
        const bool last = rows == sequence.pending();
        const Feed feed{&sequence, rows, last ? Want::Last : Want::None};
        Logits logits = TRY(engine.forward({&feed, 1}));
        if (last) return logits;
    }
}

}  // namespace hearth
