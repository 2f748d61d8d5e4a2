// The part of TOML the catalogue needs: tables, strings, whole numbers, booleans, arrays of strings. Bounded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace hearth {

using TomlValue = std::variant<std::string, std::int64_t, bool, std::vector<std::string>>;

struct TomlTable {
    std::vector<std::string> path;  // of [a.b]; empty: what stands before the first header
    std::vector<std::pair<std::string, TomlValue>> entries;
    const TomlValue* find(std::string_view key) const;
};

// Tables in their order. Errors name `name` and the line. At most 1 MiB, 4096 tables.
Result<std::vector<TomlTable>> parse_toml(std::string_view text, const std::string& name);

}  // namespace hearth
