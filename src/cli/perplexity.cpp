// hearth perplexity: how well a model predicts a text.
#include "cli/perplexity.h"

#include <algorithm>
#include <cmath>

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

}  // namespace

Result<PerplexitySum> measure_perplexity(Engine& engine, std::span<const TokenId> tokens, std::size_t window,
                                         std::size_t chunks,
                                         const std::function<bool(std::size_t, const PerplexitySum&)>& on_window) {
    const Tokenizer& tokenizer = engine.tokenizer();
    PerplexitySum sum;
    ThreadPool scorers(engine.threads());
    Sequence sequence(engine.shared_from_this(), std::make_shared<SamplingOptions>());
    const std::size_t first = window / 2;
    std::vector<TokenId> input;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        const std::span<const TokenId> source = tokens.subspan(chunk * window, window);
        // The last token is only predicted, never read.
        input.assign(source.begin(), source.end() - 1);
        if (tokenizer.adds_bos() && tokenizer.bos()) input[0] = *tokenizer.bos();
        TRY(sequence.regress(Time{0}));
        TRY(sequence.append(input));
        while (sequence.computed() < first) {
            const Feed feed{&sequence, std::min(first - sequence.computed(), engine.batch_rows()), Want::None};
            TRY(engine.forward({&feed, 1}));
        }
        while (sequence.pending() > 0) {
            const std::size_t at = sequence.computed();
            const Feed feed{&sequence, std::min({sequence.pending(), engine.batch_rows(), engine.wanted_rows()}),
                            Want::All};
            const Logits logits = TRY(engine.forward({&feed, 1}));
            TRY(score(logits, source.subspan(at + 1, feed.rows), scorers, sum));
        }
        if (!on_window(chunk + 1, sum)) return Error{ErrorCode::Cancelled, "perplexity: interrupted"};
    }
    return sum;
}

namespace {

constexpr std::size_t kDefaultWindow = 512;

constexpr Positional kPositionals[] = {
    {.name = "MODEL", .kind = ValueKind::Model, .help = "A GGUF file or a pulled model."}};
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
                               kIsaOption,
                               kPackOption,
                               kPrefillOption,
                               kEagerOption};
constexpr Example kExamples[] = {
    {"hearth perplexity smollm2-135m -f wiki.test.raw", "The figure other engines quote for this text."},
    {"hearth perplexity model.gguf -f text.txt --chunks 10 --json", "A quick estimate, for programs."}};

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
    const std::shared_ptr<Engine> engine = TRY(
        load_engine(TRY(resolve_model(session.environment, catalogue, *arguments.positional(0))), options, console));
    const std::vector<TokenId> tokens = engine->tokenizer().encode(text, AddSpecial::Yes, ParseSpecial::No);
    if (tokens.size() < 2 * window) {
        return Error{ErrorCode::Usage, *file + ": has " + std::to_string(tokens.size()) + " tokens, " +
                                           std::to_string(2 * window) + " are needed with windows of " +
                                           std::to_string(window)};
    }
    const std::size_t chunks = static_cast<std::size_t>(std::min<std::uint64_t>(wanted_chunks, tokens.size() / window));
    const InterruptScope interrupts;
    const double started = monotonic_seconds();
    ProgressBar bar(console, "perplexity", chunks, ProgressBar::Unit::Items);
    bar.update(0);
    const PerplexitySum sum =
        TRY(measure_perplexity(*engine, tokens, window, chunks, [&](std::size_t done, const PerplexitySum& so_far) {
            bar.set_note(format_number(so_far.perplexity(), 4) + " ± " + format_number(so_far.error(), 4));
            bar.update(done);
            return !InterruptScope::requested();
        }));
    bar.clear();
    const double seconds = monotonic_seconds() - started;
    const double rate = static_cast<double>(chunks * window) / seconds;
    if (arguments.flag("json")) {
        console.print_line(Json(Json::Object{{"perplexity", sum.perplexity()},
                                             {"error", sum.error()},
                                             {"tokens", static_cast<std::uint64_t>(sum.tokens)},
                                             {"chunks", static_cast<std::uint64_t>(chunks)},
                                             {"ctx", static_cast<std::uint64_t>(window)},
                                             {"file_tokens", static_cast<std::uint64_t>(tokens.size())},
                                             {"seconds", seconds},
                                             {"tok_s", rate},
                                             {"threads", static_cast<std::uint64_t>(engine->threads())},
                                             {"isa", engine->isa()}})
                               .dump());
        return {};
    }
    console.print_line("perplexity  " + format_number(sum.perplexity(), 4) + " ± " + format_number(sum.error(), 5));
    console.print_line("tokens      " + std::to_string(sum.tokens) + " scored in " + std::to_string(chunks) +
                       " windows of " + std::to_string(window));
    console.note(console.for_error(Style::Dim, format_number(seconds, 1) + " s · " + format_number(rate, 1) +
                                                   " tok/s · cpu " + std::to_string(engine->threads()) + " threads"));
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
