// How many workers a small step should have. Where a step is made of phases of a few microseconds, meeting at their
// ends can cost more than another worker brings, above all where the CPUs are hyperthreads or shared with other
// machines: no figure known beforehand says so, so now and then a few steps are tried with some more or some fewer.
#pragma once

#include <array>
#include <cstddef>

namespace hearth {

class WorkerChoice {
public:
    explicit WorkerChoice(std::size_t most) : most_(most), chosen_(most), asked_(most) {}

    std::size_t workers() const { return asked_; }  // for the next step
    void took(double seconds, std::size_t phases);  // what that step took with them

private:
    static constexpr std::size_t kWindow = 8;           // steps whose median counts
    static constexpr std::size_t kFirstInterval = 16;   // steps between tries
    static constexpr std::size_t kLastInterval = 4096;  // doubled until here while nothing changes
    static constexpr std::size_t kFewWorkers = 4;       // of fewer none is left out
    static constexpr double kShortPhase = 25e-6;        // where they are longer, all workers are needed
    static constexpr double kGain = 0.97;               // less is taken for noise

    std::size_t candidate() const;
    double median() const;
    void turn_back();

    std::size_t most_;
    std::size_t chosen_;
    std::size_t asked_;  // the chosen number, or one that is tried
    bool fewer_ = true;  // what is tried next
    double usual_ = 0;   // seconds of a phase with the chosen number just before the try
    std::size_t steps_ = 0;
    std::size_t interval_ = kFirstInterval;
    std::array<double, kWindow> window_ = {};
};

}  // namespace hearth
