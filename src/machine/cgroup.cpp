// Limits set by control groups. A limit on any ancestor binds, so every level up to the root is read.
#include <algorithm>

#include "machine/machine.h"
#include "machine/probe_files.h"

namespace hearth {
namespace {

constexpr std::uint64_t kNoMemoryLimit = 1ULL << 62;  // version 1 writes "none" as the largest page-rounded number
constexpr std::size_t kPathLimit = 4096;

template <typename T>
void keep_smaller(std::optional<T>& kept, T value) {
    if (!kept || value < *kept) kept = value;
}

struct Membership {
    std::optional<std::string> unified;
    std::optional<std::string> memory;
    std::optional<std::string> cpu;
};

bool has_word(std::string_view list, std::string_view word) {
    while (!list.empty()) {
        const std::string_view part = list.substr(0, list.find(','));
        if (part == word) return true;
        list.remove_prefix(std::min(list.size(), part.size() + 1));
    }
    return false;
}

// Lines such as "4:memory:/user/7" (version 1) and "0::/user/7" (version 2).
Membership read_membership(const ProbeRoots& roots) {
    Membership membership;
    const std::optional<std::string> text = read_probe_file(roots.proc + "/self/cgroup");
    if (!text) return membership;
    std::string_view rest = *text;
    while (!rest.empty()) {
        const std::string_view line = take_line(rest);
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
        if (second == std::string_view::npos) continue;
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        const std::string path(line.substr(second + 1));
        if (controllers.empty()) membership.unified = path;
        if (has_word(controllers, "memory")) membership.memory = path;
        if (has_word(controllers, "cpu")) membership.cpu = path;
    }
    return membership;
}

// Calls visit(directory) for the group and all above it, the mount itself included. Inside a container the path may
// name groups that are not mounted here; those levels simply have no files.
template <typename Visit>
void walk_up(const std::string& mount, std::string path, Visit visit) {
    if (path.size() > kPathLimit || path.find("/..") != std::string::npos) path.clear();
    while (!path.empty() && path != "/") {
        visit(mount + (path.front() == '/' ? path : "/" + path));
        path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
    }
    visit(mount);
}

// Page cache can be dropped and is not really used, as in the kernel's MemAvailable. `scope` stands before the names of
// the fields that count the groups below as well.
std::uint64_t used_memory(const std::string& usage_path, const std::string& stat_path, const std::string& scope) {
    const std::uint64_t usage = read_probe_number(usage_path).value_or(0);
    const std::optional<std::string> stat = read_probe_file(stat_path);
    if (!stat) return usage;
    std::string_view rest = *stat;
    std::uint64_t left = usage;
    while (!rest.empty()) {
        const std::string_view line = take_line(rest);
        for (const std::string& field : {scope + "inactive_file ", scope + "active_file "}) {
            if (line.starts_with(field)) left -= std::min(left, parse_number(line.substr(field.size())).value_or(0));
        }
    }
    return left;
}

void keep_memory_limit(CgroupLimits& limits, std::optional<std::uint64_t> limit, std::uint64_t used) {
    if (!limit || *limit == 0 || *limit >= kNoMemoryLimit) return;
    keep_smaller(limits.memory_bytes, *limit);
    keep_smaller(limits.memory_left_bytes, *limit - std::min(*limit, used));
}

void keep_quota(CgroupLimits& limits, std::optional<std::uint64_t> quota, std::optional<std::uint64_t> period) {
    if (!quota || !period || *quota == 0 || *period == 0) return;
    keep_smaller(limits.cpus, static_cast<double>(*quota) / static_cast<double>(*period));
}

void read_unified(const std::string& directory, CgroupLimits& limits) {
    // memory.high does not kill, but slows to a crawl whoever goes beyond it.
    for (const char* file : {"/memory.max", "/memory.high"}) {
        const std::optional<std::uint64_t> limit = read_probe_number(directory + file);
        if (!limit) continue;
        const std::uint64_t used = used_memory(directory + "/memory.current", directory + "/memory.stat", "");
        keep_memory_limit(limits, limit, used);
    }
    if (const std::optional<std::string> text = read_probe_file(directory + "/cpu.max")) {
        const std::string_view value = trim(*text);  // "150000 100000" or "max 100000"
        const std::size_t space = value.find(' ');
        if (space != std::string_view::npos) {
            keep_quota(limits, parse_number(value.substr(0, space)), parse_number(value.substr(space + 1)));
        }
    }
}

}  // namespace

CgroupLimits read_cgroup_limits(const ProbeRoots& roots) {
    CgroupLimits limits;
    const Membership membership = read_membership(roots);
    if (membership.unified) {
        for (const std::string& mount : {roots.cgroup, roots.cgroup + "/unified"}) {
            if (!read_probe_file(mount + "/cgroup.controllers")) continue;
            walk_up(mount, *membership.unified, [&](const std::string& directory) { read_unified(directory, limits); });
        }
    }
    if (membership.memory) {
        walk_up(roots.cgroup + "/memory", *membership.memory, [&](const std::string& directory) {
            const std::optional<std::uint64_t> limit = read_probe_number(directory + "/memory.limit_in_bytes");
            if (!limit || *limit >= kNoMemoryLimit) return;
            const std::uint64_t used =
                used_memory(directory + "/memory.usage_in_bytes", directory + "/memory.stat", "total_");
            keep_memory_limit(limits, limit, used);
        });
    }
    if (membership.cpu) {
        for (const char* mount : {"/cpu", "/cpu,cpuacct"}) {
            walk_up(roots.cgroup + mount, *membership.cpu, [&](const std::string& directory) {
                keep_quota(limits, read_probe_number(directory + "/cpu.cfs_quota_us"),  // -1, no number, means none
                           read_probe_number(directory + "/cpu.cfs_period_us"));
            });
        }
    }
    return limits;
}

}  // namespace hearth
