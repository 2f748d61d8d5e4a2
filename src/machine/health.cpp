// From what was read to findings: each says what it is, what it costs and what to do.
#include "machine/health.h"

#include <algorithm>
#include <cstdio>

#include "machine/probe_files.h"

namespace hearth {

namespace {

std::string decimal(double value) {
    char text[64];
    std::snprintf(text, sizeof text, "%.1f", value);
    return text;
}

std::string gigabytes(std::uint64_t bytes) {
    return decimal(static_cast<double>(bytes) / 1e9) + " GB";
}

std::string cpus(std::size_t count) {
    return std::to_string(count) + (count == 1 ? " CPU" : " CPUs");
}

class Examiner {
public:
    Examiner(const Machine& machine, const Health& health, const ProgramFacts& program)
        : machine_(machine), health_(health), program_(program) {}

    Diagnosis run() {
        build();
        kernels();
        threads();
        cpu_limits();
        other_load();
        clocks();
        memory();
        huge_pages();
        numa();
        model_files();
        return std::move(diagnosis_);
    }

private:
    void add(std::string_view id, std::string what, std::string why, std::string remedy) {
        diagnosis_.findings.push_back({id, std::move(what), std::move(why), std::move(remedy)});
    }
    // Notes a subject as checked, or as not seen.
    bool subject(std::string_view name, bool seen = true) {
        (seen ? diagnosis_.checked : diagnosis_.unseen).push_back(name);
        return seen;
    }

    void build() {
        subject("build");
        if (!program_.sanitizer.empty()) {
            add("sanitized_build", "This build is instrumented by a sanitizer (" + program_.sanitizer + ").",
                "Every memory access is checked: two to twenty times slower.", "Use a release build (make build).");
        } else if (!program_.is_optimised || program_.has_checks) {
            add("debug_build", "This is a debug build.",
                "Without optimisation the kernels run at a tenth of their speed or less.",
                "Use a release build (make build).");
        }
    }

    void kernels() {
        subject("kernels");
        const std::vector<std::string>& levels = program_.isa_levels;
        const std::string& wanted = program_.isa_variable;
        if (!wanted.empty() && !levels.empty() && wanted != levels.back()) {
            const bool known = std::find(levels.begin(), levels.end(), wanted) != levels.end();
            const std::string asked = "HEARTH_ISA asks for '" + printable(wanted) + "'";
            if (known) {
                add("isa_below_best", asked + "; this CPU can run '" + levels.back() + "'.",
                    "The kernels leave instructions unused that this CPU has.", "unset HEARTH_ISA");
            } else {
                add("isa_unknown", asked + ", which this CPU cannot run.", "Every command that computes refuses it.",
                    "unset HEARTH_ISA");
            }
        }
        if (levels.size() == 1) {
            add("isa_reference", "Only the reference kernels run on this CPU.",
                "They are written to be right, not fast: ten to fifty times slower than vector code.",
                "Use a CPU with AVX2 and FMA (x86-64, since 2013) or any 64-bit ARM. In a virtual machine, pass the "
                "host's CPU through (-cpu host).");
        }
    }

    void threads() {
        subject("threads");
        const std::string& text = program_.threads_variable;
        if (text.empty()) return;
        // As strict as the command line: no spaces, no signs, no hexadecimal.
        const bool digits = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
        const std::optional<std::uint64_t> number = digits ? parse_number(text) : std::nullopt;
        const std::uint64_t best = machine_.recommended_threads;
        if (!number || *number == 0 || *number > 1024) {
            add("threads_invalid",
                "HEARTH_CPU_THREADS is '" + printable(text) + "', which is no number from 1 to 1024.",
                "Every command that computes refuses it.", "unset HEARTH_CPU_THREADS");
            return;
        }
        const std::string asked = "HEARTH_CPU_THREADS asks for " + std::to_string(*number) + " threads";
        const std::string remedy =
            "unset HEARTH_CPU_THREADS, or set it to " + std::to_string(best) + ", what is used without it.";
        if (*number > machine_.allowed_cpus) {
            add("threads_above_cpus", asked + " on " + cpus(machine_.allowed_cpus) + ".",
                "Threads wait for one another after every operation; one that has no CPU holds up all the others.",
                remedy);
        } else if (*number > best) {
            add("threads_above_cores", asked + ", more than the " + std::to_string(best) + " cores that may be used.",
                "Two threads of a core share its vector units and its path to memory, and a quota stops them all.",
                remedy);
        } else if (*number < best) {
            add("threads_below_cores", asked + "; " + std::to_string(best) + " could be used.", "Cores are idle.",
                remedy);
        }
    }

