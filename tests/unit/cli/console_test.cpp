#include "cli/console.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/generate.h"

namespace hearth {
namespace {

TEST(Format, BytesAndDurations) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(999), "999 B");
    EXPECT_EQ(format_bytes(98362432), "98.4 MB");
    EXPECT_EQ(format_bytes(999999), "1.0 MB");
    EXPECT_EQ(format_duration(0), "0:00");
    EXPECT_EQ(format_duration(65.4), "1:05");
    EXPECT_EQ(format_duration(7265), "2:01:05");
    EXPECT_EQ(format_duration(1e300), "99:59:59");
}

TEST(ProgressLine, ShowsABarFiguresAndTimeLeft) {
    EXPECT_EQ(progress_line("m", 50'000'000, 100'000'000, 10e6, ProgressBar::Unit::Bytes, "", 100),
              "m  ███████████████░░░░░░░░░░░░░░░  50 %  50.0 MB of 100.0 MB  10.0 MB/s  0:05 left");
    EXPECT_EQ(progress_line("m", 3, 10, 0, ProgressBar::Unit::Items, "12.5", 30), "m   30 %  3 of 10  12.5");
    EXPECT_EQ(progress_line("m", 500, 0, 0, ProgressBar::Unit::Bytes, "", 80), "m  500 B");
}

TEST(ProgressLine, NeverReachesTheEdgeOfTheTerminal) {
    for (std::size_t columns = 1; columns < 120; ++columns) {
        const std::string line =
            progress_line("a long label", 5, 10, 1, ProgressBar::Unit::Items, "and a note", columns);
        std::size_t width = 0;
        for (const char c : line) width += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
        EXPECT_LT(width, columns) << line;
    }
}

TEST(ClosingLine, SaysWhatWasDone) {
    Generation generation;
    generation.prompt_tokens = 812;
    generation.cached_tokens = 790;
    generation.prompt_seconds = 0.314;
    generation.tokens.resize(64);
    generation.decode_steps = 63;
    generation.decode_seconds = 63 / 41.8;
    EXPECT_EQ(closing_line(generation, 1'000'000'000, 51.6, 2),
              "prompt 812 tok (790 cached) 0.31 s · 64 tok 41.8 tok/s · 81 % of the memory roof · cpu 2 threads");
    generation.cached_tokens = 0;
    generation.decode_steps = 0;
    EXPECT_EQ(closing_line(generation, 1, 0, 1), "prompt 812 tok 0.31 s · 64 tok · cpu 1 thread");
}

TEST(ExitCode, FollowsTheOriginOfTheError) {
    EXPECT_EQ(exit_code(Error{ErrorCode::Failed, ""}), 1);
    EXPECT_EQ(exit_code(Error{ErrorCode::Usage, ""}), 2);
    EXPECT_EQ(exit_code(Error{ErrorCode::InvalidModel, ""}), 3);
    EXPECT_EQ(exit_code(Error{ErrorCode::OutOfResources, ""}), 4);
    EXPECT_EQ(exit_code(Error{ErrorCode::Cancelled, ""}), 130);
}

TEST(Commands, EveryOneHasHelpAndEveryOptionIsExplainedOnce) {
    for (const Command& command : commands()) {
        EXPECT_FALSE(command.summary.empty()) << command.name;
        EXPECT_FALSE(command.description.empty()) << command.name;
        std::vector<std::string_view> names;
        std::string letters;
        for (const std::span<const Option> table : {command.options, common_options()}) {
            for (const Option& option : table) {
                EXPECT_TRUE(option.help.ends_with('.') || option.help.ends_with(')'))
                    << command.name << " " << option.name;
                EXPECT_EQ(option.kind == ValueKind::Flag, option.value_name.empty()) << option.name;
                EXPECT_EQ(std::count(names.begin(), names.end(), option.name), 0) << option.name;
                EXPECT_TRUE(option.letter == 0 || letters.find(option.letter) == std::string::npos) << option.letter;
                names.push_back(option.name);
                if (option.letter != 0) letters.push_back(option.letter);
            }
        }
    }
}

}  // namespace
}  // namespace hearth
