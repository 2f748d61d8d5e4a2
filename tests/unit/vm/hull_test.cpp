#include "vm/hull.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace hearth::vm {
namespace {

struct Entry {
    std::int64_t x, y, value;
};

std::int64_t by_hand(const std::vector<Entry>& entries, std::int64_t qx, std::int64_t qy, Tie tie) {
    std::int64_t best = 0;
    std::int64_t latest = 0;
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const std::int64_t score = qx * entries[i].x + qy * entries[i].y;
        if (i > 0 && score < best) continue;
        if (i == 0 || score > best) sum = 0;
        best = score;
        latest = entries[i].value;
        sum += entries[i].value;
    }
    return tie == Tie::Latest ? latest : sum;
}

class HullTies : public ::testing::TestWithParam<Tie> {};

TEST_P(HullTies, AreTheWinnersOfAFullSearch) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        HullCache hull(1, GetParam());
        std::vector<Entry> entries;
        for (std::uint64_t i = 0; i < 300; ++i) {
            // Few different keys, so that equal and collinear ones are common; every other seed keys on a parabola.
            const std::int64_t k = static_cast<std::int64_t>(random_bits(seed, i, 0) % 23);
            const std::int64_t y = seed % 2 == 0 ? -k * k : static_cast<std::int64_t>(random_bits(seed, i, 1) % 17);
            entries.push_back({2 * k, y, static_cast<std::int64_t>(i) * 7 % 101});
            hull.insert(entries.back().x, entries.back().y, &entries.back().value);
            const std::int64_t qx = static_cast<std::int64_t>(random_bits(seed, i, 2) % 41) - 20;
            std::int64_t found = 0;
            for (const std::int64_t qy : {1, 3, -1}) {
                hull.find(qx, qy, &found);
                ASSERT_EQ(found, by_hand(entries, qx, qy, GetParam())) << seed << " " << i << " " << qx << " " << qy;
            }
            hull.find(0, 0, &found);
            ASSERT_EQ(found, by_hand(entries, 0, 0, GetParam()));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Both, HullTies, ::testing::Values(Tie::Latest, Tie::Sum));

TEST(Hull, KeepsOnlyWhatCanWin) {
    HullCache hull(1, Tie::Latest);
    const std::int64_t value = 1;
    for (std::int64_t i = 0; i < 1000; ++i) hull.insert(i % 10, -(i % 10) * (i % 10), &value);
    EXPECT_LE(hull.size(), 20u);
}

}  // namespace
}  // namespace hearth::vm
