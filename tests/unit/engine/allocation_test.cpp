// A decoded token costs no heap allocation: operator new is counted here, for this whole test binary.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine_support.h"

namespace {
std::atomic<std::size_t> allocations{0};
}

void* operator new(std::size_t size) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    if (void* memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    allocations.fetch_add(1, std::memory_order_relaxed);
    return std::malloc(size);
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace hearth {
namespace {

using namespace test;

TEST(Allocations, ADecodedTokenAllocatesNothing) {
    const std::shared_ptr<Engine> engine = load_engine(write_tiny_model("allocations"), {.threads = 2});
    SamplingOptions options;
    options.repetition_penalty = 1.1f;
    options.top_k = 0;
    Sequence sequence(engine, std::make_shared<const SamplingOptions>(options),
                      std::make_shared<const StopStrings>(std::vector<std::string>{"never said"}));
    ASSERT_TRUE(sequence.append(make_prompt(50)).ok());
    Generation run;
    run.tokens.reserve(1000);
    run.text.reserve(100'000);
    decode_one(*engine, sequence, run);  // the first step sizes what is sized once
    const std::size_t before = allocations.load();
    for (int i = 0; i < 200; ++i) decode_one(*engine, sequence, run);  // crosses three block boundaries
    EXPECT_EQ(allocations.load() - before, 0u);
    EXPECT_EQ(run.tokens.size(), 201u);
}

}  // namespace
}  // namespace hearth
