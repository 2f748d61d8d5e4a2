// Who may ask what: the judgement over a request's head, before its body is read or its handler called.
#pragma once

#include <string>

#include "server/api_keys.h"
#include "server/http_parser.h"
#include "server/http_rules.h"
#include "server/http_server.h"

namespace hearth {

struct Judgement {
    unsigned status = 0;  // 0: pass on; else the answer, with `message` (empty: no body) and `extra`
    std::string message;
    HttpExchange::Headers extra;
    std::string cors_origin;  // to be allowed in the answer; empty: none
    HttpRequest request;      // all but body and id
};

Judgement judge(const RequestHead& head, const AccessRules& rules, const ApiKeys& keys);

}  // namespace hearth
