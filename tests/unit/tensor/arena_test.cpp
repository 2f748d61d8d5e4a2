// Handles: valid through growth, stale after release, never followed once stale.
#include "tensor/arena.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(Arena, HandlesSurviveGrowth) {
    Arena arena;
    const float weights[4] = {1, 2, 3, 4};
    const Handle first =
        arena.add_constant({DType::F32, Shape{{4, 1, 1, 1}}, reinterpret_cast<const std::byte*>(weights)});
    for (int i = 0; i < 1000; ++i) arena.add_constant({});
    EXPECT_EQ(arena.constant(first).data, reinterpret_cast<const std::byte*>(weights));
}

TEST(Arena, AReleasedHandleIsStaleEvenWhenItsSlotIsUsedAgain) {
    Arena arena;
    const Handle old = arena.add_ephemeral(8, 32);
    arena.release(old);
    EXPECT_FALSE(arena.is_alive(old));
    const Handle fresh = arena.add_ephemeral(16, 64);
    EXPECT_EQ(fresh.index, old.index);
    EXPECT_FALSE(arena.is_alive(old));
    EXPECT_TRUE(arena.is_alive(fresh));
    EXPECT_DEATH(arena.ephemeral(old), "broken invariant");
}

TEST(Arena, AHandleOfAnotherShelfIsCaught) {
    Arena arena;
    const Handle constant = arena.add_constant({});
    EXPECT_DEATH(arena.ephemeral(constant), "broken invariant");
    EXPECT_FALSE(arena.is_alive(Handle{}));
}

TEST(Arena, PersistentMemoryIsZeroedAndSized) {
    Arena arena;
    Result<Handle> handle = arena.add_persistent(100'000);
    ASSERT_TRUE(handle.ok());
    EXPECT_EQ(arena.persistent_bytes(handle.value()), 100'000u);
    EXPECT_EQ(arena.persistent(handle.value())[99'999], std::byte{0});
}

}  // namespace
}  // namespace hearth
