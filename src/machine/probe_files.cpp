// Plain POSIX calls: <filesystem> follows loops, throws and reads FIFOs where these do not.
#include "machine/probe_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

namespace hearth {

std::optional<std::string> read_probe_file(const std::string& path) {
    // Look before opening, since opening a device can do things; and again after, since it may have changed.
    struct stat info = {};
    if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (file < 0) return std::nullopt;
    std::optional<std::string> content;
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode)) {
        content.emplace();
        char chunk[4096];
        while (content->size() < kProbeFileLimit) {
            const std::size_t wanted = std::min(sizeof(chunk), kProbeFileLimit - content->size());
            const ssize_t got = read(file, chunk, wanted);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0 && content->empty()) content.reset();
            if (got <= 0) break;
            content->append(chunk, static_cast<std::size_t>(got));
        }
    }
    close(file);
    return content;
}

std::optional<std::uint64_t> read_probe_number(const std::string& path) {
    const std::optional<std::string> text = read_probe_file(path);
    return text ? parse_number(*text) : std::nullopt;
}

std::vector<std::string> list_probe_directory(const std::string& path) {
    std::vector<std::string> names;
    DIR* directory = opendir(path.c_str());
    if (directory == nullptr) return names;
    while (names.size() < kProbeDirectoryLimit) {
        const dirent* entry = readdir(directory);
        if (entry == nullptr) break;
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
    }
    closedir(directory);
    std::sort(names.begin(), names.end());
    return names;
}

std::string probe_link_name(const std::string& path) {
    char target[4096];
    const ssize_t length = readlink(path.c_str(), target, sizeof(target));
    if (length <= 0) return {};
    const std::string_view text(target, static_cast<std::size_t>(length));
    return std::string(text.substr(text.find_last_of('/') + 1));  // npos + 1 is 0
}

std::string_view trim(std::string_view text) {
    constexpr std::string_view kSpace(" \t\r\n\0", 5);
    const std::size_t first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
    text = trim(text);
    int base = 10;
    if (text.starts_with("0x")) {
        text.remove_prefix(2);
        base = 16;
    }
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
    text = trim(text);
    unsigned shift = 0;
    if (!text.empty()) {
        switch (text.back()) {
            case 'K': shift = 10; break;
            case 'M': shift = 20; break;
            case 'G': shift = 30; break;
            default: break;
        }
    }
    if (shift != 0) text.remove_suffix(1);
    const std::optional<std::uint64_t> number = parse_number(text);
    if (!number || *number > (UINT64_MAX >> shift)) return std::nullopt;
    return *number << shift;
}

std::optional<std::vector<unsigned>> parse_cpu_list(std::string_view text) {
    text = trim(text);
    std::vector<bool> present;
    while (!text.empty()) {
        std::string_view part = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), part.size() + 1));
        const std::size_t dash = part.find('-');
        const std::optional<std::uint64_t> first = parse_number(part.substr(0, dash));
        const std::optional<std::uint64_t> last =
            dash == std::string_view::npos ? first : parse_number(part.substr(dash + 1));
        if (!first || !last || *first > *last || *last >= kProbeCpuLimit) return std::nullopt;
        if (present.size() <= *last) present.resize(*last + 1);
        std::fill(present.begin() + static_cast<std::ptrdiff_t>(*first),
                  present.begin() + static_cast<std::ptrdiff_t>(*last + 1), true);
    }
    std::vector<unsigned> cpus;
    for (unsigned cpu = 0; cpu < present.size(); ++cpu) {
        if (present[cpu]) cpus.push_back(cpu);
    }
    return cpus;
}

std::string_view take_line(std::string_view& text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    return line;
}

std::string_view field_value(std::string_view text, std::string_view key) {
    while (!text.empty()) {
        const std::string_view line = take_line(text);
        if (!line.starts_with(key)) continue;
        const std::string_view rest = trim(line.substr(key.size()));
        if (rest.starts_with(':')) return trim(rest.substr(1));
    }
    return {};
}

std::string printable(std::string_view text) {
    constexpr std::size_t kLimit = 96;
    std::string clean;
    for (const char c : trim(text)) {
        const bool visible = c > ' ' && c <= '~';
        if (!visible && (clean.empty() || clean.back() == ' ')) continue;
        if (clean.size() == kLimit) break;
        clean.push_back(visible ? c : ' ');
    }
    while (!clean.empty() && clean.back() == ' ') clean.pop_back();
    return clean;
}

}  // namespace hearth
