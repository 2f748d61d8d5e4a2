// hearth doctor's probes on written-out machines, on nothing and on garbage; and what is made of them.
#include "machine/health.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fake_tree.h"

namespace hearth {
namespace {

// A machine nothing is wrong with: eight cores, plenty of memory.
Machine healthy_machine() {
    Machine machine;
    machine.topology.cpus.resize(8);
    machine.topology.physical_cores = 8;
    machine.topology.performance_cores = 8;
    machine.topology.nodes = {NumaNode{0, 64ULL << 30, {0, 1, 2, 3, 4, 5, 6, 7}}};
    machine.allowed_cpus = 8;
    machine.recommended_threads = 8;
    machine.memory.total_bytes = 64ULL << 30;
    machine.memory.available_bytes = 60ULL << 30;
    machine.memory.usable_bytes = 60ULL << 30;
    machine.memory.transparent_huge_pages = "madvise";
    return machine;
}

Health calm() {
    Health health;
    health.load = 0.2;
    health.runnable = 1;
    health.swap_used_bytes = 0;
    health.memory_stall_percent = 0.0;
    health.clocks = {CpuClock{0, "acpi-cpufreq", "performance", "", 3'000'000, 3'000'000}};
    health.models = {"/", "ext4", false};
    return health;
}

ProgramFacts release_build() {
    ProgramFacts program;
    program.isa_levels = {"reference", "neon", "dotprod"};
    program.load_of_our_own = 1;
    return program;
}

std::vector<std::string> found(const Machine& machine, const Health& health, const ProgramFacts& program) {
    std::vector<std::string> ids;
    for (const Finding& finding : diagnose(machine, health, program).findings) {
        EXPECT_FALSE(finding.what.empty() || finding.why.empty() || finding.remedy.empty()) << finding.id;
        ids.emplace_back(finding.id);
    }
    return ids;
}

using Ids = std::vector<std::string>;

TEST(Diagnose, AHealthyMachineHasACleanBill) {
    const Diagnosis diagnosis = diagnose(healthy_machine(), calm(), release_build());
    EXPECT_TRUE(diagnosis.findings.empty());
    EXPECT_TRUE(diagnosis.unseen.empty());
    EXPECT_EQ(diagnosis.checked.size(), 12u);
    EXPECT_EQ(describe(diagnosis).find("healthy")->as_bool() != nullptr, true);
}

TEST(Diagnose, WhatTheKernelDoesNotTellIsNamedAndIsNoFinding) {
    Machine machine = healthy_machine();
    machine.memory = {};
    machine.topology.nodes.clear();
    const Diagnosis diagnosis = diagnose(machine, Health{}, release_build());
    EXPECT_TRUE(diagnosis.findings.empty());
    EXPECT_EQ(diagnosis.unseen.size(), 8u);
}

TEST(Diagnose, BuildsThatAreSlowByThemselvesAreNamed) {
    ProgramFacts program = release_build();
    program.is_optimised = false;
    EXPECT_EQ(found(healthy_machine(), calm(), program), Ids{"debug_build"});
    program.sanitizer = "address";
    EXPECT_EQ(found(healthy_machine(), calm(), program), Ids{"sanitized_build"});
}

TEST(Diagnose, KernelsBelowTheBestAreNamed) {
    ProgramFacts program = release_build();
    program.isa_variable = "dotprod";
    EXPECT_EQ(found(healthy_machine(), calm(), program), Ids{});
    program.isa_variable = "neon";
    EXPECT_EQ(found(healthy_machine(), calm(), program), Ids{"isa_below_best"});
    program.isa_variable = "avx512";
    EXPECT_EQ(found(healthy_machine(), calm(), program), Ids{"isa_unknown"});
    program.isa_variable = "";
    program.isa_levels = {"reference"};
    EXPECT_EQ(found(healthy_machine(), calm(), program), Ids{"isa_reference"});
}

TEST(Diagnose, OddThreadCountsAreNamed) {
    const auto with = [](const char* text) {
        ProgramFacts program = release_build();
        program.threads_variable = text;
        Machine machine = healthy_machine();
        machine.recommended_threads = 4;  // two threads a core
        return found(machine, calm(), program);
    };
    EXPECT_EQ(with(""), Ids{});
    EXPECT_EQ(with("4"), Ids{});
    EXPECT_EQ(with("2"), Ids{"threads_below_cores"});
    EXPECT_EQ(with("6"), Ids{"threads_above_cores"});
    EXPECT_EQ(with("9"), Ids{"threads_above_cpus"});
    for (const char* odd : {"0", "-1", "many", "4 ", "0x4", "1e3", "99999999999999999999", "1025", "\x1b[2J"}) {
        EXPECT_EQ(with(odd), Ids{"threads_invalid"}) << odd;
    }
}

TEST(Diagnose, LimitsOnCpusAreNamed) {
    Machine machine = healthy_machine();
    machine.allowed_cpus = 4;
    machine.cgroup.cpus = 1.5;
    machine.topology.performance_cores = 6;
    machine.topology.efficiency_cores = 2;
    EXPECT_EQ(found(machine, calm(), release_build()), (Ids{"affinity", "cpu_quota", "mixed_cores"}));
    machine = healthy_machine();
    machine.cgroup.cpus = 8.0;
    EXPECT_EQ(found(machine, calm(), release_build()), Ids{});
}

TEST(Diagnose, OtherLoadIsNamedAndOursIsNot) {
    Health health = calm();
    health.runnable = 5;
    EXPECT_EQ(found(healthy_machine(), health, release_build()), Ids{});  // four others on eight CPUs
    health.runnable = 6;
    EXPECT_EQ(found(healthy_machine(), health, release_build()), Ids{"busy"});
    health.runnable = 1;
    health.load = 4.1;
    EXPECT_EQ(found(healthy_machine(), health, release_build()), Ids{"busy"});
}

TEST(Diagnose, LowClocksAreNamed) {
    const auto with = [](CpuClock clock) {
        Health health = calm();
        health.clocks = {std::move(clock)};
        return found(healthy_machine(), health, release_build());
    };
    EXPECT_EQ(with({0, "acpi-cpufreq", "powersave", "", 0, 0}), Ids{"clock_saving"});
    EXPECT_EQ(with({0, "acpi-cpufreq", "schedutil", "", 0, 0}), Ids{});
    // This driver's powersave is its usual mode; the preference decides.
    EXPECT_EQ(with({0, "intel_pstate", "powersave", "balance_performance", 0, 0}), Ids{});
    EXPECT_EQ(with({0, "intel_pstate", "powersave", "power", 0, 0}), Ids{"clock_saving"});
    EXPECT_EQ(with({0, "", "", "", 1'200'000, 3'600'000}), Ids{"clock_limited"});
    EXPECT_EQ(with({0, "", "", "", 3'500'000, 3'600'000}), Ids{});
}

TEST(Diagnose, ShortMemoryIsNamed) {
    Machine machine = healthy_machine();
    machine.memory.usable_bytes = 1ULL << 30;
    Health health = calm();
    health.swap_used_bytes = 1ULL << 30;
    health.memory_stall_percent = 12.5;
    EXPECT_EQ(found(machine, health, release_build()), (Ids{"memory_low", "swap_used", "memory_pressure"}));
}

TEST(Diagnose, PagesNodesAndFileSystemsAreNamed) {
    Machine machine = healthy_machine();
    machine.memory.transparent_huge_pages = "never";
    machine.topology.nodes.push_back(NumaNode{1, 64ULL << 30, {8, 9}});
    Health health = calm();
    health.models = {"/home", "nfs4", false};
    EXPECT_EQ(found(machine, health, release_build()), (Ids{"huge_pages_off", "numa", "models_remote"}));
    machine = healthy_machine();
    machine.topology.nodes.push_back(NumaNode{1, 64ULL << 30, {}});  // memory without CPUs
    health.models = {"/home", "ext4", true};
    EXPECT_EQ(found(machine, health, release_build()), Ids{"models_on_disk"});
}

TEST(ReadHealth, ReadsWhatTheKernelWrites) {
    const FakeTree tree;
    tree.write("proc/loadavg", "3.50 2.00 1.00 5/345 12345\n");
    tree.write("proc/meminfo", "MemTotal: 100 kB\nSwapTotal:    2048 kB\nSwapFree:    1024 kB\n");
    tree.write("proc/pressure/memory", "some avg10=2.25 avg60=1.00 avg300=0.10 total=5\nfull avg10=0.00\n");
    tree.write("proc/self/mountinfo",
               "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
               "22 21 0:40 / /home rw,relatime shared:1 - nfs4 server:/home rw\n"
               "23 21 8:17 / /home/my\\040models rw - xfs /dev/sdb1 rw\n"
               "24 21 0:41 / /homes rw - tmpfs tmpfs rw\n");
    tree.write("sys/dev/block/8:17/queue/rotational", "1\n");
    tree.write("sys/devices/system/cpu/cpu10/cpufreq/scaling_governor", "powersave\n");
    tree.write("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance\n");
    tree.write("sys/devices/system/cpu/cpu2/cpufreq/scaling_driver", "intel_pstate\n");
    tree.write("sys/devices/system/cpu/cpu2/cpufreq/scaling_max_freq", "2000000\n");
    tree.write("sys/devices/system/cpu/cpu2/cpufreq/cpuinfo_max_freq", "3000000\n");
    tree.write("sys/devices/system/cpu/cpufreq/boost", "1\n");

    const Health health = read_health(tree.roots(), "/home/my models/hearth");
    EXPECT_EQ(health.load, 3.5);
    EXPECT_EQ(health.runnable, 5u);
    EXPECT_EQ(health.swap_used_bytes, 1024u * 1024);
    EXPECT_EQ(health.memory_stall_percent, 2.25);
    ASSERT_EQ(health.clocks.size(), 2u);
    EXPECT_EQ(health.clocks[0].cpu, 2u);
    EXPECT_EQ(health.clocks[0].driver, "intel_pstate");
    EXPECT_EQ(health.clocks[0].limit_khz, 2'000'000u);
    EXPECT_EQ(health.clocks[1].governor, "powersave");
    EXPECT_EQ(health.models.mount_point, "/home/my models");
    EXPECT_EQ(health.models.type, "xfs");
    EXPECT_TRUE(health.models.is_rotating);
    // Virtual disks say that they turn whatever they lie on.
    tree.make_folder("sys/block/vda/queue");
    tree.write("sys/block/vda/queue/rotational", "1\n");
    tree.make_link("sys/dev/block/8:1", "../../block/vda");
    EXPECT_FALSE(read_health(tree.roots(), "/homeless").models.is_rotating);
    EXPECT_EQ(read_health(tree.roots(), "/home/x").models.type, "nfs4");
    EXPECT_EQ(read_health(tree.roots(), "/homeless").models.type, "ext4");
}

const std::vector<std::string>& health_files() {
    static const std::vector<std::string> files = {"proc/loadavg",
                                                   "proc/meminfo",
                                                   "proc/pressure/memory",
                                                   "proc/self/mountinfo",
                                                   "sys/dev/block/8:1/queue/rotational",
                                                   "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                                                   "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
                                                   "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
                                                   "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq",
                                                   "sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference",
                                                   "sys/kernel/mm/transparent_hugepage/enabled",
                                                   "cgroup/cpu.max"};
    return files;
}

void expect_sane(const FakeTree& tree, std::string_view what) {
    SCOPED_TRACE(what);
    const ProbeRoots roots = tree.roots();
    const Diagnosis diagnosis = diagnose(detect_machine(roots), read_health(roots, "/models"), release_build());
    for (const Finding& finding : diagnosis.findings) {
        for (const std::string& text : {finding.what, finding.why, finding.remedy}) {
            EXPECT_LT(text.size(), 400u);
            EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; })) << text;
        }
    }
    EXPECT_TRUE(Json::parse(describe(diagnosis).dump()).ok());
}

