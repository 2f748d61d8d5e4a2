#include "cli/model_options.h"

#include <limits>

#include "machine/bandwidth.h"
#include "machine/machine.h"
#include "machine/thread_pool.h"

namespace hearth {

namespace {

constexpr std::uint64_t kThreadLimit = 1024;

Result<std::pair<TokenId, float>> parse_bias(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
        return Error{ErrorCode::Usage, "--logit-bias: '" + text + "' is not of the form ID=VALUE"};
    }
    const std::uint64_t highest = static_cast<std::uint64_t>(std::numeric_limits<TokenId>::max());
    const std::uint64_t token =
        TRY(parse_whole("--logit-bias: token id", std::string_view(text).substr(0, equals), 0, highest));
    const float bias = TRY(parse_real("--logit-bias", std::string_view(text).substr(equals + 1)));
    return std::pair<TokenId, float>(static_cast<TokenId>(token), bias);
}

// The command line has let only these through.
PackMode pack_mode(std::string_view name) {
    return name == "memory" ? PackMode::Memory : name == "off" ? PackMode::Off : PackMode::Auto;
}

Result<Prefill> parse_prefill(const std::string& text) {
    if (text == "exact") return Prefill::Exact;
    if (text == "fast") return Prefill::Fast;
    return Error{ErrorCode::Usage, "--prefill: '" + text + "' is neither exact nor fast"};
}

}  // namespace

Result<std::size_t> threads_option(const Arguments& arguments, const Environment& environment) {
    if (const auto given = TRY(arguments.whole("threads", 1, kThreadLimit))) return static_cast<std::size_t>(*given);
    if (environment.cpu_threads.empty()) return std::size_t{0};
    return static_cast<std::size_t>(TRY(parse_whole("HEARTH_CPU_THREADS", environment.cpu_threads, 1, kThreadLimit)));
}

// The command line has let only these through.
KvType kv_option(const Arguments& arguments) {
    const std::string name = arguments.text("kv").value_or("f16");
    return name == "q8" ? KvType::Q8 : name == "q4" ? KvType::Q4 : KvType::F16;
}

Result<EngineOptions> engine_options(const Arguments& arguments, const Environment& environment) {
    EngineOptions options;
    options.threads = TRY(threads_option(arguments, environment));
    options.threads_prefill =
        static_cast<std::size_t>(TRY(arguments.whole("threads-prefill", 1, kThreadLimit)).value_or(0));
    const std::optional<Pinning> pinning = parse_pinning(environment.cpu_pin);
    if (!pinning) return Error{ErrorCode::Usage, "HEARTH_CPU_PIN: '" + environment.cpu_pin + "' is neither 0 nor 1"};
    options.pinning = *pinning;
    options.isa = arguments.text("isa").value_or(environment.isa);
    options.context = static_cast<std::size_t>(TRY(arguments.whole("ctx", 1, kContextLimit)).value_or(0));
    if (arguments.flag("eager")) options.execution = Execution::Eager;
    options.pack = pack_mode(arguments.text("pack").value_or("auto"));
    options.prefill = TRY(parse_prefill(arguments.text("prefill").value_or("exact")));
    options.kv_type = kv_option(arguments);
    options.pack_folder = environment.packs_folder();
    return options;
}

Result<std::shared_ptr<Engine>> load_engine(const std::string& path, EngineOptions options, Console& console) {
    ProgressBar bar(console, "packing", 1, ProgressBar::Unit::Bytes);
    options.pack_progress = [&bar](std::size_t done, std::size_t total) {
        bar.set_total(total);
        bar.update(done);
    };
    std::shared_ptr<Engine> engine = TRY(Engine::load(path, options));
    bar.clear();
    if (const std::string& reason = engine->packed().reason(); !reason.empty()) {
        const bool slower = engine->packed().outcome() == PackOutcome::Unpacked;
        console.note(console.for_error(Style::Dim, std::string(slower ? "weights are not packed, which is slower: "
                                                                      : "packed weights are not kept: ") +
                                                       reason));
    }
    if (options.prefill == Prefill::Fast && engine->prefill() != Prefill::Fast) {
        console.note(console.for_error(Style::Dim, "--prefill fast: not available here, prompts are exact (kernels " +
                                                       std::string(engine->isa()) + ")"));
    }
    return engine;
}

Result<SamplingOptions> sampling_options(const Arguments& arguments) {
    SamplingOptions options;
    constexpr std::uint64_t kU32 = std::numeric_limits<std::uint32_t>::max();
    options.temperature = TRY(arguments.real("temperature")).value_or(options.temperature);
    options.top_k = static_cast<std::uint32_t>(TRY(arguments.whole("top-k", 0, kU32)).value_or(options.top_k));
    options.top_p = TRY(arguments.real("top-p")).value_or(options.top_p);
    options.min_p = TRY(arguments.real("min-p")).value_or(options.min_p);
    options.typical_p = TRY(arguments.real("typical")).value_or(options.typical_p);
    options.repetition_penalty = TRY(arguments.real("repetition-penalty")).value_or(options.repetition_penalty);
    options.frequency_penalty = TRY(arguments.real("frequency-penalty")).value_or(options.frequency_penalty);
    options.presence_penalty = TRY(arguments.real("presence-penalty")).value_or(options.presence_penalty);
    options.penalty_last =
        static_cast<std::uint32_t>(TRY(arguments.whole("penalty-last", 0, kU32)).value_or(options.penalty_last));
    options.seed = TRY(arguments.whole("seed", 0, std::numeric_limits<std::int64_t>::max())).value_or(options.seed);
    for (const std::string& text : arguments.texts("logit-bias")) {
        options.logit_bias.push_back(TRY(parse_bias(text)));
    }
    return options;
}

double measure_roof(std::size_t threads) {
    ThreadPool pool(threads);
    return ReadProbe(pool, bytes_beyond_caches(detect_machine().topology)).measure();
}

}  // namespace hearth
