// GPUs from written-out PCI, DRM and NVIDIA files.
#include <gtest/gtest.h>

#include "fake_tree.h"

namespace hearth {
namespace {

void write_pci(const FakeTree& tree, const std::string& address, const char* device_class, const char* vendor,
               const char* device) {
    const std::string folder = "sys/bus/pci/devices/" + address;
    tree.write(folder + "/class", device_class);
    tree.write(folder + "/vendor", vendor);
    tree.write(folder + "/device", device);
}

TEST(Gpus, AreNoneOnABareMachine) {
    const FakeTree tree;
    write_pci(tree, "0000:00:00.0", "0x060000\n", "0x8086\n", "0x0d57\n");
    EXPECT_TRUE(read_gpus(tree.roots()).empty());
}

TEST(Gpus, NameAnNvidiaBoardByItsDriverAndEstimateItsMemory) {
    const FakeTree tree;
    write_pci(tree, "0000:41:00.0", "0x030200\n", "0x10de\n", "0x2335\n");
    tree.write("sys/bus/pci/devices/0000:41:00.0/resource",
               "0x00000000c0000000 0x00000000c0ffffff 0x0000000000040200\n"
               "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
               "0x0000020000000000 0x0000023fffffffff 0x000000000014220c\n");
    tree.make_link("sys/bus/pci/devices/0000:41:00.0/driver", "../../../bus/pci/drivers/nvidia");
    tree.write("proc/driver/nvidia/gpus/0000:41:00.0/information", "Model: \t\t NVIDIA H200\nIRQ:   \t\t 1\n");
    const std::vector<Gpu> gpus = read_gpus(tree.roots());
    ASSERT_EQ(gpus.size(), 1U);
    EXPECT_EQ(gpus[0].name, "NVIDIA H200");
    EXPECT_EQ(gpus[0].kind, GpuKind::Discrete);
    EXPECT_EQ(gpus[0].driver, "nvidia");
    EXPECT_EQ(gpus[0].memory_bytes, 256ULL << 30);
    EXPECT_TRUE(gpus[0].memory_is_estimate);
}

TEST(Gpus, DoNotTakeASmallWindowForTheMemory) {
    const FakeTree tree;
    write_pci(tree, "0000:01:00.0", "0x030000", "0x10de", "0x2204");
    tree.write("sys/bus/pci/devices/0000:01:00.0/resource", "0xe0000000 0xefffffff 0x14220c\n");
    const std::vector<Gpu> gpus = read_gpus(tree.roots());
    ASSERT_EQ(gpus.size(), 1U);
    EXPECT_EQ(gpus[0].memory_bytes, 0U);
    EXPECT_EQ(gpus[0].name, "NVIDIA 10de:2204");
}

TEST(Gpus, TellIntelsIntegratedFromItsDiscrete) {
    const FakeTree tree;
    write_pci(tree, "0000:00:02.0", "0x030000", "0x8086", "0x46a6");
    write_pci(tree, "0000:03:00.0", "0x030000", "0x8086", "0x56a0");
    const std::vector<Gpu> gpus = read_gpus(tree.roots());
    ASSERT_EQ(gpus.size(), 2U);
    EXPECT_EQ(gpus[0].kind, GpuKind::Integrated);
    EXPECT_EQ(gpus[1].kind, GpuKind::Discrete);
}

TEST(Gpus, TellAmdsApuByTheSecurityProcessorBesideIt) {
    const FakeTree tree;
    write_pci(tree, "0000:c5:00.0", "0x030000", "0x1002", "0x1900");
    write_pci(tree, "0000:c5:00.2", "0x108000", "0x1022", "0x15c7");
    write_pci(tree, "0000:03:00.0", "0x030000", "0x1002", "0x744c");
    write_pci(tree, "0000:03:00.1", "0x040300", "0x1002", "0xab30");
    tree.write("sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total", "25753026560\n");
    tree.write("sys/bus/pci/devices/0000:c5:00.0/mem_info_vram_total", "536870912\n");
    const std::vector<Gpu> gpus = read_gpus(tree.roots());
    ASSERT_EQ(gpus.size(), 2U);
    EXPECT_EQ(gpus[0].kind, GpuKind::Discrete);
    EXPECT_EQ(gpus[0].memory_bytes, 25753026560U);
    EXPECT_FALSE(gpus[0].memory_is_estimate);
    EXPECT_EQ(gpus[1].kind, GpuKind::Integrated);
    EXPECT_EQ(gpus[1].memory_bytes, 0U);  // carved out of the system's
}

TEST(Gpus, TakeVirtualAndManagementDisplaysForNoMoreThanThat) {
    const FakeTree tree;
    write_pci(tree, "0000:00:01.0", "0x030000", "0x1234", "0x1111");
    write_pci(tree, "0000:00:03.0", "0x030000", "0x1a03", "0x2000");
    for (const Gpu& gpu : read_gpus(tree.roots())) EXPECT_EQ(gpu.kind, GpuKind::DisplayOnly);
    EXPECT_EQ(compute_tier(read_gpus(tree.roots()), {true, true, true}), ComputeTier::CpuOnly);
}

TEST(Gpus, FindThoseOfSystemsOnAChip) {
    const FakeTree tree;
    tree.make_link("sys/class/drm/card0/device/driver", "../../bus/platform/drivers/panfrost");
    tree.make_link("sys/class/drm/card0/device/subsystem", "../../bus/platform");
    tree.make_link("sys/class/drm/card1/device/driver", "../../bus/platform/drivers/simple-framebuffer");
    tree.make_link("sys/class/drm/card2/device/driver", "../../bus/pci/drivers/amdgpu");
    tree.make_link("sys/class/drm/card2/device/subsystem", "../../bus/pci");
    tree.make_folder("sys/class/drm/card0-HDMI-A-1");
    const std::vector<Gpu> gpus = read_gpus(tree.roots());
    ASSERT_EQ(gpus.size(), 2U);
    EXPECT_EQ(gpus[0].kind, GpuKind::Integrated);
    EXPECT_EQ(gpus[0].name, "panfrost");
    EXPECT_EQ(gpus[1].kind, GpuKind::DisplayOnly);
}

TEST(Gpus, FindNvidiaInContainersThatHidePci) {
    const FakeTree tree;
    tree.write("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA A10\n");
    const std::vector<Gpu> gpus = read_gpus(tree.roots());
    ASSERT_EQ(gpus.size(), 1U);
    EXPECT_EQ(gpus[0].name, "NVIDIA A10");
    EXPECT_EQ(gpus[0].kind, GpuKind::Discrete);
}

TEST(GpuAccess, AsksForBothLibrariesAndTheDeviceFiles) {
    const FakeTree tree;
    ProbeRoots roots = tree.roots();
    EXPECT_FALSE(read_gpu_access(roots).device_nodes);
    roots.can_load_library = [](const char* name) { return std::string_view(name) == "libvulkan.so.1"; };
    tree.write("dev/dri/renderD128", "");
    const GpuAccess found = read_gpu_access(roots);
    EXPECT_FALSE(found.cuda_library);
    EXPECT_TRUE(found.vulkan_library);
    EXPECT_TRUE(found.device_nodes);
}

TEST(ComputeTier, NeedsAGpuItsLibraryAndItsDeviceFiles) {
    Gpu nvidia;
    nvidia.vendor_id = 0x10de;
    nvidia.kind = GpuKind::Discrete;
    Gpu intel;
    intel.vendor_id = 0x8086;
    intel.kind = GpuKind::Integrated;
    EXPECT_EQ(compute_tier({}, {true, true, true}), ComputeTier::CpuOnly);
    EXPECT_EQ(compute_tier({nvidia}, {false, false, true}), ComputeTier::CpuOnly);
    EXPECT_EQ(compute_tier({nvidia}, {true, false, false}), ComputeTier::CpuOnly);
    EXPECT_EQ(compute_tier({nvidia}, {true, false, true}), ComputeTier::DiscreteGpu);
    EXPECT_EQ(compute_tier({nvidia}, {false, true, true}), ComputeTier::DiscreteGpu);
    EXPECT_EQ(compute_tier({intel}, {true, false, true}), ComputeTier::CpuOnly);  // CUDA does not drive it
    EXPECT_EQ(compute_tier({intel}, {false, true, true}), ComputeTier::IntegratedGpu);
    EXPECT_EQ(compute_tier({intel, nvidia}, {true, true, true}), ComputeTier::DiscreteGpu);
    EXPECT_EQ(tier_text(ComputeTier::CpuOnly), "CPU only");
    EXPECT_EQ(tier_text(ComputeTier::IntegratedGpu), "integrated GPU");
    EXPECT_EQ(tier_text(ComputeTier::DiscreteGpu), "discrete GPU");
}

TEST(CanLoadLibrary, SaysNoToWhatIsNotThere) {
    EXPECT_FALSE(can_load_library("libhearth-does-not-exist.so.1"));
    EXPECT_TRUE(can_load_library("libc.so.6"));
}

}  // namespace
}  // namespace hearth
