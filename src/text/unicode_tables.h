// The generated Unicode tables (tools/make_unicode_tables.py), sorted by code point; text/unicode.h is how to ask them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace hearth {

struct LowerRange {
    std::uint32_t first;
    std::uint32_t last;
    std::uint32_t step;  // every step-th code point of the range is meant
    std::int32_t delta;
};

struct BaseRange {
    std::uint32_t first;
    std::uint32_t last;
    std::uint32_t base;  // first code point of the canonical decomposition
};

extern const std::span<const std::uint32_t> kCategoryRanges;  // first code point << 8 | category
extern const std::span<const LowerRange> kLowerRanges;
extern const std::span<const BaseRange> kBaseRanges;

}  // namespace hearth
