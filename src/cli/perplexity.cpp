// hearth perplexity: how well a model predicts a text.
#include "cli/perplexity.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/clock.h"
#include "base/json.h"
#include "cli/catalogue.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "machine/thread_pool.h"

namespace hearth {

double PerplexitySum::perplexity() const {
    return tokens == 0 ? 0.0 : std::exp(nll / static_cast<double>(tokens));
}

double PerplexitySum::error() const {
    if (tokens < 2) return 0.0;
    const double mean = nll / static_cast<double>(tokens);
    const double variance = nll_squared / static_cast<double>(tokens) - mean * mean;
    return variance > 0 ? std::sqrt(variance / static_cast<double>(tokens - 1)) * perplexity() : 0.0;
}

namespace {

// Scores rows of logits: row i predicts `expected[i]`. The sum is taken in the order of the rows.
Status score(const Logits& logits, std::span<const TokenId> expected, ThreadPool& pool, PerplexitySum& sum) {
    std::vector<double> row_nll(expected.size());
    pool.for_each(expected.size(), [&](std::size_t i, std::size_t) {
        const std::span<const float> row = logits.row(i);
        row_nll[i] = log_sum_exp(row) - static_cast<double>(row[static_cast<std::size_t>(expected[i])]);
    });
    for (const double nll : row_nll) {
        if (!std::isfinite(nll)) return Error{ErrorCode::Failed, "the model produced NaN or infinite logits"};
        sum.nll += nll;
        sum.nll_squared += nll * nll;
        ++sum.tokens;
    }
    return {};
}

// Sum over the rows of KL(baseline || measured), in their order.
double divergence(const Logits& baseline, const Logits& measured, ThreadPool& pool) {
    std::vector<double> rows(measured.rows());
    pool.for_each(rows.size(), [&](std::size_t r, std::size_t) {
        const std::span<const float> p = baseline.row(r);
        const std::span<const float> q = measured.row(r);
        const double p_total = log_sum_exp(p);
        const double q_total = log_sum_exp(q);
        for (std::size_t i = 0; i < p.size(); ++i) {
            const double log_p = static_cast<double>(p[i]) - p_total;
            rows[r] += std::exp(log_p) * (log_p - (static_cast<double>(q[i]) - q_total));
        }
    });
    double sum = 0;
    for (const double row : rows) sum += row;
    return sum;
}

// The same tokens through one engine or two.
class Windows {
public:
    Windows(Engine& engine, PerplexityBaseline* baseline)
        : scorers_(engine.threads()), measured_(engine.shared_from_this(), std::make_shared<SamplingOptions>()) {
        if (baseline == nullptr) return;
        baseline_ = baseline;
        other_.emplace(baseline->engine->shared_from_this(), std::make_shared<SamplingOptions>());
    }

    Status begin(std::span<const TokenId> input) {
        TRY(measured_.regress(Time{0}));
        TRY(measured_.append(input));
        if (!other_) return {};
        TRY(other_->regress(Time{0}));
        return other_->append(input);
    }

    // Reads tokens up to `position` without scoring.
    Status read_to(std::size_t position) {
        while (measured_.computed() < position) {
            const std::size_t rows = std::min(position - measured_.computed(), measured_.engine().batch_rows());
            TRY(forward(measured_, rows, Want::None));
            if (other_) TRY(forward(*other_, rows, Want::None));
        }
        return {};
    }

    // Scores all that is left of the window `source`.
    Status score_rest(std::span<const TokenId> source, PerplexitySum& sum) {
        const Engine& engine = measured_.engine();
        while (measured_.pending() > 0) {
            const std::size_t at = measured_.computed();
            const std::size_t rows = std::min({measured_.pending(), engine.batch_rows(), engine.wanted_rows()});
            const std::span<const TokenId> expected = source.subspan(at + 1, rows);
            const Logits logits = TRY(forward(measured_, rows, Want::All));
            TRY(score(logits, expected, scorers_, sum));
            if (!other_) continue;
            const Logits exact = TRY(forward(*other_, rows, Want::All));
            TRY(score(exact, expected, scorers_, baseline_->sum));
            baseline_->divergence += divergence(exact, logits, scorers_);
        }
        return {};
    }

private:
    static Result<Logits> forward(Sequence& sequence, std::size_t rows, Want want) {
        const Feed feed{&sequence, rows, want};
        return sequence.engine().forward({&feed, 1});
    }

