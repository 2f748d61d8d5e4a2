// The header every C program for the machine gets in front of it.
#pragma once

#include <string_view>

namespace hearth::vm {

extern const std::string_view kRuntimeHeader;

}  // namespace hearth::vm
