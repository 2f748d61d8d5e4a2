#include "base/file_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

namespace hearth {
namespace {

class FileLockTest : public ::testing::Test {
protected:
    ~FileLockTest() override { std::filesystem::remove(path_); }

    bool is_free() const {
        return FileLock::take(path_, [] { return false; }).ok();
    }

    const std::string path_ = std::filesystem::temp_directory_path() / ("hearth_lock_" + std::to_string(::getpid()));
};

TEST_F(FileLockTest, OneHoldsItUntilItIsGone) {
    {
        const Result<FileLock> lock = FileLock::take(path_, [] { return false; });
        ASSERT_TRUE(lock.ok());
        EXPECT_FALSE(is_free());
    }
    EXPECT_TRUE(is_free());
}

// Or two would hold it: one the file that was, one the file that is.
TEST_F(FileLockTest, AfterAFileThatWasRemovedTheOneInItsPlaceIsLocked) {
    std::optional<Result<FileLock>> first = FileLock::take(path_, [] { return false; });
    ASSERT_TRUE(first->ok());
    std::atomic<bool> waits = false;
    std::optional<Result<FileLock>> second;
    std::thread waiter([&] { second.emplace(FileLock::take(path_, [&] { return waits = true; })); });
    while (!waits) std::this_thread::yield();
    std::filesystem::remove(path_);
    first.reset();
    waiter.join();
    ASSERT_TRUE(second->ok());
    EXPECT_TRUE(std::filesystem::exists(path_));
    EXPECT_FALSE(is_free());
}

}  // namespace
}  // namespace hearth
