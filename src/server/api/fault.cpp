#include "server/api/fault.h"

namespace hearth {

ApiError api_error(const Error& error, std::string_view param) {
    switch (error.code) {
        case ErrorCode::Usage: return {400, error.message, std::string(param), "invalid_value"};
        case ErrorCode::Busy: return {429, error.message, {}, "queue_full"};
        case ErrorCode::OutOfResources: return {503, error.message, {}, "out_of_resources"};
        case ErrorCode::Cancelled: return {503, error.message, {}, "cancelled"};
        case ErrorCode::InvalidModel:
        case ErrorCode::Failed: break;
    }
    return {500, error.message, {}, "internal_error"};
}

}  // namespace hearth
