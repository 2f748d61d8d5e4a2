// The API of `hearth serve`: OpenAI's and Anthropic's routes, trees, health and metrics, on top of the HTTP server and
// the schedulers of the models.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/api/served_model.h"
#include "server/http_server.h"

namespace hearth {

struct ApiOptions {
    std::string version;
    std::size_t workers = 2;               // threads for templates, tokenising, grammars
    std::size_t worker_queue = 256;        // requests waiting for one; more are refused with 429
    std::size_t trees = 64;                // kept at most; the one not used for the longest goes
    std::chrono::seconds tree_life{3600};  // without use
    SchedulerOptions scheduler;
};

class Api {
public:
    Api(const ApiOptions& options, std::vector<ModelSpec> models);
    ~Api();

    void load_in_background();
    std::vector<ModelStatus> models() const;
    bool settled() const;  // every model is ready or has failed
    std::vector<ServedModel*> ready() const;

    // Answers a request, now or later; never blocks.
    void handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange);
    // For the connection counts in /metrics; the server must outlive the last request.
    void watch_server(const HttpServer& server);

    // Refuses new work with 503 and waits for what is there; false when the time was not enough.
    bool drain(std::chrono::steady_clock::time_point deadline);

    struct Impl;

private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace hearth
