// What /metrics tells, in Prometheus' text format: counters and histograms per model, fed by answers and steps.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/scheduler.h"
#include "server/api/answer_job.h"

namespace hearth {

// Counts of values by upper bound.
class Histogram {
public:
    explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}
    void add(double value);
    void write(std::string& out, std::string_view name, const std::string& labels) const;

private:
    std::span<const double> bounds_;  // ascending; static
    std::vector<std::uint64_t> counts_;
    double sum_ = 0;
};

class ServerMetrics {
public:
    void answered(const AnswerReport& report);
    void step(const std::string& model, const StepReport& report);
    void refused(unsigned status);  // a request answered with an error
    void request(std::string_view route);

    // `models`: name and state of each scheduler.
    std::string text(const std::vector<std::pair<std::string, SchedulerStats>>& models) const;

private:
    struct PerModel {
        PerModel();
        Histogram first_token;
        Histogram between_tokens;
        Histogram queue;
        Histogram seconds;
        Histogram prompt_tokens;
        Histogram generated_tokens;
        Histogram batch_rows;
        Histogram step_seconds;
        std::uint64_t answers = 0;
        std::uint64_t cancelled = 0;
        std::uint64_t failed = 0;
        std::uint64_t prefix_hits = 0;
    };
    mutable std::mutex mutex_;
    std::map<std::string, PerModel> models_;
    std::map<unsigned, std::uint64_t> refused_;
    std::map<std::string, std::uint64_t, std::less<>> requests_;  // by route, a closed list
};

}  // namespace hearth
