// Parts of the API that need no model: the limits of a tree, the pool of workers, error objects by path.
#include <gtest/gtest.h>

#include <future>
#include <stdexcept>

#include "server/api/trees.h"
#include "server/api/worker_pool.h"
#include "server/http_response.h"

namespace hearth {
namespace {

TEST(Trees, RefuseNodesBeyondTheirLimit) {
    Tree tree;
    tree.nodes.resize(kTreeNodeLimit - 1);
    EXPECT_EQ(tree.refusal(1, 0), "");
    EXPECT_EQ(tree.refusal(2, 0), "the tree has 4095 nodes and may have 4096 at most");
}

TEST(Trees, RefuseTokensBeyondTheirLimitHoweverFewTheNodes) {
    Tree tree;
    tree.nodes.resize(2);
    tree.nodes[0].tokens.resize(kTreeTokenLimit - 100);
    tree.nodes[1].tokens.resize(90);
    EXPECT_EQ(tree.refusal(1, 10), "");
    EXPECT_EQ(tree.refusal(1, 11), "the nodes of the tree have 1048566 tokens and may have 1048576 at most");
}

TEST(WorkerPool, ATaskThatThrowsEndsNothingButItself) {
    std::promise<int> done;
    WorkerPool pool(1, 4);
    ASSERT_TRUE(pool.submit([] { throw std::runtime_error("a task's own trouble"); }));
    ASSERT_TRUE(pool.submit([&] { done.set_value(7); }));
    EXPECT_EQ(done.get_future().get(), 7);
}

TEST(HttpErrors, AreInTheFormThatClientsOfThePathKnow) {
    const Json error = Json::parse(error_body(403, "no", "/v1/messages")).value();
    EXPECT_EQ(*error.find("type")->as_string(), "error");
    EXPECT_EQ(*error.find("error")->find("type")->as_string(), "permission_error");
    EXPECT_EQ(*error.find("error")->find("message")->as_string(), "no");
    const Json large = Json::parse(error_body(413, "no", "/v1/messages/count_tokens")).value();
    EXPECT_EQ(*large.find("error")->find("type")->as_string(), "request_too_large");
    for (const char* path : {"", "/", "/v1/chat/completions", "/v1/messagesome"}) {
        EXPECT_EQ(Json::parse(error_body(403, "no", path))->find("type"), nullptr) << path;
    }
}

}  // namespace
}  // namespace hearth
