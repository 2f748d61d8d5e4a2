// Binary searches over the generated tables, with a direct table for ASCII.
#include "text/unicode.h"

#include <algorithm>
#include <array>

#include "text/unicode_tables.h"

namespace hearth {

namespace {

constexpr bool is_white_space(std::uint32_t code_point) {
    return (code_point >= 0x09 && code_point <= 0x0d) || code_point == 0x20 || code_point == 0x85 ||
           code_point == 0xa0 || code_point == 0x1680 || (code_point >= 0x2000 && code_point <= 0x200a) ||
           code_point == 0x2028 || code_point == 0x2029 || code_point == 0x202f || code_point == 0x205f ||
           code_point == 0x3000;
}

ClassBits search(std::uint32_t code_point) {
    const std::uint32_t key = (code_point << 8) | 0xff;  // past every entry that begins at this code point
    const auto after = std::upper_bound(kCategoryRanges.begin(), kCategoryRanges.end(), key);
    ClassBits bits = ClassBits{1} << (*(after - 1) & 0xff);
    if (is_white_space(code_point)) bits |= kSpace;
    if (code_point == '\r' || code_point == '\n') bits |= kNewline;
    return bits;
}

std::array<ClassBits, 128> ascii_classes() {
    std::array<ClassBits, 128> classes;
    for (std::uint32_t i = 0; i < classes.size(); ++i) classes[i] = search(i);
    return classes;
}

}  // namespace

ClassBits classify(std::uint32_t code_point) {
    static const std::array<ClassBits, 128> ascii = ascii_classes();
    return code_point < ascii.size() ? ascii[code_point] : search(code_point);
}

std::uint32_t to_lower(std::uint32_t code_point) {
    const auto after =
        std::upper_bound(kLowerRanges.begin(), kLowerRanges.end(), code_point,
                         [](std::uint32_t value, const LowerRange& range) { return value < range.first; });
    if (after == kLowerRanges.begin()) return code_point;
    const LowerRange& range = *(after - 1);
    if (code_point > range.last || (code_point - range.first) % range.step != 0) return code_point;
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(code_point) + range.delta);
}

std::uint32_t base_character(std::uint32_t code_point) {
    const auto after =
        std::upper_bound(kBaseRanges.begin(), kBaseRanges.end(), code_point,
                         [](std::uint32_t value, const BaseRange& range) { return value < range.first; });
    if (after == kBaseRanges.begin()) return code_point;
    const BaseRange& range = *(after - 1);
    return code_point > range.last ? code_point : range.base;
}

}  // namespace hearth
