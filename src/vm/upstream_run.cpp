#include "vm/upstream_run.h"

#include <algorithm>
#include <unordered_map>

namespace hearth::vm {

Result<std::vector<std::uint32_t>> parse_upstream_prompt(const UpstreamModel& model, std::string_view text) {
    std::unordered_map<std::string_view, std::uint32_t> ids;
    for (std::uint32_t i = 0; i < model.spellings.size(); ++i) ids.emplace(model.spellings[i], i);
    std::vector<std::uint32_t> tokens;
    constexpr std::string_view kSpace = " \t\r\n";
    for (std::size_t first = text.find_first_not_of(kSpace); first != std::string_view::npos;) {
        const std::size_t end = std::min(text.find_first_of(kSpace, first), text.size());
        const auto found = ids.find(text.substr(first, end - first));
        if (found == ids.end()) {
            return Error{ErrorCode::InvalidModel,
                         "prompt: '" + std::string(text.substr(first, std::min<std::size_t>(end - first, 40))) +
                             "' is not in the model's vocabulary"};
        }
        tokens.push_back(found->second);
        first = text.find_first_not_of(kSpace, end);
    }
    if (tokens.empty()) return Error{ErrorCode::InvalidModel, "prompt: no tokens"};
    return tokens;
}

std::optional<char> upstream_output(std::string_view spelling) {
    if (!spelling.starts_with("out(") || !spelling.ends_with(")")) return std::nullopt;
    const std::string_view inside = spelling.substr(4, spelling.size() - 5);
    if (inside.size() == 1) return inside[0];
    const auto digit = [](char c) { return std::string_view("0123456789abcdef").find(c); };
    if (inside.size() != 2 || digit(inside[0]) > 15 || digit(inside[1]) > 15) return std::nullopt;
    return static_cast<char>(16 * digit(inside[0]) + digit(inside[1]));
}

RunReport run_upstream(const UpstreamModel& model, std::span<const std::uint32_t> prompt, const RunLimits& limits) {
    constexpr std::size_t kBatch = 256;
    constexpr std::uint64_t kWatchTokens = 1024;
    RunWatch watch(limits);
    RunReport report;
    report.prompt_tokens = prompt.size();
    const DenseModel dense = dense_model(model);
    DenseRunner runner(dense);
    std::uint32_t next = 0;
    for (std::size_t first = 0; first < prompt.size(); first += kBatch) {
        next = runner.feed(prompt.subspan(first, std::min(kBatch, prompt.size() - first))).back();
    }
    while (!report.halted) {
        if (report.tokens % kWatchTokens == 0 || report.tokens >= limits.max_tokens) {
            if (!watch.go_on(report.tokens)) break;
        }
        ++report.tokens;
        report.halted = next == static_cast<std::uint32_t>(model.stop);
        if (const std::optional<char> byte = upstream_output(model.spellings[next])) report.output.push_back(*byte);
        if (!report.halted) next = runner.feed({&next, 1})[0];
    }
    report.seconds = watch.seconds();
    report.stopped_by = watch.stopped_by();
    return report;
}

}  // namespace hearth::vm
