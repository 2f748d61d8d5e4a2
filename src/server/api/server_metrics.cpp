#include "server/api/server_metrics.h"

#include <algorithm>
#include <charconv>

namespace hearth {

namespace {

constexpr double kSeconds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};
constexpr double kTokens[] = {1, 4, 16, 64, 256, 1024, 4096, 16384, 65536};
constexpr double kRows[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

std::string number(double value) {
    char digits[32];
    const auto [end, code] = std::to_chars(digits, digits + sizeof digits, value);
    return std::string(digits, end);
}

std::string label(std::string_view name, std::string_view value) {
    std::string out = std::string(name) + "=\"";
    for (const char c : value) {
        if (c == '"' || c == '\\') out += '\\';
        out += c == '\n' ? ' ' : c;
    }
    return out + "\"";
}

void line(std::string& out, std::string_view name, const std::string& labels, double value) {
    out += std::string(name) + (labels.empty() ? "" : "{" + labels + "}") + " " + number(value) + "\n";
}

void head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
    out += "# HELP " + std::string(name) + " " + std::string(help) + "\n# TYPE " + std::string(name) + " " +
           std::string(type) + "\n";
}

}  // namespace

void Histogram::add(double value) {
    const auto place = std::lower_bound(bounds_.begin(), bounds_.end(), value);
    ++counts_[static_cast<std::size_t>(place - bounds_.begin())];
    sum_ += value;
}

void Histogram::write(std::string& out, std::string_view name, const std::string& labels) const {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
        total += counts_[i];
        const std::string bound = i < bounds_.size() ? number(bounds_[i]) : "+Inf";
        line(out, std::string(name) + "_bucket", labels + "," + label("le", bound), static_cast<double>(total));
    }
    line(out, std::string(name) + "_sum", labels, sum_);
    line(out, std::string(name) + "_count", labels, static_cast<double>(total));
}

ServerMetrics::PerModel::PerModel()
    : first_token(kSeconds),
      between_tokens(kSeconds),
      queue(kSeconds),
      seconds(kSeconds),
      prompt_tokens(kTokens),
      generated_tokens(kTokens),
      batch_rows(kRows),
      step_seconds(kSeconds) {}

void ServerMetrics::answered(const AnswerReport& report) {
    const std::scoped_lock lock(mutex_);
    PerModel& model = models_[report.model];
    const Usage& usage = report.usage;
    ++model.answers;
    if (report.cancelled) ++model.cancelled;
    if (report.failed) ++model.failed;
    if (usage.cached_tokens > 0) ++model.prefix_hits;
    model.queue.add(usage.queue_seconds);
    if (usage.generated_tokens > 0) model.first_token.add(usage.first_token_seconds);
    model.seconds.add(usage.seconds);
    model.prompt_tokens.add(static_cast<double>(usage.prompt_tokens));
    model.generated_tokens.add(static_cast<double>(usage.generated_tokens));
    for (const double gap : report.token_gaps) model.between_tokens.add(gap);
}

void ServerMetrics::step(const std::string& name, const StepReport& report) {
    const std::scoped_lock lock(mutex_);
    PerModel& model = models_[name];
    model.batch_rows.add(static_cast<double>(report.rows));
    model.step_seconds.add(report.seconds);
}

void ServerMetrics::refused(unsigned status) {
    const std::scoped_lock lock(mutex_);
    ++refused_[status];
}

void ServerMetrics::request(std::string_view route) {
    const std::scoped_lock lock(mutex_);
    const auto found = requests_.find(route);
    if (found == requests_.end()) {
        requests_.emplace(route, 1);
    } else {
        ++found->second;
    }
}

