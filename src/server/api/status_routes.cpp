// /health, /metrics, /v1/models: quick, whatever else is going on.
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

void get_metrics(ApiCall& call) {
    std::vector<std::pair<std::string, SchedulerStats>> models;
    for (const ServedModel* model : call.api.models.ready()) models.emplace_back(model->name, model->scheduler.stats());
    std::string text = call.api.metrics.text(models);
    if (call.api.http_stats) {
        const HttpStats stats = call.api.http_stats();
        text += "# TYPE hearth_http_connections gauge\nhearth_http_connections " + std::to_string(stats.connections) +
                "\n# TYPE hearth_http_accepted_total counter\nhearth_http_accepted_total " +
                std::to_string(stats.accepted) +
                "\n# TYPE hearth_http_refused_total counter\nhearth_http_refused_total " +
                std::to_string(stats.refused) + "\n";
    }
    call.exchange->respond(200, "text/plain; version=0.0.4; charset=utf-8", std::move(text));
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
    call.faults.add({404, "model '" + call.ids[0].substr(0, 100) + "' does not exist", "model", "model_not_found"});
    static_cast<void>(call.refused());
}

}  // namespace hearth
