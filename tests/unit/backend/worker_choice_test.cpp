// The choice of workers on machines that are made up: it settles where steps are shortest, and keeps all where they
// help.
#include "backend/cpu/worker_choice.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace hearth {
namespace {

constexpr std::size_t kPhases = 100;

// The number of workers each step had.
std::vector<std::size_t> workers_of_steps(std::size_t most, std::size_t steps,
                                          const std::function<double(std::size_t workers, std::size_t step)>& seconds) {
    WorkerChoice choice(most);
    std::vector<std::size_t> used;
    for (std::size_t step = 0; step < steps; ++step) {
        used.push_back(choice.workers());
        choice.took(seconds(choice.workers(), step), kPhases);
    }
    return used;
}

double mean_of_last_half(const std::vector<std::size_t>& values) {
    double sum = 0;
    for (std::size_t i = values.size() / 2; i < values.size(); ++i) sum += static_cast<double>(values[i]);
    return sum / static_cast<double>(values.size() - values.size() / 2);
}

TEST(WorkerChoice, KeepsAllWorkersWhereEachOneHelps) {
    const auto used = workers_of_steps(16, 10'000, [](std::size_t n, std::size_t) { return 16e-3 / double(n) / 2; });
    EXPECT_GT(mean_of_last_half(used), 15.9);
    for (const std::size_t count : used) ASSERT_TRUE(count >= 12 && count <= 16) << count;
}

TEST(WorkerChoice, SettlesWhereMeetingCostsAsMuchAsAnotherWorkerBrings) {
    const auto cost = [](std::size_t n, std::size_t step) {
        const double noise = 1 + 0.02 * double(step * 2654435761U % 1000) / 1000;
        return noise * (4e-3 / double(n) + 60e-6 * double(n));  // shortest with eight
    };
    const double settled = mean_of_last_half(workers_of_steps(16, 10'000, cost));
    EXPECT_GT(settled, 6.5);
    EXPECT_LT(settled, 10);
}

TEST(WorkerChoice, AStepNowAndThenThatIsInterruptedChangesNothing) {
    const auto used = workers_of_steps(16, 10'000, [](std::size_t n, std::size_t step) {
        return step % 20 == 7 ? 10e-3 : 4e-3 / double(n) + 60e-6 * double(n);  // shortest with eight
    });
    const double settled = mean_of_last_half(used);
    EXPECT_GT(settled, 6.5);
    EXPECT_LT(settled, 10);
}

TEST(WorkerChoice, TakesAllWorkersSoonAfterPhasesBecomeLong) {
    const auto used = workers_of_steps(16, 10'000, [](std::size_t n, std::size_t step) {
        return step < 9000 ? 4e-3 / double(n) + 60e-6 * double(n) : 40e-3 / double(n);
    });
    EXPECT_LT(used[8900], 12U);
    EXPECT_EQ(used[9020], 16U);
}

TEST(WorkerChoice, ComesBackWhenTheMachineIsFreeAgain) {
    const auto used = workers_of_steps(8, 20'000, [](std::size_t n, std::size_t step) {
        return step < 2000 ? 1e-4 * double(n) : 2e-3 / double(n);  // at first every worker is in the way
    });
    EXPECT_EQ(used[1999], 1U);
    EXPECT_GT(mean_of_last_half(used), 7.5);
}

TEST(WorkerChoice, TriesNothingWithLongPhasesOrFewWorkers) {
    for (const std::size_t count :
         workers_of_steps(16, 1000, [](std::size_t, std::size_t) { return 30e-6 * kPhases; })) {
        ASSERT_EQ(count, 16U);
    }
    for (const std::size_t count : workers_of_steps(3, 1000, [](std::size_t, std::size_t) { return 1e-6 * kPhases; })) {
        ASSERT_EQ(count, 3U);
    }
}

}  // namespace
}  // namespace hearth
