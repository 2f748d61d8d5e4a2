// Opening by path: things that are no files, split models, and the vocabularies of real models.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "gguf/gguf.h"
#include "unit/gguf/model_bytes.h"
#include "unit/gguf/temporary_folder.h"
#include "unit/gguf/walk.h"

namespace hearth {
namespace {

using namespace gguf_test;

std::string open_error(const std::string& path) {
    const Result<GgufFile> file = GgufFile::open(path);
    if (file.ok()) return "no error";
    EXPECT_EQ(file.error().code, ErrorCode::InvalidModel);
    EXPECT_EQ(fault_of_error(file.error(), path), "");
    return file.error().message;
}

TEST(GgufOpen, OpensAWholeFile) {
    const TemporaryFolder folder;
    const std::string path = folder.write("tiny.gguf", tiny_model().build());
    const Result<GgufFile> file = GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->string("general.architecture").value(), "tiny");
    EXPECT_EQ(walk(file.value()), "");
}

TEST(GgufOpen, RefusesWhatIsNotAFile) {
    const TemporaryFolder folder;
    EXPECT_EQ(open_error(folder.path("absent")), folder.path("absent") + ": No such file or directory");
    EXPECT_EQ(open_error(folder.write("empty", "")), folder.path("empty") + ": the file is empty");
    EXPECT_EQ(open_error(folder.path("")), folder.path("") + ": is a directory");
    EXPECT_EQ(open_error("/dev/zero"), "/dev/zero: not a regular file");
    ASSERT_EQ(::mkfifo(folder.path("fifo").c_str(), 0600), 0);
    EXPECT_EQ(open_error(folder.path("fifo")), folder.path("fifo") + ": not a regular file");
    ASSERT_EQ(::symlink("loop", folder.path("loop").c_str()), 0);
    EXPECT_EQ(open_error(folder.path("loop")), folder.path("loop") + ": Too many levels of symbolic links");
}

TEST(GgufOpen, RefusesWhatCannotBeReadWithTheReasonOfTheSystem) {
    const TemporaryFolder folder;
    folder.write("file", "content");
    EXPECT_EQ(open_error(folder.path("file/model.gguf")), folder.path("file/model.gguf") + ": Not a directory");
    EXPECT_NE(open_error(folder.path(std::string(300, 'n'))).find(": File name too long"), std::string::npos);
}

TEST(GgufOpen, RefusesAFileWithoutPermission) {
    const TemporaryFolder folder;
    const std::string locked = folder.write("locked.gguf", tiny_model().build());
    ASSERT_EQ(::chmod(locked.c_str(), 0), 0);
    ASSERT_EQ(::chmod(folder.path("").c_str(), 0755), 0);
    // Permissions do not bind root, so root becomes nobody for a moment.
    const bool root = ::geteuid() == 0;
    ASSERT_EQ(root ? ::seteuid(65534) : 0, 0);
    const std::string error = open_error(locked);
    ASSERT_EQ(root ? ::seteuid(0) : 0, 0);
    EXPECT_EQ(error, locked + ": Permission denied");
}

TEST(GgufOpen, RefusesASparseFileOfZerosWithoutReadingIt) {
    const TemporaryFolder folder;
    const std::string path = folder.write(
        "sparse.gguf", "GGUF" + raw(std::uint32_t{3}) + raw(std::uint64_t{1} << 30) + raw(std::uint64_t{1} << 30));
    std::error_code code;
    std::filesystem::resize_file(path, std::uintmax_t{1} << 40, code);
    if (code) GTEST_SKIP() << "no sparse files of 1 TiB here: " << code.message();
    EXPECT_NE(open_error(path).find("metadata key 0 is empty, at byte 24"), std::string::npos);
}

// Part `number` (from 1) of a model of `count` files with one tensor each; only the first has metadata.
ModelBytes part(std::uint32_t number, std::uint32_t count) {
    ModelBytes model;
    if (number == 1) model.key("general.architecture", GgufType::String, raw_string("tiny"));
    model.key("split.no", GgufType::U16, raw(static_cast<std::uint16_t>(number - 1)))
        .key("split.count", GgufType::U16, raw(static_cast<std::uint16_t>(count)))
        .key("split.tensors.count", GgufType::I32, raw(static_cast<std::int32_t>(count)));
    model.tensor("blk." + std::to_string(number), {8}, 0, 0);
    model.data = std::string(32, static_cast<char>(number));
    return model;
}

class GgufSplit : public testing::Test {
protected:
    void SetUp() override {
        for (std::uint32_t i = 1; i <= 3; ++i) write(i, part(i, 3));
    }
    std::string name(std::uint32_t number) { return "m-0000" + std::to_string(number) + "-of-00003.gguf"; }
    void write(std::uint32_t number, const ModelBytes& model) { folder_.write(name(number), model.build()); }
    // Opening by the first part fails because of part `culprit`, which is named.
    std::string error(std::uint32_t culprit) {
        const Result<GgufFile> file = GgufFile::open(folder_.path(name(1)));
        if (file.ok()) return "no error";
        EXPECT_EQ(fault_of_error(file.error(), folder_.path(name(culprit))), "");
        return file.error().message;
    }
    TemporaryFolder folder_;
};

TEST_F(GgufSplit, OpensFromAnyPart) {
    for (std::uint32_t i = 1; i <= 3; ++i) {
        const Result<GgufFile> file = GgufFile::open(folder_.path(name(i)));
        ASSERT_TRUE(file.ok()) << file.error().message;
        EXPECT_EQ(file->part_count(), 3u);
        EXPECT_EQ(file->string("general.architecture").value(), "tiny");
        ASSERT_EQ(file->tensors().size(), 3u);
        const GgufTensor* last = file->find_tensor("blk.3");
        ASSERT_NE(last, nullptr);
        EXPECT_EQ(last->split, 2u);
        EXPECT_EQ(last->view.data[31], std::byte{3});
        EXPECT_EQ(file->file_bytes(), part(1, 3).build().size() + 2 * part(2, 3).build().size());
        EXPECT_EQ(walk(file.value()), "");
    }
}

TEST_F(GgufSplit, NamesAMissingOrDamagedPart) {
    folder_.write(name(3), "GGUF but no more");
    EXPECT_NE(error(3).find("is not supported"), std::string::npos);
    std::filesystem::remove(folder_.path(name(3)));
    EXPECT_NE(error(3).find("No such file or directory"), std::string::npos);
}

TEST_F(GgufSplit, RefusesAPartInTheWrongPlace) {
    write(2, part(3, 3));
    EXPECT_NE(error(2).find("key 'split.no' is 2, but the file name says part 2"), std::string::npos);
    write(2, part(2, 4));
    EXPECT_NE(error(2).find("key 'split.count' differs from the file name, which says 3"), std::string::npos);
    ModelBytes placeless = part(2, 3);
    placeless.keys.erase(placeless.keys.begin());
    write(2, placeless);
    EXPECT_NE(error(2).find("key 'split.no' is missing"), std::string::npos);
}

TEST_F(GgufSplit, RefusesAPartOfAnotherModel) {
    ModelBytes stranger = part(2, 3);
    stranger.key("general.architecture", GgufType::String, raw_string("other"));
    write(2, stranger);
    EXPECT_NE(error(2).find("key 'general.architecture' differs from the first part"), std::string::npos);
}

TEST_F(GgufSplit, CountsTensorsOverAllParts) {
    ModelBytes rich = part(3, 3);
    rich.tensor("blk.4", {8}, 0, 32);
    rich.data += std::string(32, '\0');
    write(3, rich);
    EXPECT_NE(error(1).find("the parts hold 4 tensors, key 'split.tensors.count' says 3"), std::string::npos);
}

TEST_F(GgufSplit, RefusesATensorInTwoParts) {
    ModelBytes twin = part(3, 3);
    twin.tensors.clear();
    twin.tensor("blk.1", {8}, 0, 0);
    write(3, twin);
    EXPECT_NE(error(1).find("tensor 'blk.1' occurs in two parts"), std::string::npos);
}

TEST_F(GgufSplit, NeedsTheNamesOfTheForm) {
    for (const std::string odd :
         {"model.gguf", "m-00004-of-00003.gguf", "m-00000-of-00003.gguf", "m-00001-of-00002.gguf"}) {
        const std::string path = folder_.write(odd, part(1, 3).build());
        EXPECT_NE(open_error(path).find("its name must have the form NAME-00001-of-00003.gguf"), std::string::npos);
    }
}

TEST(GgufRealFiles, VocabulariesOpenWithTheirTokens) {
    const std::string shared = HEARTH_SHARED_DATA;
    if (shared.empty()) GTEST_SKIP() << "HEARTH_SHARED_DATA is not set: no vocabularies of real models here";
    const std::vector<std::pair<std::string, std::size_t>> expected = {
        {"bert-bge", 30522}, {"gpt-2", 50257}, {"llama-spm", 32000}, {"phi-3", 32064}, {"starcoder", 49152}};
    for (const auto& [name, tokens] : expected) {
        const Result<GgufFile> file = GgufFile::open(shared + "/vocab/" + name + ".gguf");
        ASSERT_TRUE(file.ok()) << file.error().message;
        EXPECT_EQ(file->strings("tokenizer.ggml.tokens").value().size(), tokens) << name;
        EXPECT_EQ(file->integers("tokenizer.ggml.token_type").value().size(), tokens) << name;
        EXPECT_TRUE(file->tensors().empty()) << name;
        EXPECT_EQ(walk(file.value()), "") << name;
    }
}

}  // namespace
}  // namespace hearth
