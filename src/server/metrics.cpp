// See metrics.h. The format: prometheus.io/docs/instrumenting/exposition_formats, version 0.0.4.
#include "server/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace hearth {

namespace {

bool is_name(std::string_view name) {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    return !name.empty() && letter(name.front()) &&
           std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    std::array<char, 32> text = {};
    const std::to_chars_result end = std::to_chars(text.data(), text.data() + text.size(), value);
    return {text.data(), end.ptr};
}

std::string escaped_label(std::string_view value) {
    std::string out;
    for (const char c : value) {
        if (c == '\\' || c == '"') out += '\\';
        if (c == '\n') {
            out += "\\n";
        } else {
            out += c;
        }
    }
    return out;
}

std::vector<double> latency_bounds() {
    return {0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
}

std::vector<double> duration_bounds() {
    return {0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 60, 120, 300, 600};
}

void append_histogram(std::string& out, const std::string& name, const Histogram& histogram) {
    const Histogram::Snapshot now = histogram.snapshot();
    for (std::size_t i = 0; i < now.cumulative.size(); ++i) {
        const std::string bound = i < histogram.bounds().size() ? number(histogram.bounds()[i]) : "+Inf";
        out += name + "_bucket{le=\"" + bound + "\"} " + std::to_string(now.cumulative[i]) + "\n";
    }
    out += name + "_sum " + number(now.sum) + "\n";
    out += name + "_count " + std::to_string(now.cumulative.back()) + "\n";
}

}  // namespace

void Counter::raise_to(std::uint64_t value) {
    std::uint64_t seen = value_.load(std::memory_order_relaxed);
    while (seen < value && !value_.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
}

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), buckets_(std::make_unique<std::atomic<std::uint64_t>[]>(bounds_.size() + 1)) {
    CHECK(std::is_sorted(bounds_.begin(), bounds_.end()));
}

void Histogram::observe(double value) {
    if (std::isnan(value)) return;
    const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
    buckets_[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
}

Histogram::Snapshot Histogram::snapshot() const {
    Snapshot now;
    std::uint64_t total = 0;
    for (std::size_t i = 0; i <= bounds_.size(); ++i) {
        total += buckets_[i].load(std::memory_order_relaxed);
        now.cumulative.push_back(total);  // the count is their sum, so that both agree whatever is observed meanwhile
    }
    now.sum = sum_.load(std::memory_order_relaxed);
    return now;
}

MetricsRegistry::Family& MetricsRegistry::family(std::string_view name, std::string_view help, std::string_view type) {
    CHECK(is_name(name));
    CHECK(help.find_first_of("\n\\") == std::string_view::npos);
    const auto found =
        std::find_if(families_.begin(), families_.end(), [&](const Family& family) { return family.name == name; });
    if (found != families_.end()) {
        CHECK(found->type == type && type == "counter");  // only counters have several series here
        return *found;
    }
    Family added;
    added.name = std::string(name);
    added.help = std::string(help);
    added.type = type;
    families_.push_back(std::move(added));
    return families_.back();
}

Counter& MetricsRegistry::counter(std::string_view name, std::string_view help, std::string_view label,
                                  std::string_view label_value) {
    CHECK(label.empty() || is_name(label));
    Family::Series series;
    if (!label.empty()) series.labels = "{" + std::string(label) + "=\"" + escaped_label(label_value) + "\"}";
    Counter& added = counters_.emplace_back();
    series.counter = &added;
    Family& owner = family(name, help, "counter");
    for (const Family::Series& other : owner.counters) CHECK(other.labels != series.labels);
    owner.counters.push_back(std::move(series));
    return added;
}

Gauge& MetricsRegistry::gauge(std::string_view name, std::string_view help) {
    Gauge& added = gauges_.emplace_back();
    family(name, help, "gauge").gauge = &added;
    return added;
}

Histogram& MetricsRegistry::histogram(std::string_view name, std::string_view help, std::vector<double> bounds) {
    Histogram& added = histograms_.emplace_back(std::move(bounds));
    family(name, help, "histogram").histogram = &added;
    return added;
}

std::string MetricsRegistry::text() const {
    std::string out;
    for (const Family& family : families_) {
        out += "# HELP " + family.name + " " + family.help + "\n";
        out += "# TYPE " + family.name + " " + std::string(family.type) + "\n";
        for (const Family::Series& series : family.counters) {
            out += family.name + series.labels + " " + std::to_string(series.counter->value()) + "\n";
        }
        if (family.gauge) out += family.name + " " + number(family.gauge->value()) + "\n";
        if (family.histogram) append_histogram(out, family.name, *family.histogram);
    }
    return out;
}

ServerMetrics::ServerMetrics()
    : time_to_first_token_seconds(registry.histogram(
          "hearth_time_to_first_token_seconds", "From the arrival of a request to its first token.", latency_bounds())),
      inter_token_latency_seconds(registry.histogram("hearth_inter_token_latency_seconds",
                                                     "Between two tokens of one answer.", latency_bounds())),
      request_queue_time_seconds(registry.histogram(
          "hearth_request_queue_time_seconds", "From the arrival of a request to its first step.", latency_bounds())),
      e2e_request_latency_seconds(registry.histogram("hearth_e2e_request_latency_seconds",
                                                     "From the arrival of a request to the end of its answer.",
                                                     duration_bounds())),
      batch_size(registry.histogram("hearth_batch_size", "Sequences in one step of the engine.",
                                    {1, 2, 4, 8, 16, 32, 64, 128, 256, 512})),
      prompt_tokens(registry.counter("hearth_prompt_tokens_total", "Prompt tokens of all requests.")),
      generation_tokens(registry.counter("hearth_generation_tokens_total", "Tokens generated.")),
      prefix_cache_queries(
          registry.counter("hearth_prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.")),
      prefix_cache_hits(registry.counter("hearth_prefix_cache_hits_total", "Prompt tokens found in the prefix cache.")),
      finished_stop(
          registry.counter("hearth_request_success_total", "Requests answered to the end.", "finished_reason", "stop")),
      finished_length(registry.counter("hearth_request_success_total", "Requests answered to the end.",
                                       "finished_reason", "length")),
      finished_tool_calls(registry.counter("hearth_request_success_total", "Requests answered to the end.",
                                           "finished_reason", "tool_calls")),
      requests_cancelled(registry.counter("hearth_request_cancelled_total", "Requests given up by their client.")),
      requests_failed(registry.counter("hearth_request_failed_total", "Requests that ended with a fault of ours.")),
      requests_rejected(registry.counter("hearth_request_rejected_total", "Requests refused because all was full.")),
      kv_cache_usage(registry.gauge("hearth_kv_cache_usage_perc", "Used part of the KV cache, 0 to 1.")),
      requests_running(registry.gauge("hearth_num_requests_running", "Requests being computed.")),
      requests_waiting(registry.gauge("hearth_num_requests_waiting", "Requests in the queue.")),
      http_connections(registry.gauge("hearth_http_connections", "Open connections.")),
      http_accepted(registry.counter("hearth_http_connections_accepted_total", "Connections accepted.")),
      http_refused(registry.counter("hearth_http_connections_refused_total", "Connections beyond the limit.")),
      http_requests(registry.counter("hearth_http_requests_total", "HTTP requests of any kind.")) {}

void ServerMetrics::set_http(const HttpStats& stats) {
    http_connections.set(static_cast<double>(stats.connections));
    http_accepted.raise_to(stats.accepted);
    http_refused.raise_to(stats.refused);
    http_requests.raise_to(stats.requests);
}

}  // namespace hearth
