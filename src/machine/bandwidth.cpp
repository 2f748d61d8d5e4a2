// Sums a large buffer again and again; the sums only keep the compiler from skipping the reads.
#include "machine/bandwidth.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace hearth {
namespace {

constexpr std::size_t kChunkWords = (std::size_t{1} << 20) / sizeof(std::uint64_t);

enum class Into : std::uint8_t { SecondCache, FirstCache };

// How much is read depends on how, and on the machine. Asking for what comes later brings a Neoverse-V1 a quarter more
// and a Neoverse-N1 a tenth less; reading in several places by turns brings a Sapphire Rapids half as much again, and
// an Emerald Rapids a tenth more if lines are asked for into the first cache.
template <std::size_t kPlaces, std::size_t kAheadBytes = 0, Into kInto = Into::SecondCache>
std::uint64_t sum_words(std::span<const std::uint64_t> words) {
    // Eight sums in flight, so that the additions do not wait for each other.
    constexpr std::size_t kLanes = 8;
    std::uint64_t sums[kLanes] = {};
    const std::size_t part = words.size() / kPlaces / kLanes * kLanes;
    for (std::size_t i = 0; i < part; i += kLanes) {
        for (std::size_t place = 0; place < kPlaces; ++place) {
            const std::uint64_t* line = words.data() + place * part + i;
            if constexpr (kAheadBytes > 0) {
                const std::uint64_t* ahead = line + kAheadBytes / sizeof *line;
                if constexpr (kInto == Into::FirstCache) {
                    fetch_line_near(ahead);
                } else {
                    fetch_line(ahead);
                }
            }
            for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += line[lane];
        }
    }
    for (std::size_t i = kPlaces * part; i < words.size(); ++i) sums[0] += words[i];
    std::uint64_t total = 0;
    for (const std::uint64_t sum : sums) total += sum;
    return total;
}

using Sum = std::uint64_t (*)(std::span<const std::uint64_t> words);
constexpr Sum kWays[] = {sum_words<1, 12 << 10>, sum_words<1>, sum_words<8, 2 << 10>, sum_words<8>,
                         sum_words<8, 1536, Into::FirstCache>};

}  // namespace

std::size_t bytes_beyond_caches(const Topology& topology) {
    constexpr std::size_t kLeast = std::size_t{192} << 20;
    constexpr std::uint64_t kMost = std::uint64_t{4} << 30;  // whatever the machine says of itself
    unsigned last_level = 0;
    std::uint64_t last_bytes = 0;
    for (const Cache& cache : topology.caches) {
        if (cache.level < last_level) continue;
        if (cache.level > last_level) last_bytes = 0;
        last_level = cache.level;
        last_bytes += std::min(cache.size_bytes, kMost) * std::min(cache.count, 1024u);
    }
    return static_cast<std::size_t>(std::clamp<std::uint64_t>(last_bytes / 2 * 5, kLeast, kMost));
}

ReadProbe::ReadProbe(ThreadPool& pool, std::size_t bytes) : pool_(pool) {
    const std::size_t count = std::max(bytes / sizeof(std::uint64_t), kChunkWords);
    Result<Reservation> memory = Reservation::create(count * sizeof(std::uint64_t));
    if (!memory.ok()) return;
    memory_ = std::move(memory.value());
    memory_.prefer_large_pages();  // the roof is what the memory can do
    words_ = {reinterpret_cast<std::uint64_t*>(memory_.data()), count};
    // Written first: untouched pages are all the same zero page, which never leaves the cache.
    pool_.for_each(chunks(), [&](std::size_t item, std::size_t) {
        for (std::uint64_t& word : chunk(item)) word = item + 1;
    });
}

std::size_t ReadProbe::chunks() const {
    return (words_.size() + kChunkWords - 1) / kChunkWords;
}

std::span<std::uint64_t> ReadProbe::chunk(std::size_t index) const {
    const std::size_t first = index * kChunkWords;
    return words_.subspan(first, std::min(kChunkWords, words_.size() - first));
}

double ReadProbe::measure(double seconds) {
    seconds_of_way_.resize(std::size(kWays));
    std::vector<double> seconds_now(std::size(kWays));
    const double start = monotonic_seconds();
    std::atomic<std::uint64_t> sink{0};
    std::size_t rounds = 0;
    do {
        for (std::size_t way = 0; way < std::size(kWays); ++way) {
            const double before = monotonic_seconds();
            pool_.for_each(chunks(), [&](std::size_t item, std::size_t) {
                sink.fetch_add(kWays[way](chunk(item)), std::memory_order_relaxed);
            });
            seconds_now[way] += monotonic_seconds() - before;
        }
        ++rounds;
    } while (monotonic_seconds() - start < seconds);
    for (std::size_t way = 0; way < std::size(kWays); ++way) seconds_of_way_[way] += seconds_now[way];
    const auto best = std::ranges::min_element(seconds_of_way_) - seconds_of_way_.begin();
    const double taken = seconds_now[static_cast<std::size_t>(best)];
    if (taken <= 0 || sink.load() == 0) return 0;
    return static_cast<double>(rounds * words_.size_bytes()) / taken / 1e9;
}

}  // namespace hearth
