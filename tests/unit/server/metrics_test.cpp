// The exposition text, read back by a strict little checker, and counting from many threads.
#include "server/metrics.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace hearth {
namespace {

struct Exposition {
    std::string fault;                      // empty when the text is right
    std::map<std::string, double> samples;  // by name with labels
    std::map<std::string, std::string> types;
};

bool is_metric_name(const std::string& name) {
    const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:";
    return !name.empty() && letters.find(name[0]) != std::string::npos &&
           name.find_first_not_of(letters + "0123456789") == std::string::npos;
}

std::string family_of(const Exposition& text, const std::string& name) {
    for (const char* ending : {"_bucket", "_sum", "_count"}) {
        const std::string suffix = ending;
        if (!name.ends_with(suffix)) continue;
        const auto found = text.types.find(name.substr(0, name.size() - suffix.size()));
        if (found != text.types.end() && found->second == "histogram") return found->first;
    }
    return text.types.count(name) ? name : "";
}

// {a="b",c="d"}: what follows the closing brace, or nothing when the labels are wrong.
std::string after_labels(const std::string& text, std::string& fault) {
    std::size_t at = 1;
    for (;;) {
        const std::size_t equals = text.find('=', at);
        if (equals == std::string::npos || !is_metric_name(text.substr(at, equals - at)) || text[equals + 1] != '"') {
            fault = "bad labels: " + text;
            return "";
        }
        at = equals + 2;
        while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
        ++at;
        if (at < text.size() && text[at] == ',') {
            ++at;
            continue;
        }
        if (at < text.size() && text[at] == '}') return text.substr(at + 1);
        fault = "unclosed labels: " + text;
        return "";
    }
}

void read_sample(const std::string& line, const std::string& family, Exposition& read) {
    const std::size_t end = line.find_first_of("{ ");
    const std::string name = line.substr(0, end);
    std::string rest = end == std::string::npos ? "" : line.substr(end);
    if (rest.starts_with("{")) rest = after_labels(rest, read.fault);
    const std::string key = line.substr(0, line.size() - rest.size());
    char* parsed_to = nullptr;
    const double value = std::strtod(rest.c_str(), &parsed_to);
    if (!rest.starts_with(" ") || rest.size() < 2 || *parsed_to != '\0') read.fault = "bad value: " + line;
    if (family_of(read, name).empty() || family_of(read, name) != family) read.fault = "outside its family: " + line;
    if (!read.samples.emplace(key, value).second) read.fault = "twice: " + line;
}

Exposition check(const std::string& text) {
    Exposition read;
    if (!text.ends_with("\n")) read.fault = "the last line does not end";
    std::istringstream lines(text);
    std::string family;
    for (std::string line; std::getline(lines, line) && read.fault.empty();) {
        std::istringstream words(line);
        std::string hash;
        std::string keyword;
        std::string name;
        std::string rest;
        if (!line.starts_with("#")) {
            read_sample(line, family, read);
            continue;
        }
        words >> hash >> keyword >> name >> rest;
        if (hash != "#" || !is_metric_name(name) || rest.empty()) read.fault = "bad comment: " + line;
        if (keyword == "HELP") {
            family = name;
        } else if (keyword != "TYPE" || name != family || !read.types.emplace(name, rest).second) {
            read.fault = "bad type: " + line;
        } else if (rest != "counter" && rest != "gauge" && rest != "histogram") {
            read.fault = "unknown type: " + line;
        } else if ((rest == "counter") != name.ends_with("_total")) {
            read.fault = "a counter, and only that, ends in _total: " + line;
        }
    }
    return read;
}

TEST(Metrics, TheTextOfAServerIsValid) {
    ServerMetrics metrics;
    metrics.prompt_tokens.add(42);
    metrics.kv_cache_usage.set(0.25);
    metrics.time_to_first_token_seconds.observe(0.03);
    metrics.finished_length.add();
    HttpStats stats;
    stats.connections = 3;
    stats.accepted = 10;
    metrics.set_http(stats);
    const Exposition read = check(metrics.text());
    EXPECT_EQ(read.fault, "");
    EXPECT_EQ(read.samples.at("hearth_prompt_tokens_total"), 42);
    EXPECT_EQ(read.samples.at("hearth_kv_cache_usage_perc"), 0.25);
    EXPECT_EQ(read.samples.at("hearth_request_success_total{finished_reason=\"length\"}"), 1);
    EXPECT_EQ(read.samples.at("hearth_request_success_total{finished_reason=\"stop\"}"), 0);
    EXPECT_EQ(read.samples.at("hearth_time_to_first_token_seconds_bucket{le=\"0.02\"}"), 0);
    EXPECT_EQ(read.samples.at("hearth_time_to_first_token_seconds_bucket{le=\"0.04\"}"), 1);
    EXPECT_EQ(read.samples.at("hearth_time_to_first_token_seconds_bucket{le=\"+Inf\"}"), 1);
    EXPECT_EQ(read.samples.at("hearth_time_to_first_token_seconds_count"), 1);
    EXPECT_EQ(read.samples.at("hearth_http_connections"), 3);
    EXPECT_EQ(read.samples.at("hearth_http_connections_accepted_total"), 10);
}

TEST(Metrics, TheCheckerCanFail) {
    EXPECT_NE(check("a_total 1\n").fault, "");
    EXPECT_NE(check("# HELP a x\n# TYPE a gauge\na 1\na 2\n").fault, "");
    EXPECT_NE(check("# HELP a x\n# TYPE a gauge\na one\n").fault, "");
    EXPECT_NE(check("# HELP a x\n# TYPE a counter\na 1\n").fault, "");
    EXPECT_NE(check("# HELP a x\n# TYPE a gauge\na{b=c} 1\n").fault, "");
    EXPECT_NE(check("# HELP a x\n# TYPE a gauge\na 1").fault, "");
    EXPECT_EQ(check("# HELP a x\n# TYPE a gauge\na{b=\"c\\\"d\"} 1\n").fault, "");
}

TEST(Metrics, ABoundBelongsToItsBucket) {
    Histogram histogram({1, 2});
    for (const double value : {0.0, 1.0, 1.5, 2.0, 2.5, -1.0}) histogram.observe(value);
    histogram.observe(std::numeric_limits<double>::quiet_NaN());
    const Histogram::Snapshot now = histogram.snapshot();
    EXPECT_EQ(now.cumulative, (std::vector<std::uint64_t>{3, 5, 6}));
    EXPECT_EQ(now.sum, 6.0);
}

TEST(Metrics, NothingIsLostBetweenThreads) {
    Histogram histogram({10, 20, 30});
    Counter counter;
    Gauge gauge;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 10'000; ++i) {
                histogram.observe(i % 40);
                counter.add();
                gauge.add(i % 2 == 0 ? 1 : -1);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    const Histogram::Snapshot now = histogram.snapshot();
    EXPECT_EQ(now.cumulative, (std::vector<std::uint64_t>{11'000, 21'000, 31'000, 40'000}));
    EXPECT_EQ(now.sum, 4.0 * 250 * 780);
    EXPECT_EQ(counter.value(), 40'000u);
    EXPECT_EQ(gauge.value(), 0);
}

TEST(Metrics, LabelValuesAreEscaped) {
    MetricsRegistry registry;
    registry.counter("odd_total", "Odd.", "value", "a\"b\\c\nd").add(7);
    const std::string text = registry.text();
    EXPECT_NE(text.find("odd_total{value=\"a\\\"b\\\\c\\nd\"} 7\n"), std::string::npos);
    EXPECT_EQ(check(text).fault, "");
}

TEST(Metrics, WhatIsCountedElsewhereNeverGoesBack) {
    Counter counter;
    counter.raise_to(5);
    counter.raise_to(3);
    EXPECT_EQ(counter.value(), 5u);
}

}  // namespace
}  // namespace hearth
