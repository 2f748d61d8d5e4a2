#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "engine/engine_state.h"
#include "engine/sequence.h"
#include "machine/machine.h"

namespace hearth {

namespace {

// Without a number of blocks asked for: one full context and as much again for forks.
std::size_t default_block_count(std::size_t context) {
    return 2 * (context / kKvBlockTokens + 1) + 16;
}

// How many blocks a server gets: what `bytes` hold, at least one context, at most 64 answers of full length.
std::size_t serving_block_count(const KvLayout& layout, std::size_t context, std::size_t bytes) {
    const std::size_t fewest = default_block_count(context);
    const std::size_t most = 64 * (context / kKvBlockTokens + 1) + fewest;
    return std::clamp(bytes / layout.block_bytes(), fewest, most);
}

std::string mebibytes(std::size_t bytes) {
    return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB";
}

// Refuses what cannot fit before anything is touched, with both figures.
Status check_memory(const std::string& path, std::size_t weights, std::size_t kv, std::size_t activations,
                    std::size_t available) {
    const std::size_t needed = weights + kv + activations;
    if (needed <= available) return {};
    return Error{ErrorCode::OutOfResources, path + ": needs " + mebibytes(needed) + " (weights " + mebibytes(weights) +
                                                ", KV " + mebibytes(kv) + ", activations " + mebibytes(activations) +
                                                "), available are " + mebibytes(available)};
}

Result<ChatTemplate> load_chat_template(const GgufFile& file) {
    const std::optional<std::string_view> source = TRY(file.find_string("tokenizer.chat_template"));
    if (!source) return Error{ErrorCode::InvalidModel, file.name() + ": the model has no chat template"};
    return ChatTemplate::parse(*source);
}

// One file a model and kind of machine: made again in the same place when the model changes or the layout's version,
// which its name ends with.
std::string pack_path(const std::string& folder, const std::filesystem::path& model, std::string_view layout) {
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    char name[17];
    std::snprintf(name, sizeof name, "%016llx",
                  static_cast<unsigned long long>(hash_bytes(std::as_bytes(std::span(model.native())))));
    return folder + "/" + model.stem().string() + "-" + name + "." + std::string(layout.substr(0, layout.rfind('.'))) +
           ".pack";
}

PackOptions pack_options(Engine::Impl& impl, const EngineOptions& options, std::size_t available) {
    PackOptions pack;
    pack.mode = options.pack;
    if (!options.pack_folder.empty()) {
        std::error_code ignored;
        const std::filesystem::path model = std::filesystem::absolute(impl.file.name(), ignored);
        pack.file = pack_path(options.pack_folder, model, impl.backend->panel_layout());
        pack.model = model.string();
    }
    pack.source = impl.file.identity();
    pack.memory_available = available;
    pack.progress = options.pack_progress;
    pack.release = [file = &impl.file](std::span<const std::byte> bytes) { file->forget(bytes); };
    return pack;
}

HiddenPlace find_hidden(const Plan& plan) {
    const Graph& graph = plan.graph();
    const auto producer = [&](Handle value) {
        return std::ranges::find_if(graph.nodes(), [&](const Node& node) { return node.output == value; });
    };
    const auto logits = producer(graph.logits());
    CHECK(logits != graph.nodes().end() && logits->op == Op::Matmul);
    const auto norm = producer(logits->input);
    CHECK(norm != graph.nodes().end() && norm->op == Op::RmsNorm);
    std::size_t step = 0;
    const auto makes_logits = [&](const Node& node) { return node.output == graph.logits(); };
    while (std::ranges::none_of(plan.nodes_of(plan.steps()[step]), makes_logits)) ++step;
    CHECK(plan.holds(norm->input, step));
    return HiddenPlace{step, norm->input, norm->constant, norm->eps};
}

}  // namespace

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::shared_ptr<Engine>> Engine::load(const std::string& path, const EngineOptions& options) {
    GgufFile file = TRY(GgufFile::open(path));
    Tokenizer tokenizer = TRY(Tokenizer::load(file));
    Result<ChatTemplate> chat_template = load_chat_template(file);
    const Machine machine = detect_machine();
    const std::size_t usable = machine.memory.usable_bytes.value_or(std::numeric_limits<std::size_t>::max());
    const std::size_t threads = options.threads != 0 ? options.threads : machine.recommended_threads;
    const std::size_t prefill_threads = options.threads_prefill != 0 ? options.threads_prefill : threads;
    const auto places = [&, allowed = allowed_cpus()](std::size_t workers) {
        return place_workers(machine.topology, allowed, machine.cgroup.cpus, workers, options.pinning);
    };

    auto impl = std::make_unique<Impl>(std::move(file), std::move(tokenizer), std::move(chat_template), threads,
                                       places(threads));
    if (prefill_threads != threads) impl->prefill_pool.emplace(prefill_threads, places(prefill_threads));
    impl->backend =
        TRY(CpuBackend::create(options.isa, {&impl->pool, impl->prefill_pool ? &*impl->prefill_pool : &impl->pool}));
    impl->info = TRY(build_model(impl->file, BuildRequest{options.context}, impl->graph));
    const ModelInfo& info = impl->info;
    if (impl->tokenizer.vocabulary_size() != info.vocabulary) {
        return Error{ErrorCode::InvalidModel,
                     path + ": the vocabulary has " + std::to_string(impl->tokenizer.vocabulary_size()) +
                         " tokens, the embedding " + std::to_string(info.vocabulary) + " rows"};
    }
    impl->context = info.context;
    impl->execution = options.execution;
    const PlanLimits limits{std::max<std::size_t>(options.batch_rows, 1),
                            std::max<std::size_t>(options.wanted_rows, 1)};
    impl->plan = TRY(Plan::compile(impl->graph, limits));
    const KvLayout layout = info.kv_layout(options.kv_type);
    const PlannedMemory planned = impl->backend->planned_memory(*impl->plan);
    const std::size_t activations = impl->arena.ephemeral_bytes() + planned.working_bytes;
    std::size_t blocks = options.kv_blocks != 0 ? options.kv_blocks : default_block_count(impl->context);
    if (options.kv_blocks == 0 && options.kv_size == KvSize::FreeMemory) {
        // Weights count twice: as they lie in the file, and packed.
        const std::size_t taken = 2 * impl->file.file_bytes() + activations;
        const std::size_t left = usable - std::min(usable, taken);
        blocks = serving_block_count(layout, impl->context,
                                     options.kv_bytes != 0 ? std::min(options.kv_bytes, left) : left / 2);
    }
    // Only one full context counts against the memory: the rest is address space until a fork uses it.
    const std::size_t kv_bytes = (impl->context / kKvBlockTokens + 1) * layout.block_bytes();
    TRY(check_memory(path, impl->file.file_bytes(), kv_bytes, activations, usable));
    // What is not packed is read from the file as before, beside KV and activations.
    const std::size_t taken = impl->file.file_bytes() - std::min(impl->file.file_bytes(), planned.packed.source_bytes) +
                              kv_bytes + activations;
    TRY(impl->backend->prepare(*impl->plan, pack_options(*impl, options, usable - taken), options.prefill));
    impl->tree = TRY(BlockTree::create(*impl->backend, layout, blocks));
    impl->hidden_place = find_hidden(*impl->plan);
    impl->reserve_step();
    return std::shared_ptr<Engine>(new Engine(std::move(impl)));
}

const ModelInfo& Engine::info() const {
    return impl_->info;
}
const GgufFile& Engine::file() const {
    return impl_->file;
}
const Tokenizer& Engine::tokenizer() const {
    return impl_->tokenizer;
}
const Result<ChatTemplate>& Engine::chat_template() const {
    return impl_->chat_template;
}
std::size_t Engine::context() const {
    return impl_->context;
}
std::size_t Engine::threads() const {
    return impl_->pool.size();
}
std::size_t Engine::threads_prefill() const {
    return impl_->prefill_pool ? impl_->prefill_pool->size() : impl_->pool.size();
}
const ThreadPool& Engine::pool() const {
    return impl_->pool;
}
std::string_view Engine::isa() const {
    return impl_->backend->isa();
}
Prefill Engine::prefill() const {
    return impl_->execution == Execution::Eager ? Prefill::Exact : impl_->backend->prefill();
}
std::size_t Engine::batch_rows() const {
    return impl_->plan->limits().batch_rows;
}
std::size_t Engine::wanted_rows() const {
    return impl_->plan->limits().wanted_rows;
}
KvLayout Engine::kv_layout() const {
    return impl_->tree->layout();
}
std::size_t Engine::kv_block_count() const {
    return impl_->tree->block_count();
}
std::size_t Engine::kv_blocks_free() const {
    return impl_->tree->blocks_free();
}

std::size_t Engine::weight_bytes() const {
    std::size_t bytes = 0;
    for (const Node& node : impl_->plan->nodes()) {
        if (node.op == Op::Matmul) bytes += impl_->arena.constant(node.constant).size_bytes();
    }
    return bytes;
}

const Plan& Engine::plan() const {
    return *impl_->plan;
}
const PackedWeights& Engine::packed() const {
    return impl_->backend->packed();
}
Backend& Engine::backend() {
    return *impl_->backend;
}

Status Engine::pack(std::span<const Feed> feeds) {
    Impl& state = *impl_;
    state.clear_step();
    std::size_t rows = 0;
    std::size_t wanted = 0;
    for (const Feed& feed : feeds) {
        CHECK(feed.sequence != nullptr && &feed.sequence->engine() == this);
        if (feed.rows == 0 || feed.rows > feed.sequence->pending()) {
            return Error{ErrorCode::Usage, "a feed of " + std::to_string(feed.rows) + " rows, pending are " +
                                               std::to_string(feed.sequence->pending())};
        }
        rows += feed.rows;
        wanted += feed.want == Want::All ? feed.rows : feed.want == Want::Last ? 1 : 0;
    }
    if (rows > batch_rows() || wanted > wanted_rows()) {
        return Error{ErrorCode::Usage, "a step of " + std::to_string(rows) + " rows with " + std::to_string(wanted) +
                                           " logits; the limits are " + std::to_string(batch_rows()) + " and " +
                                           std::to_string(wanted_rows())};
    }
    for (const Feed& feed : feeds) TRY(state.add_feed(feed));
    return {};
}

Result<Logits> Engine::forward(std::span<const Feed> feeds) {
    TRY(pack(feeds));
    Impl& state = *impl_;
    const StepInputs inputs = state.step_inputs();
    Logits logits{{}, state.info.vocabulary, {}};
    const std::size_t count = inputs.wanted_rows.size() * state.info.vocabulary;
    if (state.execution == Execution::Eager) {
        state.eager_logits = TRY(state.backend->execute_eagerly(state.graph, inputs));
        logits.values = state.eager_logits;
    } else {
        TRY(state.backend->execute_window(*state.plan, 0, state.plan->steps().size(), inputs));
        const std::byte* data = state.arena.ephemeral_data(state.graph.logits());
        logits.values = {reinterpret_cast<const float*>(data), count};
        const Handle maxima = state.plan->logit_maxima();
        const std::size_t chunks = state.arena.ephemeral(maxima).columns;
        logits.maxima = {reinterpret_cast<const float*>(state.arena.ephemeral_data(maxima)),
                         inputs.wanted_rows.size() * chunks};
    }
    for (const Feed& feed : feeds) feed.sequence->note_computed(feed.rows);
    return logits;
}

Result<std::span<const float>> Engine::forward_hidden(std::span<const Feed> feeds) {
    TRY(pack(feeds));
    Impl& state = *impl_;
    const HiddenPlace& place = state.hidden_place;
    const StepInputs inputs = state.step_inputs();
    TRY(state.backend->execute_window(*state.plan, 0, place.steps, inputs));
    for (const Feed& feed : feeds) feed.sequence->note_computed(feed.rows);
    const std::size_t dim = state.info.dim;
    const std::size_t rows = inputs.wanted_rows.size();
    const float* x = reinterpret_cast<const float*>(state.arena.ephemeral_data(place.value));
    const float* weight = reinterpret_cast<const float*>(state.arena.constant(place.weight).data);
    state.hidden.resize(rows * dim);
    for (std::size_t row = 0; row < rows; ++row) {
        const float* from = x + row * dim;
        double squares = 0;
        for (std::size_t i = 0; i < dim; ++i) squares += static_cast<double>(from[i]) * static_cast<double>(from[i]);
        const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(dim) + static_cast<double>(place.eps));
        for (std::size_t i = 0; i < dim; ++i) {
            state.hidden[row * dim + i] = static_cast<float>(static_cast<double>(from[i]) * inverse) * weight[i];
        }
    }
    return std::span<const float>(state.hidden);
}

std::shared_ptr<const TokenTrie> Engine::token_trie() {
    std::call_once(impl_->trie_made, [this] { impl_->trie = make_token_trie(impl_->tokenizer); });
    return impl_->trie;
}

}  // namespace hearth
