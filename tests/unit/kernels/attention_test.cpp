// Attention against double precision, and by bits at every level.
#include <algorithm>
#include <limits>

#include "unit/kernels/test_support.h"

namespace hearth {
namespace {

using namespace kernel_test;

// Two layers' worth of K and V in each block, blocks in shuffled order, and NaN wherever no position has been written.
struct Cache {
    std::size_t head_dim;
    std::size_t block_bytes;
    std::vector<Half> pool;
    std::vector<std::uint32_t> table;

    Cache(std::size_t dim, std::size_t positions, std::uint64_t seed)
        : head_dim(dim), block_bytes(dim * 64 * 2 * 2 + 64) {
        const std::size_t blocks = (positions + 63) / 64;
        pool.assign(blocks * block_bytes / 2, Half{0x7e00});
        Random random(seed);
        for (std::size_t b = 0; b < blocks; ++b) table.push_back(static_cast<std::uint32_t>(blocks - 1 - b));
        for (std::size_t p = 0; p < positions; ++p) {
            for (std::size_t d = 0; d < dim; ++d) {
                key(p)[d] = to_half(random.value() * 0.7f);
                value(p)[d] = to_half(random.value());
            }
        }
    }
    Half* key(std::size_t p) { return pool.data() + table[p / 64] * block_bytes / 2 + 16 + p % 64 * head_dim; }
    Half* value(std::size_t p) { return key(p) + 64 * head_dim; }

