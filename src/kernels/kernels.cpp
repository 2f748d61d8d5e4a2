// Which levels this CPU can run. Each is the one below it with some entries replaced.
#include "kernels/kernels.h"

#include <array>

namespace hearth {

namespace {

constexpr std::size_t kMaxLevels = 4;

struct Levels {
    std::array<Kernels, kMaxLevels> tables{};
    std::size_t count = 0;

    void stack(std::string_view name, void (*install)(Kernels&)) {
        if (count > 0) tables[count] = tables[count - 1];
        install(tables[count]);
        tables[count].level = name;
        ++count;
    }
};

Levels make_levels() {
    Levels levels;
    levels.stack("reference", install_reference);
    return levels;
}

}  // namespace

std::span<const Kernels> supported_kernels() {
    static const Levels levels = make_levels();
    return {levels.tables.data(), levels.count};
}

const Kernels* find_kernels(std::string_view level) {
    const std::span<const Kernels> all = supported_kernels();
    if (level.empty()) return &all.back();
    for (const Kernels& kernels : all) {
        if (kernels.level == level) return &kernels;
    }
    return nullptr;
}

}  // namespace hearth
