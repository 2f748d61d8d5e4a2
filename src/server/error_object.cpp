#include "server/error_object.h"

namespace hearth {

Json openai_error(const ApiError& error) {
    std::string_view type = "invalid_request_error";
    if (error.status == 403) type = "permission_error";
    if (error.status == 429) type = "rate_limit_error";
    if (error.status >= 500) type = "server_error";
    return Json::Object{{"error", Json::Object{{"message", error.message},
                                               {"type", type},
                                               {"param", error.param.empty() ? Json() : Json(error.param)},
                                               {"code", error.code.empty() ? Json() : Json(error.code)}}}};
}

Json anthropic_error(const ApiError& error) {
    std::string_view type = "invalid_request_error";
    if (error.status == 401) type = "authentication_error";
    if (error.status == 403) type = "permission_error";
    if (error.status == 404) type = "not_found_error";
    if (error.status == 413) type = "request_too_large";
    if (error.status == 429) type = "rate_limit_error";
    if (error.status >= 500) type = error.status == 503 ? "overloaded_error" : "api_error";
    return Json::Object{{"type", "error"}, {"error", Json::Object{{"type", type}, {"message", error.message}}}};
}

}  // namespace hearth
