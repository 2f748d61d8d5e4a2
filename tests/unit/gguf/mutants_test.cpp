// Thousands of damaged files: each is either refused in one line or can be walked from end to end.
#include "unit/gguf/mutants.h"

#include <gtest/gtest.h>

#include <map>

#include "gguf/gguf.h"
#include "unit/gguf/allocation.h"
#include "unit/gguf/walk.h"

namespace hearth {
namespace {

using namespace gguf_test;

TEST(GgufMutants, AreRefusedInOneLineOrWalkable) {
    std::size_t parsed = 0;
    std::size_t refused = 0;
    std::size_t most_allocated = 0;
    std::map<std::string, std::size_t> kinds;
    for_each_mutant([&](const std::string& bytes, const char* kind) {
        ++kinds[kind];
        const ExactBytes copy(bytes);
        const std::size_t before = allocated_bytes();
        const Result<GgufFile> file = GgufFile::parse(copy.span(), "mutant.gguf");
        most_allocated = std::max(most_allocated, allocated_bytes() - before);
        const std::string fault = file.ok() ? walk(file.value()) : fault_of_error(file.error(), "mutant.gguf");
        EXPECT_EQ(fault, "") << kind;
        ++(file.ok() ? parsed : refused);
    });
    for (const auto& [kind, count] : kinds) RecordProperty(kind, static_cast<int>(count));
    std::printf("%zu mutants: %zu refused, %zu walked; at most %zu bytes allocated by one\n", parsed + refused, refused,
                parsed, most_allocated);
    EXPECT_GE(parsed + refused, 3000u);
    // A mutator that breaks everything, or nothing, would test one half of the promise only.
    EXPECT_GE(parsed, 1000u);
    EXPECT_GE(refused, 1000u);
    EXPECT_LT(most_allocated, std::size_t{1} << 16);
}

TEST(GgufMutants, AreTheSameEveryTime) {
    const auto checksum = [] {
        std::uint64_t sum = 0;
        for_each_mutant(
            [&](const std::string& bytes, const char*) { sum = hash_bytes(std::as_bytes(std::span(bytes)), sum); });
        return sum;
    };
    EXPECT_EQ(checksum(), checksum());
}

}  // namespace
}  // namespace hearth
