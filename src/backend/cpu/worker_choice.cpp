#include "backend/cpu/worker_choice.h"

#include <algorithm>

namespace hearth {

void WorkerChoice::took(double seconds, std::size_t phases) {
    if (most_ < kFewWorkers) return;
    window_[steps_ % kWindow] = seconds / static_cast<double>(phases);
    ++steps_;
    if (steps_ % kWindow == 0 && median() > kShortPhase) {
        *this = WorkerChoice(most_);
        return;
    }
    if (asked_ == chosen_) {
        if (steps_ < interval_) return;
        usual_ = median();
        asked_ = candidate();
        if (asked_ == chosen_) turn_back();
    } else {
        if (steps_ < kWindow) return;
        if (median() < kGain * usual_) {
            chosen_ = asked_;
            interval_ = kFirstInterval;
        } else {
            turn_back();
        }
    }
    steps_ = 0;
}

void WorkerChoice::turn_back() {
    asked_ = chosen_;
    fewer_ = !fewer_;
    interval_ = std::min(2 * interval_, kLastInterval);
}

std::size_t WorkerChoice::candidate() const {
    const std::size_t step = std::max<std::size_t>(chosen_ / 4, 1);
    return fewer_ ? std::max<std::size_t>(chosen_ - std::min(step, chosen_ - 1), 1) : std::min(chosen_ + step, most_);
}

double WorkerChoice::median() const {
    std::array<double, kWindow> sorted = window_;
    std::nth_element(sorted.begin(), sorted.begin() + kWindow / 2, sorted.end());
    return sorted[kWindow / 2];
}

}  // namespace hearth
