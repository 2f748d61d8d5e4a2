// <filesystem> stays in this one file.
#include "fake_tree.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/check.h"

namespace hearth {

FakeTree::FakeTree() {
    // Thousands of tiny files: in memory where there is such a place.
    const bool in_memory = access("/dev/shm", W_OK | X_OK) == 0;
    std::string pattern = (in_memory ? "/dev/shm" : std::filesystem::temp_directory_path().string());
    pattern += "/hearth-machine-XXXXXX";
    CHECK(mkdtemp(pattern.data()) != nullptr);
    root_ = pattern;
}

FakeTree::~FakeTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
}

void FakeTree::make_folder(std::string_view relative) const {
    std::error_code error;
    std::filesystem::create_directories(path(relative), error);
    CHECK(!error);
}

void FakeTree::write(std::string_view relative, std::string_view content) const {
    make_folder(relative.substr(0, relative.find_last_of('/')));
    std::FILE* file = std::fopen(path(relative).c_str(), "wb");
    CHECK(file != nullptr);
    CHECK(std::fwrite(content.data(), 1, content.size(), file) == content.size());
    CHECK(std::fclose(file) == 0);
}

void FakeTree::make_fifo(std::string_view relative) const {
    make_folder(relative.substr(0, relative.find_last_of('/')));
    CHECK(mkfifo(path(relative).c_str(), 0600) == 0);
}

void FakeTree::make_link(std::string_view relative, std::string_view target) const {
    make_folder(relative.substr(0, relative.find_last_of('/')));
    std::error_code error;
    std::filesystem::create_symlink(target, path(relative), error);
    CHECK(!error);
}

ProbeRoots FakeTree::roots() const {
    ProbeRoots roots;
    roots.proc = path("proc");
    roots.sys = path("sys");
    roots.cgroup = path("cgroup");
    roots.dev = path("dev");
    roots.topology_reader = TopologyReader::KernelFiles;
    roots.allowed_cpus = [] { return std::vector<unsigned>{0, 1, 2, 3, 4, 5, 6, 7}; };
    roots.cpu_features = [] { return CpuFeatures{}; };
    roots.can_load_library = [](const char*) { return false; };
    return roots;
}

}  // namespace hearth
