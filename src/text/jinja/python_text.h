// Text as Python treats it: indexed by code point, with Unicode white space, and numbers printed the way repr() does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace hearth::jinja {

// The code point at `offset`; an invalid byte counts as one U+FFFD, so that every text can be walked.
CodePoint code_point_at(std::string_view text, std::size_t offset);
std::size_t code_point_count(std::string_view text);
std::vector<std::string_view> code_points(std::string_view text);  // views into `text`
bool is_ascii(std::string_view text);

bool is_space(std::uint32_t code_point);   // str.isspace()
bool is_letter(std::uint32_t code_point);  // approximates str.isalpha(): any letter of ASCII, anything beyond but marks
std::size_t leading_space(std::string_view text);
std::size_t trailing_space(std::string_view text);

// str.strip(chars); without `chars` (null) white space is taken off.
std::string_view strip(std::string_view text, const std::string* chars, bool left, bool right);

// First or last place of `needle`, npos when absent; linear in the length of both.
std::size_t find_text(std::string_view text, std::string_view needle, std::size_t from = 0);
std::size_t rfind_text(std::string_view text, std::string_view needle);

// limit < 0: no limit. A null separator splits at runs of white space.
std::vector<std::string_view> split(std::string_view text, const std::string* separator, std::int64_t limit);
std::vector<std::string_view> rsplit(std::string_view text, const std::string* separator, std::int64_t limit);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

std::uint32_t upper_point(std::uint32_t code_point);  // ASCII, Latin-1, Latin Extended-A, Greek and Cyrillic
std::uint32_t lower_point(std::uint32_t code_point);
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);        // str.title(): every run of letters
std::string title_words(std::string_view text);  // the filter: words divided by space, '-', '(', '{', '[', '<'

std::string float_text(double value);         // repr(float)
std::string quoted(std::string_view text);    // repr(str)
std::string one_line(std::string_view text);  // for error messages: no line breaks, at most 1000 bytes

}  // namespace hearth::jinja
