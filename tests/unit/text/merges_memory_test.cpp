// Memory may run out on a thread that helps to load a tokenizer: operator new is replaced, for this whole test binary.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "unit/text/tiny_vocabulary.h"

namespace {

// What the 4,096 merges of a part take; nothing else does in the test below.
constexpr std::size_t kPartBytes = 65536;

std::atomic<bool> helpers_lack_memory = false;
thread_local bool is_helper = true;

void* give(std::size_t size) {
    if (helpers_lack_memory && is_helper && size == kPartBytes) return nullptr;
    return std::malloc(size == 0 ? 1 : size);
}

}  // namespace

// Not inlined: GCC takes one half of a pair for a mistake when it sees only the other.
[[gnu::noinline]] void* operator new(std::size_t size) {
    void* memory = give(size);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
// A sanitizer's own forms would meet our delete.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return give(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace hearth {
namespace {

TEST(ByteLevelBpe, AHelperWithoutMemoryIsAnErrorAndNotWaitedFor) {
    const tiny::Metadata metadata = tiny::byte_level(tiny::many_merges()).metadata();
    is_helper = false;
    helpers_lack_memory = true;
    // This thread may be so quick that no part is left for another.
    bool failed = std::thread::hardware_concurrency() == 1;
    for (int i = 0; !failed && i < 1000; ++i) {
        try {
            const tiny::Loaded tokenizer(metadata);
            ASSERT_TRUE(tokenizer.tokenizer.ok());
        } catch (const std::bad_alloc&) {
            failed = true;
        }
    }
    helpers_lack_memory = false;
    EXPECT_TRUE(failed);
    EXPECT_TRUE(tiny::Loaded(metadata).tokenizer.ok());
}

}  // namespace
}  // namespace hearth
