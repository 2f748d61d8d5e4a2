// hearth run: one answer, or a chat.
#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "cli/catalogue.h"
#include "cli/commands.h"
#include "cli/conversation.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/pull.h"

namespace hearth {

namespace {

constexpr Positional kPositionals[] = {
    {.name = "MODEL",
     .kind = ValueKind::Model,
     .required = false,
     .help = "A GGUF file or a model's name; none: the default model, fetched on first use."},
    {.name = "PROMPT",
     .required = false,
     .help = "What to say; - or a piped standard input is the prompt, and is added to a PROMPT given. None, on a "
             "terminal: a chat."}};

constexpr Option kOptions[] = {
    {.name = "raw", .help = "Continue PROMPT as a bare text, without the chat template; standard input is not added."},
    {.name = "system", .letter = 's', .kind = ValueKind::Text, .value_name = "TEXT", .help = "System message."},
    {.name = "max-tokens",
     .letter = 'n',
     .kind = ValueKind::Whole,
     .value_name = "N",
     .help = "Tokens to generate at most.",
     .default_text = "until the answer ends or the context is full"},
    {.name = "temperature",
     .kind = ValueKind::Real,
     .value_name = "T",
     .help = "How freely to choose; 0 always takes the likeliest token.",
     .default_text = "0.8"},
    {.name = "top-k",
     .kind = ValueKind::Whole,
     .value_name = "K",
     .help = "Choose among the K likeliest tokens; 0 is off.",
     .default_text = "40"},
    {.name = "top-p",
     .kind = ValueKind::Real,
     .value_name = "P",
     .help = "Choose among the likeliest tokens that together have probability P; 1 is off.",
     .default_text = "0.95"},
    {.name = "min-p",
     .kind = ValueKind::Real,
     .value_name = "P",
     .help = "Drop tokens less than P times as likely as the likeliest; 0 is off.",
     .default_text = "0.05"},
    {.name = "typical",
     .kind = ValueKind::Real,
     .value_name = "P",
     .help = "Locally typical sampling up to probability P; 1 is off.",
     .default_text = "1"},
    {.name = "repetition-penalty",
     .kind = ValueKind::Real,
     .value_name = "X",
     .help = "Make tokens seen lately less likely; 1 is off.",
     .default_text = "1"},
    {.name = "frequency-penalty",
     .kind = ValueKind::Real,
     .value_name = "X",
     .help = "Take X off a token's logit for each time it was seen lately.",
     .default_text = "0"},
    {.name = "presence-penalty",
     .kind = ValueKind::Real,
     .value_name = "X",
     .help = "Take X off a token's logit once when it was seen lately.",
     .default_text = "0"},
    {.name = "penalty-last",
     .kind = ValueKind::Whole,
     .value_name = "N",
     .help = "How many tokens back \"lately\" is.",
     .default_text = "64"},
    {.name = "logit-bias",
     .kind = ValueKind::Text,
     .value_name = "ID=X",
     .help = "Add X to a token's logit; may be given several times."},
    {.name = "seed",
     .kind = ValueKind::Whole,
     .value_name = "N",
     .help = "The same seed gives the same answer.",
     .default_text = "0"},
    {.name = "stop",
     .kind = ValueKind::Text,
     .value_name = "TEXT",
     .help = "End the answer where TEXT would appear; may be given several times."},
    kContextOption,
    kThreadsOption,
    kThreadsPrefillOption,
    kIsaOption,
    kPackOption,
    kPrefillOption,
    kKvOption,
    {.name = "chunk",
     .kind = ValueKind::Whole,
     .value_name = "N",
     .help = "Prompt tokens computed in one step.",
     .default_text = "512"},
    {.name = "stats", .help = "Show the share of the memory roof also when standard error is not a terminal."},
    kEagerOption,
};

constexpr Example kExamples[] = {
    {"hearth run", "Chats with the default model."},
    {"hearth run smollm2-135m \"Why is the sky blue?\"", "One answer."},
    {"git diff | hearth run smollm2-135m \"Write a commit message for this diff.\"",
     "The prompt and what is piped in."},
    {"hearth run model.gguf \"Once upon a time\" --raw -n 64 --temperature 0 --json",
     "Continues a text, always the same way; the result as JSON, with token ids and a hash of the logits."}};

// The model's path; a hint when PROMPT was given in its place.
Result<std::string> find_model(const Catalogue& catalogue, const std::string& name, Session& session) {
    Result<std::string> path = find_or_pull(catalogue, name, session);
    if (path.ok() || name.find(' ') == std::string::npos) return path;
    return Error{ErrorCode::Usage,
                 "run: MODEL comes before PROMPT: hearth run " + catalogue.default_model + " \"...\""};
}

// What to say; nothing: a chat.
Result<std::optional<std::string>> find_prompt(const Arguments& arguments, const Console& console) {
    std::optional<std::string> prompt = arguments.positional(1);
    const bool given = prompt && *prompt != "-";
    if (given && (arguments.flag("raw") || console.input_is_terminal())) return prompt;
    if (!prompt && console.input_is_terminal()) {
        if (arguments.flag("raw") || arguments.flag("json")) {
            return Error{ErrorCode::Usage, "run: PROMPT is missing (--raw and --json give one answer)"};
        }
        return std::optional<std::string>();
    }
    const std::string piped = TRY(read_standard_input());
    if (!given) return std::optional<std::string>(piped);
    if (!piped.empty()) *prompt += "\n\n" + piped;
    return prompt;
}

std::string hex(std::uint64_t value) {
    char digits[20];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value));
    return digits;
}

