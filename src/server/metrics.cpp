// See metrics.h. The format: prometheus.io/docs/instrumenting/exposition_formats, version 0.0.4.
#include "server/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace hearth::metrics {

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

std::string labels_text(const Labels& labels) {
    std::string out;
    for (const auto& [name, value] : labels) {
        CHECK(is_name(name));
        if (!out.empty()) out += ",";
        out += std::string(name) + "=\"" + escaped_label(value) + "\"";
    }
    return out;
}

std::string in_braces(const std::string& labels) {
    return labels.empty() ? "" : "{" + labels + "}";
}

void append_histogram(std::string& out, const std::string& name, const std::string& labels,
                      const Histogram& histogram) {
    const Histogram::Snapshot now = histogram.snapshot();
    for (std::size_t i = 0; i < now.cumulative.size(); ++i) {
        const std::string bound = i < histogram.bounds().size() ? number(histogram.bounds()[i]) : "+Inf";
        const std::string separator = labels.empty() ? "" : ",";
        out += name + "_bucket{" + labels + separator + "le=\"" + bound + "\"} " + std::to_string(now.cumulative[i]) +
               "\n";
    }
    out += name + "_sum" + in_braces(labels) + " " + number(now.sum) + "\n";
    out += name + "_count" + in_braces(labels) + " " + std::to_string(now.cumulative.back()) + "\n";
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

void Registry::add(std::string_view name, std::string_view help, std::string_view type, const Labels& labels,
                   Series series) {
    CHECK(is_name(name));
    CHECK(help.find_first_of("\n\\") == std::string_view::npos);
    series.labels = labels_text(labels);
    auto found =
        std::find_if(families_.begin(), families_.end(), [&](const Family& family) { return family.name == name; });
    if (found == families_.end()) {
        found = families_.insert(families_.end(), Family{std::string(name), std::string(help), type, {}});
    }
    CHECK(found->type == type);
    for (const Series& other : found->series) CHECK(other.labels != series.labels);
    found->series.push_back(std::move(series));
}

Counter& Registry::counter(std::string_view name, std::string_view help, const Labels& labels) {
    const std::lock_guard lock(mutex_);
    Counter& added = counters_.emplace_back();
    add(name, help, "counter", labels, {"", &added, nullptr, nullptr});
    return added;
}

Gauge& Registry::gauge(std::string_view name, std::string_view help, const Labels& labels) {
    const std::lock_guard lock(mutex_);
    Gauge& added = gauges_.emplace_back();
    add(name, help, "gauge", labels, {"", nullptr, &added, nullptr});
    return added;
}

Histogram& Registry::histogram(std::string_view name, std::string_view help, std::vector<double> bounds,
                               const Labels& labels) {
    const std::lock_guard lock(mutex_);
    Histogram& added = histograms_.emplace_back(std::move(bounds));
    add(name, help, "histogram", labels, {"", nullptr, nullptr, &added});
    return added;
}

std::string Registry::text() const {
    const std::lock_guard lock(mutex_);
    std::string out;
    for (const Family& family : families_) {
        out += "# HELP " + family.name + " " + family.help + "\n";
        out += "# TYPE " + family.name + " " + std::string(family.type) + "\n";
        for (const Series& series : family.series) {
            const std::string start = family.name + in_braces(series.labels) + " ";
            if (series.counter) out += start + std::to_string(series.counter->value()) + "\n";
            if (series.gauge) out += start + number(series.gauge->value()) + "\n";
            if (series.histogram) append_histogram(out, family.name, series.labels, *series.histogram);
        }
    }
    return out;
}

namespace {

Counter& finished(Registry& registry, std::string_view model, std::string_view reason) {
    return registry.counter("hearth_request_success_total", "Requests answered to the end.",
                            {{"model", model}, {"finished_reason", reason}});
}

}  // namespace

OfModel::OfModel(Registry& registry, std::string_view model)
    : time_to_first_token_seconds(registry.histogram("hearth_time_to_first_token_seconds",
                                                     "From the arrival of a request to its first token.",
                                                     latency_bounds(), {{"model", model}})),
      inter_token_latency_seconds(registry.histogram("hearth_inter_token_latency_seconds",
                                                     "Between two tokens of one answer.", latency_bounds(),
                                                     {{"model", model}})),
      request_queue_time_seconds(registry.histogram("hearth_request_queue_time_seconds",
                                                    "From the arrival of a request to its first step.",
                                                    latency_bounds(), {{"model", model}})),
      e2e_request_latency_seconds(registry.histogram("hearth_e2e_request_latency_seconds",
                                                     "From the arrival of a request to the end of its answer.",
                                                     duration_bounds(), {{"model", model}})),
      batch_size(registry.histogram("hearth_batch_size", "Sequences in one step of the engine.",
                                    {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, {{"model", model}})),
      prompt_tokens(
          registry.counter("hearth_prompt_tokens_total", "Prompt tokens of all requests.", {{"model", model}})),
      generation_tokens(registry.counter("hearth_generation_tokens_total", "Tokens generated.", {{"model", model}})),
      prefix_cache_queries(registry.counter("hearth_prefix_cache_queries_total",
                                            "Prompt tokens looked up in the prefix cache.", {{"model", model}})),
      prefix_cache_hits(registry.counter("hearth_prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
                                         {{"model", model}})),
      finished_stop(finished(registry, model, "stop")),
      finished_length(finished(registry, model, "length")),
      finished_tool_calls(finished(registry, model, "tool_calls")),
      requests_cancelled(
          registry.counter("hearth_request_cancelled_total", "Requests given up by their client.", {{"model", model}})),
      requests_failed(registry.counter("hearth_request_failed_total", "Requests that ended with a fault of ours.",
                                       {{"model", model}})),
      requests_rejected(registry.counter("hearth_request_rejected_total", "Requests refused because all was full.",
                                         {{"model", model}})),
      kv_cache_usage(
          registry.gauge("hearth_kv_cache_usage_perc", "Used part of the KV cache, 0 to 1.", {{"model", model}})),
      requests_running(registry.gauge("hearth_num_requests_running", "Requests being computed.", {{"model", model}})),
      requests_waiting(registry.gauge("hearth_num_requests_waiting", "Requests in the queue.", {{"model", model}})) {}

OfHttp::OfHttp(Registry& registry)
    : connections(registry.gauge("hearth_http_connections", "Open connections.")),
      accepted(registry.counter("hearth_http_connections_accepted_total", "Connections accepted.")),
      refused(registry.counter("hearth_http_connections_refused_total", "Connections beyond the limit.")),
      requests(registry.counter("hearth_http_requests_total", "HTTP requests of any kind.")) {}

void OfHttp::set(const HttpStats& stats) {
    connections.set(static_cast<double>(stats.connections));
    accepted.raise_to(stats.accepted);
    refused.raise_to(stats.refused);
    requests.raise_to(stats.requests);
}

}  // namespace hearth::metrics
