// Folders and sizes for what pull keeps on disk.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace hearth {

Status make_folders(const std::string& path);
void remove_tree(const std::string& path);  // what cannot be removed stays
std::optional<std::uint64_t> file_size(const std::string& path);
std::uint64_t tree_size(const std::string& path);              // bytes of all files below; 0 when it is not there
std::vector<std::string> files_in(const std::string& folder);  // names, sorted
std::uint64_t free_space(const std::string& path);             // for us on its file system; the maximum when unknown
Status rename_file(const std::string& from, const std::string& to);

// The SHA-256 of a file in hex. `on_bytes` hears how many are done.
Result<std::string> hash_file(const std::string& path, const std::function<void(std::uint64_t)>& on_bytes);
// Joins `parts` into `target` (made durable), giving its SHA-256.
Result<std::string> join_files(const std::vector<std::string>& parts, const std::string& target,
                               const std::function<void(std::uint64_t)>& on_bytes);

}  // namespace hearth
