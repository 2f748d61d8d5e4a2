// Puts the probes together, and reads the small things: CPU model, memory, governor.
#include "machine/machine.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "machine/probe_files.h"

namespace hearth {
namespace {

struct ArmPart {
    std::uint32_t implementer;
    std::uint32_t part;
    std::string_view name;
};

// MIDR_EL1 implementer and part numbers, from Arm's technical reference manuals and Linux's asm/cputype.h.
constexpr ArmPart kArmParts[] = {
    {0x41, 0xd03, "Cortex-A53"},   {0x41, 0xd04, "Cortex-A35"},   {0x41, 0xd05, "Cortex-A55"},
    {0x41, 0xd07, "Cortex-A57"},   {0x41, 0xd08, "Cortex-A72"},   {0x41, 0xd09, "Cortex-A73"},
    {0x41, 0xd0a, "Cortex-A75"},   {0x41, 0xd0b, "Cortex-A76"},   {0x41, 0xd0c, "Neoverse-N1"},
    {0x41, 0xd0d, "Cortex-A77"},   {0x41, 0xd40, "Neoverse-V1"},  {0x41, 0xd41, "Cortex-A78"},
    {0x41, 0xd42, "Cortex-A78AE"}, {0x41, 0xd44, "Cortex-X1"},    {0x41, 0xd46, "Cortex-A510"},
    {0x41, 0xd47, "Cortex-A710"},  {0x41, 0xd48, "Cortex-X2"},    {0x41, 0xd49, "Neoverse-N2"},
    {0x41, 0xd4a, "Neoverse-E1"},  {0x41, 0xd4b, "Cortex-A78C"},  {0x41, 0xd4d, "Cortex-A715"},
    {0x41, 0xd4e, "Cortex-X3"},    {0x41, 0xd4f, "Neoverse-V2"},  {0x41, 0xd80, "Cortex-A520"},
    {0x41, 0xd81, "Cortex-A720"},  {0x41, 0xd82, "Cortex-X4"},    {0x41, 0xd84, "Neoverse-V3"},
    {0x41, 0xd85, "Cortex-X925"},  {0x41, 0xd87, "Cortex-A725"},  {0x41, 0xd8e, "Neoverse-N3"},
    {0x46, 0x001, "A64FX"},        {0x48, 0xd01, "TaiShan v110"}, {0x4e, 0x004, "Carmel"},
    {0x51, 0x001, "Oryon"},        {0x61, 0x022, "Apple M1"},     {0x61, 0x023, "Apple M1"},
    {0x61, 0x032, "Apple M2"},     {0x61, 0x033, "Apple M2"},     {0x6d, 0xd49, "Azure Cobalt 100"},
    {0xc0, 0xac3, "Ampere-1"},     {0xc0, 0xac4, "Ampere-1A"},
};

std::uint64_t kib_field(std::string_view text, std::string_view key) {
    std::string_view value = field_value(text, key);
    if (value.ends_with("kB")) value.remove_suffix(2);
    const std::optional<std::uint64_t> kib = parse_number(value);
    constexpr std::uint64_t kBelievable = 1ULL << 50;
    return kib && *kib < kBelievable ? *kib * 1024 : 0;
}

std::string read_architecture() {
    utsname name = {};
    return uname(&name) == 0 ? printable(name.machine) : std::string();
}

}  // namespace

std::string read_cpu_model(const ProbeRoots& roots) {
    const std::optional<std::string> text = read_probe_file(roots.proc + "/cpuinfo");
    if (!text) return {};
    for (const char* key : {"model name", "Model Name", "cpu model"}) {
        const std::string name = printable(field_value(*text, key));
        if (!name.empty()) return name;
    }
    // On arm64 only numbers are given. Cores of different kinds are all named, each once.
    std::string model;
    std::set<std::uint64_t> seen;
    std::string_view rest = *text;
    std::uint64_t implementer = 0;
    while (!rest.empty() && seen.size() < 4) {
        const std::string_view line = take_line(rest);
        if (const auto value = parse_number(field_value(line, "CPU implementer"))) implementer = *value;
        const std::optional<std::uint64_t> part = parse_number(field_value(line, "CPU part"));
        if (!part || !seen.insert((implementer << 32) ^ *part).second) continue;
        for (const ArmPart& known : kArmParts) {
            if (known.implementer == implementer && known.part == *part) {
                model += (model.empty() ? "" : " + ") + std::string(known.name);
            }
        }
    }
    return model;
}

Memory read_memory(const ProbeRoots& roots) {
    Memory memory;
    if (const std::optional<std::string> text = read_probe_file(roots.proc + "/meminfo")) {
        memory.total_bytes = kib_field(*text, "MemTotal");
        memory.available_bytes = kib_field(*text, "MemAvailable");
        if (memory.available_bytes == 0) memory.available_bytes = kib_field(*text, "MemFree");
        memory.available_bytes = std::min(memory.available_bytes, memory.total_bytes);
        memory.huge_page_bytes = kib_field(*text, "Hugepagesize");
        memory.reserved_huge_pages = parse_number(field_value(*text, "HugePages_Total")).value_or(0);
    }
    if (memory.total_bytes != 0) memory.usable_bytes = memory.available_bytes;
    // "always [madvise] never"
    const std::optional<std::string> setting = read_probe_file(roots.sys + "/kernel/mm/transparent_hugepage/enabled");
    if (setting) {
        const std::size_t open = setting->find('[');
        const std::size_t close = open == std::string::npos ? open : setting->find(']', open);
        if (close != std::string::npos) {
            const std::string_view chosen = std::string_view(*setting).substr(open + 1, close - open - 1);
            for (const std::string_view known : {"always", "madvise", "never"}) {
                if (chosen == known) memory.transparent_huge_pages = known;
            }
        }
    }
    return memory;
}

unsigned recommend_threads(const Topology& topology, const std::vector<unsigned>& allowed,
                           std::optional<double> quota) {
    // Two threads on one core share its load ports and cache: no gain for work bound by memory.
    std::set<unsigned> cores;
    for (const LogicalCpu& cpu : topology.cpus) {
        if (std::binary_search(allowed.begin(), allowed.end(), cpu.id)) cores.insert(cpu.core);
    }
    std::size_t threads = cores.empty() ? topology.physical_cores : cores.size();
    if (quota && std::isfinite(*quota) && *quota < static_cast<double>(threads)) {
        threads = static_cast<std::size_t>(std::ceil(std::max(*quota, 0.0)));
    }
    return static_cast<unsigned>(std::max<std::size_t>(threads, 1));
}

Machine detect_machine(const ProbeRoots& roots) {
    Machine machine;
    machine.architecture = read_architecture();
    machine.cpu_model = read_cpu_model(roots);
    if (roots.cpu_features) machine.features = roots.cpu_features();
    std::vector<unsigned> allowed = roots.allowed_cpus ? roots.allowed_cpus() : std::vector<unsigned>();
    std::sort(allowed.begin(), allowed.end());
    std::optional<Topology> topology;
    if (roots.topology_reader == TopologyReader::Best) topology = read_topology_from_hwloc(roots);
    machine.topology = topology ? std::move(*topology) : read_topology_from_kernel(roots, allowed);
    machine.allowed_cpus = static_cast<unsigned>(allowed.empty() ? machine.topology.cpus.size() : allowed.size());
    machine.cgroup = read_cgroup_limits(roots);
    machine.recommended_threads = recommend_threads(machine.topology, allowed, machine.cgroup.cpus);
    machine.memory = read_memory(roots);
    if (const std::optional<std::uint64_t> left = machine.cgroup.memory_left_bytes) {
        machine.memory.usable_bytes = std::min(machine.memory.usable_bytes.value_or(*left), *left);
    }
    machine.governor =
        printable(read_probe_file(roots.sys + "/devices/system/cpu/cpu0/cpufreq/scaling_governor").value_or(""));
    machine.gpus = read_gpus(roots);
    machine.gpu_access = read_gpu_access(roots);
    machine.tier = compute_tier(machine.gpus, machine.gpu_access);
    return machine;
}

}  // namespace hearth
