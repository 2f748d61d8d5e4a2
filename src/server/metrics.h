// Counters, gauges and histograms in the Prometheus text format. All are registered before the first thread starts;
// after that every update is one or two relaxed atomic operations.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_server.h"

namespace hearth {

class Counter {
public:
    void add(std::uint64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
    void raise_to(std::uint64_t value);  // for what is counted elsewhere; never goes back
    std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<std::uint64_t> value_ = 0;
};

class Gauge {
public:
    void set(double value) { value_.store(value, std::memory_order_relaxed); }
    void add(double amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
    double value() const { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<double> value_ = 0;
};

class Histogram {
public:
    explicit Histogram(std::vector<double> bounds);  // ascending upper bounds, each within its bucket; +Inf is implied
    void observe(double value);                      // NaN is dropped

    struct Snapshot {
        std::vector<std::uint64_t> cumulative;  // [bounds + 1], the last one is the count
        double sum = 0;
    };
    Snapshot snapshot() const;
    const std::vector<double>& bounds() const { return bounds_; }

private:
    const std::vector<double> bounds_;
    std::unique_ptr<std::atomic<std::uint64_t>[]> buckets_;  // [bounds + 1]
    std::atomic<double> sum_ = 0;
};

// The families by name. Names, label names and help are ours (checked); label values are escaped.
class MetricsRegistry {
public:
    Counter& counter(std::string_view name, std::string_view help, std::string_view label = "",
                     std::string_view label_value = "");
    Gauge& gauge(std::string_view name, std::string_view help);
    Histogram& histogram(std::string_view name, std::string_view help, std::vector<double> bounds);

    std::string text() const;  // content type kMetricsContentType

private:
    struct Family {
        std::string name;
        std::string help;
        std::string_view type;
        struct Series {
            std::string labels;  // {name="value"} or nothing
            const Counter* counter = nullptr;
        };
        std::vector<Series> counters;
        const Gauge* gauge = nullptr;
        const Histogram* histogram = nullptr;
    };
    Family& family(std::string_view name, std::string_view help, std::string_view type);

    std::deque<Counter> counters_;  // deques: addresses stay
    std::deque<Gauge> gauges_;
    std::deque<Histogram> histograms_;
    std::vector<Family> families_;
};

inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// What a Hearth server tells about itself; docs/grafana.json shows all of it.
struct ServerMetrics {
    ServerMetrics();
    void set_http(const HttpStats& stats);  // before each text()
    std::string text() const { return registry.text(); }

    MetricsRegistry registry;
    Histogram& time_to_first_token_seconds;
    Histogram& inter_token_latency_seconds;
    Histogram& request_queue_time_seconds;
    Histogram& e2e_request_latency_seconds;
    Histogram& batch_size;  // sequences in one step of the engine
    Counter& prompt_tokens;
    Counter& generation_tokens;
    Counter& prefix_cache_queries;  // prompt tokens looked up
    Counter& prefix_cache_hits;     // of which were found
    Counter& finished_stop;         // request_success_total by finished_reason
    Counter& finished_length;
    Counter& finished_tool_calls;
    Counter& requests_cancelled;  // the client had gone, or asked for it
    Counter& requests_failed;
    Counter& requests_rejected;  // 429: the queue was full
    Gauge& kv_cache_usage;       // 0 to 1
    Gauge& requests_running;
    Gauge& requests_waiting;
    Gauge& http_connections;
    Counter& http_accepted;
    Counter& http_refused;
    Counter& http_requests;
};

}  // namespace hearth
