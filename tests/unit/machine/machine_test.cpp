// The whole detection: on this machine, on written-out ones, and on everything that could lie under /proc and /sys.
#include "machine/machine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fake_tree.h"
#include "machine/bandwidth.h"

namespace hearth {
namespace {

// Every file that detection reads in some case.
const std::vector<std::string>& all_files() {
    static const std::vector<std::string> files = [] {
        std::vector<std::string> list = {"proc/cpuinfo",
                                         "proc/meminfo",
                                         "proc/self/cgroup",
                                         "proc/driver/nvidia/gpus/0000:01:00.0/information",
                                         "sys/devices/system/cpu/online",
                                         "sys/devices/cpu_core/cpus",
                                         "sys/devices/cpu_atom/cpus",
                                         "sys/devices/system/node/online",
                                         "sys/devices/system/node/node0/cpulist",
                                         "sys/devices/system/node/node0/meminfo",
                                         "sys/kernel/mm/transparent_hugepage/enabled",
                                         "cgroup/cgroup.controllers",
                                         "cgroup/memory.max",
                                         "cgroup/memory.high",
                                         "cgroup/memory.current",
                                         "cgroup/memory.stat",
                                         "cgroup/cpu.max",
                                         "cgroup/memory/memory.limit_in_bytes",
                                         "cgroup/memory/memory.usage_in_bytes",
                                         "cgroup/memory/memory.stat",
                                         "cgroup/cpu/cpu.cfs_quota_us",
                                         "cgroup/cpu/cpu.cfs_period_us",
                                         "sys/class/drm/card0/device/driver",
                                         "dev/nvidiactl",
                                         "dev/dri/renderD128"};
        for (const char* file :
             {"cpu_capacity", "cpufreq/cpuinfo_max_freq", "cpufreq/scaling_governor", "topology/core_cpus_list",
              "topology/thread_siblings_list", "topology/core_id", "topology/physical_package_id", "cache/index0/level",
              "cache/index0/type", "cache/index0/size", "cache/index0/shared_cpu_list"}) {
            list.push_back(std::string("sys/devices/system/cpu/cpu0/") + file);
        }
        for (const char* file : {"class", "vendor", "device", "resource", "mem_info_vram_total", "driver"}) {
            list.push_back(std::string("sys/bus/pci/devices/0000:01:00.0/") + file);
        }
        return list;
    }();
    return files;
}

void expect_sane(const FakeTree& tree, std::string_view what) {
    SCOPED_TRACE(what);
    ProbeRoots roots = tree.roots();
    roots.can_load_library = [](const char*) { return true; };
    const Machine machine = detect_machine(roots);
    EXPECT_GE(machine.topology.cpus.size(), 1U);
    EXPECT_LE(machine.topology.cpus.size(), 8192U);
    EXPECT_GE(machine.topology.physical_cores, 1U);
    EXPECT_LE(machine.topology.physical_cores, machine.topology.cpus.size());
    EXPECT_GE(machine.recommended_threads, 1U);
    EXPECT_LE(machine.recommended_threads, 8192U);
    if (machine.memory.total_bytes != 0) {
        EXPECT_LE(machine.memory.usable_bytes, machine.memory.total_bytes);
    }
    const std::string text = summary_text(machine);
    EXPECT_LT(text.size(), 3000U);
    for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << static_cast<int>(c);
    EXPECT_TRUE(Json::parse(describe(machine).dump()).ok());
}

TEST(DetectMachine, SurvivesGarbageInEveryFile) {
    std::string binary;
    for (int i = 0; i < 2000; ++i) binary.push_back(static_cast<char>((i * 167 + 13) % 256));
    std::string list;
    while (list.size() < 150'000) list += "0,";
    std::string lines;
    while (lines.size() < 200'000) lines += "0::/a\nMemTotal: 1 kB\nCPU part : 0x1\n";
    for (const std::string& garbage :
         {std::string(), std::string("\n"), std::string("-1\n"), std::string("0\n"), std::string("1\n"),
          std::string("18446744073709551615\n"), std::string("99999999999999999999999999\n"),
          std::string("0-4294967295\n"), std::string("0-8191\n"), std::string("0x03ffffffffffffff"),
          std::string("0x030000"), std::string("model name : \x1b[2J\xff\xfe\n"), std::string(100'000, ':'),
          std::string(100'000, '\0'), std::string("max max max"), std::string("1e999"), binary, list, lines}) {
        const FakeTree tree;
        for (const std::string& file : all_files()) tree.write(file, garbage);
        expect_sane(tree, garbage.substr(0, 40));
    }
}

TEST(DetectMachine, SurvivesFilesThatAreSomethingElse) {
    {
        const FakeTree tree;
        for (const std::string& file : all_files()) tree.make_fifo(file);
        expect_sane(tree, "FIFOs");
    }
    {
        const FakeTree tree;
        for (const std::string& file : all_files()) tree.make_folder(file);
        expect_sane(tree, "folders");
    }
    {
        const FakeTree tree;
        for (const std::string& file : all_files()) tree.make_link(file, tree.path(file));
        expect_sane(tree, "links to themselves");
    }
    {
        const FakeTree tree;
        for (const std::string& file : all_files()) tree.make_link(file, "/dev/zero");
        expect_sane(tree, "endless devices");
    }
    {
        const FakeTree tree;
        expect_sane(tree, "nothing at all");
    }
}

TEST(DetectMachine, WorksWithoutAnyInjectedFunction) {
    const FakeTree tree;
    ProbeRoots roots = tree.roots();
    roots.allowed_cpus = nullptr;
    roots.cpu_features = nullptr;
    roots.can_load_library = nullptr;
    const Machine machine = detect_machine(roots);
    EXPECT_EQ(machine.recommended_threads, 1U);
    EXPECT_EQ(machine.allowed_cpus, 1U);
    EXPECT_EQ(machine.tier, ComputeTier::CpuOnly);
}

TEST(DetectMachine, SeesThisMachine) {
    const Machine machine = detect_machine();
    EXPECT_FALSE(machine.architecture.empty());
    EXPECT_GT(machine.memory.total_bytes, 64ULL << 20);
    EXPECT_LE(machine.memory.usable_bytes, machine.memory.available_bytes);
    EXPECT_LE(machine.memory.available_bytes, machine.memory.total_bytes);
    EXPECT_EQ(machine.allowed_cpus, allowed_cpus().size());
    EXPECT_LE(machine.recommended_threads, machine.allowed_cpus);
    EXPECT_EQ(machine.features, detect_cpu_features());
}

TEST(DetectMachine, AppliesTheLimitsOfTheControlGroup) {
    const FakeTree tree;
    tree.write("proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 100 kB\nMemAvailable: 4194304 kB\n");
    tree.write("proc/self/cgroup", "0::/\n");
    tree.write("cgroup/cgroup.controllers", "");
    tree.write("cgroup/memory.max", "2147483648");
    tree.write("cgroup/memory.current", "1073741824");
    tree.write("cgroup/cpu.max", "250000 100000");
    const Machine machine = detect_machine(tree.roots());
    EXPECT_EQ(machine.memory.total_bytes, 8ULL << 30);
    EXPECT_EQ(machine.memory.available_bytes, 4ULL << 30);
    EXPECT_EQ(machine.memory.usable_bytes, 1ULL << 30);
    EXPECT_EQ(machine.recommended_threads, 3U);
}

TEST(DetectMachine, KnowsNoUsableMemoryWhereNothingTellsAndElseTheControlGroups) {
    const FakeTree tree;
    EXPECT_EQ(detect_machine(tree.roots()).memory.usable_bytes, std::nullopt);
    tree.write("proc/self/cgroup", "0::/\n");
    tree.write("cgroup/cgroup.controllers", "");
    tree.write("cgroup/memory.max", "2147483648");
    tree.write("cgroup/memory.current", "1073741824");
    EXPECT_EQ(detect_machine(tree.roots()).memory.usable_bytes, 1ULL << 30);
}

TEST(ReadMemory, FallsBackOnFreeMemoryAndReadsHugePages) {
    const FakeTree tree;
    tree.write("proc/meminfo", "MemTotal:  1024 kB\nMemFree:  512 kB\nHugePages_Total:   3\nHugepagesize:   2048 kB\n");
    tree.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    const Memory memory = read_memory(tree.roots());
    EXPECT_EQ(memory.available_bytes, 512U * 1024);
    EXPECT_EQ(memory.huge_page_bytes, 2U << 20);
    EXPECT_EQ(memory.reserved_huge_pages, 3U);
    EXPECT_EQ(memory.transparent_huge_pages, "madvise");
}

TEST(CpuModel, IsTheNameOnX86AndTheKnownPartsOnArm) {
    const FakeTree tree;
    EXPECT_EQ(read_cpu_model(tree.roots()), "");
    tree.write("proc/cpuinfo", "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Intel(R) Xeon(R)  Platinum 8480C\n");
    EXPECT_EQ(read_cpu_model(tree.roots()), "Intel(R) Xeon(R) Platinum 8480C");
    tree.write("proc/cpuinfo",
               "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n\n"
               "processor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n\n"
               "processor\t: 2\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n");
    EXPECT_EQ(read_cpu_model(tree.roots()), "Cortex-A55 + Cortex-A76");
    tree.write("proc/cpuinfo", "CPU implementer\t: 0x99\nCPU part\t: 0x123\n");
    EXPECT_EQ(read_cpu_model(tree.roots()), "");
}

Machine workstation() {
    Machine machine;
    machine.architecture = "x86_64";
    machine.cpu_model = "Some CPU";
    machine.features.avx = machine.features.avx2 = true;
    for (unsigned id = 0; id < 8; ++id) machine.topology.cpus.push_back({id, id / 2, CoreKind::Performance});
    machine.topology.physical_cores = machine.topology.performance_cores = 4;
    machine.topology.threads_per_core = 2;
    machine.topology.caches = {{1, 48 << 10, 4, 2}, {3, 30 << 20, 1, 8}};
    machine.memory.total_bytes = 64ULL << 30;
    machine.memory.usable_bytes = 10ULL << 30;
    machine.memory.transparent_huge_pages = "always";
    machine.cgroup.cpus = 2.5;
    machine.cgroup.memory_bytes = 16ULL << 30;
    machine.allowed_cpus = 6;
    machine.recommended_threads = 3;
    machine.governor = "powersave";
    machine.gpus.push_back(
        {"0000:01:00.0", "NVIDIA 10de:2204", 0x10de, 0x2204, GpuKind::Discrete, 24ULL << 30, true, "nvidia"});
    return machine;
}

TEST(SummaryText, FitsOneScreenAndSaysWhatMatters) {
    const std::string expected =
        "CPU       Some CPU, x86_64\n"
        "Cores     4 cores, 8 threads\n"
        "Features  avx avx2\n"
        "Caches    L1d 4 x 48 KiB, L3 30 MiB\n"
        "Memory    64 GiB, 10 GiB usable, huge pages always\n"
        "Limits    6 of 8 CPUs allowed, quota of 2.5 CPUs, memory 16 GiB\n"
        "Governor  powersave\n"
        "GPU       NVIDIA 10de:2204 (discrete, about 24 GiB, driver nvidia)\n"
        "Runs on   CPU only: the GPU's device files cannot be opened\n"
        "Threads   3\n";
    EXPECT_EQ(summary_text(workstation()), expected);
}

TEST(SummaryText, StaysShortWithManyGpusAndNarrowWithManyFeatures) {
    Machine machine = workstation();
    machine.gpus.resize(40, machine.gpus.front());
    machine.features = decode_cpuid({.max_leaf = 0x20,
                                     .leaf1 = {0, 0, ~0U, ~0U},
                                     .leaf7 = {1, ~0U, ~0U, ~0U},
                                     .leaf7_sub1 = {~0U, 0, 0, 0},
                                     .xcr0 = ~0ULL,
                                     .permitted_states = 0});
    const std::string text = summary_text(machine);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 24);
    EXPECT_NE(text.find("and 32 more\n"), std::string::npos);
    EXPECT_NE(text.find("(AMX not yet requested)"), std::string::npos);
    std::size_t start = 0;
    for (std::size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
        EXPECT_LE(end - start, 110U);
}

TEST(Describe, CarriesTheFiguresAndWritesUnknownLimitsAsNull) {
    const Json json = describe(workstation());
    EXPECT_EQ(*json.find("topology")->find("physical_cores")->as_int(), 4);
    EXPECT_EQ(*json.find("memory")->find("usable_bytes")->as_int(), 10LL << 30);
    EXPECT_EQ(*json.find("cgroup")->find("cpus")->as_double(), 2.5);
    EXPECT_TRUE(json.find("cgroup")->find("memory_left_bytes")->is_null());
    EXPECT_EQ(*json.find("tier")->as_string(), "CPU only");
    EXPECT_EQ(json.find("gpus")->as_array()->size(), 1U);
    EXPECT_EQ(json.find("features")->as_array()->size(), 2U);
}

TEST(ReadProbe, GivesAPositiveFigure) {
    for (std::size_t threads : {1U, 2U}) {
        ThreadPool pool(threads);
        ReadProbe probe(pool, 8 << 20);
        EXPECT_GT(probe.measure(0.01), 0.0);
        EXPECT_GT(probe.measure(0.0), 0.0);
        EXPECT_GT(ReadProbe(pool, 0).measure(0.0), 0.0);
        EXPECT_GT(ReadProbe(pool, (3 << 20) + 12345).measure(0.0), 0.0);
    }
}

TEST(ReadProbe, GivesZeroWhenTheMemoryCannotBeHad) {
    ThreadPool pool(1);
    EXPECT_EQ(ReadProbe(pool, std::size_t{1} << 60).measure(0.0), 0.0);
}

TEST(Bandwidth, IsMeasuredOverMoreThanTheCachesHold) {
    constexpr std::size_t kMiB = std::size_t{1} << 20;
    Topology topology;
    EXPECT_EQ(bytes_beyond_caches(topology), 192 * kMiB);
    topology.caches = {{1, 64 << 10, 8, 1}, {2, 1 << 20, 8, 1}, {3, 32 << 20, 1, 8}};
    EXPECT_EQ(bytes_beyond_caches(topology), 192 * kMiB);
    topology.caches = {{2, 2 << 20, 16, 1}, {3, 300 << 20, 2, 8}};
    EXPECT_EQ(bytes_beyond_caches(topology), 1500 * kMiB);
    topology.caches = {{3, ~std::uint64_t{0}, ~0u, 1}};
    EXPECT_EQ(bytes_beyond_caches(topology), 4096 * kMiB);
}

}  // namespace
}  // namespace hearth
