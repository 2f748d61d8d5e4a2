// The tables of filters, by the file that holds them.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/runtime.h"

namespace hearth::jinja {

using FilterFunction = Result<Value> (*)(Runtime& runtime, const Value& input, const Arguments& arguments);
struct NamedFilter {
    std::string_view name;
    FilterFunction apply;
};

std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> sequence_filters();

}  // namespace hearth::jinja
