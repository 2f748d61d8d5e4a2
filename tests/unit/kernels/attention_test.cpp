// Attention against double precision, and by bits at every level.
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
