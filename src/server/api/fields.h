// Reads the fields of a JSON object strictly: types, ranges, and no field that nobody asked for. Every fault names the
// field and what it may be. A field that is null counts as absent, as clients send it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/api/fault.h"

namespace hearth {

class Fields {
public:
    // `value` and `faults` must outlive it. `path`: where the object stands in the request; empty: it is the request.
    Fields(const Json& value, std::string path, Faults& faults);
    Fields(Json&& value, std::string path, Faults& faults) = delete;  // it would be gone before it is read

    const Json* take(std::string_view key);  // of any type; null: absent
    std::optional<std::int64_t> integer(std::string_view key, std::int64_t lowest, std::int64_t highest);
    std::optional<double> number(std::string_view key, double lowest, double highest);
    std::optional<bool> boolean(std::string_view key);
    std::optional<std::string> string(std::string_view key);
    std::optional<std::string> choice(std::string_view key, std::initializer_list<std::string_view> choices);
    const Json::Array* array(std::string_view key, std::size_t limit);
    const Json::Object* object(std::string_view key);
    std::string required_string(std::string_view key);

    // Fields that clients send and that change nothing here.
    void ignore(std::initializer_list<std::string_view> keys);
    // A field that is known but not supported: only `null`, false or the neutral integer pass.
    void unsupported(std::string_view key, std::string_view reason, std::optional<std::int64_t> neutral = {});
    // At the end: what is left is unknown.
    void finish();

    std::string path(std::string_view key) const;
    void fault(std::string_view key, std::string_view reason) { faults_.field(path(key), reason); }
    Faults& faults() { return faults_; }
    bool ok() const { return !faults_.any(); }

private:
    std::string path_;
    Faults& faults_;
    const Json::Object* members_ = nullptr;
    std::vector<bool> taken_;
};

// "a string", "an integer", ...: for messages.
std::string_view type_name(const Json& value);

}  // namespace hearth
