// A temporary folder that plays /proc, /sys, the cgroup mount and /dev.
#pragma once

#include <string>
#include <string_view>

#include "machine/machine.h"

namespace hearth {

class FakeTree {
public:
    FakeTree();
    FakeTree(const FakeTree&) = delete;
    FakeTree& operator=(const FakeTree&) = delete;
    ~FakeTree();

    // Paths are relative; folders on the way are made.
    void write(std::string_view path, std::string_view content) const;
    void make_folder(std::string_view path) const;
    void make_fifo(std::string_view path) const;
    void make_link(std::string_view path, std::string_view target) const;

    std::string path(std::string_view relative) const { return root_ + "/" + std::string(relative); }
    // proc, sys, cgroup and dev inside this tree; eight CPUs allowed; no libraries, no features.
    ProbeRoots roots() const;

private:
    std::string root_;
};

}  // namespace hearth
