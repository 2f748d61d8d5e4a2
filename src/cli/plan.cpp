// hearth plan: what a model needs of this machine and how fast it will run, before it is loaded.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "cli/catalogue.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "cli/model_plan.h"
#include "cli/wrapped.h"
#include "machine/bandwidth.h"
#include "machine/health.h"
#include "machine/machine.h"

namespace hearth {

namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kLabelWidth = 10;
constexpr std::size_t kSequenceLimit = 1024;

constexpr Positional kPositionals[] = {kModelPositional};
constexpr Option kOptions[] = {{.name = "context",
                                .letter = 'c',
                                .kind = ValueKind::Whole,
                                .value_name = "N",
                                .help = "Positions of each sequence (--ctx of the commands that compute).",
                                .default_text = "the model's, at most 8192"},
                               {.name = "ctx",
                                .kind = ValueKind::Whole,
                                .value_name = "N",
                                .help = "The same as --context.",
                                .visibility = Visibility::Hidden},
                               {.name = "batch",
                                .kind = ValueKind::Whole,
                                .value_name = "N",
                                .help = "Sequences that decode together, each with a context of its own.",
                                .default_text = "1"},
                               kKvOption,
                               kThreadsOption,
                               kIsaOption};
constexpr Example kExamples[] = {
    {"hearth plan smollm2-135m", "Memory by part, and the speed to expect at several depths."},
    {"hearth plan model.gguf --context 32768 --kv q8", "Whether a long context fits, and what it costs."},
    {"hearth plan model.gguf --batch 8 --json", "Eight sequences at a time, for programs."}};

struct Forecast {
    std::size_t depth_or_tokens = 0;
    double tokens_per_second = 0;
};

struct FullPlan {
    std::string path;
    std::string cpu;
    std::string isa;
    std::size_t threads = 0;
    double load_average = 0;  // of the machine, before anything was measured
    ModelLoad load;
    MemoryPlan memory;
    MeasuredSpeed speed;
    std::vector<Forecast> decode;  // by depth; of all sequences together
    std::vector<Forecast> prompt;  // by length
};

std::vector<Forecast> forecast_decode(const FullPlan& plan) {
    std::vector<Forecast> forecasts;
    for (const std::size_t depth : plan_depths(plan.memory.context)) {
        const double seconds = predict_step(plan.load, plan.speed, depth, plan.memory.sequences);
        forecasts.push_back({depth, seconds > 0 ? static_cast<double>(plan.memory.sequences) / seconds : 0});
    }
    return forecasts;
}

std::vector<Forecast> forecast_prompts(const FullPlan& plan) {
    std::vector<Forecast> forecasts;
    for (const std::size_t wanted : {std::size_t{512}, std::size_t{4096}}) {
        const std::size_t tokens = std::min(wanted, plan.memory.context);
        if (!forecasts.empty() && tokens <= forecasts.back().depth_or_tokens) break;
        const double seconds = predict_prompt(plan.load, plan.speed, tokens);
        forecasts.push_back({tokens, seconds > 0 ? static_cast<double>(tokens) / seconds : 0});
    }
    return forecasts;
}

Result<FullPlan> make_plan(const Arguments& arguments, Session& session) {
    FullPlan plan;
    PlanRequest request;
    std::optional<std::uint64_t> context = TRY(arguments.whole("context", 1, kContextLimit));
    if (!context) context = TRY(arguments.whole("ctx", 1, kContextLimit));
    request.context = static_cast<std::size_t>(context.value_or(0));
    request.sequences = static_cast<std::size_t>(TRY(arguments.whole("batch", 1, kSequenceLimit)).value_or(1));
    plan.threads = TRY(threads_option(arguments, session.environment));
    const std::string isa = arguments.text("isa").value_or(session.environment.isa);
    const Catalogue catalogue = TRY(Catalogue::load(session.environment));
    plan.path = TRY(resolve_model(session.environment, catalogue, *arguments.positional(0)));

    const Machine machine = detect_machine();
    if (plan.threads == 0) plan.threads = machine.recommended_threads;
    plan.cpu = machine.cpu_model.empty() ? machine.architecture : machine.cpu_model;
    plan.load_average = read_health(ProbeRoots{}, "/").load.value_or(0);
    ThreadPool pool(plan.threads);
    const CpuBackend backend = TRY(CpuBackend::create(isa, pool));  // an error lists the levels there are
    plan.isa = backend.isa();
    const GgufFile file = TRY(GgufFile::open(plan.path));
    plan.load = TRY(read_model_load(file, backend, request.context, kv_option(arguments)));
    if (request.context == 0) request.context = plan.load.info.context;
    plan.memory = plan_memory(plan.load, request, machine.memory.usable_bytes.value_or(kUnknownMemory));

    std::vector<DType> types;
    for (const WeightLoad& weight : plan.load.weights) types.push_back(weight.type);
    plan.speed.read_bytes_per_second = ReadProbe(pool, bytes_beyond_caches(machine.topology)).measure() * 1e9;
    if (!plan.load.attention.empty()) {
        plan.speed.kernels =
            measure_kernels(*find_kernels(plan.isa), pool, types, plan.load.attention.front(), plan.load.kv_type);
    }
    plan.decode = forecast_decode(plan);
    plan.prompt = forecast_prompts(plan);
    return plan;
}

std::string percent(double share) {
    return format_number(100.0 * share, 0) + "%";
}

std::string assumptions_text() {
    return "Reading the weights takes " + percent(kPlanShares.quantised) + " of the memory bandwidth measured (" +
           percent(kPlanShares.floats) + " where they are floats), reading the KV cache " + percent(kPlanShares.kv) +
           "; computing takes " + percent(kPlanShares.compute) +
           " of the kernels' speed measured in the cache. The slower of the two counts. The machine is otherwise "
           "idle and the model in memory. Expect a fifth more or less; hearth bench MODEL measures.";
}

// Lines "label  item  figure  remark", items and figures aligned over the whole text.
class Sheet {
public:
    void line(std::string label, std::string item, std::string figure, std::string remark = {}) {
        lines_.push_back({std::move(label), std::move(item), std::move(figure), std::move(remark)});
    }
    std::string text() const {
        std::size_t item_width = 0;
        std::size_t figure_width = 0;
        for (const Line& line : lines_) {
            item_width = std::max(item_width, line.item.size());
            figure_width = std::max(figure_width, line.figure.size());
        }
        std::string text;
        for (const Line& line : lines_) {
            std::string row = padded(line.label, kLabelWidth) + padded(line.item, item_width + 2) +
                              std::string(figure_width - line.figure.size(), ' ') + line.figure;
            if (!line.remark.empty()) row += "  " + line.remark;
            row.erase(row.find_last_not_of(' ') + 1);
            text += row + "\n";
        }
        return text;
    }

private:
    struct Line {
        std::string label;
        std::string item;
        std::string figure;
        std::string remark;
    };
    static std::string padded(std::string text, std::size_t width) {
        text.resize(std::max(width, text.size()), ' ');
        return text;
    }
    std::vector<Line> lines_;
};

std::string plan_text(const FullPlan& plan, const Console& console) {
    const MemoryPlan& memory = plan.memory;
    const auto paragraph = [](std::string_view label, std::string_view text) {
        return std::string(label) + std::string(kLabelWidth - label.size(), ' ') + wrapped(text, kLabelWidth, kWidth) +
               "\n";
    };
    const double bits = 8.0 * static_cast<double>(plan.load.file_bytes) /
                        static_cast<double>(std::max<std::uint64_t>(plan.load.parameters, 1));
    std::string text = paragraph("model", plan.load.info.architecture + ", " +
                                              format_number(static_cast<double>(plan.load.parameters) / 1e6, 1) +
                                              " M parameters of " + format_number(bits, 1) + " bits, " +
                                              format_bytes(plan.load.weight_bytes()) + " read for a token");
    text += paragraph("machine", plan.cpu + ", " + std::to_string(plan.threads) +
                                     (plan.threads == 1 ? " thread, " : " threads, ") + plan.isa + ", memory read at " +
                                     format_number(plan.speed.read_bytes_per_second / 1e9, 1) + " GB/s");
    Sheet sheet;
    sheet.line("", "", "");
    sheet.line("memory", "weights", format_bytes(memory.weights), memory.packed != 0 ? "not packed: read by rows" : "");
    if (memory.packed != 0)
        sheet.line("", "packed weights", format_bytes(memory.packed), "in the order of the kernels");
    sheet.line("", "KV cache, " + std::string(kv_type_name(plan.load.kv_type)), format_bytes(memory.kv),
               (memory.sequences > 1 ? std::to_string(memory.sequences) + " times " : std::string()) +
                   std::to_string(memory.context) + " positions of " + format_bytes(plan.load.kv_position_bytes));
    sheet.line("", "activations", format_bytes(memory.activations));
    sheet.line("", "total", format_bytes(memory.total()),
               memory.available == kUnknownMemory ? "" : "of " + format_bytes(memory.available) + " available");
    sheet.line("", "", "");
    for (const Forecast& forecast : plan.decode) {
        sheet.line(&forecast == plan.decode.data() ? "decode" : "",
                   "behind " + std::to_string(forecast.depth_or_tokens) + " tokens",
                   format_number(forecast.tokens_per_second, 1), "tok/s");
    }
    for (const Forecast& forecast : plan.prompt) {
        const double seconds =
            static_cast<double>(forecast.depth_or_tokens) / std::max(forecast.tokens_per_second, 1e-9);
        sheet.line(&forecast == plan.prompt.data() ? "prompt" : "",
                   "of " + std::to_string(forecast.depth_or_tokens) + " tokens",
                   format_number(forecast.tokens_per_second, 1), "tok/s, " + format_number(seconds, 1) + " s");
    }
    sheet.line("", "", "");
    text += sheet.text();
    if (memory.context > plan.load.info.trained_context) {
        text += wrapped("The model was made for " + std::to_string(plan.load.info.trained_context) +
                            " positions: beyond them its answers get worse.",
                        0, kWidth) +
                "\n\n";
    }
    if (!memory.fits) {
        text += console.for_output(Style::Red, "It does not fit: " +
                                                   format_bytes(plan.load.file_bytes + memory.kv + memory.activations) +
                                                   " are needed, " + format_bytes(memory.available) + " available.") +
                "\n";
        for (const std::string& advice : memory.advice) text += "  - " + wrapped(advice, 4, kWidth) + "\n";
        text += "\n";
    } else if (!memory.packed_fits) {
        text += wrapped("There is no room for packed weights (" + format_bytes(plan.load.packed_bytes) +
                            "): it runs from the file as it is, slower than told here.",
                        0, kWidth) +
                "\n\n";
    }
    return text + paragraph("assumed", assumptions_text());
}

Json plan_json(const FullPlan& plan) {
    const MemoryPlan& memory = plan.memory;
    const auto forecasts = [](const std::vector<Forecast>& list, const char* key) {
        Json::Array all;
        for (const Forecast& forecast : list) {
            all.push_back(
                Json::Object{{key, std::uint64_t{forecast.depth_or_tokens}}, {"tok_s", forecast.tokens_per_second}});
        }
        return all;
    };
    Json::Array advice;
    for (const std::string& line : memory.advice) advice.push_back(line);
    Json::Array types;
    for (const WeightLoad& weight : plan.load.weights) {
        const MatmulSpeed* speed = plan.speed.kernels.find(weight.type);
        types.push_back(Json::Object{{"type", traits(weight.type).name},
                                     {"bytes", weight.bytes},
                                     {"multiplies_per_token", weight.multiplies},
                                     {"one_token_multiplies_s", speed != nullptr ? speed->one_token : 0.0},
                                     {"many_tokens_multiplies_s", speed != nullptr ? speed->many_tokens : 0.0}});
    }
    return Json::Object{
        {"model", Json::Object{{"path", plan.path},
                               {"architecture", plan.load.info.architecture},
                               {"parameters", plan.load.parameters},
                               {"file_bytes", plan.load.file_bytes},
                               {"read_bytes_per_token", plan.load.weight_bytes()},
                               {"trained_context", std::uint64_t{plan.load.info.trained_context}},
                               {"matrices", std::move(types)}}},
        {"machine", Json::Object{{"cpu", plan.cpu},
                                 {"isa", plan.isa},
                                 {"threads", std::uint64_t{plan.threads}},
                                 {"read_gb_s", plan.speed.read_bytes_per_second / 1e9}}},
        {"memory",
         Json::Object{{"context", std::uint64_t{memory.context}},
                      {"sequences", std::uint64_t{memory.sequences}},
                      {"weights_bytes", memory.weights},
                      {"packed_bytes", memory.packed},
                      {"kv_" + std::string(kv_type_name(plan.load.kv_type)) + "_bytes", memory.kv},
                      {"activation_bytes", memory.activations},
                      {"total_bytes", memory.total()},
                      {"available_bytes", memory.available == kUnknownMemory ? Json() : Json(memory.available)},
                      {"fits", memory.fits},
                      {"packed_fits", memory.packed_fits},
                      {"advice", std::move(advice)}}},
        {"decode", forecasts(plan.decode, "depth")},
        {"prompt", forecasts(plan.prompt, "tokens")},
        {"assumptions", Json::Object{{"bandwidth_share_quantised", kPlanShares.quantised},
                                     {"bandwidth_share_floats", kPlanShares.floats},
                                     {"bandwidth_share_kv", kPlanShares.kv},
                                     {"compute_share", kPlanShares.compute}}}};
}

Status run_plan(const Arguments& arguments, Session& session) {
    const FullPlan plan = TRY(make_plan(arguments, session));
    Console& console = session.console;
    if (plan.load_average > 0.5 * static_cast<double>(plan.threads)) {
        console.note("the machine is busy (load " + format_number(plan.load_average, 1) +
                     "): what was measured under it is too low");
    }
    console.print(arguments.flag("json") ? plan_json(plan).dump(2) + "\n" : plan_text(plan, console));
    return {};
}

}  // namespace

const Command kPlanCommand = {
    "plan",
    "Tell what a model needs and how fast it will run",
    "Tells the memory a model takes, part by part, against what is available, and the speed to expect of decoding and "
    "of "
    "prompts. Loads no weights: the tensor table says how much is read and computed for a token, and a quarter of a "
    "second of measuring says how fast this machine reads memory and multiplies. When something does not fit, it says "
    "what would.",
    kPositionals,
    kOptions,
    kExamples,
    run_plan};

}  // namespace hearth
