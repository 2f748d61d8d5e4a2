#include "cli/fetch.h"

#include <gtest/gtest.h>

#include "cli/child_process.h"

namespace hearth {
namespace {

TEST(HubFile, IsTakenApart) {
    const Result<HubFile> plain = parse_hub_file("hf:Qwen/Qwen2.5-GGUF/qwen-q4.gguf");
    ASSERT_TRUE(plain.ok());
    EXPECT_EQ(plain->name(), "qwen-q4");
    EXPECT_EQ(plain->url("http://host"), "http://host/Qwen/Qwen2.5-GGUF/resolve/main/qwen-q4.gguf");
    const Result<HubFile> deep = parse_hub_file("hf:a/b@v1.0/sub/m.gguf");
    ASSERT_TRUE(deep.ok());
    EXPECT_EQ(deep->name(), "m");
    EXPECT_EQ(deep->url("h"), "h/a/b/resolve/v1.0/sub/m.gguf");
}

TEST(HubFile, RefusesWhatIsNotOne) {
    for (const char* bad :
         {"hf:", "hf:a", "hf:a/b", "hf:a/b/", "hf:a/b/c.bin", "hf:/b/c.gguf", "hf:a//c.gguf", "hf:a/b/../c.gguf",
          "hf:a/b/c d.gguf", "hf:a/b/?x.gguf", "hf:a/b/.gguf", "hf:a/@/c.gguf", "hf:a/b@/c.gguf", "hf:a/b/c\n.gguf"}) {
        const Result<HubFile> hub = parse_hub_file(bad);
        ASSERT_FALSE(hub.ok()) << bad;
        EXPECT_EQ(hub.error().code, ErrorCode::Usage);
    }
}

TEST(HubHeaders, TheLastResponseGivesTheSizeAndTheRedirectTheChecksum) {
    const std::string hash(64, 'a');
    const HubHeaders headers = parse_headers("HTTP/1.1 302 Found\r\nContent-Length: 17\r\nX-Linked-Etag: \"" + hash +
                                             "\"\r\n\r\nHTTP/1.1 206 Partial\r\nContent-Length: 50\r\n"
                                             "Content-Range: bytes 50-99/100\r\nETag: \"other\"\r\n\r\n");
    EXPECT_EQ(headers.size_bytes, 100u);
    EXPECT_EQ(headers.sha256, hash);
    EXPECT_EQ(headers.tag, hash);
}

TEST(HubHeaders, AnOrdinaryTagIsNoChecksum) {
    const HubHeaders headers = parse_headers("HTTP/1.0 200 OK\r\nContent-Length: 12\r\nETag: W/\"x1\"\r\n");
    EXPECT_EQ(headers.size_bytes, 12u);
    EXPECT_EQ(headers.sha256, "");
    EXPECT_EQ(headers.tag, "x1");
    EXPECT_EQ(parse_headers("").size_bytes, 0u);
    EXPECT_EQ(parse_headers("content-range: bytes */\ncontent-length: 99999999999999999999999").size_bytes, 0u);
}

TEST(ChildProcess, GivesTheExitCodeAndTheErrors) {
    const Result<ChildResult> child =
        run_child({"sh", "-c", "echo out; echo \"$GREETING\" >&2; exit 3"}, {{"GREETING", "hello"}}, [] {});
    ASSERT_TRUE(child.ok());
    EXPECT_EQ(child->exit_code, 3);
    EXPECT_EQ(child->errors, "hello\n");
}

TEST(ChildProcess, KeepsOnlyTheEndOfALongComplaint) {
    const Result<ChildResult> child =
        run_child({"sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x >&2; printf END >&2"}, {}, [] {});
    ASSERT_TRUE(child.ok());
    EXPECT_LE(child->errors.size(), 16u * 1024);
    EXPECT_TRUE(child->errors.ends_with("xEND"));
}

TEST(ChildProcess, KeepsTheOutputWhenAsked) {
    const std::vector<std::string> words = {"sh", "-c", "echo out; echo err >&2; exec >&2; exec 2>&-"};
    const Result<ChildResult> kept = run_child(
        words, {}, [] {}, ChildOutput::Keep);
    ASSERT_TRUE(kept.ok());
    EXPECT_EQ(kept->output, "out\n");
    EXPECT_EQ(kept->errors, "err\n");
    EXPECT_EQ(run_child(words, {}, [] {})->output, "");
    const Result<ChildResult> big = run_child(
        {"sh", "-c", "head -c 3000000 /dev/zero; printf END"}, {}, [] {}, ChildOutput::Keep);
    ASSERT_TRUE(big.ok());
    EXPECT_EQ(big->output.size(), 1024u * 1024);
    EXPECT_TRUE(big->output.ends_with("END"));
}

TEST(ChildProcess, ReportsASignalAndAMissingProgram) {
    EXPECT_EQ(run_child({"sh", "-c", "kill -9 $$"}, {}, [] {})->exit_code, 137);
    const Result<ChildResult> missing = run_child({"no-such-program-anywhere"}, {}, [] {});
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().message, "no-such-program-anywhere: No such file or directory");
}

}  // namespace
}  // namespace hearth
