// What the routes share. One file per group of routes includes this; nobody else does.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/api/answer_fields.h"
#include "server/api/answer_job.h"
#include "server/api/api.h"
#include "server/api/chat_messages.h"
#include "server/api/fields.h"
#include "server/api/reply_parts.h"
#include "server/api/trees.h"
#include "server/api/worker_pool.h"
#include "server/metrics.h"

namespace hearth {

struct Api::Impl {
    Impl(const ApiOptions& given, std::vector<ModelSpec> specs);
    ~Impl();

    ApiOptions options;
    metrics::Registry registry;
    metrics::OfHttp of_http;
    std::map<std::string, metrics::OfModel, std::less<>> of_models;  // by name; every model from the start
    std::atomic<const HttpServer*> server{nullptr};
    std::atomic<bool> draining{false};
    TreeStore trees;  // before the models: their schedulers end first, then the sequences of the trees
    ModelList models;
    WorkerPool workers;  // ends first

    // What is told of a model; of the first one when the name is none of ours.
    metrics::OfModel& metrics_of(std::string_view model);
};

// A request on a worker thread.
struct ApiCall {
    Api::Impl& api;
    HttpRequest request;
    std::shared_ptr<HttpExchange> exchange;
    ApiStyle style = ApiStyle::OpenAi;
    std::vector<std::string> ids;  // the variable parts of the path
    Json body;                     // of a POST
    Faults faults;
    std::string model_name = {};  // as the request says it

    // Answers with the first fault, if there is one.
    bool refused();
    // Answers with this one, if there is none before it.
    void refuse(ApiError error);
    // The field "model"; a fault when there is no such model or it is not ready. Without the field: the first one.
    ServedModel* model(Fields& fields);
};

std::int64_t epoch_seconds();
ApiError draining_error();

void count_answer(Api::Impl& api, const AnswerReport& report);
// A request that is answered with this status instead of an answer.
void count_refusal(Api::Impl& api, std::string_view model, unsigned status);

// A conversation as prompt tokens; adds faults: no template, a template that refuses, too long.
std::vector<TokenId> encode_chat(ServedModel& model, const Json::Array& messages, const ToolUse& tools,
                                 std::string_view param, Faults& faults);
// A bare text, with BOS where the model wants one.
std::vector<TokenId> encode_text(const Tokenizer& tokenizer, std::string_view text, ParseSpecial parse_special);
// A fault when the prompt leaves no room for an answer.
void check_length(const ServedModel& model, std::size_t tokens, std::string_view param, Faults& faults);
// Token ids of a JSON array, checked against the vocabulary.
std::vector<TokenId> read_tokens(const Json::Array& items, std::string_view path, const Tokenizer& tokenizer,
                                 Faults& faults);
// One request for the scheduler; the sink is set by the job.
AnswerRequest make_request(const AnswerSpec& spec, std::vector<TokenId> prompt, const std::string& scope);
void start_job(ApiCall& call, ServedModel& model, std::unique_ptr<Reply> reply, std::vector<AnswerRequest> requests);

void post_chat_completions(ApiCall& call);
void post_completions(ApiCall& call);
void post_responses(ApiCall& call);
void post_messages(ApiCall& call);
void post_count_tokens(ApiCall& call);
void post_embeddings(ApiCall& call);
void post_tokenize(ApiCall& call);
void post_detokenize(ApiCall& call);
void get_health(ApiCall& call);
void get_metrics(ApiCall& call);
void get_models(ApiCall& call);
void get_model(ApiCall& call);
void post_trees(ApiCall& call);
void get_trees(ApiCall& call);
void get_tree(ApiCall& call);
void delete_tree(ApiCall& call);
void post_tree_nodes(ApiCall& call);
void post_tree_fork(ApiCall& call);
void post_tree_regress(ApiCall& call);

}  // namespace hearth
