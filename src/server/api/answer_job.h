// One request for answers on its way: what the client wants written (a Reply), the answers the scheduler makes for it,
// and the client's own state (gone, slow).
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/scheduler.h"
#include "server/api/fault.h"
#include "server/api/served_model.h"
#include "server/http_server.h"

namespace hearth {

// Writes answers in the form of one API. Its functions are called one at a time.
class Reply {
public:
    virtual ~Reply() = default;
    virtual void begin() = 0;  // the answers were accepted: a stream begins now
    virtual void token(const TokenEvent& event) = 0;
    virtual void choice_finished(std::size_t choice, FinishReason reason, std::string_view text) = 0;
    virtual void finished(const Usage& usage) = 0;
    virtual void failed(const ApiError& error) = 0;  // instead of finished(); before or after begin()
    virtual std::size_t choices_with_calls() const { return 0; }
};

// What the metrics want to know of a request that has ended.
struct AnswerReport {
    Usage usage;
    std::string model;
    std::size_t stopped = 0;  // choices by how they ended
    std::size_t cut = 0;
    std::size_t called_tools = 0;
    bool cancelled = false;
    bool failed = false;
    std::vector<double> token_gaps;  // seconds between tokens of one choice
};

class AnswerJob : public std::enable_shared_from_this<AnswerJob> {
public:
    using OnReport = std::function<void(const AnswerReport&)>;
    AnswerJob(std::shared_ptr<HttpExchange> exchange, ServedModel* model, std::unique_ptr<Reply> reply,
              OnReport on_report);

    // Submits all requests; choices are numbered through. Their sinks are set here. Gives the error that was answered
    // when the scheduler does not take them.
    std::optional<ApiError> start(std::vector<AnswerRequest> requests);

private:
    class Sink;
    void token(std::size_t first_choice, const TokenEvent& event);
    void choice_finished(std::size_t choice, FinishReason reason, std::string_view text);
    void finished(const Usage& usage, const std::optional<Error>& error);
    void fail(const ApiError& error);  // with the lock held
    void begin();                      // with the lock held
    void end();                        // with the lock held
    void cancel_all();
    void set_slow(bool slow);

    std::shared_ptr<HttpExchange> exchange_;
    ServedModel* model_;
    std::unique_ptr<Reply> reply_;
    OnReport on_report_;

    std::mutex mutex_;      // of all below, and of the reply
    std::size_t open_ = 0;  // answers not finished yet
    bool begun_ = false;
    bool over_ = false;
    AnswerReport report_;
    std::vector<double> last_token_;  // by choice; when it came

    // Apart: the client's callbacks must never wait for a reply. The scheduler is told with it held, which only queues
    // a command, so that it hears of pauses and their ends in the order they came.
    std::mutex ids_mutex_;
    std::vector<AnswerId> ids_;
    bool gone_ = false;
    bool slow_ = false;
};

}  // namespace hearth
