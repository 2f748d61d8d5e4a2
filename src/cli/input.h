// Text from standard input or a file, whole and bounded.
#pragma once

#include <string>

#include "base/result.h"

namespace hearth {

inline constexpr std::size_t kInputLimit = std::size_t{256} << 20;

Result<std::string> read_standard_input();
Result<std::string> read_text_file(const std::string& path);  // "-" is standard input

}  // namespace hearth
