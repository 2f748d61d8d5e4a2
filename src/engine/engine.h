// Engine: a loaded model, ready to compute. It is shared by its sequences; forward() is called by one thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/packed_weights.h"
#include "base/result.h"
#include "models/model.h"
#include "sampling/logit_row.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hearth {

class Sequence;
class TokenTrie;

enum class Execution : std::uint8_t {
    Replay,  // the compiled Plan: fused, buffers planned once, nothing allocated
    Eager,   // node by node as captured: the same bits, for comparison and debugging
};

enum class KvSize : std::uint8_t {
    OneContext,  // enough for one full context and some forks
    FreeMemory,  // for serving: what the machine can spare, at least as much as OneContext
};

struct EngineOptions {
    std::size_t threads = 0;          // 0: what the machine offers (affinity, quota)
    std::size_t threads_prefill = 0;  // of steps with many rows; 0: as many
    Pinning pinning = Pinning::Auto;
    std::string isa = {};          // kernel level; empty: the best
    std::size_t context = 0;       // positions per sequence; 0: the model's, at most 8192
    std::size_t batch_rows = 512;  // rows of one step at most
    std::size_t wanted_rows = 64;  // rows of one step with logits at most
    KvType kv_type = KvType::F16;  // quantised ones take less memory and change the answers a little
    std::size_t kv_blocks = 0;     // KV blocks of 64 positions in all; 0: as kv_size says
    KvSize kv_size = KvSize::OneContext;
    std::size_t kv_bytes = 0;  // with KvSize::FreeMemory: at most; 0: half of the memory that is left
    Execution execution = Execution::Replay;
    Prefill prefill = Prefill::Exact;  // Fast: steps of many rows trade accuracy for speed, and chunking may be seen
    PackMode pack = PackMode::Auto;
    std::string pack_folder = {};  // where packed weights are kept from one start to the next; empty: nowhere
    std::function<void(std::size_t done, std::size_t total)> pack_progress = {};  // bytes
};

// Which rows of a feed get logits.
enum class Want : std::uint8_t { None, Last, All };

// A part of a step: the sequence's next `rows` pending tokens. Ragged batches are lists of these.
struct Feed {
    Sequence* sequence = nullptr;
    std::size_t rows = 0;  // at most what is pending
    Want want = Want::Last;
};

// Logits of one step, in the order of the feeds; valid until the next forward().
struct Logits {
    std::span<const float> values;  // [rows][vocabulary]
    std::size_t vocabulary = 0;
    std::span<const float> maxima = {};  // [rows][chunks]: the largest of each kLogitChunk; empty: not computed
    std::size_t rows() const { return vocabulary == 0 ? 0 : values.size() / vocabulary; }
    std::span<const float> row(std::size_t index) const { return values.subspan(index * vocabulary, vocabulary); }
    // With what the forward pass already knows about the row, for the sampler.
    LogitRow sampler_row(std::size_t index) const {
        const std::size_t chunks = (vocabulary + kLogitChunk - 1) / kLogitChunk;
        return {row(index), maxima.empty() ? maxima : maxima.subspan(index * chunks, chunks)};
    }
};

class Engine : public std::enable_shared_from_this<Engine> {
public:
    static Result<std::shared_ptr<Engine>> load(const std::string& path, const EngineOptions& options);
    ~Engine();

    const ModelInfo& info() const;
    const GgufFile& file() const;
    const Tokenizer& tokenizer() const;
    // The file's chat template; an error (why) when it has none or it does not parse.
    const Result<ChatTemplate>& chat_template() const;
    std::size_t context() const;
    std::size_t threads() const;
    std::size_t threads_prefill() const;
    const ThreadPool& pool() const;  // of decoding
    std::string_view isa() const;
    Prefill prefill() const;  // Exact also where Fast was asked for and this level, or eager execution, has none
    std::size_t batch_rows() const;
    std::size_t wanted_rows() const;
    KvLayout kv_layout() const;  // of a block in memory
    std::size_t kv_block_count() const;
    std::size_t kv_blocks_free() const;
    std::size_t weight_bytes() const;  // read for every decoded token

    // Computes one step for all feeds together. The sum of rows is at most batch_rows, of wanted rows wanted_rows.
    // Allocates nothing once warm.
    Result<Logits> forward(std::span<const Feed> feeds);

    // The same steps without logits: the normalised hidden states they would have been made of, up to rounding,
    // [wanted rows][dim]. Valid until the next call.
    Result<std::span<const float>> forward_hidden(std::span<const Feed> feeds);

    // The vocabulary for grammars; made when first asked for, by any thread.
    std::shared_ptr<const TokenTrie> token_trie();

    // For tracing and tests: the compiled plan, and the device that executes its windows.
    const Plan& plan() const;
    Backend& backend();
    const PackedWeights& packed() const;  // how the weights lie in memory

    struct Impl;
    Impl& impl() { return *impl_; }

private:
    explicit Engine(std::unique_ptr<Impl> impl);
    Status pack(std::span<const Feed> feeds);
    std::unique_ptr<Impl> impl_;
};

}  // namespace hearth
