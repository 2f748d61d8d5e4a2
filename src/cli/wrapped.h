// Text broken into lines for people.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hearth {

// Breaks `text` at spaces so that lines, the first one beginning at column `indent`, end before `width`; lines after
// the first get `indent`.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);

}  // namespace hearth
