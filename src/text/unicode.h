// What tokenisers ask of a character: the Unicode category and white space as bits, so that a character class is a
// mask.
#pragma once

#include <cstdint>

namespace hearth {

// The two-letter general categories; the order is that of tools/make_unicode_tables.py.
enum class Category : std::uint8_t {
    Cn,
    Cc,
    Cf,
    Co,
    Cs,
    Ll,
    Lm,
    Lo,
    Lt,
    Lu,
    Mc,
    Me,
    Mn,
    Nd,
    Nl,
    No,
    Pc,
    Pd,
    Pe,
    Pf,
    Pi,
    Po,
    Ps,
    Sc,
    Sk,
    Sm,
    So,
    Zl,
    Zp,
    Zs,
};

// One bit a category, and two above them for properties that are no category.
using ClassBits = std::uint32_t;

constexpr ClassBits bit_of(Category category) {
    return ClassBits{1} << static_cast<unsigned>(category);
}

inline constexpr ClassBits kLowerLetter = bit_of(Category::Ll);
inline constexpr ClassBits kCaselessLetter = bit_of(Category::Lm) | bit_of(Category::Lo);
inline constexpr ClassBits kUpperLetter = bit_of(Category::Lu) | bit_of(Category::Lt);
inline constexpr ClassBits kLetter = kLowerLetter | kCaselessLetter | kUpperLetter;                       // \p{L}
inline constexpr ClassBits kNumber = bit_of(Category::Nd) | bit_of(Category::Nl) | bit_of(Category::No);  // \p{N}
inline constexpr ClassBits kMark = bit_of(Category::Mc) | bit_of(Category::Me) | bit_of(Category::Mn);    // \p{M}
inline constexpr ClassBits kPunctuation = bit_of(Category::Pc) | bit_of(Category::Pd) | bit_of(Category::Pe) |
                                          bit_of(Category::Pf) | bit_of(Category::Pi) | bit_of(Category::Po) |
                                          bit_of(Category::Ps);  // \p{P}
inline constexpr ClassBits kSymbol =
    bit_of(Category::Sc) | bit_of(Category::Sk) | bit_of(Category::Sm) | bit_of(Category::So);  // \p{S}
inline constexpr ClassBits kControl =
    bit_of(Category::Cc) | bit_of(Category::Cf) | bit_of(Category::Co) | bit_of(Category::Cs);
inline constexpr ClassBits kSpace = ClassBits{1} << 30;    // \s: the property White_Space
inline constexpr ClassBits kNewline = ClassBits{1} << 31;  // [\r\n]

ClassBits classify(std::uint32_t code_point);

// The simple lower-case mapping; the code point itself where there is none.
std::uint32_t to_lower(std::uint32_t code_point);

// The first code point of the canonical decomposition (NFD): a letter without its accents.
std::uint32_t base_character(std::uint32_t code_point);

}  // namespace hearth
