#include "cli/options.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

constexpr Positional kPositionals[] = {
    {.name = "MODEL", .kind = ValueKind::Model, .help = "a model"},
    {.name = "SHELL", .kind = ValueKind::Choice, .required = false, .help = "a shell", .choices = "bash|fish"}};
constexpr Option kOptions[] = {
    {.name = "threads", .letter = 't', .kind = ValueKind::Whole, .value_name = "N", .help = "threads"},
    {.name = "temperature", .kind = ValueKind::Real, .value_name = "T", .help = "temperature"},
    {.name = "stop", .kind = ValueKind::Text, .value_name = "TEXT", .help = "stop"},
    {.name = "kind", .kind = ValueKind::Choice, .value_name = "K", .help = "kind", .choices = "small|large"},
    {.name = "raw", .letter = 'r', .help = "raw"}};
constexpr Command kCommand = {"test", "", "", kPositionals, kOptions, {}, nullptr};

Result<Arguments> parse(std::vector<std::string> words) {
    return Arguments::parse(kCommand, words);
}

std::string failure(std::vector<std::string> words) {
    const Result<Arguments> arguments = parse(std::move(words));
    if (arguments.ok()) return "ok";
    EXPECT_EQ(arguments.error().code, ErrorCode::Usage);
    return arguments.error().message;
}

TEST(Arguments, TakesOptionsInEveryForm) {
    const Result<Arguments> arguments =
        parse({"m.gguf", "-t4", "--temperature=0.5", "--stop", "a", "-r", "--stop=b=c", "--kind", "large"});
    ASSERT_TRUE(arguments.ok());
    EXPECT_EQ(arguments->positional(0), "m.gguf");
    EXPECT_FALSE(arguments->positional(1).has_value());
    EXPECT_EQ(arguments->whole("threads", 1, 8).value(), 4u);
    EXPECT_EQ(arguments->real("temperature").value(), 0.5f);
    EXPECT_EQ(arguments->texts("stop"), (std::vector<std::string>{"a", "b=c"}));
    EXPECT_TRUE(arguments->flag("raw"));
    EXPECT_FALSE(arguments->flag("json"));
}

TEST(Arguments, TheLastOfARepeatedOptionCounts) {
    EXPECT_EQ(parse({"m", "-t", "2", "--threads", "3"})->whole("threads", 1, 8).value(), 3u);
}

TEST(Arguments, ANegativeNumberIsAValueAndTwoDashesEndTheOptions) {
    const Result<Arguments> arguments = parse({"--temperature", "-1", "--", "--raw"});
    ASSERT_TRUE(arguments.ok());
    EXPECT_EQ(arguments->real("temperature").value(), -1.0f);
    EXPECT_EQ(arguments->positional(0), "--raw");
    EXPECT_FALSE(arguments->flag("raw"));
    EXPECT_EQ(parse({"-"})->positional(0), "-");
}

TEST(Arguments, AnUnknownOptionNamesTheNearest) {
    EXPECT_EQ(failure({"m", "--thread", "2"}), "test: unknown option '--thread' (did you mean --threads?)");
    EXPECT_EQ(failure({"m", "--tempreature", "2"}),
              "test: unknown option '--tempreature' (did you mean --temperature?)");
    EXPECT_EQ(failure({"m", "--zzzzzzzz"}), "test: unknown option '--zzzzzzzz' (hearth help test lists the options)");
    EXPECT_EQ(failure({"m", "-x"}), "test: unknown option '-x' (hearth help test lists the options)");
}

TEST(Arguments, FaultsAreNamed) {
    EXPECT_EQ(failure({}), "test: MODEL is missing (hearth help test)");
    EXPECT_EQ(failure({"m", "bash", "more"}), "test: unexpected argument 'more' (quote a text of several words)");
    EXPECT_EQ(failure({"m", "--stop"}), "test: --stop needs a value: --stop TEXT");
    EXPECT_EQ(failure({"m", "--raw=1"}), "test: --raw takes no value");
    EXPECT_EQ(failure({"m", "--kind", "larg"}), "test: --kind: 'larg' is not one of small|large (did you mean large?)");
    EXPECT_EQ(failure({"m", "tcsh"}), "test: SHELL: 'tcsh' is not one of bash|fish (did you mean bash?)");
    EXPECT_EQ(failure({"--help"}), "ok");
}

TEST(Arguments, NumbersOutOfRangeNameTheRange) {
    for (const char* bad : {"0", "9", "-1", "2x", "", "1.5", "99999999999999999999999", " 2"}) {
        const Result<std::optional<std::uint64_t>> value = parse({"m", "-t", bad})->whole("threads", 1, 8);
        ASSERT_FALSE(value.ok()) << bad;
        EXPECT_EQ(value.error().message, "--threads: '" + std::string(bad) + "' is not a whole number from 1 to 8");
    }
    for (const char* bad : {"", "x", "1e", "nan", "inf", "1e99", "0x1p3", "1,5"}) {
        EXPECT_FALSE(parse({"m", "--temperature", bad})->real("temperature").ok()) << bad;
    }
    EXPECT_FALSE(parse({"m"})->whole("threads", 1, 8).value().has_value());
}

TEST(Nearest, FindsSlipsButNotStrangers) {
    constexpr std::string_view kWords[] = {"run", "pull", "inspect", "perplexity"};
    EXPECT_EQ(nearest("pul", kWords), "pull");
    EXPECT_EQ(nearest("insepct", kWords), "inspect");
    EXPECT_EQ(nearest("perp", kWords), "perplexity");
    EXPECT_EQ(nearest("serve", kWords), "");
    EXPECT_EQ(nearest(std::string(1000, 'a'), kWords), "");
}

TEST(Arguments, TheLastPositionalMayRepeat) {
    static constexpr Positional kMany[] = {{.name = "MODEL", .required = false, .help = "models", .repeats = true}};
    static constexpr Command kServe = {"serve", "", "", kMany, {}, {}, nullptr};
    const std::vector<std::string> words = {"a", "b", "c"};
    const Result<Arguments> arguments = Arguments::parse(kServe, words);
    ASSERT_TRUE(arguments.ok()) << arguments.error().message;
    EXPECT_EQ(arguments->positional_count(), 3u);
    EXPECT_EQ(arguments->positional(2), "c");
}

}  // namespace
}  // namespace hearth
