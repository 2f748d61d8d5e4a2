// The inside of an Engine: what is loaded, and the slots of the step being computed.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "engine/sequence.h"
#include "graph/plan.h"
#include "kv/block_tree.h"
#include "machine/thread_pool.h"
#include "sampling/sampler.h"
#include "text/grammar.h"

namespace hearth {

// Where the hidden states that the logits are made of can be had: the last norm is fused with the output matmul, so its
// input is read and the norm done again.
struct HiddenPlace {
    std::size_t steps = 0;  // of the plan, to execute before
    Handle value = {};
    Handle weight = {};
    float eps = 0;
};

struct Engine::Impl {
    Impl(GgufFile opened, Tokenizer loaded, Result<ChatTemplate> chat, std::size_t threads, WorkerPlaces places)
        : file(std::move(opened)),
          tokenizer(std::move(loaded)),
          chat_template(std::move(chat)),
          pool(threads, std::move(places)),
          graph(arena),
          sampler_scratch(tokenizer.vocabulary_size()) {}

    GgufFile file;
    Tokenizer tokenizer;
    Result<ChatTemplate> chat_template;
    ThreadPool pool;
    std::optional<ThreadPool> prefill_pool;  // where prompts have another number of threads
    std::optional<CpuBackend> backend;
    Arena arena;
    Graph graph;
    ModelInfo info;
    std::optional<Plan> plan;
    std::optional<BlockTree> tree;
    SamplerScratch sampler_scratch;
    std::size_t context = 0;
    Execution execution = Execution::Replay;
    std::vector<float> eager_logits;
    HiddenPlace hidden_place;
    std::vector<float> hidden;  // [wanted rows][dim], of the last forward_hidden
    std::once_flag trie_made;
    std::shared_ptr<const TokenTrie> trie;

    // The slots, filled by add_feed; reserved once so that a step allocates nothing.
    std::vector<std::int32_t> tokens;
    std::vector<std::uint32_t> positions;
    std::vector<std::uint32_t> row_sequences;
    std::vector<const std::uint32_t*> block_tables;
    std::vector<std::uint32_t> wanted;

    void reserve_step() {
        const PlanLimits& limits = plan->limits();
        tokens.reserve(limits.batch_rows);
        positions.reserve(limits.batch_rows);
        row_sequences.reserve(limits.batch_rows);
        block_tables.reserve(limits.batch_rows);
        wanted.reserve(limits.wanted_rows);
    }

    void clear_step() {
        tokens.clear();
        positions.clear();
        row_sequences.clear();
        block_tables.clear();
        wanted.clear();
    }

    Status add_feed(const Feed& feed) {
        Sequence& sequence = *feed.sequence;
        const std::uint32_t* table = TRY(sequence.prepare_blocks());
        block_tables.push_back(table);
        const std::uint32_t first = static_cast<std::uint32_t>(sequence.computed());
        for (std::uint32_t i = 0; i < feed.rows; ++i) {
            const std::uint32_t row = static_cast<std::uint32_t>(tokens.size());
            if (feed.want == Want::All || (feed.want == Want::Last && i + 1 == feed.rows)) wanted.push_back(row);
            const std::uint32_t position = first + i;
            tokens.push_back(tree->records(table[position / kKvBlockTokens])[position % kKvBlockTokens].token);
            positions.push_back(position);
            row_sequences.push_back(static_cast<std::uint32_t>(block_tables.size() - 1));
        }
        return {};
    }

    StepInputs step_inputs() {
        return StepInputs{tokens, positions, row_sequences, block_tables, wanted, tree->pool(), tree->layout()};
    }
};

}  // namespace hearth
