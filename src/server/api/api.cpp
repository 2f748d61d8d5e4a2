// Routing: what is quick is answered on the I/O thread, the rest on a worker.
#include "server/api/api.h"

#include <array>
#include <ctime>
#include <new>

#include "server/api/api_state.h"
#include "server/api/page.h"
#include "server/http_response.h"

namespace hearth {

namespace {

constexpr std::size_t kJsonDepthLimit = 64;

enum class Place : std::uint8_t { Here, Worker };

struct Route {
    std::string_view method;
    std::string_view pattern;  // "*" stands for one variable part
    void (*run)(ApiCall& call);
    Place place;
    ApiStyle style = ApiStyle::OpenAi;
};

constexpr std::array kRoutes = {
    Route{"GET", "/health", get_health, Place::Here},
    Route{"GET", "/metrics", get_metrics, Place::Here},
    Route{"GET", "/v1/models", get_models, Place::Here},
    Route{"GET", "/v1/models/*", get_model, Place::Here},
    Route{"POST", "/v1/chat/completions", post_chat_completions, Place::Worker},
    Route{"POST", "/v1/completions", post_completions, Place::Worker},
    Route{"POST", "/v1/responses", post_responses, Place::Worker},
    Route{"POST", "/v1/messages", post_messages, Place::Worker, ApiStyle::Anthropic},
    Route{"POST", "/v1/messages/count_tokens", post_count_tokens, Place::Worker, ApiStyle::Anthropic},
    Route{"POST", "/v1/embeddings", post_embeddings, Place::Worker},
    Route{"POST", "/v1/tokenize", post_tokenize, Place::Worker},
    Route{"POST", "/v1/detokenize", post_detokenize, Place::Worker},
    Route{"POST", "/v1/trees", post_trees, Place::Worker},
    Route{"GET", "/v1/trees", get_trees, Place::Worker},
    Route{"GET", "/v1/trees/*", get_tree, Place::Worker},
    Route{"DELETE", "/v1/trees/*", delete_tree, Place::Worker},
    Route{"POST", "/v1/trees/*/nodes", post_tree_nodes, Place::Worker},
    Route{"POST", "/v1/trees/*/fork", post_tree_fork, Place::Worker},
    Route{"POST", "/v1/trees/*/regress", post_tree_regress, Place::Worker},
};

// Whether the path is of the pattern; collects its variable parts.
bool matches(std::string_view pattern, std::string_view path, std::vector<std::string>& ids) {
    ids.clear();
    while (true) {
        const std::size_t star = pattern.find('*');
        if (star == std::string_view::npos) return pattern == path;
        if (!path.starts_with(pattern.substr(0, star))) return false;
        path.remove_prefix(star);
        pattern.remove_prefix(star + 1);
        // The last part may hold slashes: models may be named so.
        const std::size_t end = pattern.empty() ? path.size() : std::min(path.find('/'), path.size());
        if (end == 0) return false;
        ids.emplace_back(path.substr(0, end));
        path.remove_prefix(end);
    }
}

void run_on_worker(const Route& route, ApiCall& call) {
    if (call.request.method == "POST") {
        Result<Json> body = Json::parse(call.request.body, kJsonDepthLimit);
        call.request.body = std::string();
        if (!body.ok()) {
            return call.refuse({400, body.error().message, {}, "invalid_json"});
        }
        call.body = std::move(body).value();
    }
    route.run(call);
}

}  // namespace

Api::Impl::Impl(const ApiOptions& given, std::vector<ModelSpec> specs)
    : options(given),
      of_http(registry),
      trees(given.trees, given.tree_life),
      models(std::move(specs), given.scheduler,
             [this](const std::string& model, const StepReport& report) {
                 metrics_of(model).batch_size.observe(static_cast<double>(report.choices));
             }),
      workers(given.workers, given.worker_queue) {
    for (const ModelStatus& status : models.status()) {
        of_models.try_emplace(status.name, registry, status.name);
    }
}

metrics::OfModel& Api::Impl::metrics_of(std::string_view model) {
    const auto found = of_models.find(model);
    return found == of_models.end() ? of_models.begin()->second : found->second;
}

Api::Impl::~Impl() = default;

Api::Api(const ApiOptions& options, std::vector<ModelSpec> models)
    : impl_(std::make_unique<Impl>(options, std::move(models))) {}
Api::~Api() = default;

void Api::load_in_background() {
    impl_->models.load_in_background();
}
std::vector<ModelStatus> Api::models() const {
    return impl_->models.status();
}
bool Api::settled() const {
    return impl_->models.settled();
}
std::vector<ServedModel*> Api::ready() const {
    return impl_->models.ready();
}
void Api::watch_server(const HttpServer& server) {
    impl_->server = &server;
}

void Api::handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
    std::string allowed;  // the methods that this path takes
    std::vector<std::string> ids;
    for (const Route& route : kRoutes) {
        if (!matches(route.pattern, request.path, ids)) continue;
        if (route.method != request.method) {
            allowed += (allowed.empty() ? "" : ", ") + std::string(route.method == "GET" ? "GET, HEAD" : route.method);
            continue;
        }
        auto call = std::make_shared<ApiCall>(
            ApiCall{*impl_, std::move(request), std::move(exchange), route.style, std::move(ids), Json(), {}, {}});
        if (route.place == Place::Here) return route.run(*call);
        const bool taken = impl_->workers.submit([call, &route] {
            try {
                run_on_worker(route, *call);
            } catch (const std::bad_alloc&) {
                respond_error(*call->exchange, {503, "out of memory", {}, "out_of_resources"}, call->style);
            }
        });
        if (!taken) call->refuse({429, "too many requests are waiting", {}, "queue_full"});
        return;
    }
    const bool known_path = !allowed.empty();
    if (!known_path && serve_page(request, *exchange)) return;
    const std::string shown = request.method + " " + request.path.substr(0, 200);
    const ApiError error = known_path ? ApiError{405, shown + ": this path takes another method", {}, "wrong_method"}
                                      : ApiError{404, shown + ": there is nothing here", {}, "unknown_path"};
    HttpExchange::Headers extra;
    if (known_path) extra.emplace_back("allow", allowed);
    respond_error(*exchange, error, is_anthropic_path(request.path) ? ApiStyle::Anthropic : ApiStyle::OpenAi,
                  std::move(extra));
}

