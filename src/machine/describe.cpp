// A Machine as JSON and as the lines of `hearth inspect machine`.
#include <cmath>
#include <cstdio>

#include "machine/machine.h"

namespace hearth {
namespace {

std::string_view kind_text(GpuKind kind) {
    switch (kind) {
        case GpuKind::DisplayOnly: return "display only";
        case GpuKind::Integrated: return "integrated";
        case GpuKind::Discrete: return "discrete";
    }
    return "";
}

std::string count_text(std::size_t count, std::string_view noun) {
    return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string decimal_text(double value) {  // one decimal, and none where it says nothing
    char text[32];
    std::snprintf(text, sizeof(text), std::abs(value - std::round(value)) < 0.05 ? "%.0f" : "%.1f", value);
    return text;
}

std::string size_text(std::uint64_t bytes) {
    constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < std::size(kUnits)) {
        value /= 1024;
        ++unit;
    }
    return decimal_text(value) + " " + kUnits[unit];
}

// Joins the parts that are not empty.
std::string joined(std::initializer_list<std::string> parts, std::string_view separator = ", ") {
    std::string text;
    for (const std::string& part : parts) {
        if (part.empty()) continue;
        if (!text.empty()) text += separator;
        text += part;
    }
    return text;
}

std::string cores_text(const Topology& topology) {
    std::string text = count_text(topology.physical_cores, "core");
    if (topology.efficiency_cores != 0) {
        text += " (" + std::to_string(topology.performance_cores) + " performance + " +
                std::to_string(topology.efficiency_cores) + " efficiency)";
    }
    if (topology.threads_per_core > 1) text += ", " + count_text(topology.cpus.size(), "thread");
    if (topology.packages > 1) text += " on " + count_text(topology.packages, "socket");
    return text;
}

std::string caches_text(const Topology& topology) {
    std::string text;
    for (const Cache& cache : topology.caches) {
        if (!text.empty()) text += ", ";
        text += cache.level == 1 ? std::string("L1d ") : std::string("L") + std::to_string(cache.level) + " ";
        if (cache.count > 1) text += std::to_string(cache.count) + " x ";
        text += size_text(cache.size_bytes);
    }
    return text;
}

std::string features_text(const CpuFeatures& features, std::size_t width) {
    std::string text;
    std::size_t line_length = 0;
    for (const std::string_view name : feature_names(features)) {
        if (line_length != 0 && line_length + 1 + name.size() > width) {
            text += '\n';
            line_length = 0;
        } else if (line_length != 0) {
            text += ' ';
            ++line_length;
        }
        text += name;
        line_length += name.size();
    }
    if (features.sve_vector_bytes != 0) text += " (" + std::to_string(features.sve_vector_bytes * 8) + "-bit vectors)";
    if (features.amx_tile && !features.amx_permitted) text += " (AMX not yet requested)";
    return text;
}

std::string memory_text(const Machine& machine) {
    if (machine.memory.total_bytes == 0) return {};
    std::string text = size_text(machine.memory.total_bytes) + ", " +
                       size_text(machine.memory.usable_bytes.value_or(machine.memory.total_bytes)) + " usable";
    if (machine.topology.nodes.size() > 1) text += ", " + count_text(machine.topology.nodes.size(), "NUMA node");
    if (!machine.memory.transparent_huge_pages.empty()) {
        text += ", huge pages " + machine.memory.transparent_huge_pages;
    }
    return text;
}

std::string limits_text(const Machine& machine) {
    const std::size_t online = machine.topology.cpus.size();
    const std::string text = joined({
        machine.allowed_cpus < online
            ? std::to_string(machine.allowed_cpus) + " of " + count_text(online, "CPU") + " allowed"
            : "",
        machine.cgroup.cpus ? std::string("quota of ") + decimal_text(*machine.cgroup.cpus) + " CPUs" : "",
        machine.cgroup.memory_bytes ? std::string("memory ") + size_text(*machine.cgroup.memory_bytes) : "",
    });
    return text.empty() ? "none" : text;
}

std::string gpu_text(const Gpu& gpu) {
    const std::string memory =
        gpu.memory_bytes == 0 ? "" : (gpu.memory_is_estimate ? "about " : "") + size_text(gpu.memory_bytes);
    return gpu.name + " (" +
           joined({std::string(kind_text(gpu.kind)), memory,
                   gpu.driver.empty() ? std::string("no kernel driver") : "driver " + gpu.driver}) +
           ")";
}

std::string tier_line(const Machine& machine) {
    std::string text(tier_text(machine.tier));
    if (machine.tier != ComputeTier::CpuOnly) return text;
    bool usable = false;
    for (const Gpu& gpu : machine.gpus) usable |= gpu.kind != GpuKind::DisplayOnly;
    if (!usable) return text;
    if (!machine.gpu_access.device_nodes) return text + ": the GPU's device files cannot be opened";
    return text + ": the GPU's driver library is not installed";
}

Json optional_json(const std::optional<std::uint64_t>& value) {
    return value ? Json(*value) : Json();
}

Json topology_json(const Topology& topology) {
    Json::Array caches;
    for (const Cache& cache : topology.caches) {
        caches.push_back(Json::Object{{"level", cache.level},
                                      {"size_bytes", cache.size_bytes},
                                      {"count", cache.count},
                                      {"shared_by", cache.shared_by}});
    }
    Json::Array nodes;
    for (const NumaNode& node : topology.nodes) {
        nodes.push_back(Json::Object{
            {"id", node.id}, {"memory_bytes", node.memory_bytes}, {"cpus", std::uint64_t{node.cpus.size()}}});
    }
    return Json::Object{{"source", topology.source},
                        {"logical_cpus", std::uint64_t{topology.cpus.size()}},
                        {"physical_cores", topology.physical_cores},
                        {"threads_per_core", topology.threads_per_core},
                        {"packages", topology.packages},
                        {"performance_cores", topology.performance_cores},
                        {"efficiency_cores", topology.efficiency_cores},
                        {"caches", std::move(caches)},
                        {"numa_nodes", std::move(nodes)}};
}

Json gpus_json(const std::vector<Gpu>& gpus) {
    Json::Array list;
    for (const Gpu& gpu : gpus) {
        list.push_back(Json::Object{{"address", gpu.address},
                                    {"name", gpu.name},
                                    {"vendor_id", gpu.vendor_id},
                                    {"device_id", gpu.device_id},
                                    {"kind", kind_text(gpu.kind)},
                                    {"memory_bytes", gpu.memory_bytes},
                                    {"memory_is_estimate", gpu.memory_is_estimate},
                                    {"driver", gpu.driver}});
    }
    return list;
}

}  // namespace

std::string_view tier_text(ComputeTier tier) {
    switch (tier) {
        case ComputeTier::CpuOnly: return "CPU only";
        case ComputeTier::IntegratedGpu: return "integrated GPU";
        case ComputeTier::DiscreteGpu: return "discrete GPU";
    }
    return "";
}

Json describe(const Machine& machine) {
    Json::Array features;
    for (const std::string_view name : feature_names(machine.features)) features.push_back(name);
    const Memory& memory = machine.memory;
    return Json::Object{
        {"architecture", machine.architecture},
        {"cpu_model", machine.cpu_model},
        {"features", std::move(features)},
        {"sve_vector_bytes", machine.features.sve_vector_bytes},
        {"amx_permitted", machine.features.amx_permitted},
        {"topology", topology_json(machine.topology)},
        {"allowed_cpus", machine.allowed_cpus},
        {"recommended_threads", machine.recommended_threads},
        {"governor", machine.governor},
        {"memory", Json::Object{{"total_bytes", memory.total_bytes},
                                {"available_bytes", memory.available_bytes},
                                {"usable_bytes", optional_json(memory.usable_bytes)},
                                {"transparent_huge_pages", memory.transparent_huge_pages},
                                {"huge_page_bytes", memory.huge_page_bytes},
                                {"reserved_huge_pages", memory.reserved_huge_pages}}},
        {"cgroup", Json::Object{{"memory_bytes", optional_json(machine.cgroup.memory_bytes)},
                                {"memory_left_bytes", optional_json(machine.cgroup.memory_left_bytes)},
                                {"cpus", machine.cgroup.cpus ? Json(*machine.cgroup.cpus) : Json()}}},
        {"gpus", gpus_json(machine.gpus)},
        {"gpu_access", Json::Object{{"cuda_library", machine.gpu_access.cuda_library},
                                    {"vulkan_library", machine.gpu_access.vulkan_library},
                                    {"device_nodes", machine.gpu_access.device_nodes}}},
        {"tier", tier_text(machine.tier)},
    };
}

std::string summary_text(const Machine& machine) {
    constexpr std::size_t kLabelWidth = 10;
    constexpr std::size_t kTextWidth = 70;
    std::string text;
    const auto line = [&text](std::string_view label, std::string_view value) {
        if (value.empty()) return;
        std::string indented;
        for (const char c : value) {
            indented += c;
            if (c == '\n') indented.append(kLabelWidth, ' ');
        }
        text += std::string(label) + std::string(kLabelWidth - label.size(), ' ') + indented + "\n";
    };
    line("CPU", joined({machine.cpu_model.empty() ? "unknown model" : machine.cpu_model, machine.architecture}));
    line("Cores", cores_text(machine.topology));
    line("Features", features_text(machine.features, kTextWidth));
    line("Caches", caches_text(machine.topology));
    line("Memory", memory_text(machine));
    line("Limits", limits_text(machine));
    line("Governor", machine.governor);
    constexpr std::size_t kGpuLines = 8;
    for (std::size_t i = 0; i < machine.gpus.size() && i < kGpuLines; ++i) {
        line(i == 0 ? "GPU" : "", gpu_text(machine.gpus[i]));
    }
    if (machine.gpus.size() > kGpuLines)
        line("", std::string("and ") + std::to_string(machine.gpus.size() - kGpuLines) + " more");
    if (machine.gpus.empty()) line("GPU", "none");
    line("Drivers",
         joined({machine.gpu_access.cuda_library ? "CUDA" : "", machine.gpu_access.vulkan_library ? "Vulkan" : ""}));
    line("Runs on", tier_line(machine));
    line("Threads", std::to_string(machine.recommended_threads));
    return text;
}

}  // namespace hearth
