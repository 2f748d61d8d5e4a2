// /health, /metrics, /v1/models: quick, whatever else is going on.
#include <algorithm>

#include "server/api/api_state.h"

namespace hearth {

namespace {

Json model_object(const ModelStatus& status, const Api::Impl& api) {
    Json::Object object{{"id", status.name},
                        {"object", "model"},
                        {"created", api.models.created()},
                        {"owned_by", "hearth"},
                        {"status", name_of(status.state)}};
    if (const ServedModel* model = api.models.find(status.name)) {
        const ModelInfo& info = model->engine->info();
        object.emplace_back("context_length", std::uint64_t{model->engine->context()});
        object.emplace_back("architecture", info.architecture);
        object.emplace_back("vocabulary", std::uint64_t{info.vocabulary});
        object.emplace_back("embedding_length", std::uint64_t{info.dim});
        object.emplace_back("kv_type", kv_type_name(model->engine->kv_layout().type));
        object.emplace_back("system_fingerprint", model->fingerprint);
        object.emplace_back("has_chat_template", model->engine->chat_template().ok());
        object.emplace_back("has_native_tools", model->tool_format.native);
    }
    return Json(std::move(object));
}

}  // namespace

void get_health(ApiCall& call) {
    const Api::Impl& api = call.api;
    Json::Array models;
    bool loading = false;
    bool any_ready = false;
    for (const ModelStatus& status : api.models.status()) {
        loading = loading || status.state == LoadState::Loading || status.state == LoadState::Waiting;
        any_ready = any_ready || status.state == LoadState::Ready;
        Json::Object model{{"id", status.name}, {"status", name_of(status.state)}, {"progress", status.progress}};
        if (!status.error.empty()) model.emplace_back("error", status.error);
        if (const ServedModel* ready = api.models.find(status.name)) {
            const SchedulerStats stats = ready->scheduler.stats();
            model.emplace_back("waiting", std::uint64_t{stats.waiting});
            model.emplace_back("running", std::uint64_t{stats.running});
            model.emplace_back("kv_blocks", std::uint64_t{stats.kv_blocks});
            model.emplace_back("kv_blocks_free", std::uint64_t{stats.kv_blocks_free});
            model.emplace_back("kv_blocks_cached", std::uint64_t{stats.kv_blocks_cached});
            model.emplace_back("prompt_tokens", stats.prompt_tokens);
            model.emplace_back("cached_tokens", stats.cached_tokens);
            model.emplace_back("generated_tokens", stats.generated_tokens);
        }
        models.push_back(Json(std::move(model)));
    }
    std::string_view status = "ok";
    if (!any_ready) status = "failed";
    if (loading) status = "loading";
    if (api.draining) status = "draining";
    const bool ready = status == "ok";
    respond_json(*call.exchange, ready ? 200 : 503,
                 Json::Object{{"status", status},
                              {"version", api.options.version},
                              {"models", Json(std::move(models))},
                              {"trees", std::uint64_t{api.trees.count()}}});
}

void count_answer(Api::Impl& api, const AnswerReport& report) {
    metrics::OfModel& metrics = api.metrics_of(report.model);
    const Usage& usage = report.usage;
    metrics.request_queue_time_seconds.observe(usage.queue_seconds);
    metrics.e2e_request_latency_seconds.observe(usage.seconds);
    if (usage.generated_tokens > 0) metrics.time_to_first_token_seconds.observe(usage.first_token_seconds);
    for (const double gap : report.token_gaps) metrics.inter_token_latency_seconds.observe(gap);
    metrics.prompt_tokens.add(usage.prompt_tokens);
    metrics.generation_tokens.add(usage.generated_tokens);
    metrics.prefix_cache_queries.add(usage.prompt_tokens);
    metrics.prefix_cache_hits.add(usage.cached_tokens);
    if (report.cancelled) metrics.requests_cancelled.add();
    if (report.failed) metrics.requests_failed.add();
    if (report.cancelled || report.failed) return;
    metrics.finished_stop.add(report.stopped);
    metrics.finished_length.add(report.cut);
    metrics.finished_tool_calls.add(report.called_tools);
}

void count_refusal(Api::Impl& api, std::string_view model, unsigned status) {
    if (status == 429) api.metrics_of(model).requests_rejected.add();
    if (status >= 500) api.metrics_of(model).requests_failed.add();
}

void get_metrics(ApiCall& call) {
    Api::Impl& api = call.api;
    for (const ServedModel* model : api.models.ready()) {
        const SchedulerStats stats = model->scheduler.stats();
        metrics::OfModel& metrics = api.metrics_of(model->name);
        metrics.requests_running.set(static_cast<double>(stats.running));
        metrics.requests_waiting.set(static_cast<double>(stats.waiting));
        const std::size_t available = stats.kv_blocks_free + stats.kv_blocks_cached;
        const double used = static_cast<double>(stats.kv_blocks - std::min(stats.kv_blocks, available));
        metrics.kv_cache_usage.set(stats.kv_blocks == 0 ? 0 : used / static_cast<double>(stats.kv_blocks));
    }
    if (const HttpServer* server = api.server) api.of_http.set(server->stats());
    call.exchange->respond(200, metrics::kContentType, api.registry.text());
}

void get_models(ApiCall& call) {
    Json::Array list;
    for (const ModelStatus& status : call.api.models.status()) list.push_back(model_object(status, call.api));
    respond_json(*call.exchange, 200, Json::Object{{"object", "list"}, {"data", Json(std::move(list))}});
}

void get_model(ApiCall& call) {
    for (const ModelStatus& status : call.api.models.status()) {
        if (status.name == call.ids[0]) return respond_json(*call.exchange, 200, model_object(status, call.api));
    }
    call.refuse({404, "model '" + call.ids[0].substr(0, 100) + "' does not exist", "model", "model_not_found"});
}

}  // namespace hearth