bool Api::drain(std::chrono::steady_clock::time_point deadline) {
    impl_->draining = true;
    bool done = true;
    for (ServedModel* model : impl_->models.ready()) done = model->scheduler.drain(deadline) && done;
    return done;
}

bool ApiCall::refused() {
    if (!faults.any()) return false;
    count_refusal(api, model_name, faults.first().status);
    respond_error(*exchange, faults.first(), style);
    return true;
}

void ApiCall::refuse(ApiError error) {
    faults.add(std::move(error));
    static_cast<void>(refused());
}

ServedModel* ApiCall::model(Fields& fields) {
    const std::string name = fields.string("model").value_or("");
    model_name = name;
    if (api.draining) {
        faults.add(draining_error());
        return nullptr;
    }
    if (!fields.ok()) return nullptr;
    if (ServedModel* found = api.models.find(name)) return found;
    std::string names;
    for (const ModelStatus& status : api.models.status()) {
        names += (names.empty() ? "" : ", ") + status.name;
        if (!name.empty() && status.name != name) continue;
        if (status.state == LoadState::Failed) {
            faults.add(
                {503, "model '" + status.name + "' could not be loaded: " + status.error, "model", "model_failed"});
        } else {
            faults.add({503, "model '" + status.name + "' is still being loaded", "model", "model_loading"});
        }
    }
    faults.add(
        {404, "model '" + name.substr(0, 100) + "' does not exist; there are: " + names, "model", "model_not_found"});
    return nullptr;
}

std::int64_t epoch_seconds() {
    return static_cast<std::int64_t>(std::time(nullptr));
}

ApiError draining_error() {
    return {503, "the server is shutting down", {}, "draining"};
}

