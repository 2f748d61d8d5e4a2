// Every matmul of every level against the reference, by bits.
#include <iterator>
#include <limits>

#include "unit/kernels/test_support.h"

namespace hearth {
namespace {

using namespace kernel_test;

const Kernels& reference() {
    return supported_kernels().front();
}

struct Case {
    std::size_t rows;
    std::size_t columns;
    std::size_t tokens;
    Fill fill = Fill::Random;
    Scales scales = Scales::Usual;
};

void expect_all_levels_equal(DType type, const Case& c, const std::vector<float>& x) {
    const std::vector<std::byte> weights =
        random_weights(type, c.rows * c.columns, c.rows * 131 + c.columns, c.fill, c.scales);
    const std::vector<std::byte> activations = make_activations(reference(), type, x, c.columns);
    std::vector<float> expected(c.rows * c.tokens);
    run_matmul(reference(), type, matmul_task(type, weights, c.rows, c.columns, activations, c.tokens, expected));
    for (const Kernels& kernels : supported_kernels()) {
        std::vector<float> actual(c.rows * c.tokens, -12345.0f);
        run_matmul(kernels, type, matmul_task(type, weights, c.rows, c.columns, activations, c.tokens, actual));
        ASSERT_TRUE(same_bits(actual, expected)) << kernels.level << " " << traits(type).name << " rows " << c.rows
                                                 << " columns " << c.columns << " tokens " << c.tokens;
    }
}

TEST(Matmul, EveryLevelGivesTheBitsOfTheReferenceAtOddSizes) {
    for (const DType type : kAllTypes) {
        for (const std::size_t columns : {32u, 64u, 96u, 256u, 512u, 768u}) {
            if (columns % traits(type).block_elements != 0) continue;
            for (const std::size_t rows : {1u, 3u, 4u, 5u, 17u}) {
                for (const std::size_t tokens : {1u, 2u, 3u, 4u, 5u, 8u, 13u}) {
                    expect_all_levels_equal(type, {rows, columns, tokens}, random_values(tokens * columns, tokens + 7));
                    if (HasFatalFailure()) return;
                }
            }
        }
    }
}

TEST(Matmul, FloatRowsNeedNotBeAMultipleOfTheLanes) {
    for (const DType type : {DType::F32, DType::F16, DType::BF16}) {
        for (const std::size_t columns : {1u, 2u, 15u, 17u, 31u, 70u, 333u, 1043u}) {
            for (const std::size_t rows : {1u, 4u, 7u}) {
                for (const std::size_t tokens : {1u, 3u, 4u, 5u, 8u}) {
                    expect_all_levels_equal(type, {rows, columns, tokens}, random_values(tokens * columns, 5));
                    if (HasFatalFailure()) return;
                }
            }
        }
    }
}

TEST(Matmul, FloatsWithManyColumnsAndTokensCrossEveryInnerBorder) {
    for (const DType type : {DType::F32, DType::F16, DType::BF16}) {
        for (const std::size_t columns : {5u, 576u, 590u, 1040u, 2075u}) {
            for (const std::size_t tokens : {1u, 3u, 6u, 8u, 100u, 139u}) {
                expect_all_levels_equal(type, {83, columns, tokens}, random_values(tokens * columns, 9));
                if (HasFatalFailure()) return;
            }
        }
    }
}

// The product of weights with activations arranged in tiles; bytes between and after the tiles are never numbers.
std::vector<float> tiled_product(const Kernels& kernels, DType type, const std::vector<std::byte>& weights,
                                 const Case& c, const std::vector<float>& x) {
    const std::size_t each = kernels.float_tiles.tile_tokens;
    const std::size_t row = c.columns * sizeof(float);
    std::vector<std::byte> tiles((c.tokens + each - 1) / each * each * row, std::byte{0xff});
    for (std::size_t t = 0; t < c.tokens; t += each) {
        kernels.float_tiles.tile({.rows = reinterpret_cast<const std::byte*>(x.data() + t * c.columns),
                                  .row_bytes = row,
                                  .tokens = std::min(each, c.tokens - t),
                                  .columns = c.columns,
                                  .out = tiles.data() + t * row});
    }
    std::vector<float> out(c.rows * c.tokens, -12345.0f);
    MatmulTask task = matmul_task(type, weights, c.rows, c.columns, tiles, c.tokens, out);
    task.activation_row_bytes = row;
    std::vector<std::byte> scratch(kernels.float_tiles.scratch_bytes(c.columns), std::byte{0xff});
    task.scratch = scratch.data();
    kernels.float_tiles.matmul[static_cast<std::size_t>(type)](task);
    return out;
}

TEST(Matmul, FloatTilesGiveTheBitsOfRows) {
    for (const DType type : {DType::F32, DType::F16, DType::BF16}) {
        for (const std::size_t columns : {16u, 48u, 1024u, 1040u, 2064u, 8224u}) {
            for (const std::size_t tokens : {1u, 2u, 3u, 4u, 20u, 40u, 130u, 270u}) {
                // More rows than are widened at once; eight of them are half a block.
                const Case c{columns <= 48 ? 136u : 24u, columns, tokens};
                const std::vector<std::byte> weights = random_weights(type, c.rows * columns, columns + tokens);
                const std::vector<float> x = random_values(tokens * columns, 3);
                const std::vector<std::byte> rows = make_activations(reference(), type, x, columns);
                std::vector<float> expected(c.rows * tokens);
                run_matmul(reference(), type, matmul_task(type, weights, c.rows, columns, rows, tokens, expected));
                for (const Kernels& kernels : supported_kernels()) {
                    if (kernels.float_tiles.tile_tokens == 0) continue;
                    ASSERT_TRUE(same_bits(tiled_product(kernels, type, weights, c, x), expected))
                        << kernels.level << " " << traits(type).name << " columns " << columns << " tokens " << tokens;
                }
            }
        }
    }
}

// Zeros of either sign, subnormals, infinities and what is not a number, against activations so small that products
// vanish, so small that sums of them do, and so large that sums overflow.
TEST(Matmul, SpecialHalvesAreWidenedExactly) {
    constexpr std::size_t kRows = 13;
    constexpr std::size_t kColumns = 83;
    constexpr std::uint16_t kSpecial[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff,
                                          0x83ff, 0x0400, 0x3c00, 0xbc00, 0x7bff};
    for (const float scale : {1e-38f, 0x1p-103f, 0x1p-101f, 0x1p-99f, 1.0f, 0x1p+15f, 1e38f}) {
        for (const unsigned rare : {0x0001u, 0x7c00u, 0xfc00u, 0x7e00u}) {
            std::vector<std::byte> weights(kRows * kColumns * 2);
            for (std::size_t i = 0; i < kRows * kColumns; ++i) {
                std::uint16_t half = kSpecial[random_bits(11, i) % std::size(kSpecial)];
                if (i % 61 == 0) half = static_cast<std::uint16_t>(rare);
                std::memcpy(weights.data() + 2 * i, &half, 2);
            }
            for (const std::size_t tokens : {1u, 2u, 3u, 4u, 7u}) {
                std::vector<float> x = random_values(tokens * kColumns, 13);
                for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 7 == 0 ? 0.0f : x[i] * scale;
                const std::vector<std::byte> activations = make_activations(reference(), DType::F16, x, kColumns);
                std::vector<float> expected(kRows * tokens);
                run_matmul(reference(), DType::F16,
                           matmul_task(DType::F16, weights, kRows, kColumns, activations, tokens, expected));
                for (const Kernels& kernels : supported_kernels()) {
                    std::vector<float> actual(kRows * tokens);
                    run_matmul(kernels, DType::F16,
                               matmul_task(DType::F16, weights, kRows, kColumns, activations, tokens, actual));
                    EXPECT_TRUE(same_bits(actual, expected))
                        << kernels.level << " tokens " << tokens << " scale " << scale << " rare " << rare;
                }
            }
        }
    }
}

// One -0 among sums that underflow: the only place where the sign of a zero weight can be seen.
TEST(Matmul, TheSignOfAZeroHalfIsKeptWhereASumUnderflows) {
    constexpr std::size_t kRows = 8;
    constexpr std::size_t kColumns = 32;
    std::vector<std::byte> weights(kRows * kColumns * 2);
    for (std::size_t i = 0; i < kRows * kColumns; ++i) {
        // 2^-24 and then a zero in each lane: negative ones in odd rows.
        std::uint16_t half = i % kColumns < 16 ? 0x8001 : 0x0000;
        if (i / kColumns % 2 == 1 && i % kColumns >= 16) half = 0x8000;
        std::memcpy(weights.data() + 2 * i, &half, 2);
    }
    for (const std::size_t tokens : {1u, 2u, 6u}) {
        const std::vector<float> x(tokens * kColumns, 0x1p-130f);
        const std::vector<std::byte> activations = make_activations(reference(), DType::F16, x, kColumns);
        for (const Kernels& kernels : supported_kernels()) {
            std::vector<float> out(kRows * tokens, 1.0f);
            run_matmul(kernels, DType::F16,
                       matmul_task(DType::F16, weights, kRows, kColumns, activations, tokens, out));
            for (std::size_t i = 0; i < out.size(); ++i) {
                EXPECT_EQ(out[i], 0.0f) << kernels.level;
                EXPECT_EQ(std::signbit(out[i]), i % 2 == 1) << kernels.level << " row " << i % kRows;
            }
        }
    }
}

TEST(Matmul, TheLargestIntegersAndScalesDoNotOverflowDifferently) {
    for (const DType type : kAllTypes) {
        if (traits(type).activation == ActivationFormat::F32) continue;
        for (const float sign : {1.0f, -1.0f}) {
            const std::vector<float> x(std::size_t{5} * 512, sign * 3.0f);  // every q is 127 or -127
            for (const Fill fill : {Fill::AllOnes, Fill::Zero, Fill::Random}) {
                for (const Scales scales : {Scales::Usual, Scales::Largest, Scales::Subnormal}) {
                    expect_all_levels_equal(type, {6, 512, 5, fill, scales}, x);
                    if (HasFatalFailure()) return;
                }
            }
        }
    }
}

TEST(Matmul, MinusOneHundredAndTwentyEightIsAWeightLikeAnyOther) {
    for (const DType type : {DType::Q8_0, DType::Q6_K}) {
        const std::size_t columns = 512;
        std::vector<std::byte> weights = random_weights(type, 4 * columns, 1);
        for (std::size_t at = 0; at < weights.size(); ++at) weights[at] = std::byte{0x80};
        for (std::size_t block = 0; block < 4 * columns / traits(type).block_elements; ++block) {
            const Half one{0x3c00};
            std::memcpy(weights.data() + block * traits(type).block_bytes + half_offsets(type)[0], &one, sizeof one);
        }
        for (const float sign : {1.0f, -1.0f}) {
            const std::vector<float> x(columns, sign);
            const std::vector<std::byte> activations = make_activations(reference(), type, x, columns);
            std::vector<float> expected(4);
            run_matmul(reference(), type, matmul_task(type, weights, 4, columns, activations, 1, expected));
            for (const Kernels& kernels : supported_kernels()) {
                std::vector<float> actual(4);
                run_matmul(kernels, type, matmul_task(type, weights, 4, columns, activations, 1, actual));
                EXPECT_TRUE(same_bits(actual, expected)) << kernels.level << " " << traits(type).name;
            }
        }
    }
}

TEST(Matmul, NanAndInfiniteActivationsPoisonTheirOwnTokenOnly) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    for (const DType type : kAllTypes) {
        std::vector<float> x = random_values(std::size_t{5} * 512, 9);
        x[512 + 300] = nan;
        x[3 * 512 + 5] = -infinity;
        expect_all_levels_equal(type, {5, 512, 5}, x);
        if (HasFatalFailure()) return;

        const std::vector<std::byte> weights = random_weights(type, std::size_t{5} * 512, 3);
        const std::vector<std::byte> activations = make_activations(reference(), type, x, 512);
        std::vector<float> out(25);
        run_matmul(reference(), type, matmul_task(type, weights, 5, 512, activations, 5, out));
        for (std::size_t r = 0; r < 5; ++r) {
            for (const std::size_t t : {0u, 2u, 4u}) EXPECT_TRUE(std::isfinite(out[t * 5 + r])) << traits(type).name;
            for (const std::size_t t : {1u, 3u}) EXPECT_FALSE(std::isfinite(out[t * 5 + r])) << traits(type).name;
        }
    }
}

TEST(Matmul, AnOutputDoesNotDependOnItsCompany) {
    constexpr std::size_t kRows = 23;
    constexpr std::size_t kTokens = 11;
    constexpr std::size_t kColumns = 512;
    for (const Kernels& kernels : supported_kernels()) {
        for (const DType type : kAllTypes) {
            const std::vector<std::byte> weights = random_weights(type, kRows * kColumns, 21);
            const std::vector<std::byte> activations =
                make_activations(kernels, type, random_values(kTokens * kColumns, 22), kColumns);
            std::vector<float> whole(kRows * kTokens);
            const MatmulTask task = matmul_task(type, weights, kRows, kColumns, activations, kTokens, whole);
            run_matmul(kernels, type, task);
            for (const std::size_t step : {1u, 2u, 3u, 7u}) {
                std::vector<float> pieces(kRows * kTokens);
                for (std::size_t r = 0; r < kRows; r += step) {
                    for (std::size_t t = 0; t < kTokens; t += step) {
                        MatmulTask piece = task;
                        piece.weights += r * task.weight_row_bytes;
                        piece.rows = std::min(step, kRows - r);
                        piece.activations += t * task.activation_row_bytes;
                        piece.tokens = std::min(step, kTokens - t);
                        piece.out = pieces.data() + t * kRows + r;
                        run_matmul(kernels, type, piece);
                    }
                }
                ASSERT_TRUE(same_bits(pieces, whole)) << kernels.level << " " << traits(type).name << " step " << step;
            }
        }
    }
}

TEST(Matmul, NothingOutsideTheTileIsWritten) {
    for (const Kernels& kernels : supported_kernels()) {
        for (const DType type : kAllTypes) {
            const std::size_t rows = 5;
            const std::vector<std::byte> weights = random_weights(type, rows * 256, 4);
            const std::vector<std::byte> activations =
                make_activations(kernels, type, random_values(std::size_t{3} * 256, 6), 256);
            std::vector<float> out(3 * 9, 77.0f);
            MatmulTask task = matmul_task(type, weights, rows, 256, activations, 3, out);
            task.out_stride = 9;
            run_matmul(kernels, type, task);
            for (std::size_t t = 0; t < 3; ++t) {
                for (std::size_t r = rows; r < 9; ++r)
                    ASSERT_EQ(out[t * 9 + r], 77.0f) << kernels.level << " " << traits(type).name;
            }
        }
    }
}

TEST(Matmul, MxScalesReachFromSubnormalToTheLargest) {
    // One weight of value 1 (code 2, doubled) at 127 times an activation of 127 steps: the scale alone is left.
    std::vector<float> x(32, 0.0f);
    x[0] = 127.0f;
    const std::vector<std::byte> activations = make_activations(reference(), DType::MXFP4, x, 32);
    for (const Kernels& kernels : supported_kernels()) {
        for (const int exponent : {0, 1, 2, 3, 127, 200}) {
            std::vector<std::byte> weights(sizeof(BlockMXFP4));
            weights[0] = static_cast<std::byte>(exponent);
            weights[1] = std::byte{2};
            std::vector<float> out(1);
            run_matmul(kernels, DType::MXFP4, matmul_task(DType::MXFP4, weights, 1, 32, activations, 1, out));
            EXPECT_EQ(out[0], static_cast<float>(std::ldexp(127.0, exponent - 127)))
                << kernels.level << " " << exponent;
        }
    }
}

TEST(Kernels, EveryLevelIsCompleteAndCanBeFoundByName) {
    ASSERT_FALSE(supported_kernels().empty());
    EXPECT_EQ(supported_kernels().front().level, "reference");
    std::string ran;
    for (const Kernels& kernels : supported_kernels()) {
        EXPECT_EQ(find_kernels(kernels.level), &kernels);
        for (const DType type : kAllTypes) EXPECT_NE(kernels.matmul[static_cast<std::size_t>(type)], nullptr);
        ran += std::string(ran.empty() ? "" : " ") + std::string(kernels.level);
    }
    EXPECT_EQ(find_kernels(""), &supported_kernels().back());
    EXPECT_EQ(find_kernels("no such level"), nullptr);
    std::printf("levels tested here: %s\n", ran.c_str());
}

}  // namespace
}  // namespace hearth
