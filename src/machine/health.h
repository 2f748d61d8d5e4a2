// What slows this machine: probes of the moment (load, swap, clocks, file systems) and the findings drawn from them.
// Probes never fail: what cannot be read stays empty and is named as not seen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "machine/machine.h"

namespace hearth {

// The clock settings of one CPU; empty or 0 when the kernel does not say.
struct CpuClock {
    unsigned cpu = 0;
    std::string driver;      // "intel_pstate", "acpi-cpufreq", ...
    std::string governor;    // "performance", "powersave", ...
    std::string preference;  // of drivers that choose clocks themselves: "balance_power", ...
    std::uint64_t limit_khz = 0;
    std::uint64_t highest_khz = 0;
};

struct FileSystem {
    std::string mount_point;
    std::string type;          // "ext4", "nfs4", ...; empty: not known
    bool is_rotating = false;  // on a disk that turns
};

struct Health {
    std::optional<double> load;                    // average of the last minute
    std::optional<std::uint64_t> runnable;         // threads running or waiting for a CPU, ours included
    std::optional<std::uint64_t> swap_used_bytes;  // 0 when there is no swap
    std::optional<double> memory_stall_percent;    // of the last ten seconds somebody waited for memory
    std::vector<CpuClock> clocks;                  // those that tell anything
    FileSystem models;                             // that of the models folder
};

// `models_folder`: an absolute path, which need not exist.
Health read_health(const ProbeRoots& roots, const std::string& models_folder);

// What the program itself brings.
struct ProgramFacts {
    std::string threads_variable = {};         // HEARTH_CPU_THREADS as it was given
    std::string isa_variable = {};             // HEARTH_ISA as it was given
    std::vector<std::string> isa_levels = {};  // those this CPU can run, lowest first
    bool is_optimised = true;                  // of the build
    bool has_checks = false;                   // assertions are compiled in
    std::string sanitizer = {};                // empty: none
    std::uint64_t load_of_our_own = 0;         // runnable threads that are this process
};

struct Finding {
    std::string_view id;  // stable, for programs: "threads_above_cpus"
    std::string what;
    std::string why;     // what it costs
    std::string remedy;  // what to do
};

struct Diagnosis {
    std::vector<Finding> findings;          // the costliest kind first
    std::vector<std::string_view> checked;  // subjects that were seen, with findings or without
    std::vector<std::string_view> unseen;   // subjects this kernel does not tell about
};

Diagnosis diagnose(const Machine& machine, const Health& health, const ProgramFacts& program);
Json describe(const Diagnosis& diagnosis);

}  // namespace hearth