void check_length(const ServedModel& model, std::size_t tokens, std::string_view param, Faults& faults) {
    const std::size_t context = model.engine->context();
    if (tokens <= context) return;
    faults.add({400,
                std::string(param) + ": the prompt has " + std::to_string(tokens) +
                    " tokens, the context has room for " + std::to_string(context),
                std::string(param), "context_length_exceeded"});
}

std::vector<TokenId> encode_text(const Tokenizer& tokenizer, std::string_view text, ParseSpecial parse_special) {
    std::vector<TokenId> tokens;
    // Not AddSpecial::Yes: a text to be continued must not end with EOS.
    if (tokenizer.adds_bos() && tokenizer.bos()) tokens.push_back(*tokenizer.bos());
    const std::vector<TokenId> rest = tokenizer.encode(text, AddSpecial::No, parse_special);
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    return tokens;
}

std::vector<TokenId> encode_chat(ServedModel& model, const Json::Array& messages, const ToolUse& tools,
                                 std::string_view param, Faults& faults) {
    const Result<ChatTemplate>& chat_template = model.engine->chat_template();
    if (!chat_template.ok()) {
        faults.add({400,
                    "model '" + model.name + "' cannot chat: " + chat_template.error().message +
                        "; /v1/completions continues bare texts",
                    "model", "no_chat_template"});
        return {};
    }
    const ToolFormat& format = model.tool_format;
    const Json list = format.native ? Json(messages) : Json(without_tool_messages(messages, tools));
    const Json for_template = format.native && tools.active() ? tools_for_template(tools) : Json();
    const std::string_view continuation = tools.forced() ? std::string_view(format.forced_prefix) : std::string_view();
    Result<std::vector<TokenId>> tokens = model.encoder.encode(chat_template.value(), list, for_template, continuation,
                                                               static_cast<double>(epoch_seconds()));
    if (!tokens.ok()) {
        faults.field(param, tokens.error().message);
        return {};
    }
    check_length(model, tokens->size(), param, faults);
    return std::move(tokens).value();
}

std::vector<TokenId> read_tokens(const Json::Array& items, std::string_view path, const Tokenizer& tokenizer,
                                 Faults& faults) {
    std::vector<TokenId> tokens;
    tokens.reserve(items.size());
    const std::int64_t size = static_cast<std::int64_t>(tokenizer.vocabulary_size());
    for (std::size_t i = 0; i < items.size(); ++i) {
        const std::int64_t* id = items[i].as_int();
        if (id == nullptr || *id < 0 || *id >= size) {
            faults.field(std::string(path) + "[" + std::to_string(i) + "]",
                         "must be a token id between 0 and " + std::to_string(size - 1));
            return {};
        }
        tokens.push_back(static_cast<TokenId>(*id));
    }
    return tokens;
}

AnswerRequest make_request(const AnswerSpec& spec, std::vector<TokenId> prompt, const std::string& scope) {
    AnswerRequest request;
    request.prompt = std::move(prompt);
    SamplingOptions sampling = spec.sampling;
    sampling.logprob = spec.logprobs;
    request.sampling = std::make_shared<const SamplingOptions>(std::move(sampling));
    request.stops = std::make_shared<const StopStrings>(spec.stops);
    request.grammar = spec.grammar;
    request.max_tokens = spec.max_tokens;
    request.choices = spec.choices;
    request.logprobs = spec.logprobs;
    request.top_logprobs = spec.top_logprobs;
    request.ignore_end = spec.ignore_end;
    request.scope = scope;
    return request;
}

void start_job(ApiCall& call, ServedModel& model, std::unique_ptr<Reply> reply, std::vector<AnswerRequest> requests) {
    Api::Impl& api = call.api;
    const auto job = std::make_shared<AnswerJob>(call.exchange, &model, std::move(reply),
                                                 [&api](const AnswerReport& report) { count_answer(api, report); });
    if (const auto refusal = job->start(std::move(requests))) count_refusal(api, model.name, refusal->status);
}

}  // namespace hearth
