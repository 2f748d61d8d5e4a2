#include "backend/cpu/replay.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/clock.h"

namespace hearth {

namespace {

constexpr std::size_t kTileTokens = 256;        // tokens that pass over some weights while these stay in the cache
constexpr std::size_t kManyPhases = 16;         // with fewer it is no whole pass, and soon over
constexpr std::size_t kNarrowRows = 32;         // weight rows of a unit with many tokens: at least two panels,
constexpr std::size_t kWideRows = 64;           // and not more than stay in the cache
constexpr std::size_t kFloatRows = 128;         // of floats more: it is the tokens' tiles that stay there,
constexpr std::size_t kFloatTokens = 528;       // and weights are widened once for all of them
constexpr std::size_t kAttentionTileRows = 32;  // rows that share K and V while these are in the cache
constexpr std::size_t kBlocksPerPart = 4;       // KV blocks worth handing to another worker
constexpr std::size_t kMaxSplitUnits = 64;      // rows times KV heads whose past may be cut
constexpr std::size_t kMaxSplitBlocks = 4096;   // of such a past
constexpr std::size_t kFetchedAtOnce = 2048;    // bytes of weights a waiting worker asks for before it looks up again,
constexpr std::size_t kFetched = 256 << 10;     // and in all: no more than stay in its cache until it comes to them
constexpr std::size_t kUnitsEach = 3;           // of a phase for every worker, so that none waits long for the last

std::size_t ceil_divide(std::size_t a, std::size_t b) {
    return (a + b - 1) / b;
}

// Tiles in turn from both ends: later rows of a prompt look back on more, and every worker's part shall hold cheap and
// dear ones.
std::size_t dealt_tile(std::size_t turn, std::size_t tiles) {
    return turn % 2 == 0 ? turn / 2 : tiles - 1 - turn / 2;
}

}  // namespace

Result<CpuReplay> CpuReplay::create(CpuProgram program, const Kernels& kernels, CpuPools pools) {
    CpuReplay replay(std::move(program), kernels, pools);
    const ThreadPool& pool = pools.larger();
    const std::size_t each = replay.program_.worker_bytes();
    replay.memory_ = TRY(Reservation::create(std::max<std::size_t>(each * pool.size(), 1)));
    if (replay.program_.float_tiles_bytes > 0) {
        replay.float_tiles_ = TRY(Reservation::create(replay.program_.float_tiles_bytes));
    }
    if (replay.program_.handed_on_bytes > 0) {
        replay.handed_on_ = TRY(Reservation::create(2 * replay.program_.handed_on_bytes));
    }
    replay.workers_.resize(pool.size());
    for (std::size_t i = 0; i < pool.size(); ++i) {
        replay.workers_[i].values = replay.memory_.data() + i * each;
        replay.workers_[i].scratch = replay.memory_.data() + i * each + replay.program_.private_bytes;
    }
    for (const CpuStep& step : replay.program_.steps) {
        if (step.kind != StepKind::Attend) continue;
        const AttentionShape& shape = step.nodes.front().attention;
        const std::size_t floats = shape.heads / shape.kv_heads * attention_split_floats(shape.head_dim);
        replay.splits_per_unit_ = std::max(replay.splits_per_unit_, kMaxSplitBlocks * floats);
    }
    // Address space; memory only where a long past is really shared.
    if (pool.size() > 1 && replay.splits_per_unit_ > 0) {
        replay.splits_ = TRY(Reservation::create(kMaxSplitUnits * replay.splits_per_unit_ * sizeof(float)));
        replay.parts_done_ = std::make_unique<std::atomic<std::uint32_t>[]>(kMaxSplitUnits);
    }
    replay.row_tiles_.reserve(replay.program_.plan->limits().batch_rows);
    replay.phases_.reserve(2 * replay.program_.steps.size());
    replay.items_.reserve(2 * replay.program_.steps.size());
    std::size_t segments = 0;
    for (const CpuStep& step : replay.program_.steps) segments += step.segments.size();
    replay.cuts_.reserve(segments);  // phases point at them: they never move
    return replay;
}

bool CpuReplay::has_fast_steps() const {
    return std::ranges::any_of(program_.steps, &CpuStep::can_be_fast);
}

void CpuReplay::run(std::size_t first_step, std::size_t last_step, const StepInputs& inputs) {
    pool_ = inputs.tokens.size() > kFewRows ? pools_.prefill : pools_.decode;
    phases_.clear();
    items_.clear();
    cuts_.clear();
    find_row_tiles(inputs);
    only_prompts_ = only_prompts(inputs);
    cut_attention(inputs);
    HandOver before;
    for (std::size_t step = first_step; step < last_step; ++step) {
        const HandOver next = step + 1 < last_step ? hand_over(step, inputs) : HandOver{};
        add_phases(program_.steps[step], inputs, before, next);
        before = next;
    }
    const std::uint64_t base = phases_run_ + 1;
    phases_run_ += phases_.size();
    const bool chooses = inputs.tokens.size() == 1 && phases_.size() >= kManyPhases;
    const double begun = chooses ? monotonic_seconds() : 0;
    pool_->for_each_phase(
        items_,
        [&](std::size_t phase, std::size_t first, std::size_t last, std::size_t worker) {
            run_items(phases_[phase], base + phase, inputs, {first, last - first}, worker);
        },
        [&](std::size_t phase, std::size_t first, std::size_t last, std::size_t turn) {
            return fetch_weights(phases_[phase], {first, last - first}, turn);
        },
        chooses ? choice_.workers() : pool_->size());
    if (chooses) choice_.took(monotonic_seconds() - begun, phases_.size());
}

Arrangement CpuReplay::arrangement(const CpuStep& step, std::size_t tokens) const {
    if (step.can_be_fast && only_prompts_ && tokens >= kFastRows) return Arrangement::FastTiles;
    const bool has_floats = step.arrangement == Arrangement::FloatTiles;
    const std::size_t enough = has_floats ? kernels_->float_tiles.tiles_from : kernels_->tiles_from;
    return tokens >= enough ? step.arrangement : Arrangement::Rows;
}

// With few rows. A head of attention is a row at a time, which is no part of a tile that others could leave alone; and
// where there are not enough pieces for all workers, quantising twice costs less than waiting.
CpuReplay::HandOver CpuReplay::hand_over(std::size_t step, const StepInputs& inputs) {
    const CpuStep& made = program_.steps[step];
    const std::size_t tokens = inputs.row_count(made.rows);
    if (made.quantizes_next == nullptr || tokens > kFewRows) return {};
    const HandOver next = {.quantize = made.quantizes_next,
                           .arrangement = arrangement(program_.steps[step + 1], tokens),
                           .out = handed_on_.data() + step % 2 * program_.handed_on_bytes};
    if (made.kind == StepKind::Attend) return next.arrangement == Arrangement::Rows ? next : HandOver{};
    const std::size_t columns = program_.plan->graph().arena().ephemeral(next.quantize->input).columns;
    const std::size_t pieces = columns / activation_block(next.quantize->format);
    return pieces >= kUnitsEach * pool_->size() ? next : HandOver{};
}

void CpuReplay::add_phases(const CpuStep& step, const StepInputs& inputs, const HandOver& before,
                           const HandOver& next) {
    const std::size_t tokens = inputs.row_count(step.rows);
    if (tokens == 0) return;
    Phase phase{.step = &step, .tokens = tokens, .handed_on = before.out, .next = next};
    const auto add = [&](const Phase& added, std::size_t items) {
        phases_.push_back(added);
        items_.push_back(items);
    };
    switch (step.kind) {
        case StepKind::Rows: add(phase, tokens); return;
        case StepKind::Attend:
            add(phase, row_tiles_.size() * step.nodes.front().attention.kv_heads * attention_parts_);
            return;
        case StepKind::Matmuls: break;
    }
    phase.arrangement = arrangement(step, tokens);
    const bool has_prologue = !step.prologue.empty() || phase.arrangement == Arrangement::FloatTiles;
    if (has_prologue && phase.handed_on == nullptr) {
        phase.private_prologue = tokens <= (pool_->size() < kManyWorkers ? kPrivateRows : kPrivateRowsOfMany);
        if (!phase.private_prologue) {
            Phase first = phase;
            first.prologue = true;
            add(first, ceil_divide(tokens, prologue_tokens(phase)));
        }
    }
    const std::size_t first_cut = cuts_.size();
    std::size_t items = 0;
    for (const Segment& segment : step.segments) {
        const std::size_t rows = unit_rows(phase, segment);
        const std::size_t end = items + ceil_divide(segment.rows, rows) * token_tiles(phase);
        cuts_.push_back({.segment = &segment, .unit_rows = rows, .first_item = items, .end_item = end});
        items = end;
    }
    phase.cuts = std::span(cuts_).subspan(first_cut);
    add(phase, items);
}

void CpuReplay::run_items(const Phase& phase, std::uint64_t number, const StepInputs& inputs, ColumnRange items,
                          std::size_t worker) {
    switch (phase.step->kind) {
        case StepKind::Rows: run_rows(phase, inputs, items); return;
        case StepKind::Attend: run_attention(phase, inputs, items, worker); return;
        case StepKind::Matmuls: break;
    }
    if (phase.prologue) {
        const std::size_t each = prologue_tokens(phase);
        const std::size_t first = items.first * each;
        const std::size_t last = std::min((items.first + items.count) * each, phase.tokens);
        run_prologue(phase, inputs, first, last - first, worker);
        return;
    }
    if (phase.private_prologue && workers_[worker].prologue_done != number) {
        run_prologue(phase, inputs, 0, phase.tokens, worker);
        workers_[worker].prologue_done = number;
    }
    run_matmuls(phase, inputs, items, worker);
}

// A value in the plan's buffer, or with a worker that has made it for itself. The caller's own is the plan's.
Operand CpuReplay::operand(Handle value, bool private_values, std::size_t worker) const {
    if (!value) return {};
    Arena& arena = program_.plan->graph().arena();
    const EphemeralValue& info = arena.ephemeral(value);
    std::byte* data = arena.ephemeral_data(value);
    if (private_values && worker != 0 && value.index < program_.private_offset.size() &&
        program_.private_offset[value.index] != CpuProgram::kShared) {
        data = workers_[worker].values + program_.private_offset[value.index];
    }
    return Operand{data, info.row_bytes, info.columns};
}

Operands CpuReplay::operands(const Node& node, bool private_values, std::size_t worker) const {
    return {operand(node.input, private_values, worker), operand(node.second, private_values, worker),
            operand(node.output, private_values, worker)};
}

void CpuReplay::run_rows(const Phase& phase, const StepInputs& inputs, ColumnRange items) const {
    const OperationContext context{*kernels_, program_.plan->graph(), inputs};
    for (const Node& node : phase.step->nodes) {
        const Operands values = operands(node, false, 0);
        const std::size_t columns = node.input ? values.input.columns : values.output.columns;
        for (std::size_t row = items.first; row < items.first + items.count; ++row) {
            run_operation(context, node, values, row, {0, columns});
        }
    }
}

// Runs of rows at consecutive positions of one sequence, cut so that all workers find some.
void CpuReplay::find_row_tiles(const StepInputs& inputs) {
    const std::size_t rows = inputs.tokens.size();
    const std::size_t most = std::clamp<std::size_t>(ceil_divide(rows, pool_->size() * 4), 4, kAttentionTileRows);
    row_tiles_.clear();
    for (std::size_t row = 0; row < rows; ++row) {
        const bool follows = row > 0 && inputs.row_sequences[row] == inputs.row_sequences[row - 1] &&
                             inputs.positions[row] == inputs.positions[row - 1] + 1;
        if (follows && row_tiles_.back().count < most) {
            ++row_tiles_.back().count;
        } else {
            row_tiles_.push_back({static_cast<std::uint32_t>(row), 1});
        }
    }
}

bool CpuReplay::only_prompts(const StepInputs& inputs) {
    const std::size_t rows = inputs.row_sequences.size();
    std::size_t run = 0;
    for (std::size_t row = 0; row < rows; ++row) {
        ++run;
        if (row + 1 < rows && inputs.row_sequences[row + 1] == inputs.row_sequences[row]) continue;
        if (run < kFastRows) return false;
        run = 0;
    }
    return rows > 0;
}

// With fewer units than workers can share evenly, each unit's past is cut too.
void CpuReplay::cut_attention(const StepInputs& inputs) {
    attention_parts_ = 1;
    const std::size_t units = row_tiles_.size() * inputs.kv_layout.kv_heads;
    const bool single_rows = std::ranges::all_of(row_tiles_, [](const RowTile& tile) { return tile.count == 1; });
    if (!single_rows || units > kMaxSplitUnits || pool_->size() == 1) return;
    std::size_t longest = 0;
    for (const std::uint32_t position : inputs.positions) longest = std::max<std::size_t>(longest, position + 1);
    const std::size_t blocks = ceil_divide(longest, kKvBlockTokens);
    if (blocks > kMaxSplitBlocks) return;
    attention_parts_ = std::clamp<std::size_t>(blocks / kBlocksPerPart, 1, ceil_divide(pool_->size() * 8, units));
}

void CpuReplay::run_attention(const Phase& phase, const StepInputs& inputs, ColumnRange items, std::size_t worker) {
    const Node& node = phase.step->nodes.front();
    const Operands values = operands(node, false, 0);
    const std::size_t kv_heads = node.attention.kv_heads;
    const std::size_t columns = values.output.columns / kv_heads;
    for (std::size_t item = items.first; item < items.first + items.count; ++item) {
        const std::size_t unit = item / attention_parts_;
        const RowTile& tile = row_tiles_[dealt_tile(unit / kv_heads, row_tiles_.size())];
        const std::size_t kv_head = unit % kv_heads;
        if (tile.count > 1) {
            kernels_->attention_tile(attention_tile_task(node, values, inputs, tile.row, tile.count, kv_head));
        } else if (attention_parts_ == 1) {
            kernels_->attention(attention_task(node, values, inputs, tile.row, kv_head));
        } else {
            const AttentionTask task = attention_task(node, values, inputs, tile.row, kv_head);
            if (!run_split(task, unit, item % attention_parts_)) continue;
        }
        hand_on(phase, {kv_head * columns, columns}, tile.row, tile.count, worker);
    }
}

bool CpuReplay::run_split(const AttentionTask& task, std::size_t unit, std::size_t part) {
    const std::size_t begin = task.first / kKvBlockTokens;
    const std::size_t blocks = task.last / kKvBlockTokens + 1 - begin;
    const std::size_t first = blocks * part / attention_parts_;
    const std::size_t count = blocks * (part + 1) / attention_parts_ - first;
    float* splits = reinterpret_cast<float*>(splits_.data()) + unit * splits_per_unit_;
    const std::size_t block_floats = task.group * attention_split_floats(task.head_dim);
    if (count > 0) {
        kernels_->attention_splits({.attention = task,
                                    .first_block = begin + first,
                                    .block_count = count,
                                    .splits = splits + first * block_floats});
    }
    // The order of the merge is that of the blocks, whoever computed them last.
    if (parts_done_[unit].fetch_add(1, std::memory_order_acq_rel) + 1 < attention_parts_) return false;
    parts_done_[unit].store(0, std::memory_order_relaxed);
    kernels_->attention_merge(
        {.splits = splits, .block_count = blocks, .group = task.group, .head_dim = task.head_dim, .out = task.out});
    return true;
}

std::size_t CpuReplay::prologue_tokens(const Phase& phase) const {
    switch (phase.arrangement) {
        case Arrangement::FloatTiles: return kernels_->float_tiles.tile_tokens;
        case Arrangement::FastTiles: return kernels_->fast.tile_tokens;
        case Arrangement::Tiles: return kernels_->tile_tokens;
        case Arrangement::Rows: break;
    }
    return 1;
}

void CpuReplay::make_float_tiles(const CpuStep& step, std::size_t first_token, std::size_t tokens) {
    const Operand input = operand(step.matmuls.front().node->input, false, 0);
    const std::size_t each = kernels_->float_tiles.tile_tokens;
    for (std::size_t row = first_token; row < first_token + tokens; row += each) {
        kernels_->float_tiles.tile({.rows = input.data + row * input.row_bytes,
                                    .row_bytes = input.row_bytes,
                                    .tokens = std::min(each, first_token + tokens - row),
                                    .columns = input.columns,
                                    .out = float_tiles_.data() + row * input.columns * sizeof(float)});
    }
}

void CpuReplay::make_fast_tile(const Operands& values, std::size_t row, std::size_t tokens) const {
    const std::size_t columns = values.input.columns;
    kernels_->fast.tile({.rows = values.input.row(row),
                         .row_floats = values.input.row_bytes / sizeof(float),
                         .tokens = tokens,
                         .columns = columns,
                         .quantize = kernels_->quantize_q8x256,
                         .out = values.output.data + row * FastKernels::row_bytes(columns)});
}

void CpuReplay::run_prologue(const Phase& phase, const StepInputs& inputs, std::size_t first_token, std::size_t tokens,
                             std::size_t worker) {
    const OperationContext context{*kernels_, program_.plan->graph(), inputs};
    for (const Node& node : phase.step->prologue) {
        const Operands values = operands(node, phase.private_prologue, worker);
        const std::size_t columns = values.input.columns;
        if (node.op != Op::Quantize) {
            for (std::size_t row = first_token; row < first_token + tokens; ++row)
                run_operation(context, node, values, row, {0, columns});
            continue;
        }
        if (phase.arrangement == Arrangement::FastTiles) {
            const std::size_t each = kernels_->fast.tile_tokens;
            for (std::size_t row = first_token; row < first_token + tokens; row += each)
                make_fast_tile(values, row, std::min(each, first_token + tokens - row));
            continue;
        }
        quantize_rows({.format = node.format,
                       .input = values.input,
                       .output = values.output,
                       .tiles = phase.arrangement == Arrangement::Tiles,
                       .columns = {0, columns},
                       .first_token = first_token,
                       .tokens = tokens},
                      worker);
    }
    if (phase.arrangement == Arrangement::FloatTiles) make_float_tiles(*phase.step, first_token, tokens);
}

void CpuReplay::quantize_rows(const QuantizeTask& task, std::size_t worker) const {
    const std::size_t row_bytes = task.output.row_bytes;
    const std::size_t before = activation_row_bytes(task.format, task.columns.first);  // of a row
    const std::size_t bytes = activation_row_bytes(task.format, task.columns.count);
    const auto quantize = [&](std::size_t row, std::byte* out) {
        const float* x = task.input.row(row) + task.columns.first;
        quantize_row(*kernels_, task.format, x, task.columns.count, out);
    };
    const std::size_t end = task.first_token + task.tokens;
    if (!task.tiles) {
        for (std::size_t row = task.first_token; row < end; ++row)
            quantize(row, task.output.data + row * row_bytes + before);
        return;
    }
    const std::size_t each = kernels_->tile_tokens;
    const auto arrange = task.format == ActivationFormat::Q8x32 ? kernels_->tile_q8x32 : kernels_->tile_q8x256;
    for (std::size_t row = task.first_token; row < end; row += each) {
        std::byte* rows = workers_[worker].scratch;
        const std::size_t count = std::min(each, end - row);
        for (std::size_t i = 0; i < count; ++i) quantize(row + i, rows + i * bytes);
        arrange({.rows = rows,
                 .row_bytes = bytes,
                 .tokens = count,
                 .columns = task.columns.count,
                 .out = task.output.data + row * row_bytes + each * before});
    }
}

// Columns just made, quantised for the next step if it wants that.
void CpuReplay::hand_on(const Phase& phase, ColumnRange columns, std::size_t first_token, std::size_t tokens,
                        std::size_t worker) const {
    if (phase.next.quantize == nullptr) return;
    const Operands values = operands(*phase.next.quantize, false, 0);
    quantize_rows({.format = phase.next.quantize->format,
                   .input = values.input,
                   .output = {phase.next.out, values.output.row_bytes, values.output.columns},
                   .tiles = phase.next.arrangement == Arrangement::Tiles,
                   .columns = columns,
                   .first_token = first_token,
                   .tokens = tokens},
                  worker);
}

// A multiple of what tiles hold.
std::size_t CpuReplay::tokens_at_once(const Phase& phase) const {
    if (phase.arrangement != Arrangement::FloatTiles) return kTileTokens;
    const std::size_t each = kernels_->float_tiles.tile_tokens;
    return kFloatTokens / each * each;
}

// The last tile takes what is left over: a token alone would be expected as a row, and it lies in a tile.
std::size_t CpuReplay::token_tiles(const Phase& phase) const {
    return std::max<std::size_t>(phase.tokens / tokens_at_once(phase), 1);
}

// Weight rows of one unit. Few tokens: several units a worker, each as small as alignment lets it be. Many: rows that
// stay in the cache while the tokens pass.
std::size_t CpuReplay::unit_rows(const Phase& phase, const Segment& segment) const {
    const std::size_t units_wanted = pool_->size() * 16;
    std::size_t all_rows = 0;
    for (const Segment& each : phase.step->segments) all_rows += each.rows;
    std::size_t wanted = ceil_divide(all_rows * token_tiles(phase), units_wanted);
    const std::size_t most = phase.arrangement == Arrangement::FloatTiles ? kFloatRows : kWideRows;
    if (phase.tokens > kFewRows) wanted = std::clamp(wanted, kNarrowRows, most);
    const Node* next = phase.next.quantize;
    const std::size_t alignment =
        std::lcm(segment.alignment, next != nullptr ? activation_block(next->format) : std::size_t{1});
    return ceil_divide(wanted, alignment) * alignment;
}

// Asks for the next bytes of the weights that a worker will read first in a phase to come. False: no more.
bool CpuReplay::fetch_weights(const Phase& phase, ColumnRange items, std::size_t turn) const {
    if (phase.cuts.empty() || phase.tokens > kFewRows) return false;
    std::size_t skipped = turn * kFetchedAtOnce;  // bytes
    if (skipped >= kFetched) return false;
    for (const Cut& cut : phase.cuts) {
        const std::size_t first = std::max(items.first, cut.first_item);
        const std::size_t last = std::min(items.first + items.count, cut.end_item);
        if (first >= last) continue;
        const std::size_t first_row = (first - cut.first_item) * cut.unit_rows;
        const std::size_t rows = std::min((last - first) * cut.unit_rows, cut.segment->rows - first_row);
        for (std::size_t i = 0; i < cut.segment->matmuls; ++i) {
            const std::span<const std::byte> weights =
                phase.step->matmuls[cut.segment->first_matmul + i].bytes(first_row, rows);
            if (skipped < weights.size()) {
                const std::size_t end = std::min(skipped + kFetchedAtOnce, weights.size());
                for (std::size_t at = skipped; at < end; at += kCacheLine) fetch_line(weights.data() + at);
                return true;
            }
            skipped -= weights.size();
        }
    }
    return false;
}

void CpuReplay::run_matmuls(const Phase& phase, const StepInputs& inputs, ColumnRange items, std::size_t worker) {
    const std::size_t tiles = token_tiles(phase);
    const std::size_t tile_tokens = tokens_at_once(phase);
    for (const Cut& cut : phase.cuts) {
        std::size_t item = std::max(items.first, cut.first_item);
        const std::size_t last = std::min(items.first + items.count, cut.end_item);
        while (item < last) {
            const std::size_t unit = (item - cut.first_item) / tiles;
            const std::size_t tile = (item - cut.first_item) % tiles;
            // With few tokens neighbouring units are one long walk through the weights.
            const std::size_t count = phase.tokens <= kFewRows ? last - item : 1;
            const std::size_t first_row = unit * cut.unit_rows;
            run_rectangle(phase, inputs,
                          {.segment = cut.segment,
                           .rows = {first_row, std::min(count * cut.unit_rows, cut.segment->rows - first_row)},
                           .first_token = tile * tile_tokens,
                           .tokens = tile + 1 < tiles ? tile_tokens : phase.tokens - tile * tile_tokens},
                          worker);
            item += count;
        }
    }
}

void CpuReplay::run_rectangle(const Phase& phase, const StepInputs& inputs, const Rectangle& rectangle,
                              std::size_t worker) {
    const CpuStep& step = *phase.step;
    const Segment& segment = *rectangle.segment;
    for (std::size_t i = 0; i < segment.matmuls; ++i) {
        const CpuMatmul& matmul = step.matmuls[segment.first_matmul + i];
        Operand input = operand(matmul.node->input, phase.private_prologue, worker);
        if (phase.handed_on != nullptr) input.data = phase.handed_on;
        const Operand output = operand(matmul.node->output, false, 0);
        switch (phase.arrangement) {
            case Arrangement::FastTiles: multiply_fast(matmul, input, output, rectangle); break;
            case Arrangement::FloatTiles: multiply_float_tiles(matmul, output, rectangle, worker); break;
            default: multiply(matmul, input, output, rectangle); break;
        }
    }
    const OperationContext context{*kernels_, program_.plan->graph(), inputs};
    for (const EpilogueNode& epilogue : segment.epilogue) {
        const Operands values = operands(*epilogue.node, false, 0);
        for (std::size_t t = 0; t < rectangle.tokens; ++t) {
            run_operation(context, *epilogue.node, values, rectangle.first_token + t, rectangle.rows, epilogue.part);
        }
    }
    if (segment.makes_next) hand_on(phase, rectangle.rows, rectangle.first_token, rectangle.tokens, worker);
}

// A rectangle of a matmul over rows of the file, and over panels. `activations`: of its first token.
MatmulTask CpuReplay::row_task(const CpuMatmul& matmul, const Activations& activations, const Operand& output,
                               const Rectangle& rectangle) {
    return {.weights = matmul.weight.row(rectangle.rows.first),
            .weight_row_bytes = matmul.weight.row_bytes(),
            .rows = rectangle.rows.count,
            .columns = matmul.weight.shape.columns(),
            .activations = activations.data,
            .activation_row_bytes = activations.row_bytes,
            .tokens = rectangle.tokens,
            .out = output.row(rectangle.first_token) + rectangle.rows.first,
            .out_stride = output.row_bytes / sizeof(float)};
}

PanelTask CpuReplay::panel_task(const CpuMatmul& matmul, const Activations& activations, const Operand& output,
                                const Rectangle& rectangle) {
    const PackedMatrix& packed = *matmul.packed;
    return {.panels = packed.panels + rectangle.rows.first / packed.panel_rows * packed.panel_bytes,
            .panel_bytes = packed.panel_bytes,
            .rows = rectangle.rows.count,
            .columns = matmul.weight.shape.columns(),
            .activations = activations.data,
            .activation_row_bytes = activations.row_bytes,
            .tokens = rectangle.tokens,
            .out = output.row(rectangle.first_token) + rectangle.rows.first,
            .out_stride = output.row_bytes / sizeof(float)};
}

void CpuReplay::multiply(const CpuMatmul& matmul, const Operand& input, const Operand& output,
                         const Rectangle& rectangle) {
    const Activations activations = {input.data + rectangle.first_token * input.row_bytes, input.row_bytes};
    const std::size_t type = static_cast<std::size_t>(matmul.weight.type);
    if (matmul.packed != nullptr) {
        kernels_->panels[type].matmul(panel_task(matmul, activations, output, rectangle));
    } else {
        kernels_->matmul[type](row_task(matmul, activations, output, rectangle));
    }
}

void CpuReplay::multiply_float_tiles(const CpuMatmul& matmul, const Operand& output, const Rectangle& rectangle,
                                     std::size_t worker) {
    const std::size_t row_bytes = matmul.weight.shape.columns() * sizeof(float);
    const Activations tiles = {float_tiles_.data() + rectangle.first_token * row_bytes, row_bytes};
    const std::size_t type = static_cast<std::size_t>(matmul.weight.type);
    if (matmul.packed != nullptr) {
        kernels_->float_tiles.panels_matmul[type](panel_task(matmul, tiles, output, rectangle));
    } else {
        MatmulTask task = row_task(matmul, tiles, output, rectangle);
        task.scratch = workers_[worker].scratch;
        kernels_->float_tiles.matmul[type](task);
    }
}

void CpuReplay::multiply_fast(const CpuMatmul& matmul, const Operand& input, const Operand& output,
                              const Rectangle& rectangle) {
    const std::size_t row_bytes = FastKernels::row_bytes(matmul.weight.shape.columns());
    const Activations tiles = {input.data + rectangle.first_token * row_bytes, row_bytes};
    kernels_->fast.panels_matmul[static_cast<std::size_t>(matmul.weight.type)](
        panel_task(matmul, tiles, output, rectangle));
}

}  // namespace hearth
