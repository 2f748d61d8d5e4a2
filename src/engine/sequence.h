// Sequence: one mutable timeline of tokens. It can go back (regress), branch (fork) and continue, and what it then says
// is what it would have said had it never been elsewhere, bit for bit.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "kv/block_tree.h"
#include "sampling/sampler.h"
#include "text/detokenizer.h"
#include "text/grammar.h"
#include "text/stop_strings.h"

namespace hearth {

// A point in a sequence's history: how many tokens stand before it. 0 is the beginning.
struct Time {
    std::uint32_t position = 0;
    auto operator<=>(const Time&) const = default;
};

class Sequence {
public:
    // `options` and `stops` are shared, unchanged, by all forks.
    Sequence(std::shared_ptr<Engine> engine, std::shared_ptr<const SamplingOptions> options,
             std::shared_ptr<const StopStrings> stops = nullptr);
    Sequence(Sequence&& other) noexcept;
    Sequence& operator=(Sequence&& other) noexcept;
    Sequence(const Sequence&) = delete;
    Sequence& operator=(const Sequence&) = delete;
    ~Sequence();

    // Adds prompt tokens to the history; forward() computes them. They make no text.
    // Errors: a token outside the vocabulary, the context is full, no KV block is free; nothing is added then.
    Status append(std::span<const TokenId> tokens);
    // Adds a generated token and appends the text that becomes certain with it to `text`.
    Status accept(TokenId token, std::string& text);
    // At the end of an answer: appends the text still held back (an unfinished character, a possible stop string).
    void finish_text(std::string& text);

    std::size_t length() const { return chain_.length; }      // tokens in the history
    std::size_t computed() const { return chain_.computed; }  // of these, how many the KV holds
    std::size_t pending() const { return length() - computed(); }
    TokenId token(std::size_t position) const;
    std::vector<TokenId> tokens() const;

    // The next token, from the logits of the last one. With a grammar only what it allows; an error when that is
    // nothing.
    Result<SampledToken> sample(const LogitRow& logits);
    Result<SampledToken> sample(const LogitRow& logits, SamplerScratch& scratch);

    // From here on a new answer: other options and stop strings, perhaps a grammar (which forks share). What is there
    // so far is its prompt.
    void begin_answer(std::shared_ptr<const SamplingOptions> options, std::shared_ptr<const StopStrings> stops,
                      std::shared_ptr<TokenGrammar> grammar = nullptr);
    void set_sampling(std::shared_ptr<const SamplingOptions> options) { options_ = std::move(options); }
    const SamplingOptions& sampling() const { return *options_; }
    bool has_grammar() const { return grammar_ != nullptr; }
    bool must_end() const { return grammar_ != nullptr && grammar_->must_end(text_.grammar); }

    Time mark() const { return Time{chain_.length}; }
    Status regress(Time time);  // an error when `time` lies ahead
    Result<Sequence> fork(Time time) const;

    // Begins with a chain found in a PrefixTree, which becomes this sequence's own. It must be empty.
    void adopt(Chain prefix);
    const Chain& chain() const { return chain_; }

    // Gives all blocks back but remembers the history; unpark() continues from `prefix`, a chain of its first tokens
    // (which it takes in any case), or from nothing. Without enough free blocks it stays parked: OutOfResources.
    void park();
    Status unpark(Chain prefix = {});
    bool parked() const { return !parked_.empty(); }
    std::span<const PositionRecord> parked_records() const { return parked_; }

    // Makes the blocks of what is pending this sequence's own now, so that a step does not need any.
    Status own_pending() { return tree().own_pending_blocks(chain_); }

    // So that the last token's logits can be had again: makes it pending if nothing is.
    void recompute_last();

    bool stopped() const { return text_.stopped != 0; }  // a stop string has been completed
    Engine& engine() const { return *engine_; }

private:
    friend class Engine;
    // The state of the text after a position: kept with it, restored by regress and fork.
    struct TextState {
        DetokenizerState detokenizer;
        std::uint8_t stopped = 0;
        StopStrings::State stop = 0;
        TokenGrammar::State grammar = TokenGrammar::kStart;
    };
    Status push(TokenId token, const TextState& text);
    void restore_text();
    void copy_last_tokens(std::size_t count, std::vector<TokenId>& out) const;
    // For the engine: the block table of this sequence with the pending blocks its own; then what was computed.
    Result<const std::uint32_t*> prepare_blocks();
    void note_computed(std::size_t rows) { chain_.computed += static_cast<std::uint32_t>(rows); }
    BlockTree& tree() const;

    std::shared_ptr<Engine> engine_;
    std::shared_ptr<const SamplingOptions> options_;
    std::shared_ptr<const StopStrings> stops_;
    std::shared_ptr<TokenGrammar> grammar_;
    Chain chain_;
    TextState text_;
    std::uint32_t foreign_ = 0;               // positions whose notes were made for another answer
    std::vector<std::uint32_t> block_table_;  // sized on the first step
    std::size_t table_valid_ = 0;             // its first entries that cannot have changed since
    std::vector<PositionRecord> parked_;
    std::vector<TokenId> recent_;  // for penalties; sized on first use
};

// Feeds all pending tokens in steps of at most `chunk` rows (0: what a step takes) and gives the logits of the last
// one.
Result<Logits> forward_pending(Engine& engine, Sequence& sequence, std::size_t chunk = 0);

}  // namespace hearth
