// Owned, aligned bytes. Buffer is zeroed and fallible; Reservation is address space that costs memory only where
// touched.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"

namespace hearth {

inline constexpr std::size_t kCacheLine = 64;

// Asks for the line of an address that will be read once, soon but not at once; any address will do. On AArch64 into
// the third cache, from where the core fetches on by itself, else into the second: so each reads fastest.
[[gnu::always_inline]] inline void fetch_line(const void* address) {
#if defined(__aarch64__)
    __builtin_prefetch(address, 0, 1);
#else
    __builtin_prefetch(address, 0, 2);
#endif
}
// The same into the first cache, for what is read within a microsecond.
[[gnu::always_inline]] inline void fetch_line_near(const void* address) {
    __builtin_prefetch(address, 0, 3);
}

class Buffer {
public:
    Buffer() = default;
    static Result<Buffer> create(std::size_t size_bytes);  // aligned to kCacheLine, zeroed
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Buffer();

    std::byte* data() { return data_; }
    const std::byte* data() const { return data_; }
    std::size_t size_bytes() const { return size_bytes_; }
    std::span<std::byte> bytes() { return {data_, size_bytes_}; }

private:
    void swap(Buffer& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_bytes_, other.size_bytes_);
    }
    std::byte* data_ = nullptr;
    std::size_t size_bytes_ = 0;
};

// Asks for large pages, for memory or a part of a mapped file that is read in long runs, before the first look at it. A
// wish: the system may not have them.
void prefer_large_pages(std::span<const std::byte> bytes);
// The other way round, where little is read here and there: a large page would count as in use altogether.
void prefer_small_pages(std::span<const std::byte> bytes);

// Room for `count` elements, on large pages where they fill some: each small one costs microseconds when it is first
// touched.
template <typename T>
void reserve_large(std::vector<T>& out, std::size_t count) {
    out.reserve(count);
    prefer_large_pages(std::as_bytes(std::span<const T>(out.data(), out.capacity())));
}

class Reservation {
public:
    Reservation() = default;
    static Result<Reservation> create(std::size_t size_bytes);  // page aligned, zero pages on first touch
    Reservation(Reservation&& other) noexcept { swap(other); }
    Reservation& operator=(Reservation&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Reservation();

    std::byte* data() { return data_; }
    const std::byte* data() const { return data_; }
    std::size_t size_bytes() const { return size_bytes_; }

    void prefer_large_pages() { hearth::prefer_large_pages({data_, size_bytes_}); }

private:
    void swap(Reservation& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_bytes_, other.size_bytes_);
    }
    std::byte* data_ = nullptr;
    std::size_t size_bytes_ = 0;
};

}  // namespace hearth