std::string ServerMetrics::text(const std::vector<std::pair<std::string, SchedulerStats>>& models) const {
    std::string out;
    const auto gauge = [&](std::string_view name, std::string_view type, std::string_view help, auto get) {
        head(out, name, type, help);
        for (const auto& [model, stats] : models) {
            line(out, name, label("model", model), static_cast<double>(get(stats)));
        }
    };
    using Stats = const SchedulerStats&;
    gauge("hearth_answers_waiting", "gauge", "Answers in the queue.", [](Stats s) { return s.waiting; });
    gauge("hearth_choices_running", "gauge", "Choices being decoded.", [](Stats s) { return s.running; });
    gauge("hearth_kv_blocks", "gauge", "KV blocks in all.", [](Stats s) { return s.kv_blocks; });
    gauge("hearth_kv_blocks_free", "gauge", "KV blocks not used.", [](Stats s) { return s.kv_blocks_free; });
    gauge("hearth_kv_blocks_cached", "gauge", "KV blocks used only by known prefixes.",
          [](Stats s) { return s.kv_blocks_cached; });
    gauge("hearth_steps_total", "counter", "Forward passes.", [](Stats s) { return s.steps; });
    gauge("hearth_prompt_tokens_total", "counter", "Prompt tokens.", [](Stats s) { return s.prompt_tokens; });
    gauge("hearth_cached_tokens_total", "counter", "Prompt tokens that were not computed again.",
          [](Stats s) { return s.cached_tokens; });
    gauge("hearth_generated_tokens_total", "counter", "Tokens generated.", [](Stats s) { return s.generated_tokens; });
    gauge("hearth_preemptions_total", "counter", "Answers that had to give their KV back for a while.",
          [](Stats s) { return s.preemptions; });
    gauge("hearth_cancellations_total", "counter", "Answers cancelled.", [](Stats s) { return s.cancellations; });
    gauge("hearth_last_batch_rows", "gauge", "Rows of the last step.", [](Stats s) { return s.last_batch_rows; });

    const std::scoped_lock lock(mutex_);
    head(out, "hearth_requests_total", "counter", "Requests by route.");
    for (const auto& [route, count] : requests_) {
        line(out, "hearth_requests_total", label("route", route), static_cast<double>(count));
    }
    head(out, "hearth_refused_total", "counter", "Requests answered with an error, by status.");
    for (const auto& [status, count] : refused_) {
        line(out, "hearth_refused_total", label("status", std::to_string(status)), static_cast<double>(count));
    }
    const auto counter = [&](std::string_view name, std::string_view help, std::uint64_t PerModel::*field) {
        head(out, name, "counter", help);
        for (const auto& [model, data] : models_) {
            line(out, name, label("model", model), static_cast<double>(data.*field));
        }
    };
    counter("hearth_answers_total", "Answered requests.", &PerModel::answers);
    counter("hearth_answers_cancelled_total", "Of these, cancelled by their clients.", &PerModel::cancelled);
    counter("hearth_answers_failed_total", "Of these, failed.", &PerModel::failed);
    counter("hearth_prefix_hits_total", "Of these, with a known beginning of the prompt.", &PerModel::prefix_hits);
    const auto histogram = [&](std::string_view name, std::string_view help, Histogram PerModel::*field) {
        head(out, name, "histogram", help);
        for (const auto& [model, data] : models_) (data.*field).write(out, name, label("model", model));
    };
    histogram("hearth_first_token_seconds", "From submission to the first token.", &PerModel::first_token);
    histogram("hearth_between_tokens_seconds", "Between two tokens of one choice.", &PerModel::between_tokens);
    histogram("hearth_queue_seconds", "Waiting before the first step.", &PerModel::queue);
    histogram("hearth_answer_seconds", "From submission to the end.", &PerModel::seconds);
    histogram("hearth_prompt_tokens", "Tokens of a prompt.", &PerModel::prompt_tokens);
    histogram("hearth_generated_tokens", "Tokens of an answer.", &PerModel::generated_tokens);
    histogram("hearth_batch_rows", "Rows of a step.", &PerModel::batch_rows);
    histogram("hearth_step_seconds", "Time of a step.", &PerModel::step_seconds);
    return out;
}

}  // namespace hearth