    AttentionTask task(const std::vector<float>& query, std::size_t first, std::size_t last,
                       std::vector<float>& out) const {
        return {.query = query.data(),
                .out = out.data(),
                .group = query.size() / head_dim,
                .head_dim = head_dim,
                .pool = reinterpret_cast<const std::byte*>(pool.data()),
                .block_table = table.data(),
                .block_bytes = block_bytes,
                .key_offset = 32,
                .value_offset = 32 + 64 * head_dim * 2,
                .first = first,
                .last = last,
                .scale = 1.0f / std::sqrt(static_cast<float>(head_dim))};
    }
};

std::vector<float> attend(const Kernels& kernels, const Cache& cache, const std::vector<float>& query,
                          std::size_t first, std::size_t last) {
    std::vector<float> out(query.size(), -777.0f);
    kernels.attention(cache.task(query, first, last, out));
    return out;
}

std::vector<double> truth(Cache& cache, const std::vector<float>& query, std::size_t first, std::size_t last) {
    const std::size_t dim = cache.head_dim;
    std::vector<double> out(query.size());
    for (std::size_t head = 0; head < query.size() / dim; ++head) {
        std::vector<double> scores;
        double largest = -1e300;
        for (std::size_t p = first; p <= last; ++p) {
            double dot = 0.0;
            for (std::size_t d = 0; d < dim; ++d) {
                dot += static_cast<double>(query[head * dim + d]) * static_cast<double>(to_float(cache.key(p)[d]));
            }
            scores.push_back(dot / std::sqrt(static_cast<double>(dim)));
            largest = std::max(largest, scores.back());
        }
        double sum = 0.0;
        for (double& score : scores) sum += score = std::exp(score - largest);
        for (std::size_t p = first; p <= last; ++p) {
            for (std::size_t d = 0; d < dim; ++d) {
                out[head * dim + d] += scores[p - first] / sum * static_cast<double>(to_float(cache.value(p)[d]));
            }
        }
    }
    return out;
}

struct Range {
    std::size_t first;
    std::size_t last;
};
constexpr Range kRanges[] = {{0, 0},   {0, 1},   {0, 62},  {0, 63}, {0, 64},  {0, 127},  {0, 200},
                             {63, 63}, {63, 64}, {64, 64}, {5, 60}, {70, 75}, {60, 130}, {129, 259}};

TEST(Attention, EveryLevelGivesTheBitsOfTheReference) {
    for (const std::size_t dim : {2u, 16u, 24u, 64u, 80u, 96u, 128u, 256u, 512u}) {
        Cache cache(dim, 260, dim);
        for (const std::size_t group : {1u, 2u, 3u, 4u, 7u, 8u, 9u, 17u}) {
            if (dim > 128 && group > 4) continue;
            const std::vector<float> query = random_values(group * dim, group);
            for (const Range range : kRanges) {
                const std::vector<float> expected =
                    attend(supported_kernels().front(), cache, query, range.first, range.last);
                for (const Kernels& kernels : supported_kernels()) {
                    ASSERT_TRUE(same_bits(attend(kernels, cache, query, range.first, range.last), expected))
                        << kernels.level << " dim " << dim << " group " << group << " " << range.first << ".."
                        << range.last;
                }
            }
        }
    }
}

// Each token alone, by the reference.
std::vector<float> attend_tokens(const Cache& cache, const std::vector<float>& query, std::size_t group,
                                 std::size_t position, std::size_t window) {
    const std::size_t row = group * cache.head_dim;
    std::vector<float> out;
    for (std::size_t t = 0; t < query.size() / row; ++t) {
        const std::vector<float> one(query.begin() + static_cast<std::ptrdiff_t>(t * row),
                                     query.begin() + static_cast<std::ptrdiff_t>((t + 1) * row));
        const std::size_t last = position + t;
        const std::size_t first = window != 0 && last + 1 > window ? last + 1 - window : 0;
        const std::vector<float> token = attend(supported_kernels().front(), cache, one, first, last);
        out.insert(out.end(), token.begin(), token.end());
    }
    return out;
}

// All tokens as one tile, rows a little further apart than they have to be; what lies between must stay.
std::vector<float> attend_tile(const Kernels& kernels, const Cache& cache, const std::vector<float>& query,
                               std::size_t group, std::size_t position, std::size_t window) {
    const std::size_t row = group * cache.head_dim;
    const std::size_t tokens = query.size() / row;
    const std::size_t query_stride = row + 3;
    const std::size_t out_stride = row + 5;
    std::vector<float> spread(tokens * query_stride, std::numeric_limits<float>::quiet_NaN());
    std::vector<float> out(tokens * out_stride, -777.0f);
    for (std::size_t t = 0; t < tokens; ++t) {
        std::copy_n(query.begin() + static_cast<std::ptrdiff_t>(t * row), row,
                    spread.begin() + static_cast<std::ptrdiff_t>(t * query_stride));
    }
    kernels.attention_tile({.query = spread.data(),
                            .query_stride = query_stride,
                            .out = out.data(),
                            .out_stride = out_stride,
                            .tokens = tokens,
                            .group = group,
                            .head_dim = cache.head_dim,
                            .pool = reinterpret_cast<const std::byte*>(cache.pool.data()),
                            .block_table = cache.table.data(),
                            .block_bytes = cache.block_bytes,
                            .key_offset = 32,
                            .value_offset = 32 + 64 * cache.head_dim * 2,
                            .position = position,
                            .window = window,
                            .scale = 1.0f / std::sqrt(static_cast<float>(cache.head_dim))});
    std::vector<float> packed;
    for (std::size_t t = 0; t < tokens; ++t) {
        const auto begin = out.begin() + static_cast<std::ptrdiff_t>(t * out_stride);
        packed.insert(packed.end(), begin, begin + static_cast<std::ptrdiff_t>(row));
        for (std::size_t i = row; i < out_stride; ++i) EXPECT_EQ(begin[static_cast<std::ptrdiff_t>(i)], -777.0f);
    }
    return packed;
}

struct Tile {
    std::size_t position;
    std::size_t tokens;
    std::size_t window;
};
// A tile at the start, inside a block, across one and two of their borders; windows that hide nothing, begin inside a
// block, and are shorter than the tile.
constexpr Tile kTiles[] = {{0, 1, 0},   {0, 7, 0},    {0, 64, 0},   {5, 3, 0},    {60, 9, 0},
                           {64, 64, 0}, {100, 33, 0}, {3, 130, 0},  {0, 64, 200}, {40, 31, 1},
                           {70, 61, 5}, {90, 45, 64}, {30, 64, 100}};

TEST(Attention, ATileHasTheBitsOfItsTokens) {
    for (const std::size_t dim : {2u, 24u, 32u, 64u, 80u, 128u, 256u}) {
        const Cache cache(dim, 164, dim + 9);
        const std::vector<float> values = random_values(std::size_t{130} * 8 * dim, dim);
        for (const std::size_t group : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u}) {
            if (dim != 64 && group != 1 && group != 2 && group != 7) continue;
            for (const Tile& tile : kTiles) {
                const std::vector<float> query(values.begin(),
                                               values.begin() + static_cast<std::ptrdiff_t>(tile.tokens * group * dim));
                const std::vector<float> expected = attend_tokens(cache, query, group, tile.position, tile.window);
                for (const Kernels& kernels : supported_kernels().subspan(1)) {
                    ASSERT_TRUE(
                        same_bits(attend_tile(kernels, cache, query, group, tile.position, tile.window), expected))
                        << kernels.level << " dim " << dim << " group " << group << " position " << tile.position
                        << " tokens " << tile.tokens << " window " << tile.window;
                }
            }
        }
        const std::vector<float> query(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(5 * dim));
        ASSERT_TRUE(same_bits(attend_tile(supported_kernels().front(), cache, query, 1, 62, 9),
                              attend_tokens(cache, query, 1, 62, 9)));
    }
}

TEST(Attention, ATileOfMoreRowsThanAreTakenAtOnceHasTheSameBits) {
    const Cache cache(32, 164, 3);
    const std::size_t group = 17;
    const std::vector<float> query = random_values(100 * group * 32, 8);
    const std::vector<float> expected = attend_tokens(cache, query, group, 50, 70);
    for (const Kernels& kernels : supported_kernels()) {
        EXPECT_TRUE(same_bits(attend_tile(kernels, cache, query, group, 50, 70), expected)) << kernels.level;
    }
}

// Blocks in portions of `step`, the last portion first, then merged.
std::vector<float> attend_in_splits(const Kernels& kernels, const Cache& cache, const std::vector<float>& query,
                                    Range range, std::size_t step) {
    const std::size_t group = query.size() / cache.head_dim;
    const std::size_t first_block = range.first / 64;
    const std::size_t count = range.last / 64 - first_block + 1;
    const std::size_t entry = attention_split_floats(cache.head_dim);
    std::vector<float> splits(count * group * entry, -777.0f);
    std::vector<float> out(query.size(), -777.0f);
    std::vector<float> unused;
    for (std::size_t end = count; end > 0;) {
        const std::size_t portion = std::min(end, step);
        end -= portion;
        kernels.attention_splits({.attention = cache.task(query, range.first, range.last, unused),
                                  .first_block = first_block + end,
                                  .block_count = portion,
                                  .splits = splits.data() + end * group * entry});
    }
    kernels.attention_merge(
        {.splits = splits.data(), .block_count = count, .group = group, .head_dim = cache.head_dim, .out = out.data()});
    return out;
}

TEST(Attention, SplitsThatAreMergedHaveTheBitsOfTheWhole) {
    for (const std::size_t dim : {2u, 24u, 32u, 64u, 80u, 128u, 256u, 512u}) {
        const Cache cache(dim, 260, dim + 1);
        for (const std::size_t group : {1u, 2u, 3u, 4u, 5u, 7u, 8u}) {
            if (dim > 128 && group > 4) continue;
            const std::vector<float> query = random_values(group * dim, group);
            for (const Range range : kRanges) {
                const std::vector<float> expected =
                    attend(supported_kernels().front(), cache, query, range.first, range.last);
                for (const Kernels& kernels : supported_kernels()) {
                    for (const std::size_t step : {1u, 2u, 100u}) {
                        ASSERT_TRUE(same_bits(attend_in_splits(kernels, cache, query, range, step), expected))
                            << kernels.level << " dim " << dim << " group " << group << " " << range.first << ".."
                            << range.last << " by " << step;
                    }
                }
            }
        }
    }
}

// Scores far apart, so that weights underflow, and values that are tiny and of either sign of zero.
TEST(Attention, ExtremesHaveTheBitsOfTheReferenceToo) {
    const std::size_t dim = 64;
    Cache cache(dim, 200, 4);
    Random random(77);
    for (std::size_t p = 0; p < 200; ++p) {
        for (std::size_t d = 0; d < dim; ++d) {
            cache.key(p)[d].bits =
                static_cast<std::uint16_t>(random.bits() % 5 == 0 ? random.bits() & 0x8000 : random.bits() & 0xdfff);
            cache.value(p)[d].bits =
                static_cast<std::uint16_t>(random.bits() % 3 == 0 ? random.bits() & 0x8000 : random.bits() & 0x8003);
        }
    }
    for (const float size : {0.0f, 1e-30f, 1e-3f, 1.0f, 3e4f}) {
        std::vector<float> query = random_values(3 * 4 * dim, 6);
        for (float& q : query) q *= size;
        const std::vector<float> expected = attend_tokens(cache, query, 3, 190, 150);
        for (const Kernels& kernels : supported_kernels()) {
            EXPECT_TRUE(same_bits(attend_tile(kernels, cache, query, 3, 190, 150), expected)) << kernels.level;
        }
    }
}

TEST(Attention, AgreesWithDoublePrecision) {
    for (const std::size_t dim : {64u, 80u, 128u}) {
        Cache cache(dim, 260, dim + 5);
        const std::vector<float> query = random_values(2 * dim, 3);
        for (const Range range : kRanges) {
            const std::vector<double> expected = truth(cache, query, range.first, range.last);
            const std::vector<float> actual =
                attend(supported_kernels().front(), cache, query, range.first, range.last);
            for (std::size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 3e-4) << i;
        }
    }
}

TEST(Attention, AHeadDoesNotDependOnItsGroup) {
    const std::size_t dim = 96;
    Cache cache(dim, 200, 1);
    const std::vector<float> query = random_values(11 * dim, 2);
    for (const Kernels& kernels : supported_kernels()) {
        const std::vector<float> together = attend(kernels, cache, query, 3, 190);
        for (std::size_t head = 0; head < 11; ++head) {
            const std::vector<float> one(query.begin() + static_cast<std::ptrdiff_t>(head * dim),
                                         query.begin() + static_cast<std::ptrdiff_t>((head + 1) * dim));
            const std::vector<float> alone = attend(kernels, cache, one, 3, 190);
            const std::vector<float> part(together.begin() + static_cast<std::ptrdiff_t>(head * dim),
                                          together.begin() + static_cast<std::ptrdiff_t>((head + 1) * dim));
            EXPECT_TRUE(same_bits(part, alone)) << kernels.level << " " << head;
        }
    }
}

TEST(Attention, NanComesOutAsNan) {
    const std::size_t dim = 64;
    for (const Kernels& kernels : supported_kernels()) {
        for (const std::size_t at : {0u, 63u, 64u, 99u}) {
            Cache cache(dim, 100, 1);
            std::vector<float> query = random_values(2 * dim, 2);
            cache.key(at)[5] = Half{0x7e00};
            for (const float value : attend(kernels, cache, query, 0, 99))
                EXPECT_TRUE(std::isnan(value)) << kernels.level;
        }
        Cache cache(dim, 100, 1);
        std::vector<float> query = random_values(2 * dim, 2);
        query[dim + 1] = std::numeric_limits<float>::infinity();
        const std::vector<float> out = attend(kernels, cache, query, 0, 99);
        for (std::size_t d = 0; d < dim; ++d) {
            EXPECT_TRUE(std::isfinite(out[d])) << kernels.level;
            EXPECT_TRUE(std::isnan(out[dim + d])) << kernels.level;
        }
    }
}

}  // namespace
}  // namespace hearth
