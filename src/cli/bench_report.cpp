#include "cli/bench_report.h"

#include <algorithm>
#include <cmath>

#include "cli/console.h"
#include "cli/options.h"

namespace hearth {

namespace {

constexpr std::size_t kShortPrompt = 64;
constexpr std::size_t kShortGenerate = 32;

using Cells = std::vector<std::string>;

// Columns a text takes, counting one per character.
std::size_t width_of(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// The first column to the left, figures to the right; a column without any figure is left out.
std::string align(const std::vector<Cells>& rows) {
    std::vector<std::size_t> widths(rows.front().size(), 0);
    for (std::size_t column = 0; column < widths.size(); ++column) {
        const bool empty =
            std::all_of(rows.begin() + 1, rows.end(), [&](const Cells& row) { return row[column].empty(); });
        if (empty) continue;
        for (const Cells& row : rows) widths[column] = std::max(widths[column], width_of(row[column]));
    }
    std::string text;
    for (const Cells& row : rows) {
        std::string line = row[0] + std::string(widths[0] - width_of(row[0]), ' ');
        for (std::size_t column = 1; column < widths.size(); ++column) {
            if (widths[column] == 0) continue;
            line += "  " + std::string(widths[column] - width_of(row[column]), ' ') + row[column];
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

Json number_or_null(std::optional<double> value) {
    return value ? Json(*value) : Json();
}

}  // namespace

std::string BenchTest::name() const {
    std::string text = (kind == BenchKind::Prompt ? "pp" : "tg") + std::to_string(tokens);
    if (depth > 0) text += "@d" + std::to_string(depth);
    if (batch > 0) text += "@b" + std::to_string(batch);
    return text;
}

std::vector<BenchTest> list_tests(const BenchPlan& plan) {
    std::vector<BenchTest> tests;
    for (const std::size_t depth : plan.depths) {
        const std::size_t prompt = depth == 0 ? plan.prompt : std::min(plan.prompt, kShortPrompt);
        const std::size_t generate = depth == 0 ? plan.generate : std::min(plan.generate, kShortGenerate);
        if (prompt > 0) tests.push_back({BenchKind::Prompt, prompt, depth, 0});
        if (generate > 0) tests.push_back({BenchKind::Generate, generate, depth, 0});
    }
    std::vector<std::size_t> batches = plan.batches;
    if (!batches.empty() && batches.front() > 1) batches.insert(batches.begin(), 1);
    const std::size_t generate = std::min(plan.generate, kShortGenerate);
    for (const std::size_t batch : batches) {
        if (generate > 0) tests.push_back({BenchKind::Generate, generate, 0, batch});
    }
    return tests;
}

Result<std::vector<std::size_t>> parse_sizes(std::string_view what, std::string_view text, std::size_t lowest,
                                             std::size_t highest) {
    std::vector<std::size_t> sizes;
    for (bool more = true; more;) {
        const std::size_t comma = std::min(text.find(','), text.size());
        sizes.push_back(static_cast<std::size_t>(TRY(parse_whole(what, text.substr(0, comma), lowest, highest))));
        more = comma < text.size();
        text.remove_prefix(more ? comma + 1 : comma);
    }
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
}

BenchStatistics summarise(std::vector<double> samples) {
    if (samples.empty()) return {};
    std::sort(samples.begin(), samples.end());
    const std::size_t count = samples.size();
    const double median = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    if (count == 1) return {median, 0};
    double mean = 0;
    for (const double sample : samples) mean += sample / static_cast<double>(count);
    double squares = 0;
    for (const double sample : samples) squares += (sample - mean) * (sample - mean);
    return {median, std::sqrt(squares / static_cast<double>(count - 1))};
}

std::optional<double> BenchResult::ratio() const {
    if (!peer || peer->median <= 0) return std::nullopt;
    return rate.median / peer->median;
}

std::optional<double> relative_step_time(const BenchResult& result, std::span<const BenchResult> results) {
    if (result.test.batch == 0 || result.rate.median <= 0) return std::nullopt;
    for (const BenchResult& base : results) {
        if (base.test.batch != 1) continue;
        return static_cast<double>(result.test.batch) * base.rate.median / result.rate.median;
    }
    return std::nullopt;
}

std::string bench_table(std::span<const BenchResult> results, std::string_view peer) {
    const std::string peer_name(peer);
    std::vector<Cells> rows = {
        {"test", "tok/s", "±", "roof", "step time", peer_name, peer.empty() ? "" : "±", "ratio"}};
    for (const BenchResult& result : results) {
        Cells row(rows.front().size());
        row[0] = result.test.name();
        row[1] = format_number(result.rate.median, 2);
        row[2] = format_number(result.rate.deviation, 2);
        if (result.roof_share) row[3] = format_number(*result.roof_share * 100, 1) + " %";
        if (const auto time = relative_step_time(result, results)) row[4] = format_number(*time, 2) + "×";
        if (result.peer) {
            row[5] = format_number(result.peer->median, 2);
            row[6] = format_number(result.peer->deviation, 2);
        }
        if (const auto ratio = result.ratio()) row[7] = format_number(*ratio, 2) + "×";
        rows.push_back(std::move(row));
    }
    return align(rows);
}

Json bench_json(std::span<const BenchResult> results, std::size_t threads, std::string_view peer) {
    Json::Array all;
    for (const BenchResult& result : results) {
        Json::Object object{{"test", result.test.name()},
                            {"tok_s", result.rate.median},
                            {"stddev", result.rate.deviation},
                            {"threads", static_cast<std::uint64_t>(threads)},
                            {"roof_share", number_or_null(result.roof_share)},
                            {"roof_gb_s", number_or_null(result.roof_gb_per_s)},
                            {"relative_step_time", number_or_null(relative_step_time(result, results))}};
        if (!peer.empty()) {
            object.emplace_back("peer_tok_s", result.peer ? Json(result.peer->median) : Json());
            object.emplace_back("peer_stddev", result.peer ? Json(result.peer->deviation) : Json());
            object.emplace_back("ratio", number_or_null(result.ratio()));
        }
        all.emplace_back(std::move(object));
    }
    return Json(std::move(all));
}

}  // namespace hearth
