#include "unit/gguf/allocation.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> total_bytes{0};
thread_local bool no_memory = false;

void* counted(std::size_t size_bytes) {
    total_bytes += size_bytes;
    void* address = no_memory ? nullptr : std::malloc(size_bytes == 0 ? 1 : size_bytes);
    if (address == nullptr) throw std::bad_alloc();
    return address;
}

}  // namespace

void* operator new(std::size_t size_bytes) {
    return counted(size_bytes);
}
void* operator new[](std::size_t size_bytes) {
    return counted(size_bytes);
}
// Without these a sanitizer's own nothrow form would meet our delete.
void* operator new(std::size_t size_bytes, const std::nothrow_t&) noexcept {
    total_bytes += size_bytes;
    return std::malloc(size_bytes == 0 ? 1 : size_bytes);
}
void* operator new[](std::size_t size_bytes, const std::nothrow_t& tag) noexcept {
    return operator new(size_bytes, tag);
}
void operator delete(void* address) noexcept {
    std::free(address);
}
void operator delete[](void* address) noexcept {
    std::free(address);
}
void operator delete(void* address, std::size_t) noexcept {
    std::free(address);
}
void operator delete[](void* address, std::size_t) noexcept {
    std::free(address);
}

std::size_t hearth::gguf_test::allocated_bytes() {
    return total_bytes;
}

hearth::gguf_test::NoMemory::NoMemory() {
    no_memory = true;
}
hearth::gguf_test::NoMemory::~NoMemory() {
    no_memory = false;
}
