// The quantised types of the KV cache: what they keep, and that every level reads the same bits out of them.
#include <limits>

#include "tensor/codec.h"
#include "unit/kernels/test_support.h"

namespace hearth {
namespace {

using namespace kernel_test;

constexpr KvType kQuantised[] = {KvType::Q8, KvType::Q4};
constexpr std::size_t kDims[] = {1, 2, 15, 16, 24, 31, 32, 33, 47, 64, 80, 96, 128, 256, 512};

std::vector<std::byte> quantize(KvType type, const std::vector<float>& x) {
    std::vector<std::byte> row(kv_row_bytes(type, x.size()), std::byte{0x5a});
    supported_kernels().front().quantize_kv(type, x.data(), x.size(), row.data());
    return row;
}

std::vector<Half> widen(const Kernels& kernels, KvType type, const std::vector<std::byte>& rows, std::size_t dim) {
    const std::size_t count = rows.size() / kv_row_bytes(type, dim);
    std::vector<Half> out(count * dim + 8, Half{0x1234});
    kernels.widen_kv({.type = type, .rows = rows.data(), .row_count = count, .head_dim = dim, .out = out.data()});
    for (std::size_t i = count * dim; i < out.size(); ++i) EXPECT_EQ(out[i].bits, 0x1234) << "written past the end";
    out.resize(count * dim);
    return out;
}

bool same_halves(const std::vector<Half>& a, const std::vector<Half>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Half)) == 0;
}

TEST(Kv, RowsAreAsSmallAsTheyAreSaidToBe) {
    EXPECT_EQ(kv_row_bytes(KvType::F16, 64), 128u);
    EXPECT_EQ(kv_row_bytes(KvType::Q8, 64), 68u);
    EXPECT_EQ(kv_row_bytes(KvType::Q4, 64), 36u);
    EXPECT_EQ(kv_row_bytes(KvType::Q8, 80), 86u);
    EXPECT_EQ(kv_row_bytes(KvType::Q4, 80), 46u);
    EXPECT_EQ(kv_row_bytes(KvType::Q4, 3), 4u);
    const KvLayout layout{3, 2, 128, KvType::Q8};
    EXPECT_EQ(layout.block_bytes(), 3u * 2 * 2 * 64 * 136);
    EXPECT_EQ(layout.value_offset(2, 1) + layout.head_bytes(), layout.block_bytes());
}

TEST(Kv, AValueComesBackWithinHalfAStep) {
    for (const std::size_t dim : kDims) {
        const std::vector<float> x = random_values(dim, dim);
        for (const KvType type : kQuantised) {
            const std::vector<Half> back = widen(supported_kernels().front(), type, quantize(type, x), dim);
            for (std::size_t begin = 0; begin < dim; begin += kKvGroup) {
                const std::size_t end = std::min(begin + kKvGroup, dim);
                float largest = 0;
                for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
                // A step; of Q4 a whole one, because +8 becomes +7.
                const float step = type == KvType::Q8 ? largest / 127.0f / 2 : largest / 8.0f;
                for (std::size_t i = begin; i < end; ++i) {
                    ASSERT_NEAR(to_float(back[i]), x[i], step * 1.002f + largest * 0x1p-11f) << dim << " " << i;
                }
            }
        }
    }
}

TEST(Kv, GroupsOfThirtyTwoLieAsTheWeightTypesDo) {
    const std::vector<float> x = random_values(64, 5);
    std::vector<float> decoded(64);
    for (const KvType type : kQuantised) {
        const std::vector<std::byte> row = quantize(type, x);
        decode_row(type == KvType::Q8 ? DType::Q8_0 : DType::Q4_0, row.data(), decoded);
        const std::vector<Half> wide = widen(supported_kernels().front(), type, row, 64);
        for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(wide[i].bits, to_half(decoded[i]).bits) << i;
    }
}

TEST(Kv, TheLargestValueOfAGroupIsKeptBest) {
    for (const float sign : {1.0f, -1.0f}) {
        std::vector<float> x(32, 0.0f);
        x[7] = sign * 4.0f;
        const std::vector<Half> q4 = widen(supported_kernels().front(), KvType::Q4, quantize(KvType::Q4, x), 32);
        EXPECT_EQ(to_float(q4[7]), sign * 4.0f);
        EXPECT_EQ(to_float(q4[8]), 0.0f);
        x[9] = -x[7];
        const std::vector<Half> both = widen(supported_kernels().front(), KvType::Q4, quantize(KvType::Q4, x), 32);
        EXPECT_EQ(to_float(both[sign > 0 ? 7 : 9]), 4.0f);
        EXPECT_EQ(to_float(both[sign > 0 ? 9 : 7]), -3.5f);
    }
}

