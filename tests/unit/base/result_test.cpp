// Result and TRY: move-only values, nesting, propagation.
#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace hearth {
namespace {

Result<std::unique_ptr<int>> make(int value) {
    if (value < 0) return Error{ErrorCode::Usage, "negative"};
    return std::make_unique<int>(value);
}
Result<int> sum(int a, int b) {
    return *TRY(make(a)) + *TRY(make(b));
}
Status check_all(int a, int b) {
    TRY(sum(a, b));
    return {};
}

TEST(Result, TryUnwrapsMoveOnlyValues) {
    const Result<int> result = sum(2, 3);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result.value(), 5);
}

TEST(Result, TryReturnsTheFirstErrorUnchanged) {
    const Status status = check_all(1, -1);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::Usage);
    EXPECT_EQ(status.error().message, "negative");
}

}  // namespace
}  // namespace hearth
