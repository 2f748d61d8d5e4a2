// The model as dense matrices, ours and upstream's.
#include "vm/dense.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "vm/byte_stream.h"
#include "vm/upstream_run.h"
#include "vm_programs.h"

namespace hearth::vm {
namespace {

TEST(Dense, ExpectsTheMachinesTokensInBatchesOfAnySize) {
    const Program programs[] = {
        recursion(3), all_pairs(Opcode::Mul32, {3, 0xffffffff}), all_pairs(Opcode::RemS32, {0x80000001, 10}),
        make_program({64, 0x8877665544332211}, {{Opcode::Store64, 0, constant_slot(0), constant_slot(1), 0},
                                                {Opcode::Load16, 0, constant_slot(0), 0, 3},
                                                {Opcode::Load32, 1, constant_slot(0), 0, 100},
                                                {Opcode::Output, 0, 0, 0, 0},
                                                {Opcode::Halt, 0, 0, 0, 0}})};
    const DenseModel model = dense_model(transformer().model);
    for (const Program& program : programs) {
        std::vector<Token> trace = whole_prompt(program, "");
        const std::size_t prompt = trace.size();
        const std::vector<Token> generated = native_trace(program);
        trace.insert(trace.end(), generated.begin(), generated.end());
        const std::vector<std::uint32_t> tokens(trace.begin(), trace.end());
        for (const std::size_t batch : {1u, 50u}) {
            DenseRunner runner(model);
            for (std::size_t first = 0; first + 1 < tokens.size(); first += batch) {
                const std::size_t count = std::min(batch, tokens.size() - 1 - first);
                const std::vector<std::uint32_t> expected = runner.feed(std::span(tokens).subspan(first, count));
                for (std::size_t i = std::max(first + 1, prompt); i < first + count + 1; ++i) {
                    ASSERT_EQ(expected[i - first - 1], tokens[i]) << "position " << i << ", batch " << batch;
                }
            }
        }
    }
}

// A model.bin of ten slots and one layer: what is printed is decided by the first token of the prompt, which a head
// that gathers position 0 brings to where it is needed.
std::vector<std::byte> small_upstream_model() {
    const std::vector<std::string> spellings = {"first", "go", "halt", "other", "out(0a)", "out(A)"};
    constexpr std::size_t kWidth = 10, kHeads = 5, kNeurons = 1;
    enum : std::size_t { kOne = 3, kFirst, kOther, kGo, kOut, kSawFirst, kSawOther };
    ByteWriter out;
    for (const std::size_t size : {spellings.size(), kWidth, std::size_t{1}, kHeads, kNeurons, std::size_t{2}}) {
        out.u32(static_cast<std::uint32_t>(size));
    }
    for (const std::string& spelling : spellings) out.text(spelling);
    const auto matrix = [&](std::size_t rows, std::size_t columns,
                            const std::vector<std::array<std::size_t, 3>>& entries) {
        std::vector<double> values(rows * columns);
        for (const auto& [row, column, value] : entries) values[row * columns + column] = static_cast<double>(value);
        for (const double value : values) out.u64(std::bit_cast<std::uint64_t>(value));
    };
    matrix(6, kWidth,
           {{0, kOne, 1},
            {1, kOne, 1},
            {3, kOne, 1},
            {4, kOne, 1},
            {5, kOne, 1},
            {0, kFirst, 1},
            {3, kOther, 1},
            {1, kGo, 1},
            {4, kOut, 1},
            {5, kOut, 1}});
    // Head 0: query (0, one), key (2 position, 0), values the two flags.
    matrix(3 * kWidth, kWidth, {{1, kOne, 1}, {kWidth, 0, 2}, {2 * kWidth, kFirst, 1}, {2 * kWidth + 1, kOther, 1}});
    matrix(kWidth, kWidth, {{kSawFirst, 0, 1}, {kSawOther, 1, 1}});
    matrix(2 * kNeurons, kWidth, {});
    matrix(kWidth, kNeurons, {});
    matrix(6, kWidth, {{5, kGo, 10}, {5, kSawFirst, 5}, {4, kGo, 10}, {4, kSawOther, 5}, {2, kOut, 20}});
    out.u32(0);  // no erase lists
    out.u32(1);
    for (std::size_t i = 0; i < kHeads; ++i) out.u32(1);
    out.u32(1);
    for (const std::uint32_t type : {2u, 0u, 0u, 0u, 0u}) out.u32(type);
    return out.take();
}

TEST(Upstream, ItsFileIsReadAndItsDamageRefused) {
    const std::vector<std::byte> bytes = small_upstream_model();
    const Result<UpstreamModel> model = read_upstream(bytes);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model->spellings[2], "halt");
    EXPECT_EQ(model->head_type, (std::vector<std::int32_t>{2, 0, 0, 0, 0}));
    EXPECT_EQ(model->non_zero(), 6u);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        const Result<UpstreamModel> part = read_upstream(std::span(bytes).first(size));
        // Older files end before the types of the heads.
        EXPECT_EQ(part.ok(), size == bytes.size() - 6 * 4) << size;
    }
}

// A model.bin of one layer without spellings to speak of, all of its weights `weight`.
std::vector<std::byte> flat_upstream_model(std::uint32_t width, double weight) {
    ByteWriter out;
    for (const std::uint32_t size : {2u, width, 1u, width / 2, 1u, 0u}) out.u32(size);
    out.text("stop");
    out.text("go");
    const std::size_t weights = 2 * width + 4 * width * width + 3 * width + 2 * width;
    for (std::size_t i = 0; i < weights; ++i) out.u64(std::bit_cast<std::uint64_t>(weight));
    out.u32(0);
    out.u32(0);
    return out.take();
}

TEST(Upstream, AModelTooNarrowForThePositionIsRefused) {
    EXPECT_FALSE(read_upstream(flat_upstream_model(2, 1)).ok());
    EXPECT_TRUE(read_upstream(flat_upstream_model(4, 1)).ok());
}

TEST(Upstream, WeightsThatAreNoNumbersAreAnswered) {
    for (const double weight : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
        const UpstreamModel model = read_upstream(flat_upstream_model(4, weight)).value();
        for (const std::int32_t type : {0, 2}) {
            UpstreamModel typed = model;
            typed.head_type.assign(2, type);
            RunLimits limits;
            limits.max_tokens = 5;
            EXPECT_LE(run_upstream(typed, parse_upstream_prompt(typed, "go go").value(), limits).tokens, 5u);
        }
    }
}

TEST(Upstream, ItsModelIsExecuted) {
    const UpstreamModel model = read_upstream(small_upstream_model()).value();
    const auto run = [&](std::string_view prompt) {
        return run_upstream(model, parse_upstream_prompt(model, prompt).value(), {});
    };
    EXPECT_EQ(run("first go").output, "A");
    EXPECT_EQ(run("other\nfirst go ").output, "\n");
    EXPECT_EQ(run("first go").tokens, 2u);
    EXPECT_TRUE(run("first go").halted);
    EXPECT_FALSE(parse_upstream_prompt(model, "first come").ok());
    EXPECT_FALSE(parse_upstream_prompt(model, " \n").ok());
    RunLimits limits;
    limits.max_tokens = 1;
    EXPECT_FALSE(run_upstream(model, parse_upstream_prompt(model, "first go").value(), limits).halted);
}

}  // namespace
}  // namespace hearth::vm