TEST(ReadHealth, SurvivesGarbageInEveryFile) {
    std::string binary;
    for (int i = 0; i < 2000; ++i) binary.push_back(static_cast<char>((i * 167 + 13) % 256));
    std::string mounts;
    while (mounts.size() < 100'000) mounts += "1 1 8:1 / / rw - nfs\x1b[2J x rw\n";
    for (const std::string& garbage :
         {std::string(), std::string("\n"), std::string("nan inf -1 9/\n"), std::string("1e308 0 0 0/0\n"),
          std::string("-3.5 2 1 -1/2 3\n"), std::string("0x10 0 0 5"), std::string("some avg10=nan\n"),
          std::string("some avg10=1e300\n"), std::string("18446744073709551615\n"), std::string("1 1 8:1 / / - \n"),
          std::string("1 1 ../.. / / rw - ext4\n"), std::string("SwapTotal: 18446744073709551615 kB\nSwapFree: 1 kB"),
          std::string("\\04\\0400\\400 - "), std::string(100'000, ' '), std::string(70'000, '\0'), binary, mounts}) {
        const FakeTree tree;
        for (const std::string& file : health_files()) tree.write(file, garbage);
        expect_sane(tree, garbage.substr(0, 40));
    }
}

TEST(ReadHealth, SurvivesFilesThatAreMissingOrSomethingElse) {
    expect_sane(FakeTree(), "nothing at all");
    const FakeTree fifos;
    for (const std::string& file : health_files()) fifos.make_fifo(file);
    expect_sane(fifos, "FIFOs");
    const FakeTree folders;
    for (const std::string& file : health_files()) folders.make_folder(file);
    expect_sane(folders, "folders");
    const FakeTree endless;
    for (const std::string& file : health_files()) endless.make_link(file, "/dev/zero");
    expect_sane(endless, "endless devices");
}

TEST(ReadHealth, SeesThisMachine) {
    const Health health = read_health(ProbeRoots{}, "/");
    EXPECT_TRUE(health.load.has_value());
    EXPECT_GE(health.runnable.value_or(0), 1u);
    EXPECT_FALSE(health.models.type.empty());
}

}  // namespace
}  // namespace hearth