TEST(Kv, ZerosTinyAndHugeValuesStayInRange) {
    const Kernels& reference = supported_kernels().front();
    for (const KvType type : kQuantised) {
        for (const float size : {0.0f, 1e-40f, 1e-9f, 1e-7f, 3e-6f, 1e-3f, 6e4f}) {
            std::vector<float> x = random_values(32, 3);
            for (float& value : x) value *= size / 100.0f;
            x[5] = size;
            x[6] = -size;
            const std::vector<Half> back = widen(reference, type, quantize(type, x), 32);
            // The smallest half apart the scale may be, times what it is multiplied with.
            const float coarse = type == KvType::Q8 ? size * 0.01f + 0x1p-25f : size * 0.14f + 0x1p-24f;
            for (std::size_t i = 0; i < 32; ++i) ASSERT_NEAR(to_float(back[i]), x[i], coarse) << size << " " << i;
        }
        // What f16 could not hold either is not hidden.
        for (const float bad :
             {1e9f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
            std::vector<float> x = random_values(64, 3);
            x[40] = bad;
            const std::vector<Half> back = widen(reference, type, quantize(type, x), 64);
            EXPECT_TRUE(std::isfinite(to_float(back[31])));
            EXPECT_TRUE(std::isnan(to_float(back[40]))) << bad;
        }
    }
}

TEST(Kv, EveryLevelWidensToTheBitsOfTheReference) {
    for (const KvType type : kQuantised) {
        for (const std::size_t dim : kDims) {
            // Every integer with scales of every kind: usual, the largest, subnormal, zero of either sign, NaN.
            std::vector<std::byte> rows(67 * kv_row_bytes(type, dim));
            Random random(dim);
            for (std::byte& byte : rows) byte = static_cast<std::byte>(random.bits());
            constexpr std::uint16_t kScales[] = {0x2000, 0x9f31, 0x7bff, 0xfbff, 0x0001, 0x83ff,
                                                 0x0000, 0x8000, 0x7e00, 0x3c00, 0x0400, 0x1234};
            std::byte* group = rows.data();
            for (std::size_t row = 0; row < 67; ++row) {
                for (std::size_t begin = 0; begin < dim; begin += kKvGroup) {
                    std::memcpy(group, &kScales[random.bits() % std::size(kScales)], 2);
                    group += kv_group_bytes(type, std::min(kKvGroup, dim - begin));
                }
            }
            const std::vector<Half> expected = widen(supported_kernels().front(), type, rows, dim);
            for (const Kernels& kernels : supported_kernels()) {
                EXPECT_TRUE(same_halves(widen(kernels, type, rows, dim), expected))
                    << kernels.level << " " << kv_type_name(type) << " dim " << dim;
            }
        }
    }
}

// A cache of one head in a quantised type, and the same widened: attention must not tell them apart.
struct Caches {
    KvLayout quantised;
    KvLayout wide;
    std::vector<std::byte> quantised_pool;
    std::vector<std::byte> wide_pool;
    std::vector<std::uint32_t> table;

    Caches(KvType type, std::size_t dim, std::size_t positions) : quantised{1, 1, dim, type}, wide{1, 1, dim} {
        const std::size_t blocks = (positions + 63) / 64;
        // 0xff: NaN where no position has been written.
        quantised_pool.assign(blocks * quantised.block_bytes(), std::byte{0xff});
        wide_pool.assign(blocks * wide.block_bytes(), std::byte{0xff});
        for (std::size_t b = 0; b < blocks; ++b) table.push_back(static_cast<std::uint32_t>(blocks - 1 - b));
        for (std::size_t p = 0; p < positions; ++p) {
            store(p, quantised.key_offset(0, 0), wide.key_offset(0, 0), random_values(dim, 2 * p));
            store(p, quantised.value_offset(0, 0), wide.value_offset(0, 0), random_values(dim, 2 * p + 1));
        }
    }
    void store(std::size_t p, std::size_t offset, std::size_t wide_offset, const std::vector<float>& x) {
        std::byte* row = quantised_pool.data() + table[p / 64] * quantised.block_bytes() + offset +
                         p % 64 * quantised.position_bytes();
        supported_kernels().front().quantize_kv(quantised.type, x.data(), x.size(), row);
        auto* halves = reinterpret_cast<Half*>(wide_pool.data() + table[p / 64] * wide.block_bytes() + wide_offset +
                                               p % 64 * wide.position_bytes());
        supported_kernels().front().widen_kv({quantised.type, row, 1, x.size(), halves});
    }
    AttentionTask task(bool widened, const std::vector<float>& query, std::size_t first, std::size_t last,
                       std::vector<float>& out) const {
        const KvLayout& layout = widened ? wide : quantised;
        return {.query = query.data(),
                .out = out.data(),
                .group = query.size() / layout.head_dim,
                .head_dim = layout.head_dim,
                .pool = (widened ? wide_pool : quantised_pool).data(),
                .block_table = table.data(),
                .block_bytes = layout.block_bytes(),
                .key_offset = layout.key_offset(0, 0),
                .value_offset = layout.value_offset(0, 0),
                .first = first,
                .last = last,
                .scale = 1.0f / std::sqrt(static_cast<float>(layout.head_dim)),
                .kv_type = layout.type};
    }
};

TEST(Kv, AttentionOverQuantisedBlocksHasTheBitsOfTheHalvesTheyMean) {
    struct Range {
        std::size_t first;
        std::size_t last;
    };
    for (const KvType type : kQuantised) {
        for (const std::size_t dim : {16u, 24u, 64u, 80u, 128u, 512u}) {
            const Caches caches(type, dim, 200);
            for (const std::size_t group : {1u, 3u, 5u}) {
                const std::vector<float> query = random_values(group * dim, group);
                for (const Range range : {Range{0, 0}, Range{0, 62}, Range{0, 199}, Range{61, 130}, Range{65, 65}}) {
                    std::vector<float> expected(query.size());
                    supported_kernels().front().attention(caches.task(true, query, range.first, range.last, expected));
                    for (const Kernels& kernels : supported_kernels()) {
                        std::vector<float> out(query.size(), -777.0f);
                        kernels.attention(caches.task(false, query, range.first, range.last, out));
                        ASSERT_TRUE(same_bits(out, expected)) << kernels.level << " dim " << dim << " group " << group
                                                              << " " << range.first << ".." << range.last;
                    }
                }
            }
        }
    }
}

TEST(Kv, TilesAndSplitsOfQuantisedBlocksHaveTheBitsOfTheirTokens) {
    constexpr std::size_t kGroup = 3;
    constexpr std::size_t kTokens = 40;
    constexpr std::size_t kPosition = 110;
    for (const KvType type : kQuantised) {
        for (const std::size_t dim : {24u, 64u, 80u, 128u}) {
            const Caches caches(type, dim, kPosition + kTokens);
            const std::vector<float> query = random_values(kTokens * kGroup * dim, dim);
            for (const std::size_t window : {0u, 70u}) {
                std::vector<float> expected;
                for (std::size_t t = 0; t < kTokens; ++t) {
                    const auto begin = query.begin() + static_cast<std::ptrdiff_t>(t * kGroup * dim);
                    const std::vector<float> one(begin, begin + static_cast<std::ptrdiff_t>(kGroup * dim));
                    std::vector<float> out(one.size());
                    const std::size_t last = kPosition + t;
                    const std::size_t first = window != 0 && last + 1 > window ? last + 1 - window : 0;
                    supported_kernels().front().attention(caches.task(true, one, first, last, out));
                    expected.insert(expected.end(), out.begin(), out.end());
                }
                for (const Kernels& kernels : supported_kernels()) {
                    std::vector<float> out(query.size(), -777.0f);
                    const AttentionTask task = caches.task(false, query, 0, kPosition, out);
                    kernels.attention_tile({.query = query.data(),
                                            .query_stride = kGroup * dim,
                                            .out = out.data(),
                                            .out_stride = kGroup * dim,
                                            .tokens = kTokens,
                                            .group = kGroup,
                                            .head_dim = dim,
                                            .pool = task.pool,
                                            .block_table = task.block_table,
                                            .block_bytes = task.block_bytes,
                                            .key_offset = task.key_offset,
                                            .value_offset = task.value_offset,
                                            .position = kPosition,
                                            .window = window,
                                            .scale = task.scale,
                                            .kv_type = type});
                    ASSERT_TRUE(same_bits(out, expected)) << kernels.level << " dim " << dim << " window " << window;
                }
            }
            const std::vector<float> one(query.begin(), query.begin() + static_cast<std::ptrdiff_t>(kGroup * dim));
            std::vector<float> expected(one.size());
            supported_kernels().front().attention(caches.task(true, one, 0, kPosition, expected));
            for (const Kernels& kernels : supported_kernels()) {
                std::vector<float> out(one.size(), -777.0f);
                std::vector<float> splits(2 * kGroup * attention_split_floats(dim));
                kernels.attention_splits({.attention = caches.task(false, one, 0, kPosition, out),
                                          .first_block = 0,
                                          .block_count = 2,
                                          .splits = splits.data()});
                kernels.attention_merge(
                    {.splits = splits.data(), .block_count = 2, .group = kGroup, .head_dim = dim, .out = out.data()});
                EXPECT_TRUE(same_bits(out, expected)) << kernels.level << " dim " << dim;
            }
        }
    }
}

}  // namespace
}  // namespace hearth
