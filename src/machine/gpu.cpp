// Which GPUs are there, from PCI, DRM and NVIDIA's /proc files. Nothing is initialised and no device is opened.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>

#include "machine/machine.h"
#include "machine/probe_files.h"

namespace hearth {
namespace {

constexpr std::uint32_t kNvidia = 0x10de;
constexpr std::uint32_t kAmd = 0x1002;
constexpr std::uint32_t kIntel = 0x8086;

std::string_view vendor_name(std::uint32_t vendor) {
    switch (vendor) {
        case kNvidia: return "NVIDIA";
        case kAmd: return "AMD";
        case kIntel: return "Intel";
        case 0x1af4: return "virtio";
        case 0x1234: return "QEMU";
        case 0x15ad: return "VMware";
        case 0x1414: return "Hyper-V";
        case 0x1a03: return "ASPEED";
        case 0x102b: return "Matrox";
        default: return {};
    }
}

std::string hex4(std::uint32_t value) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (int shift = 12; shift >= 0; shift -= 4) text.push_back(kDigits[(value >> shift) & 15U]);
    return text;
}

std::uint32_t read_id(const std::string& path) {
    const std::optional<std::uint64_t> value = read_probe_number(path);
    return value && *value <= 0xffffff ? static_cast<std::uint32_t>(*value) : 0;
}

// AMD's APUs have the security processor beside the GPU, as another function of the same PCI device.
bool has_security_processor(const std::string& devices, const std::string& address) {
    const std::string slot = address.substr(0, address.find_last_of('.') + 1);
    for (char function = '1'; function <= '7'; ++function) {
        if (read_id(devices + "/" + slot + function + "/class") >> 8 == 0x1080) return true;
    }
    return false;
}

GpuKind guess_kind(const std::string& devices, const std::string& address, std::uint32_t vendor) {
    switch (vendor) {
        case kNvidia: return GpuKind::Discrete;
        case kIntel: return address.ends_with(":00:02.0") ? GpuKind::Integrated : GpuKind::Discrete;
        case kAmd: return has_security_processor(devices, address) ? GpuKind::Integrated : GpuKind::Discrete;
        default: return GpuKind::DisplayOnly;  // virtual displays and servers' management chips
    }
}

// The largest prefetchable window in "start end flags" lines. A window of 256 MiB or less says nothing about memory.
std::uint64_t window_bytes(const std::string& path) {
    constexpr std::uint64_t kMemoryFlag = 0x200;
    constexpr std::uint64_t kPrefetchFlag = 0x2000;
    const std::optional<std::string> text = read_probe_file(path);
    if (!text) return 0;
    std::uint64_t largest = 0;
    std::string_view rest = *text;
    for (int line_number = 0; line_number < 6 && !rest.empty(); ++line_number) {  // the six BARs come first
        const std::string_view line = trim(take_line(rest));
        const std::size_t first = line.find(' ');
        const std::size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
        if (second == std::string_view::npos) continue;
        const std::optional<std::uint64_t> start = parse_number(line.substr(0, first));
        const std::optional<std::uint64_t> end = parse_number(line.substr(first + 1, second - first - 1));
        const std::optional<std::uint64_t> flags = parse_number(line.substr(second + 1));
        if (!start || !end || !flags || *end <= *start) continue;
        if ((*flags & kMemoryFlag) == 0 || (*flags & kPrefetchFlag) == 0) continue;
        largest = std::max(largest, *end - *start + 1);
    }
    constexpr std::uint64_t kBelievable = 1ULL << 42;  // 4 TiB
    return largest > (256ULL << 20) && largest <= kBelievable ? largest : 0;
}

std::string nvidia_model(const ProbeRoots& roots, const std::string& address) {
    const std::optional<std::string> text =
        read_probe_file(roots.proc + "/driver/nvidia/gpus/" + address + "/information");
    return text ? printable(field_value(*text, "Model")) : std::string();
}

std::string gpu_name(const ProbeRoots& roots, const Gpu& gpu) {
    std::string name = gpu.vendor_id == kNvidia ? nvidia_model(roots, gpu.address) : std::string();
    if (!name.empty()) return name;
    const std::string_view vendor = vendor_name(gpu.vendor_id);
    const std::string ids = hex4(gpu.vendor_id) + ":" + hex4(gpu.device_id);
    return vendor.empty() ? ids : std::string(vendor) + " " + ids;
}

void read_pci_gpus(const ProbeRoots& roots, std::vector<Gpu>& gpus) {
    const std::string devices = roots.sys + "/bus/pci/devices";
    for (const std::string& address : list_probe_directory(devices)) {
        const std::string path = devices + "/" + address;
        const std::uint32_t device_class = read_id(path + "/class");
        Gpu gpu;
        gpu.vendor_id = read_id(path + "/vendor");
        const bool accelerator = device_class >> 8 == 0x1200 && gpu.vendor_id == kAmd;  // Instinct boards
        if (device_class >> 16 != 0x03 && !accelerator) continue;
        gpu.address = printable(address);
        gpu.device_id = read_id(path + "/device");
        gpu.kind = guess_kind(devices, address, gpu.vendor_id);
        gpu.driver = printable(probe_link_name(path + "/driver"));
        gpu.name = gpu_name(roots, gpu);
        if (gpu.kind == GpuKind::Discrete) {
            gpu.memory_bytes = read_probe_number(path + "/mem_info_vram_total").value_or(0);
            if (gpu.memory_bytes == 0) {
                gpu.memory_bytes = window_bytes(path + "/resource");
                gpu.memory_is_estimate = gpu.memory_bytes != 0;
            }
        }
        gpus.push_back(std::move(gpu));
    }
}

// GPUs of systems on a chip, which are no PCI devices.
void read_platform_gpus(const ProbeRoots& roots, std::vector<Gpu>& gpus) {
    constexpr std::string_view kRenderDrivers[] = {"panfrost", "panthor", "lima",  "msm",     "adreno",
                                                   "v3d",      "etnaviv", "asahi", "powervr", "tegra"};
    for (const std::string& card : list_probe_directory(roots.sys + "/class/drm")) {
        if (!card.starts_with("card") || card.find('-') != std::string::npos) continue;  // "card0-HDMI-1" is an output
        const std::string device = roots.sys + "/class/drm/" + card + "/device";
        const std::string driver = probe_link_name(device + "/driver");
        if (driver.empty() || probe_link_name(device + "/subsystem") == "pci") continue;
        Gpu gpu;
        gpu.address = printable(card);
        gpu.driver = printable(driver);
        gpu.name = gpu.driver;
        for (const std::string_view known : kRenderDrivers) {
            if (driver.starts_with(known)) gpu.kind = GpuKind::Integrated;
        }
        gpus.push_back(std::move(gpu));
    }
}

// Containers often hide PCI but pass NVIDIA's own files.
void read_nvidia_gpus(const ProbeRoots& roots, std::vector<Gpu>& gpus) {
    for (const std::string& address : list_probe_directory(roots.proc + "/driver/nvidia/gpus")) {
        const bool known =
            std::any_of(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.address == address; });
        if (known) continue;
        Gpu gpu;
        gpu.address = printable(address);
        gpu.vendor_id = kNvidia;
        gpu.kind = GpuKind::Discrete;
        gpu.driver = "nvidia";
        gpu.name = nvidia_model(roots, address);
        if (gpu.name.empty()) gpu.name = "NVIDIA";
        gpus.push_back(std::move(gpu));
    }
}

}  // namespace

