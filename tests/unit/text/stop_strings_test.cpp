#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/rng.h"

namespace hearth {
namespace {

TEST(StopStrings, WithoutStopsEverythingIsKept) {
    const StopStrings stops({"", ""});
    EXPECT_TRUE(stops.empty());
    const StopStrings::Scan scan = stops.scan(0, "anything");
    EXPECT_FALSE(scan.stopped);
    EXPECT_EQ(scan.keep, 8u);
    EXPECT_EQ(scan.held, 0u);
}

TEST(StopStrings, FindsAStopInsideOnePiece) {
    const StopStrings stops({"END"});
    const StopStrings::Scan scan = stops.scan(0, "text END more");
    EXPECT_TRUE(scan.stopped);
    EXPECT_EQ(scan.keep, 5u);
    EXPECT_EQ(scan.withdrawn, 0u);
}

TEST(StopStrings, WithdrawsWhatBeganInAnEarlierPiece) {
    const StopStrings stops({"<|end|>"});
    const StopStrings::Scan first = stops.scan(0, "ok <|e");
    EXPECT_FALSE(first.stopped);
    EXPECT_EQ(first.held, 3u);
    const StopStrings::Scan second = stops.scan(first.state, "nd|>!");
    EXPECT_TRUE(second.stopped);
    EXPECT_EQ(second.keep, 0u);
    EXPECT_EQ(second.withdrawn, 3u);
}

TEST(StopStrings, HoldsAcrossPiecesUntilTheBytesAreCertain) {
    const StopStrings stops({"abcd"});
    const StopStrings::Scan first = stops.scan(0, "ab");
    const StopStrings::Scan second = stops.scan(first.state, "c");
    EXPECT_EQ(second.held, 3u);  // two of them from the piece before
    const StopStrings::Scan third = stops.scan(second.state, "x");
    EXPECT_FALSE(third.stopped);
    EXPECT_EQ(third.held, 0u);
}

TEST(StopStrings, OfStopsThatEndTogetherTheLongestCounts) {
    const StopStrings stops({"c", "abc"});
    const StopStrings::Scan scan = stops.scan(0, "xabc");
    EXPECT_TRUE(scan.stopped);
    EXPECT_EQ(scan.keep, 1u);
}

TEST(StopStrings, AStopInsideALongerOneEndsFirst) {
    const StopStrings stops({"abcd", "b"});
    const StopStrings::Scan scan = stops.scan(0, "abcd");
    EXPECT_TRUE(scan.stopped);
    EXPECT_EQ(scan.keep, 1u);
}

std::string random_text(std::uint64_t seed, std::uint64_t stream, std::size_t length) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i) text.push_back(static_cast<char>('a' + random_bits(seed, stream, i) % 2));
    return text;
}

struct Found {
    bool stopped = false;
    std::size_t begin = 0;
    std::size_t end = 0;
};

// The first completed stop, the longest of those that end there, by trying every place.
Found search_naively(const std::vector<std::string>& stops, const std::string& text) {
    for (std::size_t end = 1; end <= text.size(); ++end) {
        std::size_t longest = 0;
        for (const std::string& stop : stops) {
            if (!stop.empty() && stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
                longest = std::max(longest, stop.size());
            }
        }
        if (longest > 0) return {true, end - longest, end};
    }
    return {};
}

std::size_t held_naively(const std::vector<std::string>& stops, const std::string& text) {
    for (std::size_t length = text.size(); length > 0; --length) {
        for (const std::string& stop : stops) {
            if (stop.size() >= length && text.compare(text.size() - length, length, stop, 0, length) == 0)
                return length;
        }
    }
    return 0;
}

TEST(StopStrings, AgreesWithATrivialSearchHoweverTheTextIsCut) {
    int found = 0;
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        std::vector<std::string> stops;
        for (std::uint64_t i = 0; i < 1 + seed % 4; ++i)
            stops.push_back(random_text(seed, i, 2 + random_bits(seed, 90, i) % 6));
        const StopStrings automaton(stops);
        const std::string text = random_text(seed, 50, 24);
        const Found expected = search_naively(stops, text);
        StopStrings::State state = 0;
        bool stopped = false;
        std::uint64_t draw = 0;
        for (std::size_t begin = 0; begin < text.size() && !stopped;) {
            // Empty pieces come too: each place may give one before it goes on.
            const std::size_t wanted = random_bits(seed, 60, ++draw) % 5;
            const std::size_t length = std::min(wanted, text.size() - begin);
            const StopStrings::Scan scan = automaton.scan(state, std::string_view(text).substr(begin, length));
            state = scan.state;
            stopped = scan.stopped;
            if (stopped) {
                ASSERT_TRUE(expected.stopped);
                EXPECT_EQ(begin + scan.keep - scan.withdrawn, expected.begin);
                EXPECT_TRUE(scan.keep == 0 || scan.withdrawn == 0);
                ++found;
            } else {
                EXPECT_EQ(scan.held, held_naively(stops, text.substr(0, begin + length)));
            }
            begin += length;
        }
        EXPECT_EQ(stopped, expected.stopped);
    }
    EXPECT_GT(found, 500);
}

TEST(StopStrings, LongTextsOfAlmostStopsTakeLinearTime) {
    const StopStrings stops({std::string(10'000, 'a') + "b"});
    StopStrings::State state = 0;
    const std::string text(1 << 20, 'a');
    const StopStrings::Scan scan = stops.scan(state, text);
    EXPECT_FALSE(scan.stopped);
    EXPECT_EQ(scan.held, 10'000u);
}

}  // namespace
}  // namespace hearth