    ThreadPool scorers_;
    Sequence measured_;
    PerplexityBaseline* baseline_ = nullptr;
    std::optional<Sequence> other_;
};

}  // namespace

Result<PerplexitySum> measure_perplexity(Engine& engine, std::span<const TokenId> tokens, std::size_t window,
                                         std::size_t chunks,
                                         const std::function<bool(std::size_t, const PerplexitySum&)>& on_window,
                                         PerplexityBaseline* baseline) {
    const Tokenizer& tokenizer = engine.tokenizer();
    PerplexitySum sum = {};
    Windows windows(engine, baseline);
    std::vector<TokenId> input;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        const std::span<const TokenId> source = tokens.subspan(chunk * window, window);
        // The last token is only predicted, never read.
        input.assign(source.begin(), source.end() - 1);
        if (tokenizer.adds_bos() && tokenizer.bos()) input[0] = *tokenizer.bos();
        TRY(windows.begin(input));
        TRY(windows.read_to(window / 2));
        TRY(windows.score_rest(source, sum));
        if (!on_window(chunk + 1, sum)) return Error{ErrorCode::Cancelled, "perplexity: interrupted"};
    }
    return sum;
}

namespace {

constexpr std::size_t kDefaultWindow = 512;

constexpr Positional kPositionals[] = {kModelPositional};
constexpr Option kOptions[] = {{.name = "file",
                                .letter = 'f',
                                .kind = ValueKind::File,
                                .value_name = "FILE",
                                .help = "The text to predict; - is standard input."},
                               {.name = "ctx",
                                .kind = ValueKind::Whole,
                                .value_name = "N",
                                .help = "Tokens of a window; the second half of each is scored.",
                                .default_text = "512"},
                               {.name = "chunks",
                                .kind = ValueKind::Whole,
                                .value_name = "N",
                                .help = "Windows to score at most.",
                                .default_text = "all"},
                               kThreadsOption,
                               kThreadsPrefillOption,
                               kIsaOption,
                               kPackOption,
                               kPrefillOption,
                               kKvOption,
                               {.name = "compare-exact",
                                .help = "Predict with exact prompts and an f16 KV cache as well, and tell how far the "
                                        "two are apart: the mean Kullback-Leibler divergence."},
                               kEagerOption};
constexpr Example kExamples[] = {
    {"hearth perplexity smollm2-135m -f wiki.test.raw", "The figure other engines quote for this text."},
    {"hearth perplexity model.gguf -f text.txt --chunks 10 --json", "A quick estimate, for programs."},
    {"hearth perplexity model.gguf -f text.txt --kv q8 --compare-exact", "What a smaller KV cache costs."}};

struct Measured {
    PerplexitySum sum = {};
    std::optional<PerplexityBaseline> exact = {};
    std::size_t window = 0;
    std::size_t chunks = 0;
    std::size_t file_tokens = 0;
    double seconds = 0;

