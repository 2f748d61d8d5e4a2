// Control group limits of both versions, from written-out trees.
#include <gtest/gtest.h>

#include "fake_tree.h"

namespace hearth {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(CgroupLimits, AreNoneWithoutControlGroups) {
    const FakeTree tree;
    EXPECT_EQ(read_cgroup_limits(tree.roots()), CgroupLimits{});
}

TEST(CgroupLimits, TakeTheStrictestOnTheWayToTheRootInVersionTwo) {
    const FakeTree tree;
    tree.write("proc/self/cgroup", "0::/user.slice/app.scope\n");
    tree.write("cgroup/cgroup.controllers", "cpu memory\n");
    tree.write("cgroup/user.slice/memory.max", "1073741824\n");
    tree.write("cgroup/user.slice/memory.current", "536870912\n");
    tree.write("cgroup/user.slice/memory.stat", "anon 1\ninactive_file 104857600\nactive_file 52428800\n");
    tree.write("cgroup/user.slice/cpu.max", "150000 100000\n");
    tree.write("cgroup/user.slice/app.scope/memory.max", "max\n");
    tree.write("cgroup/user.slice/app.scope/cpu.max", "max 100000\n");
    const CgroupLimits limits = read_cgroup_limits(tree.roots());
    EXPECT_EQ(limits.memory_bytes, 1024 * kMiB);
    EXPECT_EQ(limits.memory_left_bytes, 1024 * kMiB - 512 * kMiB + 150 * kMiB);
    ASSERT_TRUE(limits.cpus);
    EXPECT_DOUBLE_EQ(*limits.cpus, 1.5);
}

TEST(CgroupLimits, CountTheThrottlingLimitOfVersionTwo) {
    const FakeTree tree;
    tree.write("proc/self/cgroup", "0::/\n");
    tree.write("cgroup/cgroup.controllers", "");
    tree.write("cgroup/memory.max", "max\n");
    tree.write("cgroup/memory.high", "4194304\n");
    EXPECT_EQ(read_cgroup_limits(tree.roots()).memory_bytes, 4 * kMiB);
}

TEST(CgroupLimits, ReadVersionOneInItsOwnMounts) {
    const FakeTree tree;
    tree.write("proc/self/cgroup", "4:memory:/docker/7\n2:cpu,cpuacct:/docker/7\n1:name=systemd:/\n");
    tree.write("cgroup/memory/docker/7/memory.limit_in_bytes", "268435456\n");
    tree.write("cgroup/memory/docker/7/memory.usage_in_bytes", "67108864\n");
    tree.write("cgroup/memory/docker/7/memory.stat",
               "active_file 1\ntotal_inactive_file 1048576\ntotal_active_file 2097152\n");
    tree.write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    tree.write("cgroup/cpu,cpuacct/docker/7/cpu.cfs_quota_us", "50000\n");
    tree.write("cgroup/cpu,cpuacct/docker/7/cpu.cfs_period_us", "100000\n");
    tree.write("cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    tree.write("cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    const CgroupLimits limits = read_cgroup_limits(tree.roots());
    EXPECT_EQ(limits.memory_bytes, 256 * kMiB);
    EXPECT_EQ(limits.memory_left_bytes, 195 * kMiB);
    ASSERT_TRUE(limits.cpus);
    EXPECT_DOUBLE_EQ(*limits.cpus, 0.5);
}

TEST(CgroupLimits, UseTheMountWhenTheGroupIsNotVisibleInTheContainer) {
    const FakeTree tree;
    tree.write("proc/self/cgroup", "0::/kubepods/pod1/abc\n");
    tree.write("cgroup/cgroup.controllers", "");
    tree.write("cgroup/memory.max", "8388608\n");
    tree.write("cgroup/cpu.max", "200000 100000\n");
    const CgroupLimits limits = read_cgroup_limits(tree.roots());
    EXPECT_EQ(limits.memory_bytes, 8 * kMiB);
    EXPECT_EQ(limits.cpus, 2.0);
}

TEST(CgroupLimits, FindTheUnifiedTreeOfAHybridSetup) {
    const FakeTree tree;
    tree.write("proc/self/cgroup", "1:name=systemd:/a\n0::/a\n");
    tree.write("cgroup/unified/cgroup.controllers", "");
    tree.write("cgroup/unified/a/cpu.max", "300000 100000");
    EXPECT_EQ(read_cgroup_limits(tree.roots()).cpus, 3.0);
}

TEST(CgroupLimits, DoNotLeaveTheMount) {
    const FakeTree tree;
    tree.write("proc/self/cgroup", "0::/../../outside\n");
    tree.write("cgroup/cgroup.controllers", "");
    tree.write("outside/memory.max", "4096");
    EXPECT_EQ(read_cgroup_limits(tree.roots()), CgroupLimits{});
}

TEST(CgroupLimits, IgnoreGarbage) {
    for (const std::string_view garbage :
         {"", "0", "-5", "max", "99999999999999999999999", "1 0", "0 100000", "\xff\xfe\x01"}) {
        const FakeTree tree;
        tree.write("proc/self/cgroup", "0::/a\n4:memory:/a\n5:cpu:/a\n:::\n::\n\n");
        tree.write("cgroup/cgroup.controllers", "");
        for (const char* file : {"a/memory.max", "a/memory.high", "a/cpu.max", "memory/a/memory.limit_in_bytes",
                                 "cpu/a/cpu.cfs_quota_us", "cpu/a/cpu.cfs_period_us"}) {
            tree.write(std::string("cgroup/") + file, garbage);
        }
        EXPECT_EQ(read_cgroup_limits(tree.roots()), CgroupLimits{}) << garbage;
    }
}

TEST(CgroupLimits, SurviveEndlessPaths) {
    const FakeTree tree;
    tree.write("proc/self/cgroup",
               "0::" + std::string(60'000, '/') + "\n4:memory:no-slash\n5:cpu:/" + std::string(4000, 'a'));
    tree.write("cgroup/cgroup.controllers", "");
    tree.write("cgroup/memory/no-slash/memory.limit_in_bytes", "1048576");
    EXPECT_EQ(read_cgroup_limits(tree.roots()).memory_bytes, kMiB);
}

}  // namespace
}  // namespace hearth
