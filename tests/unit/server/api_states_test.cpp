// What the API says before its models are there, when its workers are full, and at the end.
#include <gtest/gtest.h>
#include <poll.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "server/api/api.h"
#include "unit/server/raw_client.h"

namespace hearth::http_test {
namespace {

constexpr std::string_view kBody = R"({"prompt": "x"})";

// An API behind a server; its one model is never loaded.
struct ApiRunning {
    explicit ApiRunning(const ApiOptions& options = {}) : api(options, models()) {
        running = run_server({}, [this](HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
            api.handle(std::move(request), std::move(exchange));
        });
    }

    static std::vector<ModelSpec> models() {
        ModelSpec spec;
        spec.name = "late";
        spec.path = "/nowhere/late.gguf";
        return {spec};
    }

    Api api;
    Running running;  // ends first
};

std::string text_at(const Response& response, std::string_view first, std::string_view second = "") {
    const Result<Json> body = Json::parse(response.body);
    const Json* found = body.ok() ? body->find(first) : nullptr;
    if (found != nullptr && !second.empty()) found = found->find(second);
    return found != nullptr && found->as_string() != nullptr ? *found->as_string() : "";
}

TEST(ApiStates, AModelThatIsStillBeingLoadedIsA503) {
    const ApiRunning here;
    for (const char* path :
         {"/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/v1/trees", "/v1/tokenize"}) {
        const Response response = here.running.ask(post(path, kBody));
        EXPECT_EQ(response.status, 503u) << path;
        EXPECT_EQ(text_at(response, "error", "code"), "model_loading") << path;
        EXPECT_EQ(text_at(response, "error", "param"), "model") << path;
    }
    const Response other = here.running.ask(post("/v1/completions", R"({"prompt": "x", "model": "other"})"));
    EXPECT_EQ(other.status, 404u);
    const Response health = here.running.ask(get("/health"));
    EXPECT_EQ(health.status, 503u);
    EXPECT_EQ(text_at(health, "status"), "loading");
}

TEST(ApiStates, AModelThatCouldNotBeLoadedIsA503WithItsReason) {
    ApiRunning here;
    here.api.load_in_background();
    ASSERT_TRUE(eventually([&] { return here.api.settled(); }));
    const Response response = here.running.ask(post("/v1/completions", kBody));
    EXPECT_EQ(response.status, 503u);
    EXPECT_EQ(text_at(response, "error", "code"), "model_failed");
    EXPECT_NE(text_at(response, "error", "message").find("/nowhere/late.gguf"), std::string::npos);
    EXPECT_EQ(text_at(here.running.ask(get("/health")), "status"), "failed");
}

TEST(ApiStates, AServerThatIsEndingTakesNothingNew) {
    ApiRunning here;
    EXPECT_TRUE(here.api.drain(std::chrono::steady_clock::now()));
    for (const char* path : {"/v1/completions", "/v1/messages", "/v1/trees"}) {
        const Response response = here.running.ask(post(path, kBody));
        EXPECT_EQ(response.status, 503u) << path;
        EXPECT_NE(text_at(response, "error", "message").find("shutting down"), std::string::npos) << path;
    }
    const Response health = here.running.ask(get("/health"));
    EXPECT_EQ(health.status, 503u);
    EXPECT_EQ(text_at(health, "status"), "draining");
}

TEST(ApiStates, BeyondTheWorkersQueueRequestsAreToldToComeBack) {
    ApiOptions options;
    options.workers = 0;  // nobody takes anything from the queue
    options.worker_queue = 2;
    ApiRunning here(options);
    std::vector<RawClient> clients;
    std::vector<pollfd> watched;
    for (int i = 0; i < 3; ++i) {
        clients.push_back(here.running.client());
        clients.back().send(post("/v1/completions", kBody));
        watched.push_back({clients.back().descriptor(), POLLIN, 0});
    }
    // Two of them wait now; whoever came last is told.
    ASSERT_EQ(poll(watched.data(), watched.size(), static_cast<int>(std::chrono::milliseconds(kPatience).count())), 1);
    for (std::size_t i = 0; i < clients.size(); ++i) {
        if (watched[i].revents == 0) continue;
        const Response refused = clients[i].read_response();
        EXPECT_EQ(refused.status, 429u);
        EXPECT_EQ(refused.header("retry-after"), "1");
        EXPECT_EQ(text_at(refused, "error", "code"), "queue_full");
    }
    EXPECT_EQ(here.running.ask(get("/health")).status, 503u);  // answered, though no worker is free
}

}  // namespace
}  // namespace hearth::http_test