std::vector<Gpu> read_gpus(const ProbeRoots& roots) {
    std::vector<Gpu> gpus;
    read_pci_gpus(roots, gpus);
    read_platform_gpus(roots, gpus);
    read_nvidia_gpus(roots, gpus);
    return gpus;
}

GpuAccess read_gpu_access(const ProbeRoots& roots) {
    GpuAccess result;
    if (roots.can_load_library) {
        result.cuda_library = roots.can_load_library("libcuda.so.1");
        result.vulkan_library = roots.can_load_library("libvulkan.so.1");
    }
    const auto may_open = [](const std::string& path) { return access(path.c_str(), R_OK | W_OK) == 0; };
    result.device_nodes = may_open(roots.dev + "/nvidiactl");
    for (const std::string& name : list_probe_directory(roots.dev + "/dri")) {
        if (name.starts_with("renderD") && may_open(roots.dev + "/dri/" + name)) result.device_nodes = true;
    }
    return result;
}

ComputeTier compute_tier(const std::vector<Gpu>& gpus, const GpuAccess& access) {
    ComputeTier tier = ComputeTier::CpuOnly;
    for (const Gpu& gpu : gpus) {
        const bool library = access.vulkan_library || (gpu.vendor_id == kNvidia && access.cuda_library);
        if (!library || !access.device_nodes) continue;
        if (gpu.kind == GpuKind::Discrete) return ComputeTier::DiscreteGpu;
        if (gpu.kind == GpuKind::Integrated) tier = ComputeTier::IntegratedGpu;
    }
    return tier;
}

bool can_load_library(const char* name) {
    void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) return false;
    dlclose(library);
    return true;
}

}  // namespace hearth
