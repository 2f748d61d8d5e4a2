// Reads what diagnose() looks at. Everything is bounded and optional.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "machine/health.h"
#include "machine/probe_files.h"

namespace hearth {

namespace {

// A plain decimal such as "13.88"; nothing for what is no such number.
std::optional<double> parse_decimal(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < 0) return {};
    return value;
}

std::string_view take_word(std::string_view& text) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t")));
    const std::string_view word = text.substr(0, text.find_first_of(" \t\n"));
    text.remove_prefix(word.size());
    return word;
}

// "0.52 0.41 0.30 2/345 12345": averages, runnable and all threads, the last process.
void read_load(const ProbeRoots& roots, Health& health) {
    const std::optional<std::string> text = read_probe_file(roots.proc + "/loadavg");
    if (!text) return;
    std::string_view rest = *text;
    health.load = parse_decimal(take_word(rest));
    take_word(rest);
    take_word(rest);
    const std::string_view threads = take_word(rest);
    health.runnable = parse_number(threads.substr(0, threads.find('/')));
}

void read_swap(const ProbeRoots& roots, Health& health) {
    const std::optional<std::string> text = read_probe_file(roots.proc + "/meminfo");
    if (!text) return;
    const auto kib = [&](std::string_view key) -> std::optional<std::uint64_t> {
        std::string_view value = field_value(*text, key);
        if (value.ends_with("kB")) value.remove_suffix(2);
        const std::optional<std::uint64_t> number = parse_number(value);
        constexpr std::uint64_t kBelievable = std::uint64_t{1} << 50;
        return number && *number < kBelievable ? number : std::nullopt;
    };
    const std::optional<std::uint64_t> total = kib("SwapTotal");
    const std::optional<std::uint64_t> free = kib("SwapFree");
    if (total && free) health.swap_used_bytes = (*total - std::min(*total, *free)) * 1024;
}

// "some avg10=0.12 avg60=..."
void read_memory_stall(const ProbeRoots& roots, Health& health) {
    const std::optional<std::string> text = read_probe_file(roots.proc + "/pressure/memory");
    if (!text) return;
    std::string_view rest = *text;
    if (take_word(rest) != "some") return;
    const std::string_view average = take_word(rest);
    if (!average.starts_with("avg10=")) return;
    const std::optional<double> percent = parse_decimal(average.substr(6));
    if (percent && *percent <= 100.0) health.memory_stall_percent = percent;
}

void read_clocks(const ProbeRoots& roots, Health& health) {
    const std::string folder = roots.sys + "/devices/system/cpu";
    for (const std::string& name : list_probe_directory(folder)) {
        if (!name.starts_with("cpu")) continue;
        const std::optional<std::uint64_t> number = parse_number(std::string_view(name).substr(3));
        if (!number || *number >= kProbeCpuLimit) continue;
        const std::string files = folder + "/" + name + "/cpufreq/";
        const auto text = [&](const char* file) { return printable(read_probe_file(files + file).value_or("")); };
        CpuClock clock;
        clock.cpu = static_cast<unsigned>(*number);
        clock.driver = text("scaling_driver");
        clock.governor = text("scaling_governor");
        clock.preference = text("energy_performance_preference");
        clock.limit_khz = read_probe_number(files + "scaling_max_freq").value_or(0);
        clock.highest_khz = read_probe_number(files + "cpuinfo_max_freq").value_or(0);
        if (!clock.governor.empty() || clock.limit_khz != 0) health.clocks.push_back(std::move(clock));
    }
    std::sort(health.clocks.begin(), health.clocks.end(),
              [](const CpuClock& a, const CpuClock& b) { return a.cpu < b.cpu; });
}

// Spaces and the like stand as \040 in the kernel's tables.
std::string unescaped(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto digit = [&](std::size_t k) {
            return i + k < text.size() && text[i + k] >= '0' && text[i + k] <= '7';
        };
        if (text[i] == '\\' && digit(1) && digit(2) && digit(3)) {
            out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

bool lies_below(std::string_view path, std::string_view mount_point) {
    if (mount_point == "/") return path.starts_with('/');
    return path.starts_with(mount_point) && (path.size() == mount_point.size() || path[mount_point.size()] == '/');
}

// Partitions keep the answer at their disk, one folder up.
bool is_rotating(const ProbeRoots& roots, std::string_view device) {
    const auto plain = [](char c) { return (c >= '0' && c <= '9') || c == ':'; };
    if (device.empty() || !std::all_of(device.begin(), device.end(), plain)) return false;
    const std::string folder = roots.sys + "/dev/block/" + std::string(device);
    // Disks of virtual machines, and volumes over them, call themselves turning whatever they lie on.
    const std::string name = probe_link_name(folder);
    for (const char* imagined : {"vd", "xvd", "nbd", "loop", "dm-", "md"}) {
        if (name.starts_with(imagined)) return false;
    }
    for (const char* file : {"/queue/rotational", "/../queue/rotational"}) {
        if (const std::optional<std::uint64_t> value = read_probe_number(folder + file)) return *value == 1;
    }
    return false;
}

// Lines such as "36 35 98:0 /root /mount options shared:1 - ext4 /dev/sda1 rw"; the last, longest mount wins.
FileSystem find_file_system(const ProbeRoots& roots, const std::string& path) {
    FileSystem found;
    const std::optional<std::string> text = read_probe_file(roots.proc + "/self/mountinfo");
    if (!text) return found;
    std::string device;
    std::string_view rest = *text;
    while (!rest.empty()) {
        std::string_view line = take_line(rest);
        const std::size_t dash = line.find(" - ");
        if (dash == std::string_view::npos) continue;
        std::string_view behind = line.substr(dash + 3);
        take_word(line);
        take_word(line);
        const std::string_view number = take_word(line);
        take_word(line);
        const std::string mount_point = unescaped(take_word(line));
        if (mount_point.empty() || !lies_below(path, mount_point)) continue;
        if (mount_point.size() < found.mount_point.size()) continue;
        found.mount_point = mount_point;
        found.type = printable(take_word(behind));
        device = number;
    }
    found.is_rotating = is_rotating(roots, device);
    return found;
}

}  // namespace

Health read_health(const ProbeRoots& roots, const std::string& models_folder) {
    Health health;
    read_load(roots, health);
    read_swap(roots, health);
    read_memory_stall(roots, health);
    read_clocks(roots, health);
    health.models = find_file_system(roots, models_folder);
    return health;
}

}  // namespace hearth