Json describe(const Generation& generation, const std::string& model, Conversation& conversation) {
    Json::Array tokens(generation.tokens.begin(), generation.tokens.end());
    const Engine& engine = conversation.engine();
    return Json::Object{{"text", generation.text},
                        {"tokens", std::move(tokens)},
                        {"logits_hash", hex(generation.logits_hash)},
                        {"stop_reason", name_of(generation.reason)},
                        {"prompt_tokens", static_cast<std::uint64_t>(generation.prompt_tokens)},
                        {"cached_tokens", static_cast<std::uint64_t>(generation.cached_tokens)},
                        {"prompt_seconds", generation.prompt_seconds},
                        {"prompt_tok_s", generation.prompt_rate()},
                        {"decode_seconds", generation.decode_seconds},
                        {"decode_tok_s", generation.decode_rate()},
                        {"model", model},
                        {"seed", conversation.seed()},
                        {"threads", static_cast<std::uint64_t>(engine.threads())},
                        {"isa", engine.isa()}};
}

Status answer_once(const Arguments& arguments, Conversation& conversation, const std::string& model,
                   const std::string& prompt, Session& session) {
    Console& console = session.console;
    const bool json = arguments.flag("json");
    const InterruptScope interrupts;
    const auto on_text = [&](std::string_view piece) {
        if (!json) console.print(piece);
        return !console.output_closed();
    };
    bool raw = arguments.flag("raw");
    if (!raw && !conversation.engine().chat_template().ok()) {
        console.note(console.for_error(
            Style::Dim,
            model + ": " + conversation.engine().chat_template().error().message + ": continuing the text instead"));
        raw = true;
    }
    const Generation generation =
        TRY(raw ? conversation.continue_text(prompt, on_text) : conversation.say(prompt, on_text));
    if (json) {
        console.print_line(describe(generation, model, conversation).dump());
    } else {
        console.print("\n");
        if (generation.reason == StopReason::Context) {
            console.note("the context of " + std::to_string(conversation.engine().context()) +
                         " tokens is full: the answer ends here (--ctx)");
        }
        ClosingLine(console, arguments.flag("stats") ? ClosingLine::Roof::Always : ClosingLine::Roof::WhenTerminal)
            .print(generation, conversation.engine());
    }
    if (generation.reason == StopReason::Interrupted && !console.output_closed()) {
        return Error{ErrorCode::Cancelled, "interrupted"};
    }
    return {};
}

Status run_run(const Arguments& arguments, Session& session) {
    const EngineOptions options = TRY(engine_options(arguments, session.environment));
    SamplingOptions sampling = TRY(sampling_options(arguments));
    GenerateOptions generation;
    generation.max_tokens = static_cast<std::size_t>(TRY(arguments.whole("max-tokens", 1, kContextLimit)).value_or(0));
    generation.hash_logits = arguments.flag("json");
    generation.chunk = static_cast<std::size_t>(TRY(arguments.whole("chunk", 1, kContextLimit)).value_or(0));
    // Faults that need no model are told before it is loaded: the vocabulary is taken as unlimited here.
    TRY(sampling.validate(std::size_t{1} << 31));
    const Catalogue catalogue = TRY(Catalogue::load(session.environment));
    const std::string model = arguments.positional(0).value_or(catalogue.default_model);
    const std::string path = TRY(find_model(catalogue, model, session));
    const std::optional<std::string> prompt = TRY(find_prompt(arguments, session.console));
    const std::shared_ptr<Engine> engine = TRY(load_engine(path, options, session.console));
    TRY(sampling.validate(engine->info().vocabulary));
    Conversation conversation(engine, std::move(sampling), arguments.texts("stop"), generation,
                              arguments.text("system").value_or(""));
    if (!prompt) return chat(conversation, model, session);
    return answer_once(arguments, conversation, model, *prompt, session);
}

}  // namespace

const Command kRunCommand = {
    "run",
    "Chat with a model, or get one answer",
    "Answers PROMPT, or chats when there is none and this is a terminal. The answer goes to standard output as it is "
    "made; a line about the work done ends it on standard error. Nothing is ever cut off a prompt in silence: one that "
    "is longer than the context is an error that gives both counts.",
    kPositionals,
    kOptions,
    kExamples,
    run_run};

}  // namespace hearth
