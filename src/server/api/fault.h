// What is wrong with a request.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "server/error_object.h"

namespace hearth {

// The first fault of a request; later ones are not kept.
class Faults {
public:
    void add(ApiError error) {
        if (!first_) first_ = std::move(error);
    }
    void field(std::string_view path, std::string_view reason) {
        add({400, std::string(path) + ": " + std::string(reason), std::string(path), "invalid_value"});
    }
    bool any() const { return first_.has_value(); }
    const ApiError& first() const { return *first_; }

private:
    std::optional<ApiError> first_;
};

// From what the rooms below report: Usage is the caller's fault, Busy asks to come back later.
ApiError api_error(const Error& error, std::string_view param = {});

}  // namespace hearth