    void cpu_limits() {
        subject("CPU limits");
        const Topology& topology = machine_.topology;
        if (machine_.allowed_cpus < topology.cpus.size()) {
            add("affinity",
                "This process may run on " + std::to_string(machine_.allowed_cpus) + " of " +
                    cpus(topology.cpus.size()) + ".",
                "Whoever started it set an affinity (taskset, a container, a job system).",
                "Start it without one, or accept it: the number of threads already follows it.");
        }
        if (machine_.cgroup.cpus && *machine_.cgroup.cpus < static_cast<double>(machine_.allowed_cpus)) {
            add("cpu_quota",
                "A control group grants " + decimal(*machine_.cgroup.cpus) + " of " + cpus(machine_.allowed_cpus) + ".",
                "When the quota of a period is used up, all threads stop until the next one: answers stutter.",
                "Raise the limit (docker --cpus, Kubernetes limits.cpu) or give whole CPUs by affinity.");
        }
        if (topology.efficiency_cores != 0 && program_.threads_variable.empty()) {
            add("mixed_cores",
                std::to_string(topology.performance_cores) + " performance and " +
                    std::to_string(topology.efficiency_cores) + " efficiency cores.",
                "Work is handed out in small pieces so that slow cores do not hold up fast ones, but decoding is "
                "sometimes faster on the fast ones alone.",
                "Compare: hearth bench MODEL --threads " + std::to_string(topology.performance_cores));
        }
    }

    void other_load() {
        if (!subject("other load", health_.load || health_.runnable)) return;
        const double allowed = static_cast<double>(machine_.allowed_cpus);
        const std::uint64_t running = health_.runnable.value_or(0);
        const std::uint64_t others = running - std::min(running, program_.load_of_our_own);
        const bool now = others > machine_.allowed_cpus / 2;
        const bool lately = health_.load && *health_.load > 0.5 * allowed;
        if (!now && !lately) return;
        const std::string average = health_.load ? ", load " + decimal(*health_.load) : std::string();
        add("busy",
            "Other processes compete: " + std::to_string(others) + " runnable" + average + " on " +
                cpus(machine_.allowed_cpus) + ".",
            "A thread that loses its CPU holds up all the others; decoding slows more than in proportion.",
            "Find them with top; stop them or give Hearth fewer threads (--threads).");
    }

    void clocks() {
        if (!subject("CPU clocks", !health_.clocks.empty())) return;
        std::size_t saving = 0;
        std::size_t limited = 0;
        const CpuClock* saver = nullptr;
        const CpuClock* slow = nullptr;
        for (const CpuClock& clock : health_.clocks) {
            // These drivers call the mode in which they choose clocks themselves "powersave"; the preference tells.
            const bool chooses = clock.driver.starts_with("intel_pstate") || clock.driver.starts_with("amd-pstate-epp");
            const bool saves = chooses ? clock.preference == "power" || clock.preference == "balance_power"
                                       : clock.governor == "powersave" || clock.governor == "conservative";
            if (saves) {
                ++saving;
                saver = &clock;
            }
            if (clock.limit_khz != 0 && clock.highest_khz != 0 && clock.limit_khz < clock.highest_khz / 20 * 19) {
                ++limited;
                slow = &clock;
            }
        }
        const auto affected = [&](std::size_t count) {
            return count == health_.clocks.size() ? std::string("all CPUs") : cpus(count);
        };
        if (saver != nullptr) {
            const std::string setting =
                saver->preference.empty() ? "governor " + saver->governor : "energy preference " + saver->preference;
            add("clock_saving", "The clocks of " + affected(saving) + " are kept low (" + setting + ").",
                "They rise late or never while tokens are computed.",
                "sudo cpupower frequency-set -g performance, or choose performance in the power settings.");
        }
        if (slow != nullptr) {
            const auto gigahertz = [](std::uint64_t khz) { return decimal(static_cast<double>(khz) / 1e6) + " GHz"; };
            add("clock_limited",
                "The clocks of " + affected(limited) + " are limited to " + gigahertz(slow->limit_khz) + " of " +
                    gigahertz(slow->highest_khz) + ".",
                "Prompts slow in proportion, decoding somewhat less.",
                "Lift scaling_max_freq: sudo cpupower frequency-set -u " + std::to_string(slow->highest_khz / 1000) +
                    "MHz. A laptop on battery may do it by itself.");
        }
    }

