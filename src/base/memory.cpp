#include "base/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

namespace hearth {

namespace {

Error no_memory(std::size_t size_bytes) {
    return Error{ErrorCode::OutOfResources, "cannot allocate " + std::to_string(size_bytes) + " bytes"};
}

}  // namespace

Result<Buffer> Buffer::create(std::size_t size_bytes) {
    Buffer buffer;
    if (size_bytes == 0) return buffer;
    if (size_bytes > std::numeric_limits<std::size_t>::max() - kCacheLine) return no_memory(size_bytes);
    const std::size_t rounded = (size_bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
    buffer.data_ = static_cast<std::byte*>(std::aligned_alloc(kCacheLine, rounded));
    if (buffer.data_ == nullptr) return no_memory(size_bytes);
    std::memset(buffer.data_, 0, rounded);
    buffer.size_bytes_ = size_bytes;
    return buffer;
}

Buffer::~Buffer() {
    std::free(data_);
}

Result<Reservation> Reservation::create(std::size_t size_bytes) {
    Reservation reservation;
    if (size_bytes == 0) return reservation;
    void* address =
        ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) return no_memory(size_bytes);
    reservation.data_ = static_cast<std::byte*>(address);
    reservation.size_bytes_ = size_bytes;
    return reservation;
}

namespace {

#if defined(MADV_HUGEPAGE)
void advise(std::span<const std::byte> bytes, int advice) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
    const std::uintptr_t begin = (first + page - 1) / page * page;
    const std::uintptr_t end = (first + bytes.size()) / page * page;
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}
#endif

}  // namespace

void prefer_large_pages([[maybe_unused]] std::span<const std::byte> bytes) {
#if defined(MADV_HUGEPAGE)
    advise(bytes, MADV_HUGEPAGE);
#endif
}

void prefer_small_pages([[maybe_unused]] std::span<const std::byte> bytes) {
#if defined(MADV_HUGEPAGE)
    advise(bytes, MADV_NOHUGEPAGE);
#endif
}

Reservation::~Reservation() {
    if (data_ != nullptr) ::munmap(data_, size_bytes_);
}

}  // namespace hearth
