// Reading files that should not be trusted.
#include "machine/probe_files.h"

#include <gtest/gtest.h>

#include "fake_tree.h"

namespace hearth {
namespace {

using Cpus = std::vector<unsigned>;

TEST(ReadProbeFile, ReadsRegularFilesUpToItsLimit) {
    const FakeTree tree;
    tree.write("a/small", "text\n");
    tree.write("a/empty", "");
    tree.write("a/large", std::string(kProbeFileLimit * 3, 'x'));
    EXPECT_EQ(read_probe_file(tree.path("a/small")), "text\n");
    EXPECT_EQ(read_probe_file(tree.path("a/empty")), "");
    EXPECT_EQ(read_probe_file(tree.path("a/large")).value().size(), kProbeFileLimit);
}

TEST(ReadProbeFile, SkipsWhatIsNoRegularFileWithoutBlocking) {
    const FakeTree tree;
    tree.make_fifo("a/fifo");
    tree.make_link("a/loop", "loop");
    tree.make_link("a/dangling", "nothing");
    for (const char* name : {"a", "a/fifo", "a/loop", "a/dangling", "a/missing", "missing/file"}) {
        EXPECT_FALSE(read_probe_file(tree.path(name))) << name;
    }
    EXPECT_FALSE(read_probe_file("/dev/zero"));
    EXPECT_FALSE(read_probe_file(""));
}

TEST(ListProbeDirectory, IsSortedAndBounded) {
    const FakeTree tree;
    tree.write("few/b", "");
    tree.write("few/a", "");
    EXPECT_EQ(list_probe_directory(tree.path("few")), (std::vector<std::string>{"a", "b"}));
    EXPECT_TRUE(list_probe_directory(tree.path("few/a")).empty());
    EXPECT_TRUE(list_probe_directory(tree.path("missing")).empty());
    for (std::size_t i = 0; i < kProbeDirectoryLimit + 10; ++i) tree.write("many/" + std::to_string(i), "");
    EXPECT_EQ(list_probe_directory(tree.path("many")).size(), kProbeDirectoryLimit);
}

TEST(ProbeLinkName, GivesTheLastPartOfTheTarget) {
    const FakeTree tree;
    tree.make_link("a/driver", "../../bus/pci/drivers/nvidia");
    tree.make_link("a/plain", "amdgpu");
    tree.write("a/file", "");
    EXPECT_EQ(probe_link_name(tree.path("a/driver")), "nvidia");
    EXPECT_EQ(probe_link_name(tree.path("a/plain")), "amdgpu");
    EXPECT_EQ(probe_link_name(tree.path("a/file")), "");
}

TEST(ParseNumber, TakesWholeUnsignedNumbersOnly) {
    EXPECT_EQ(parse_number("42\n"), 42U);
    EXPECT_EQ(parse_number("0x10de\n"), 0x10deU);
    EXPECT_EQ(parse_number("18446744073709551615"), UINT64_MAX);
    for (const char* text : {"", " ", "-1", "+1", "18446744073709551616", "1 2", "12a", "0x", "0xg", "max", "1.5"}) {
        EXPECT_FALSE(parse_number(text)) << text;
    }
}

TEST(ParseSize, UnderstandsSuffixesAndRefusesOverflow) {
    EXPECT_EQ(parse_size("48K\n"), 48U * 1024);
    EXPECT_EQ(parse_size("32M"), 32U << 20);
    EXPECT_EQ(parse_size("1G"), 1U << 30);
    EXPECT_EQ(parse_size("64"), 64U);
    EXPECT_FALSE(parse_size("K"));
    EXPECT_FALSE(parse_size("-3K"));
    EXPECT_FALSE(parse_size("18014398509481984K"));
}

TEST(ParseCpuList, GivesAscendingCpusOnce) {
    EXPECT_EQ(parse_cpu_list("0\n"), Cpus{0});
    EXPECT_EQ(parse_cpu_list("8,0-3,2,10-11\n"), (Cpus{0, 1, 2, 3, 8, 10, 11}));
    EXPECT_EQ(parse_cpu_list(""), Cpus{});
    EXPECT_EQ(parse_cpu_list("8191"), Cpus{8191});
}

TEST(ParseCpuList, DoesNotBelieveAbsurdLists) {
    for (const char* text : {"0-4294967295", "8192", "0-18446744073709551615", "3-1", "-1", "1-", ",", "1,,2", "a",
                             "0-3:1/2", "99999999999999999999"}) {
        EXPECT_FALSE(parse_cpu_list(text)) << text;
    }
    std::string repeated;
    for (int i = 0; i < 1'000'000; ++i) repeated += "0-8191,";
    repeated += "1";
    // Bounded by the file limit in practice; even so it is only walked once for each range.
    EXPECT_EQ(parse_cpu_list(std::string_view(repeated).substr(0, kProbeFileLimit / 7 * 7 - 1)).value().size(), 8192U);
}

TEST(FieldValue, FindsTheFirstLineWithExactlyThatKey) {
    const std::string_view text = "model\t\t: 1\nmodel name\t: Some CPU\nmodel name\t: Other\nempty:\n";
    EXPECT_EQ(field_value(text, "model name"), "Some CPU");
    EXPECT_EQ(field_value(text, "model"), "1");
    EXPECT_EQ(field_value(text, "empty"), "");
    EXPECT_EQ(field_value(text, "absent"), "");
    EXPECT_EQ(field_value("", "x"), "");
}

TEST(Printable, RemovesWhatATerminalWouldObey) {
    EXPECT_EQ(printable("  Intel(R)   Xeon\x1b[31m\n"), "Intel(R) Xeon [31m");
    EXPECT_EQ(printable(std::string(1000, 'a')).size(), 96U);
    EXPECT_EQ(printable(std::string_view("\0\x01\xff", 3)), "");
}

}  // namespace
}  // namespace hearth
