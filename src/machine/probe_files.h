// Bounded reading of the kernel's files. Whatever lies at a path, nothing here blocks, fails or reads without end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

inline constexpr std::size_t kProbeFileLimit = 64 * 1024;
inline constexpr std::size_t kProbeDirectoryLimit = 4096;
inline constexpr unsigned kProbeCpuLimit = 8192;  // what Linux can be built for; lists beyond it are not believed

// The first kProbeFileLimit bytes of a regular file; nothing for anything else.
std::optional<std::string> read_probe_file(const std::string& path);
// The same, trimmed, as a number; nothing when it is not one.
std::optional<std::uint64_t> read_probe_number(const std::string& path);
// Sorted names, without "." and ".."; at most kProbeDirectoryLimit of them.
std::vector<std::string> list_probe_directory(const std::string& path);
// Last component of what a symbolic link points to; empty when there is none.
std::string probe_link_name(const std::string& path);

std::string_view trim(std::string_view text);
// Digits only, or hexadecimal after 0x; nothing for signs, other characters or overflow.
std::optional<std::uint64_t> parse_number(std::string_view text);
// "48K", "2M", "1G" or plain bytes, as sysfs writes cache sizes.
std::optional<std::uint64_t> parse_size(std::string_view text);
// "0-3,8,10-11", ascending and without repeats.
std::optional<std::vector<unsigned>> parse_cpu_list(std::string_view text);
// The value after "key :" on the first line that starts with key; empty when there is none.
std::string_view field_value(std::string_view text, std::string_view key);
// Removes and returns the first line.
std::string_view take_line(std::string_view& text);
// For terminals: printable ASCII with single spaces, at most 96 characters.
std::string printable(std::string_view text);

}  // namespace hearth
