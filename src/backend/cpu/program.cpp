#include "backend/cpu/program.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace hearth {

namespace {

constexpr std::size_t kUnpackedAlignment = 8;

// Columns a node needs whole.
std::size_t node_alignment(const Node& node) {
    switch (node.op) {
        case Op::RmsNorm: return node.group;
        case Op::Rope: return node.head_dim;
        case Op::StoreKv: return node.attention.head_dim;
        case Op::ChunkMaxima: return kLogitChunk;
        default: return 1;
    }
}

std::size_t round_up(std::size_t value, std::size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

std::size_t most_rows(const Plan& plan, const CpuStep& step) {
    return step.rows == RowCount::Batch ? plan.limits().batch_rows : plan.limits().wanted_rows;
}

class StepMaker {
public:
    StepMaker(const Plan& plan, PlanStep step, const Kernels& kernels, const PackedWeights& packed, Prefill prefill)
        : plan_(plan), step_(step), kernels_(kernels), packed_(packed), prefill_(prefill) {}

    CpuStep make() {
        out_.kind = step_.kind;
        out_.rows = plan_.nodes_of(step_).front().rows;
        out_.nodes = plan_.nodes_of(step_);
        if (step_.kind != StepKind::Matmuls) return std::move(out_);
        out_.prologue = plan_.prologue_of(step_);
        for (const Node& node : plan_.matmuls_of(step_)) {
            const PackedMatrix* packed = packed_.find(node.constant);
            out_.matmuls.push_back({&node, plan_.graph().arena().constant(node.constant), packed});
            const bool tiles = packed != nullptr && is_quantised(out_.matmuls.back().weight);
            if (tiles) out_.arrangement = Arrangement::Tiles;
        }
        if (std::ranges::all_of(out_.matmuls, [&](const CpuMatmul& matmul) { return can_have_float_tiles(matmul); })) {
            out_.arrangement = Arrangement::FloatTiles;
        }
        out_.can_be_fast = prefill_ == Prefill::Fast && std::ranges::all_of(out_.matmuls, [&](const CpuMatmul& matmul) {
                               return can_be_fast(matmul);
                           });
        make_segments();
        for (const Node& node : plan_.epilogue_of(step_)) add_epilogue(node);
        return std::move(out_);
    }

private:
    // Whether there is a kernel, and one input for all.
    bool can_have_float_tiles(const CpuMatmul& matmul) const {
        const FloatTileKernels& tiles = kernels_.float_tiles;
        const TensorView& weight = matmul.weight;
        const auto type = static_cast<std::size_t>(weight.type);
        const bool has_kernel =
            matmul.packed != nullptr ? tiles.panels_matmul[type] != nullptr : tiles.matmul[type] != nullptr;
        return tiles.tile_tokens > 0 && has_kernel && weight.shape.rows() % FloatTileKernels::kRowMultiple == 0 &&
               weight.shape.columns() % FloatTileKernels::kColumnMultiple == 0 &&
               matmul.node->input == out_.matmuls.front().node->input;
    }

    // Whether there is a kernel, the prologue quantises the input, and the tiles find room where the plan has put it.
    bool can_be_fast(const CpuMatmul& matmul) const {
        const FastKernels& fast = kernels_.fast;
        const auto makes_input = [&](const Node& node) {
            return node.op == Op::Quantize && node.output == matmul.node->input;
        };
        if (fast.tile_tokens == 0 || matmul.packed == nullptr ||
            fast.panels_matmul[static_cast<std::size_t>(matmul.weight.type)] == nullptr ||
            std::ranges::none_of(out_.prologue, makes_input)) {
            return false;
        }
        const std::size_t rows = most_rows(plan_, out_);
        const std::size_t rounded = round_up(rows, fast.tile_tokens);
        const EphemeralValue& input = plan_.graph().arena().ephemeral(matmul.node->input);
        return rounded * FastKernels::row_bytes(input.columns) <= rows * input.row_bytes;
    }

    // The two matmuls of a gate are one segment: move them next to each other.
    void make_segments() {
        std::vector<CpuMatmul> ordered;
        std::vector<bool> taken(out_.matmuls.size(), false);
        const auto take = [&](std::size_t i) {
            ordered.push_back(out_.matmuls[i]);
            taken[i] = true;
        };
        for (std::size_t i = 0; i < out_.matmuls.size(); ++i) {
            if (taken[i]) continue;
            Segment segment{.first_matmul = ordered.size(), .rows = out_.matmuls[i].weight.shape.rows()};
            take(i);
            for (std::size_t j = i + 1; j < out_.matmuls.size(); ++j) {
                if (taken[j] || !gated_together(*out_.matmuls[i].node, *out_.matmuls[j].node)) continue;
                take(j);
                ++segment.matmuls;
            }
            out_.segments.push_back(segment);
        }
        out_.matmuls = std::move(ordered);
        for (std::size_t s = 0; s < out_.segments.size(); ++s) {
            Segment& segment = out_.segments[s];
            for (std::size_t m = 0; m < segment.matmuls; ++m) {
                const CpuMatmul& matmul = out_.matmuls[segment.first_matmul + m];
                const std::size_t rows = matmul.packed != nullptr ? matmul.packed->panel_rows : kUnpackedAlignment;
                segment.alignment = std::lcm(segment.alignment, rows);
                if (out_.arrangement == Arrangement::FloatTiles) {
                    segment.alignment = std::lcm(segment.alignment, FloatTileKernels::kRowMultiple);
                }
                note_value(matmul.node->output, s);
            }
        }
    }

    // Whether a gate joins these two outputs, directly or after a bias each.
    bool gated_together(const Node& a, const Node& b) const {
        const auto reaches = [&](Handle from, Handle to) {
            if (from == to) return true;
            return std::ranges::any_of(plan_.epilogue_of(step_), [&](const Node& node) {
                return node.op == Op::AddBias && node.input == from && node.output == to;
            });
        };
        return std::ranges::any_of(plan_.epilogue_of(step_), [&](const Node& node) {
            if (node.op != Op::Gate) return false;
            return (reaches(a.output, node.input) && reaches(b.output, node.second)) ||
                   (reaches(b.output, node.input) && reaches(a.output, node.second));
        });
    }

    void note_value(Handle value, std::size_t segment) {
        if (segment_of_.size() <= value.index) segment_of_.resize(value.index + 1, kNone);
        segment_of_[value.index] = segment;
    }
    std::size_t segment_of(Handle value) const {
        return value && value.index < segment_of_.size() ? segment_of_[value.index] : kNone;
    }

    void add_epilogue(const Node& node) {
        const std::size_t first = segment_of(node.input);
        const std::size_t second = segment_of(node.second);
        const auto add = [&](std::size_t segment, StorePart part) {
            Segment& target = out_.segments[segment];
            target.epilogue.push_back({&node, part});
            target.alignment = std::lcm(target.alignment, node_alignment(node));
            if (node.output) note_value(node.output, segment);
        };
        if (node.op == Op::StoreKv && first != second) {
            add(first, StorePart::Keys);
            add(second, StorePart::Values);
            return;
        }
        CHECK(first == second || first == kNone || second == kNone);
        add(first != kNone ? first : second, StorePart::Both);
    }

    static constexpr std::size_t kNone = ~std::size_t{0};
    const Plan& plan_;
    PlanStep step_;
    const Kernels& kernels_;
    const PackedWeights& packed_;
    Prefill prefill_;
    CpuStep out_;
    std::vector<std::size_t> segment_of_;  // by ephemeral index
};

// Whether the step makes the value by itself, a piece at a time that no border of a quantised block cuts. Marks the
// segment that does.
bool makes_in_pieces(CpuStep& step, const Node& quantize, const Arena& arena) {
    if (step.rows != quantize.rows) return false;
    if (step.kind == StepKind::Attend) {
        const AttentionShape& shape = step.nodes.front().attention;
        const std::size_t piece = shape.heads / shape.kv_heads * shape.head_dim;
        return step.nodes.front().output == quantize.input && piece % activation_block(quantize.format) == 0;
    }
    const auto maker = std::ranges::find_if(step.segments, [&](const Segment& segment) {
        return segment.rows == arena.ephemeral(quantize.input).columns && !segment.epilogue.empty() &&
               segment.epilogue.back().node->output == quantize.input;
    });
    if (maker == step.segments.end()) return false;
    maker->makes_next = true;
    return true;
}

void find_what_is_handed_on(CpuProgram& program, const Kernels& kernels) {
    const Arena& arena = program.plan->graph().arena();
    for (std::size_t i = 0; i + 1 < program.steps.size(); ++i) {
        const std::span<const Node> prologue = program.steps[i + 1].prologue;
        if (prologue.size() != 1 || prologue.front().op != Op::Quantize) continue;
        if (!makes_in_pieces(program.steps[i], prologue.front(), arena)) continue;
        program.steps[i].quantizes_next = &prologue.front();
        const std::size_t row_bytes = arena.ephemeral(prologue.front().output).row_bytes;
        program.handed_on_bytes = std::max(program.handed_on_bytes,
                                           round_up(round_up(kFewRows, kernels.tile_tokens) * row_bytes, kCacheLine));
    }
}

}  // namespace

std::span<const std::byte> CpuMatmul::bytes(std::size_t first_row, std::size_t rows) const {
    if (packed == nullptr) return {weight.row(first_row), rows * weight.row_bytes()};
    const std::size_t panels = round_up(rows, packed->panel_rows) / packed->panel_rows;
    return {packed->panels + first_row / packed->panel_rows * packed->panel_bytes, panels * packed->panel_bytes};
}

CpuProgram make_program(const Plan& plan, const Kernels& kernels, const PackedWeights& packed, Prefill prefill) {
    CpuProgram program{.plan = &plan};
    const Arena& arena = plan.graph().arena();
    const std::size_t private_rows = std::max(kPrivateRows, kernels.tile_tokens);
    for (const PlanStep step : plan.steps()) {
        program.steps.push_back(StepMaker(plan, step, kernels, packed, prefill).make());
        std::size_t offset = 0;
        for (const Node& node : program.steps.back().prologue) {
            const EphemeralValue& value = arena.ephemeral(node.output);
            if (program.private_offset.size() <= node.output.index)
                program.private_offset.resize(node.output.index + 1, CpuProgram::kShared);
            program.private_offset[node.output.index] = offset;
            offset += round_up(private_rows * value.row_bytes, kCacheLine);
            if (node.op == Op::Quantize) {
                program.scratch_bytes =
                    std::max(program.scratch_bytes, round_up(kernels.tile_tokens * value.row_bytes, kCacheLine));
            }
        }
        program.private_bytes = std::max(program.private_bytes, offset);
        const CpuStep& made = program.steps.back();
        if (made.arrangement != Arrangement::FloatTiles) continue;
        const std::size_t tokens = round_up(most_rows(plan, made), kernels.float_tiles.tile_tokens);
        const std::size_t columns = made.matmuls.front().weight.shape.columns();
        program.float_tiles_bytes = std::max(program.float_tiles_bytes, tokens * columns * sizeof(float));
        program.scratch_bytes =
            std::max(program.scratch_bytes, round_up(kernels.float_tiles.scratch_bytes(columns), kCacheLine));
    }
    find_what_is_handed_on(program, kernels);
    return program;
}

}  // namespace hearth
