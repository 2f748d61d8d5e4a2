// hearth bench: how fast a model runs here, against the memory roof and, if asked, against llama.cpp.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/clock.h"
#include "cli/bench_peer.h"
#include "cli/bench_report.h"
#include "cli/catalogue.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "engine/sequence.h"
#include "gguf/gguf.h"
#include "machine/affinity.h"
#include "machine/bandwidth.h"
#include "models/hyperparameters.h"
#include "tensor/attention.h"

namespace hearth {

namespace {

constexpr std::size_t kDefaultRepetitions = 5;
constexpr double kProbeSeconds = 0.03;  // of reading memory after each repetition
constexpr std::size_t kBatchLimit = 64;

Status check_interrupt() {
    if (!InterruptScope::requested()) return {};
    return Error{ErrorCode::Cancelled, "bench: interrupted"};
}

// What else ran when the bench began. Engines whose threads wait for each other by spinning fall to a tenth of their
// speed on a busy machine, others do not: figures taken there compare nothing.
std::string busy_warning() {
    double load = 0;
    const std::size_t cpus = std::max<std::size_t>(allowed_cpus().size(), 1);
    if (::getloadavg(&load, 1) != 1 || load < 0.5 * static_cast<double>(cpus)) return "";
    return "the machine was busy before (load " + format_number(load, 1) + " on " + std::to_string(cpus) +
           " CPUs): these figures are not to be compared";
}

// Does what a test asks for and times it. Tokens are arbitrary: nothing is sampled, as in llama-bench, so both do the
// same work. Sequences are kept from run to run and only go back, so a depth is computed once.
class BenchRunner {
public:
    explicit BenchRunner(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {
        SamplingOptions greedy;
        greedy.temperature = 0;
        options_ = std::make_shared<const SamplingOptions>(greedy);
    }

    // Tokens a second.
    Result<double> run(const BenchTest& test) {
        while (sequences_.size() < test.rows()) sequences_.emplace_back(engine_, options_);
        for (std::size_t row = 0; row < test.rows(); ++row) TRY(go_to(sequences_[row], test.depth));
        const PlacedCaller placed(engine_->pool());
        const double seconds = TRY(test.kind == BenchKind::Prompt ? time_prompt(test) : time_generate(test));
        return static_cast<double>(test.rows() * test.tokens) / std::max(seconds, 1e-9);
    }

private:
    // A valid id, scattered over the vocabulary; BOS where a model's texts begin with one.
    TokenId token_at(std::size_t position) const {
        const Tokenizer& tokenizer = engine_->tokenizer();
        if (position == 0 && tokenizer.adds_bos() && tokenizer.bos()) return *tokenizer.bos();
        return static_cast<TokenId>(position * 7919 % engine_->info().vocabulary);
    }

    Status append(Sequence& sequence, std::size_t count) {
        tokens_.clear();
        for (std::size_t i = 0; i < count; ++i) tokens_.push_back(token_at(sequence.length() + i));
        return sequence.append(tokens_);
    }

    // Leaves exactly `depth` tokens, all computed.
    Status go_to(Sequence& sequence, std::size_t depth) {
        TRY(sequence.regress(Time{static_cast<std::uint32_t>(std::min(depth, sequence.length()))}));
        TRY(append(sequence, depth - sequence.length()));
        while (sequence.pending() > 0) {
            TRY(check_interrupt());
            const Feed feed{&sequence, std::min(sequence.pending(), engine_->batch_rows()), Want::None};
            TRY(engine_->forward({&feed, 1}));
        }
        return {};
    }

    Result<double> time_prompt(const BenchTest& test) {
        Sequence& sequence = sequences_.front();
        TRY(append(sequence, test.tokens));
        const double started = monotonic_seconds();
        TRY(forward_pending(*engine_, sequence));
        return monotonic_seconds() - started;
    }

    Result<double> time_generate(const BenchTest& test) {
        std::vector<Feed> feeds(test.rows());
        for (std::size_t row = 0; row < test.rows(); ++row) feeds[row] = Feed{&sequences_[row], 1, Want::Last};
        const double started = monotonic_seconds();
        for (std::size_t step = 0; step < test.tokens; ++step) {
            TRY(check_interrupt());
            for (std::size_t row = 0; row < test.rows(); ++row) TRY(append(sequences_[row], 1));
            TRY(engine_->forward(feeds));
        }
        return monotonic_seconds() - started;
    }

    std::shared_ptr<Engine> engine_;
    std::shared_ptr<const SamplingOptions> options_;
    std::vector<Sequence> sequences_;
    std::vector<TokenId> tokens_;
};

constexpr Positional kPositionals[] = {kModelPositional};
constexpr Option kOptions[] = {{.name = "prompt",
                                .letter = 'p',
                                .kind = ValueKind::Whole,
                                .value_name = "N",
                                .help = "Tokens of the prompt test; 0 is none.",
                                .default_text = "512"},
                               {.name = "generate",
                                .letter = 'n',
                                .kind = ValueKind::Whole,
                                .value_name = "N",
                                .help = "Tokens of the decoding test; 0 is none.",
                                .default_text = "128"},
                               {.name = "depth",
                                .kind = ValueKind::Text,
                                .value_name = "LIST",
                                .help = "Tokens that stand before those measured, e.g. 0,2048,8192.",
                                .default_text = "0,2048"},
                               {.name = "batch",
                                .kind = ValueKind::Text,
                                .value_name = "LIST",
                                .help = "Sequences that decode together, e.g. 1,2,4,8; 0 is none.",
                                .default_text = "1,2,4,8"},
                               {.name = "repetitions",
                                .letter = 'r',
                                .kind = ValueKind::Whole,
                                .value_name = "N",
                                .help = "How often each test is measured, after one run to warm up.",
                                .default_text = "5"},
                               kThreadsOption,
                               kThreadsPrefillOption,
                               kIsaOption,
                               kPackOption,
                               kPrefillOption,
                               kKvOption,
                               {.name = "against",
                                .kind = ValueKind::File,
                                .value_name = "PATH",
                                .help = "A llama-bench to run on the same file, taking turns with Hearth."}};
constexpr Example kExamples[] = {
    {"hearth bench smollm2-135m", "Prompt, decoding, both at a depth of 2048 tokens, and batches."},
    {"hearth bench model.gguf --against llama-bench --batch 0", "The same beside llama.cpp, with ratios."},
    {"hearth bench model.gguf --depth 0,8192 -r 3 --json", "Other depths, for programs."}};

struct BenchRequest {
    BenchPlan plan;
    std::size_t repetitions = kDefaultRepetitions;
    EngineOptions engine;
    std::string against;  // empty: nothing to compare with
};

Result<BenchRequest> read_request(const Arguments& arguments, const Environment& environment) {
    BenchRequest request;
    BenchPlan& plan = request.plan;
    plan.prompt = static_cast<std::size_t>(TRY(arguments.whole("prompt", 0, kContextLimit)).value_or(plan.prompt));
    plan.generate =
        static_cast<std::size_t>(TRY(arguments.whole("generate", 0, kContextLimit)).value_or(plan.generate));
    plan.depths = TRY(parse_sizes("--depth", arguments.text("depth").value_or("0,2048"), 0, kContextLimit));
    plan.batches = TRY(parse_sizes("--batch", arguments.text("batch").value_or("1,2,4,8"), 0, kBatchLimit));
    std::erase(plan.batches, std::size_t{0});
    request.repetitions =
        static_cast<std::size_t>(TRY(arguments.whole("repetitions", 1, 1000)).value_or(kDefaultRepetitions));
    request.engine = TRY(engine_options(arguments, environment));
    request.against = arguments.text("against").value_or("");
    if (list_tests(plan).empty()) {
        return Error{ErrorCode::Usage, "bench: nothing is left to measure with --prompt 0 and --generate 0"};
    }
    return request;
}

// The tests that fit the model's context; the others are named on standard error.
Result<std::vector<BenchTest>> fitting_tests(const BenchPlan& plan, const std::string& path, Console& console) {
    const GgufFile file = TRY(GgufFile::open(path));
    const std::size_t limit = TRY(read_hyperparameters(file, BuildRequest{})).trained_context;
    std::vector<BenchTest> fitting;
    std::string skipped;
    for (const BenchTest& test : list_tests(plan)) {
        if (test.positions() <= limit) {
            fitting.push_back(test);
        } else {
            skipped += (skipped.empty() ? "" : ", ") + test.name();
        }
    }
    const std::string reason = "longer than the model's context of " + std::to_string(limit) + ": " + skipped;
    if (fitting.empty()) return Error{ErrorCode::Usage, "bench: every test is " + reason};
    if (!skipped.empty()) console.note(console.for_error(Style::Dim, "skipped, " + reason));
    return fitting;
}

Result<std::shared_ptr<Engine>> load_for(std::span<const BenchTest> tests, const std::string& path,
                                         EngineOptions options, Console& console) {
    const auto blocks_for = [](std::size_t positions) { return positions / kKvBlockTokens + 2; };
    std::size_t batch_blocks = 0;
    for (const BenchTest& test : tests) {
        options.context = std::max(options.context, test.positions());
        batch_blocks = std::max(batch_blocks, test.rows() * blocks_for(test.positions()));
    }
    options.kv_blocks = blocks_for(options.context) + batch_blocks;
    options.wanted_rows = kBatchLimit;
    return load_engine(path, options, console);
}

struct BenchSamples {
    std::vector<double> ours;
    std::vector<double> theirs;
    std::vector<double> roofs;
};

BenchResult result_of(const BenchTest& test, BenchSamples samples, const Engine& engine) {
    BenchResult result{
        .test = test, .rate = summarise(std::move(samples.ours)), .peer = {}, .roof_share = {}, .roof_gb_per_s = {}};
    if (!samples.theirs.empty()) result.peer = summarise(std::move(samples.theirs));
    const double roof = summarise(std::move(samples.roofs)).median;
    if (roof > 0) {
        result.roof_gb_per_s = roof;
        const double steps = result.rate.median / static_cast<double>(test.rows());
        const double gb_per_s = static_cast<double>(engine.weight_bytes()) * steps / 1e9;
        if (test.kind == BenchKind::Generate) result.roof_share = gb_per_s / roof;
    }
    return result;
}

// How many tests from the first on take turns: batches, which are told relative to each other.
std::size_t in_turn(std::span<const BenchTest> tests) {
    const auto end = std::ranges::find(tests, std::size_t{0}, &BenchTest::batch);
    return std::max<std::size_t>(static_cast<std::size_t>(end - tests.begin()), 1);
}

// Whatever is compared takes turns, so that whatever else the machine does meets all: our repetitions, the peer's,
// reads of plain memory, and the batches. A peer begins each of its own with a run that does not count, and its end
// leaves the system work to do (a GB to take back): beside one ours begin so too.
Result<std::vector<BenchResult>> measure(std::span<const BenchTest> tests, const BenchRequest& request, Engine& engine,
                                         const BenchPeer& peer, ReadProbe& probe, Console& console) {
    BenchRunner runner(engine.shared_from_this());
    ProgressBar bar(console, "bench", tests.size() * request.repetitions, ProgressBar::Unit::Items);
    std::vector<BenchResult> results;
    std::size_t done = 0;
    while (!tests.empty()) {
        const std::span<const BenchTest> group = tests.first(in_turn(tests));
        std::vector<BenchSamples> samples(group.size());
        const auto begin = [&](const BenchTest& test) {
            bar.set_note(test.name());
            bar.update(done);
        };
        for (const BenchTest& test : group) {
            begin(test);
            TRY(runner.run(test));
        }
        bool beside_peer = false;
        for (std::size_t taken = 0; taken < request.repetitions * group.size(); ++taken) {
            const BenchTest& test = group[taken % group.size()];
            BenchSamples& of_test = samples[taken % group.size()];
            begin(test);
            if (beside_peer) TRY(runner.run(test));
            of_test.ours.push_back(TRY(runner.run(test)));
            of_test.roofs.push_back(probe.measure(kProbeSeconds));
            if (!peer.program.empty() && test.batch == 0) {
                const Result<double> rate = measure_peer(peer, test, [&] { bar.update(done); });
                TRY(check_interrupt());  // Ctrl-C ends the child too: that is no fault of its own
                if (!rate.ok()) return rate.error();
                of_test.theirs.push_back(rate.value());
                beside_peer = true;
            }
            TRY(check_interrupt());
            bar.update(++done);
        }
        for (std::size_t i = 0; i < group.size(); ++i) {
            results.push_back(result_of(group[i], std::move(samples[i]), engine));
        }
        tests = tests.subspan(group.size());
    }
    return results;
}

Status run_bench(const Arguments& arguments, Session& session) {
    Console& console = session.console;
    const BenchRequest request = TRY(read_request(arguments, session.environment));
    const Catalogue catalogue = TRY(Catalogue::load(session.environment));
    const std::string path = TRY(resolve_model(session.environment, catalogue, *arguments.positional(0)));
    const std::vector<BenchTest> tests = TRY(fitting_tests(request.plan, path, console));
    const std::shared_ptr<Engine> engine = TRY(load_for(tests, path, request.engine, session.console));
    const std::size_t threads = engine->threads();
    const std::string warning = busy_warning();
    const InterruptScope interrupts;
    ThreadPool probe_pool(threads);
    ReadProbe probe(probe_pool, bytes_beyond_caches(detect_machine().topology));
    const BenchPeer peer{request.against, path, threads};
    const std::vector<BenchResult> results = TRY(measure(tests, request, *engine, peer, probe, console));
    if (!warning.empty()) console.note(warning);

    const std::string_view peer_column = request.against.empty() ? "" : "llama.cpp";
    if (arguments.flag("json")) {
        console.print_line(bench_json(results, threads, peer_column).dump());
        return {};
    }
    std::vector<double> roofs;
    for (const BenchResult& result : results) roofs.push_back(result.roof_gb_per_s.value_or(0));
    console.print(bench_table(results, peer_column));
    console.note(console.for_error(Style::Dim, "median of " + std::to_string(request.repetitions) + " · cpu " +
                                                   std::to_string(threads) + (threads == 1 ? " thread" : " threads") +
                                                   " " + std::string(engine->isa()) + " · " +
                                                   format_bytes(engine->weight_bytes()) + " read a token · memory " +
                                                   format_number(summarise(roofs).median, 1) + " GB/s"));
    return {};
}

}  // namespace

const Command kBenchCommand = {
    "bench",
    "Measure how fast a model runs here",
    "Times prompts (pp), decoding (tg), both at a depth (@d) and several sequences decoding together (@b). The figures "
    "are medians with their standard deviation. roof is the share of the memory bandwidth, measured after each "
    "repetition, that reading the weights takes; step time is how long a step of a batch takes, one row being 1: "
    "batches take turns. Nothing is sampled. With --against the same tests, except batches, run in llama.cpp with as "
    "many threads, each repetition after ours, and both begin with a run that does not count.",
    kPositionals,
    kOptions,
    kExamples,
    run_bench};

}  // namespace hearth