    double tokens_per_second() const { return static_cast<double>(chunks * window) / seconds; }
    double mean_divergence() const { return exact->divergence / static_cast<double>(sum.tokens); }
};

void report(const Measured& m, const Engine& engine, bool as_json, Console& console) {
    if (as_json) {
        Json::Object object{{"perplexity", m.sum.perplexity()},
                            {"error", m.sum.error()},
                            {"tokens", static_cast<std::uint64_t>(m.sum.tokens)},
                            {"chunks", static_cast<std::uint64_t>(m.chunks)},
                            {"ctx", static_cast<std::uint64_t>(m.window)},
                            {"file_tokens", static_cast<std::uint64_t>(m.file_tokens)},
                            {"seconds", m.seconds},
                            {"tok_s", m.tokens_per_second()},
                            {"threads", static_cast<std::uint64_t>(engine.threads())},
                            {"kv", kv_type_name(engine.kv_layout().type)},
                            {"isa", engine.isa()}};
        if (m.exact) {
            object.emplace_back("exact_perplexity", m.exact->sum.perplexity());
            object.emplace_back("kl_divergence", m.mean_divergence());
        }
        console.print_line(Json(std::move(object)).dump());
        return;
    }
    console.print_line("perplexity  " + format_number(m.sum.perplexity(), 4) + " ± " + format_number(m.sum.error(), 5));
    if (m.exact) {
        console.print_line("exact       " + format_number(m.exact->sum.perplexity(), 4) + ", mean KL divergence " +
                           format_number(m.mean_divergence(), 6));
    }
    console.print_line("tokens      " + std::to_string(m.sum.tokens) + " scored in " + std::to_string(m.chunks) +
                       " windows of " + std::to_string(m.window));
    console.note(console.for_error(Style::Dim, format_number(m.seconds, 1) + " s · " +
                                                   format_number(m.tokens_per_second(), 1) + " tok/s · cpu " +
                                                   std::to_string(engine.threads()) + " threads"));
}

Status run_perplexity(const Arguments& arguments, Session& session) {
    Console& console = session.console;
    const std::optional<std::string> file = arguments.text("file");
    if (!file) return Error{ErrorCode::Usage, "perplexity: -f FILE is missing: the text to predict"};
    EngineOptions options = TRY(engine_options(arguments, session.environment));
    const std::size_t window =
        static_cast<std::size_t>(TRY(arguments.whole("ctx", 8, kContextLimit)).value_or(kDefaultWindow));
    const std::uint64_t wanted_chunks = TRY(arguments.whole("chunks", 1, 1u << 30)).value_or(1u << 30);
    const std::string text = TRY(read_text_file(*file));
    const Catalogue catalogue = TRY(Catalogue::load(session.environment));
    options.context = window;
    const std::string path = TRY(resolve_model(session.environment, catalogue, *arguments.positional(0)));
    const std::shared_ptr<Engine> engine = TRY(load_engine(path, options, console));
    const std::vector<TokenId> tokens = engine->tokenizer().encode(text, AddSpecial::Yes, ParseSpecial::No);
    if (tokens.size() < 2 * window) {
        return Error{ErrorCode::Usage, *file + ": has " + std::to_string(tokens.size()) + " tokens, " +
                                           std::to_string(2 * window) + " are needed with windows of " +
                                           std::to_string(window)};
    }
    const std::size_t chunks = static_cast<std::size_t>(std::min<std::uint64_t>(wanted_chunks, tokens.size() / window));
    Measured measured{.window = window, .chunks = chunks, .file_tokens = tokens.size()};
    std::shared_ptr<Engine> exact;
    if (arguments.flag("compare-exact")) {
        options.prefill = Prefill::Exact;
        options.kv_type = KvType::F16;
        exact = TRY(load_engine(path, options, console));
        measured.exact = PerplexityBaseline{.engine = exact.get()};
    }
    const InterruptScope interrupts;
    const double started = monotonic_seconds();
    ProgressBar bar(console, "perplexity", chunks, ProgressBar::Unit::Items);
    bar.update(0);
    const auto on_window = [&](std::size_t done, const PerplexitySum& so_far) {
        bar.set_note(format_number(so_far.perplexity(), 4) + " ± " + format_number(so_far.error(), 4));
        bar.update(done);
        return !InterruptScope::requested();
    };
    measured.sum = TRY(
        measure_perplexity(*engine, tokens, window, chunks, on_window, measured.exact ? &*measured.exact : nullptr));
    bar.clear();
    measured.seconds = monotonic_seconds() - started;
    report(measured, *engine, arguments.flag("json"), console);
    return {};
}

}  // namespace

const Command kPerplexityCommand = {
    "perplexity",
    "Measure how well a model predicts a text",
    "Cuts a text into windows and scores how well the model predicts the second half of each: e to the mean negative "
    "log-likelihood, with its standard error. The protocol is llama.cpp's, so figures can be compared.",
    kPositionals,
    kOptions,
    kExamples,
    run_perplexity};

}  // namespace hearth