    void memory() {
        const Memory& memory = machine_.memory;
        if (subject("memory", memory.total_bytes != 0 && memory.usable_bytes) &&
            *memory.usable_bytes < memory.total_bytes / 10) {
            add("memory_low",
                gigabytes(*memory.usable_bytes) + " of " + gigabytes(memory.total_bytes) + " memory are free for use.",
                "Weights are dropped from memory and read from disk again, at each token in the worst case.",
                "End other programs, take a smaller model or a shorter context (hearth plan MODEL shows the needs).");
        }
        if (subject("swap", health_.swap_used_bytes.has_value())) {
            constexpr std::uint64_t kNoticeable = std::uint64_t{256} << 20;
            if (*health_.swap_used_bytes >= kNoticeable) {
                add("swap_used", gigabytes(*health_.swap_used_bytes) + " are swapped out.",
                    "Memory was short; a page of the KV cache that has to come back costs milliseconds.",
                    "End other programs; or keep the system from swapping early: sudo sysctl vm.swappiness=10");
            }
        }
        if (subject("memory pressure", health_.memory_stall_percent.has_value()) &&
            *health_.memory_stall_percent >= 1.0) {
            add("memory_pressure",
                "In the last ten seconds somebody waited for memory " + decimal(*health_.memory_stall_percent) +
                    " % of the time.",
                "The kernel is looking for memory while programs wait.",
                "End other programs, take a smaller model or a shorter context.");
        }
    }

    void huge_pages() {
        const std::string& setting = machine_.memory.transparent_huge_pages;
        if (!subject("huge pages", !setting.empty()) || setting != "never") return;
        add("huge_pages_off", "Transparent huge pages are off.",
            "Weights lie in small pages, and each of them has to be looked up: some percent of decoding.",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
    }

    void numa() {
        if (!subject("NUMA", !machine_.topology.nodes.empty())) return;
        const auto with_cpus = std::count_if(machine_.topology.nodes.begin(), machine_.topology.nodes.end(),
                                             [](const NumaNode& node) { return !node.cpus.empty(); });
        if (with_cpus < 2) return;
        add("numa", std::to_string(with_cpus) + " NUMA nodes.",
            "Memory of another node is slower to reach, and weights lie on the node that read them first.",
            "One large model: numactl --interleave=all hearth ... Small ones: numactl --cpunodebind=0 --membind=0");
    }

    void model_files() {
        const FileSystem& models = health_.models;
        if (!subject("model files", !models.type.empty())) return;
        constexpr std::string_view kRemote[] = {"nfs", "nfs4",     "cifs", "smb3",   "smbfs", "9p",
                                                "afs", "virtiofs", "ceph", "lustre", "ncpfs", "glusterfs"};
        const bool remote = std::find(std::begin(kRemote), std::end(kRemote), models.type) != std::end(kRemote) ||
                            models.type.starts_with("fuse.sshfs") || models.type.starts_with("fuse.rclone") ||
                            models.type.starts_with("fuse.glusterfs");
        const std::string place = printable(models.mount_point) + " (" + models.type + ")";
        if (remote) {
            add("models_remote", "Models are kept on a file system of another machine: " + place + ".",
                "Weights come over the network at the first use, and again whenever memory is short.",
                "Set HEARTH_HOME to a folder on a local disk.");
        } else if (models.is_rotating) {
            add("models_on_disk", "Models are kept on a disk that turns: " + place + ".",
                "Loading takes seconds a gigabyte.", "Set HEARTH_HOME to a folder on an SSD.");
        }
    }

    const Machine& machine_;
    const Health& health_;
    const ProgramFacts& program_;
    Diagnosis diagnosis_;
};

}  // namespace

Diagnosis diagnose(const Machine& machine, const Health& health, const ProgramFacts& program) {
    return Examiner(machine, health, program).run();
}

Json describe(const Diagnosis& diagnosis) {
    Json::Array findings;
    for (const Finding& finding : diagnosis.findings) {
        findings.push_back(
            Json::Object{{"id", finding.id}, {"what", finding.what}, {"why", finding.why}, {"remedy", finding.remedy}});
    }
    const auto names = [](const std::vector<std::string_view>& subjects) {
        Json::Array list;
        for (const std::string_view subject : subjects) list.push_back(subject);
        return list;
    };
    return Json::Object{{"healthy", diagnosis.findings.empty()},
                        {"findings", std::move(findings)},
                        {"checked", names(diagnosis.checked)},
                        {"not_seen", names(diagnosis.unseen)}};
}

}  // namespace hearth
