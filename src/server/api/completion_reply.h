// Replies of /v1/completions: bare texts, several prompts, several choices each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/api/answer_fields.h"
#include "server/api/answer_job.h"

namespace hearth {

struct CompletionReplySetup {
    std::shared_ptr<HttpExchange> exchange;
    ServedModel* model;
    AnswerSpec spec;
    std::vector<std::string> echoes;  // one a choice: the prompt's text to begin with; all empty without echo
    std::int64_t created = 0;         // seconds since the epoch
};

std::unique_ptr<Reply> make_completion_reply(CompletionReplySetup setup);

}  // namespace hearth
