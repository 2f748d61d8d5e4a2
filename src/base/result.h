// Result<T>: a value or an Error. Everything that depends on the outside world returns one; TRY unwraps it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace hearth {

// The origin of a failure; cli/ turns it into an exit code, server/ into an HTTP status.
enum class ErrorCode {
    Failed,          // the operation could not be completed
    Usage,           // the caller asked for something that makes no sense
    InvalidModel,    // a model file (or a part of one) is damaged, missing or not supported
    OutOfResources,  // memory, disk or another limit does not suffice
    Cancelled,       // stopped on request
    Busy,            // too much is going on already: later it may work
};

struct Error {
    ErrorCode code = ErrorCode::Failed;
    std::string message;  // one line, no newline, names the file and the field
};

template <typename T>
class [[nodiscard]] Result {
public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }
    T& value() & { return *std::get_if<0>(&state_); }
    const T& value() const& { return *std::get_if<0>(&state_); }
    T&& value() && { return std::move(*std::get_if<0>(&state_)); }
    Error& error() & { return *std::get_if<1>(&state_); }
    const Error& error() const& { return *std::get_if<1>(&state_); }
    Error&& error() && { return std::move(*std::get_if<1>(&state_)); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

private:
    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error error) : error_(std::move(error)) {}

    bool ok() const { return !error_.has_value(); }
    explicit operator bool() const { return ok(); }
    void value() const {}
    Error& error() & { return *error_; }
    const Error& error() const& { return *error_; }
    Error&& error() && { return std::move(*error_); }

private:
    std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace hearth

#define HEARTH_CONCAT_INNER(a, b) a##b
#define HEARTH_CONCAT(a, b) HEARTH_CONCAT_INNER(a, b)
#define HEARTH_TRY(expression, name)                                     \
    (__extension__({                                                     \
        auto name = (expression);                                        \
        if (!name.ok()) return ::hearth::Error(std::move(name).error()); \
        std::move(name).value();                                         \
    }))

// TRY(expression): the value of a Result, or return its Error from the enclosing function.
#define TRY(...) HEARTH_TRY((__VA_ARGS__), HEARTH_CONCAT(hearth_try_, __COUNTER__))
