// What this machine is and what we may use of it: CPU, topology, memory, limits, GPUs. Detection cannot fail:
// what the kernel does not tell stays empty, and the counts that matter are at least 1.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "machine/affinity.h"
#include "machine/cpu_features.h"

namespace hearth {

enum class CoreKind : std::uint8_t { Performance, Efficiency };  // all are Performance where the cores are alike

struct LogicalCpu {
    unsigned id = 0;    // the kernel's number
    unsigned core = 0;  // index of its physical core, 0 .. physical_cores - 1
    CoreKind kind = CoreKind::Performance;
};

// All data or unified caches of one level and size.
struct Cache {
    unsigned level = 0;
    std::uint64_t size_bytes = 0;  // of one
    unsigned count = 0;            // how many there are
    unsigned shared_by = 0;        // logical CPUs of one

    bool operator==(const Cache&) const = default;
};

struct NumaNode {
    unsigned id = 0;
    std::uint64_t memory_bytes = 0;
    std::vector<unsigned> cpus;
};

struct Topology {
    std::string source;            // "hwloc", "kernel", or "none" when only the CPU count is known
    std::vector<LogicalCpu> cpus;  // those online, by id; at least one
    unsigned physical_cores = 1;
    unsigned threads_per_core = 1;  // the most any core has
    unsigned packages = 1;
    unsigned performance_cores = 1;
    unsigned efficiency_cores = 0;
    std::vector<Cache> caches;    // by level
    std::vector<NumaNode> nodes;  // may be empty
};

struct Memory {
    std::uint64_t total_bytes = 0;
    std::uint64_t available_bytes = 0;  // of the system, by the kernel's estimate
    // What this process can have: the above within the control groups' limits. None: nothing is known.
    std::optional<std::uint64_t> usable_bytes;
    std::string transparent_huge_pages;  // "always", "madvise", "never", or empty
    std::uint64_t huge_page_bytes = 0;
    std::uint64_t reserved_huge_pages = 0;
};

// The strictest limit on the way from our control group up to the root, versions 1 and 2.
struct CgroupLimits {
    std::optional<std::uint64_t> memory_bytes;
    std::optional<std::uint64_t> memory_left_bytes;
    std::optional<double> cpus;  // quota / period

    bool operator==(const CgroupLimits&) const = default;
};

enum class GpuKind : std::uint8_t { DisplayOnly, Integrated, Discrete };

struct Gpu {
    std::string address;  // PCI address, or the DRM card where there is no PCI
    std::string name;
    std::uint32_t vendor_id = 0;
    std::uint32_t device_id = 0;
    GpuKind kind = GpuKind::DisplayOnly;
    std::uint64_t memory_bytes = 0;   // its own; 0 when shared with the CPU or unknown
    bool memory_is_estimate = false;  // from the size of its PCI window, which is rounded up
    std::string driver;               // the kernel's; empty when none is bound
};

struct GpuAccess {
    bool cuda_library = false;    // libcuda.so.1 loads
    bool vulkan_library = false;  // libvulkan.so.1 loads
    bool device_nodes = false;    // at least one under /dev may be opened by us
};

enum class ComputeTier : std::uint8_t { CpuOnly, IntegratedGpu, DiscreteGpu };

struct Machine {
    std::string architecture;  // "aarch64", "x86_64", ...
    std::string cpu_model;
    CpuFeatures features;
    Topology topology;
    Memory memory;
    CgroupLimits cgroup;
    unsigned allowed_cpus = 1;         // by affinity
    unsigned recommended_threads = 1;  // physical cores within affinity and quota
    std::string governor;              // of the CPU frequency, e.g. "performance"; empty when unknown
    std::vector<Gpu> gpus;
    GpuAccess gpu_access;
    ComputeTier tier = ComputeTier::CpuOnly;
};

enum class TopologyReader : std::uint8_t { Best, KernelFiles };  // Best: hwloc where built with it

bool can_load_library(const char* name);  // by dlopen

// Where detection looks. Tests point it elsewhere.
struct ProbeRoots {
    std::string proc = "/proc";
    std::string sys = "/sys";
    std::string cgroup = "/sys/fs/cgroup";
    std::string dev = "/dev";
    TopologyReader topology_reader = TopologyReader::Best;
    std::function<std::vector<unsigned>()> allowed_cpus = hearth::allowed_cpus;
    std::function<CpuFeatures()> cpu_features = detect_cpu_features;
    std::function<bool(const char*)> can_load_library = hearth::can_load_library;
};

Machine detect_machine(const ProbeRoots& roots = {});

// The parts of it.
Topology read_topology_from_kernel(const ProbeRoots& roots, const std::vector<unsigned>& allowed);
std::optional<Topology> read_topology_from_hwloc(const ProbeRoots& roots);  // nothing when built without hwloc
CgroupLimits read_cgroup_limits(const ProbeRoots& roots);
Memory read_memory(const ProbeRoots& roots);
std::vector<Gpu> read_gpus(const ProbeRoots& roots);
GpuAccess read_gpu_access(const ProbeRoots& roots);
std::string read_cpu_model(const ProbeRoots& roots);
unsigned recommend_threads(const Topology& topology, const std::vector<unsigned>& allowed, std::optional<double> quota);
ComputeTier compute_tier(const std::vector<Gpu>& gpus, const GpuAccess& access);

std::string_view tier_text(ComputeTier tier);  // "CPU only", "integrated GPU", "discrete GPU"
Json describe(const Machine& machine);
std::string summary_text(const Machine& machine);  // aligned lines for a terminal, each ended by a newline

}  // namespace hearth
