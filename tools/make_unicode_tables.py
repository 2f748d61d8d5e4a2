#!/usr/bin/env python3
"""Writes src/text/unicode_tables.cpp from Python's unicodedata: categories, lower case, base characters.

Usage: make_unicode_tables.py > src/text/unicode_tables.cpp
"""

import sys
import unicodedata

# The order of Category in src/text/unicode.h.
CATEGORIES = ["Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No",
              "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"]
LAST = 0x110000


def rows(items, per_line):
    for i in range(0, len(items), per_line):
        print("    " + " ".join(items[i:i + per_line]))


def category_ranges():
    previous = None
    for code in range(LAST):
        category = CATEGORIES.index(unicodedata.category(chr(code)))
        if category != previous:
            yield code, category
        previous = category


def lower_ranges():
    """(first, last, step, delta): every `step`-th code point from first to last goes to itself + delta."""
    ranges = []
    for code in range(LAST):
        lower = ord(chr(code).lower()[0])
        if lower == code:
            continue
        delta = lower - code
        if ranges:
            first, last, step, known = ranges[-1]
            if known == delta and code - last <= 2 and step in (0, code - last):
                ranges[-1] = (first, code, code - last, delta)
                continue
        ranges.append((code, code, 0, delta))
    return [(first, last, max(step, 1), delta) for first, last, step, delta in ranges]


def base_ranges():
    """(first, last, base): the first code point of the canonical decomposition."""
    ranges = []
    for code in range(LAST):
        base = ord(unicodedata.normalize("NFD", chr(code))[0])
        if base == code:
            continue
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == base:
            ranges[-1] = (ranges[-1][0], code, base)
        else:
            ranges.append((code, code, base))
    return ranges


def main():
    print(f"// Made by tools/make_unicode_tables.py from Unicode {unicodedata.unidata_version}. Do not edit.")
    print('#include "text/unicode_tables.h"\n\nnamespace hearth {\n')
    print("// clang-format off")
    categories = list(category_ranges())
    print("namespace {\n")
    print(f"const std::array<std::uint32_t, {len(categories)}> kCategoryTable = {{{{")
    rows([f"0x{code << 8 | category:x}," for code, category in categories], 12)
    print("}};\n")
    lower = lower_ranges()
    print(f"const std::array<LowerRange, {len(lower)}> kLowerTable = {{{{")
    rows(["{0x%x, 0x%x, %d, %d}," % entry for entry in lower], 5)
    print("}};\n")
    base = base_ranges()
    print(f"const std::array<BaseRange, {len(base)}> kBaseTable = {{{{")
    rows(["{0x%x, 0x%x, 0x%x}," % entry for entry in base], 6)
    print("}};\n")
    print("}  // namespace\n")
    print("const std::span<const std::uint32_t> kCategoryRanges = kCategoryTable;")
    print("const std::span<const LowerRange> kLowerRanges = kLowerTable;")
    print("const std::span<const BaseRange> kBaseRanges = kBaseTable;")
    print("// clang-format on\n\n}  // namespace hearth")
    return 0


if __name__ == "__main__":
    sys.exit(main())
