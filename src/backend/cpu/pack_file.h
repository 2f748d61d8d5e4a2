// The file that keeps packed weights from one start to the next. It is a cache: whatever is wrong with it, it is made
// again. Layout: header, one entry a matrix, then the panels, each matrix on a page of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/file_lock.h"
#include "base/mapped_file.h"
#include "base/result.h"
#include "graph/plan.h"
#include "kernels/kernels.h"
#include "machine/thread_pool.h"

namespace hearth {

// One matrix to be packed, and where it goes.
struct PackJob {
    Handle constant;
    TensorView weight;
    const PanelKernels* kernels = nullptr;
    std::size_t panel_bytes = 0;
    std::size_t panels = 0;
    std::size_t offset = 0;      // of the first panel
    std::uint64_t checksum = 0;  // of all panels, once packed
    std::size_t size_bytes() const { return panels * panel_bytes; }
};

// Gives every job its place behind the header; returns the size of the whole.
std::size_t place_jobs(std::span<PackJob> jobs);

// Packs one matrix to base + job.offset and sets its checksum. `release`, when given, is told of the rows that are done
// with, by several threads at once.
void pack_matrix(PackJob& job, std::byte* base, ThreadPool& pool,
                 const std::function<void(std::span<const std::byte>)>& release = {});

struct PackFileKey {
    std::string_view layout;   // Kernels::panel_layout
    std::uint64_t source = 0;  // of the model file
    std::string_view model;    // where that lies
};

// Maps a packed file that was made for these jobs and is whole: every byte is checked, unless a note beside the file
// says that it was since the machine started and the file is the same. The error says what is wrong.
Result<MappedFile> open_pack_file(const std::string& path, std::span<const PackJob> jobs, const PackFileKey& key,
                                  ThreadPool& pool);

// Whoever makes the file holds this. Waits at most `patience` for another process that does.
Result<FileLock> lock_pack_file(const std::string& path, std::chrono::milliseconds patience);

// Makes the file: `fill` writes the panels (and sets the jobs' checksums) into memory that becomes the file.
// Either all of it is there afterwards or nothing.
Result<MappedFile> write_pack_file(const std::string& path, std::span<PackJob> jobs, const PackFileKey& key,
                                   std::size_t size_bytes, const std::function<void(std::byte* base)>& fill);

// Makes that note of a file whose bytes are known to be right.
void note_whole(const std::string& path, const MappedFile& file, std::string_view model);

// Removes the files in `folder` whose models are not where they were.
void remove_files_of_lost_models(const std::string& folder);

}  // namespace hearth
