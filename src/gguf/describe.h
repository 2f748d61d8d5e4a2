// What `hearth inspect MODEL` shows: a model file in words and as JSON.
#pragma once

#include <string>

#include "base/json.h"
#include "gguf/gguf.h"

namespace hearth {

// Long arrays and strings are abbreviated; every key and tensor is listed.
Json describe(const GgufFile& file);
std::string summary_text(const GgufFile& file);

}  // namespace hearth
