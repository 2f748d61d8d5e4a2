// The writer: what it writes the reader reads, and a failure leaves nothing behind.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "gguf/gguf_writer.h"
#include "unit/gguf/allocation.h"
#include "unit/gguf/model_bytes.h"
#include "unit/gguf/temporary_folder.h"

namespace hearth {
namespace {

using namespace gguf_test;

GgufWriter create(const std::string& path, std::uint32_t alignment = 32) {
    Result<GgufWriter> writer = GgufWriter::create(path, alignment);
    EXPECT_TRUE(writer.ok()) << writer.error().message;
    return std::move(writer).value();
}

GgufFile open(const std::string& path) {
    Result<GgufFile> file = GgufFile::open(path);
    EXPECT_TRUE(file.ok()) << file.error().message;
    return std::move(file).value();
}

std::string message(const Status& status) {
    return status.ok() ? "no error" : status.error().message;
}

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

TEST(GgufWriterTest, EveryMetadataTypeComesBack) {
    const TemporaryFolder folder;
    const std::string path = folder.path("m.gguf");
    GgufWriter writer = create(path);
    writer.set_u8("u8", 255);
    writer.set_i8("i8", -128);
    writer.set_u16("u16", 65535);
    writer.set_i16("i16", -32768);
    writer.set_u32("u32", 4294967295u);
    writer.set_i32("i32", -5);
    writer.set_u64("u64", ~std::uint64_t{0});
    writer.set_i64("i64", 42);
    writer.set_f32("f32", 0.1f);
    writer.set_f64("f64", 0.5);
    writer.set_boolean("yes", true);
    writer.set_boolean("no", false);
    writer.set_string("text", "caf\xc3\xa9");
    writer.set_strings("texts", std::vector<std::string_view>{"a", "", "ccc"});
    writer.set_floats("floats", std::vector<float>{1.5f, -2.0f});
    writer.set_integers("integers", std::vector<std::int32_t>{-1, 0, 2147483647});
    ASSERT_EQ(message(writer.finish()), "no error");

    const GgufFile file = open(path);
    EXPECT_EQ(file.version(), 3u);
    EXPECT_EQ(file.keys().size(), 16u);
    EXPECT_EQ(file.u32("u8").value(), 255u);
    EXPECT_EQ(file.find("i8")->data[0], std::byte{0x80});
    EXPECT_EQ(file.u32("u16").value(), 65535u);
    EXPECT_EQ(file.find("i16")->type, GgufType::I16);
    EXPECT_EQ(file.u32("u32").value(), 4294967295u);
    EXPECT_EQ(file.find("i32")->type, GgufType::I32);
    EXPECT_EQ(file.find("u64")->type, GgufType::U64);
    EXPECT_EQ(file.u32("i64").value(), 42u);
    EXPECT_EQ(file.f32("f32").value(), 0.1f);
    EXPECT_EQ(file.f32("f64").value(), 0.5f);
    EXPECT_TRUE(file.boolean("yes").value());
    EXPECT_FALSE(file.boolean("no").value());
    EXPECT_EQ(file.string("text").value(), "caf\xc3\xa9");
    EXPECT_EQ(file.strings("texts").value(), (std::vector<std::string_view>{"a", "", "ccc"}));
    EXPECT_EQ(file.floats("floats").value(), (std::vector<float>{1.5f, -2.0f}));
    EXPECT_EQ(file.integers("integers").value(), (std::vector<std::int32_t>{-1, 0, 2147483647}));
}

TEST(GgufWriterTest, EveryTensorTypeComesBackWithItsBytes) {
    const TemporaryFolder folder;
    for (const std::uint32_t alignment : {8u, 32u, 4096u}) {
        const std::string path = folder.path("m.gguf");
        GgufWriter writer = create(path, alignment);
        std::vector<DType> types;
        for (std::uint32_t number = 0; number < kDTypeLimit; ++number) {
            if (const std::optional<DType> type = dtype_from_gguf(number)) types.push_back(*type);
        }
        const Shape shape{{512, 3, 1, 2}};
        for (const DType type : types) writer.declare_tensor(traits(type).name, type, shape);
        for (std::size_t i = 0; i < types.size(); ++i) {
            const std::string data(row_bytes(types[i], 512) * 6, static_cast<char>(i + 1));
            // In two pieces of odd sizes: rows may come as they are quantised.
            ASSERT_EQ(message(writer.append(bytes_of(data).first(101))), "no error");
            ASSERT_EQ(message(writer.append(bytes_of(data).subspan(101))), "no error");
        }
        ASSERT_EQ(message(writer.finish()), "no error");

        const GgufFile file = open(path);
        EXPECT_EQ(file.alignment(), alignment);
        ASSERT_EQ(file.tensors().size(), types.size());
        for (std::size_t i = 0; i < types.size(); ++i) {
            const TensorView view = file.tensor(traits(types[i]).name, shape).value();
            EXPECT_EQ(view.type, types[i]);
            const std::span<const std::byte> data(view.data, view.size_bytes());
            EXPECT_EQ(std::ranges::count(data, static_cast<std::byte>(i + 1)),
                      static_cast<std::ptrdiff_t>(data.size()));
        }
    }
}

TEST(GgufWriterTest, CopiesTheMetadataOfAnotherFileAsItIs) {
    const TemporaryFolder folder;
    const GgufFile source = open(folder.write("source.gguf", tiny_model().build()));
    GgufWriter writer = create(folder.path("copy.gguf"));
    writer.copy_metadata(source);
    for (const GgufTensor& tensor : source.tensors())
        writer.declare_tensor(tensor.name, tensor.view.type, tensor.view.shape);
    for (const GgufTensor& tensor : source.tensors()) {
        ASSERT_EQ(message(writer.append({tensor.view.data, tensor.view.size_bytes()})), "no error");
    }
    ASSERT_EQ(message(writer.finish()), "no error");
    const GgufFile copy = open(folder.path("copy.gguf"));
    ASSERT_TRUE(std::ranges::equal(copy.keys(), source.keys()));
    for (const std::string_view key : source.keys()) {
        const GgufValue& before = *source.find(key);
        const GgufValue& after = *copy.find(key);
        EXPECT_EQ(after.type, before.type) << key;
        EXPECT_EQ(after.element_type, before.element_type) << key;
        EXPECT_EQ(after.count, before.count) << key;
        EXPECT_TRUE(std::ranges::equal(after.data, before.data)) << key;
    }
    EXPECT_EQ(copy.find_tensor("token_embd.weight")->view.data[33], std::byte{0x11});
}

TEST(GgufWriterTest, LeavesOutAlignmentAndSplitKeysWhenCopying) {
    const TemporaryFolder folder;
    ModelBytes model = aligned_model();
    model.key("split.no", GgufType::U16, raw(std::uint16_t{0}))
        .key("split.count", GgufType::U16, raw(std::uint16_t{1}))
        .key("split.tensors.count", GgufType::I32, raw(2));
    const GgufFile source = open(folder.write("source.gguf", model.build()));
    GgufWriter writer = create(folder.path("copy.gguf"));
    writer.copy_metadata(source);
    ASSERT_EQ(message(writer.finish()), "no error");
    const GgufFile copy = open(folder.path("copy.gguf"));
    EXPECT_EQ(copy.keys().size(), 1u);
    EXPECT_EQ(copy.alignment(), 32u);
}

TEST(GgufWriterTest, SettingAgainReplacesAndRemovingForgets) {
    const TemporaryFolder folder;
    GgufWriter writer = create(folder.path("m.gguf"));
    writer.set_u32("a", 1);
    writer.set_u32("b", 2);
    writer.set_u32("c", 3);
    writer.set_string("a", "one");
    writer.remove("b");
    writer.remove("never there");
    writer.set_u32("general.alignment", 4096);  // a lie: the file has 32
    ASSERT_EQ(message(writer.finish()), "no error");
    const GgufFile file = open(folder.path("m.gguf"));
    EXPECT_EQ(file.keys().size(), 3u);
    EXPECT_EQ(file.keys()[0], "a");
    EXPECT_EQ(file.string("a").value(), "one");
    EXPECT_EQ(file.find("b"), nullptr);
    EXPECT_EQ(file.alignment(), 32u);
}

TEST(GgufWriterTest, HoldsMuchLessThanItWrites) {
    const TemporaryFolder folder;
    GgufWriter writer = create(folder.path("m.gguf"));
    writer.declare_tensor("w", DType::F32, Shape{{1024, 16384, 1, 1}});  // 64 MiB
    const std::string row(4096, 'r');
    const std::size_t before = allocated_bytes();
    for (int i = 0; i < 16384; ++i) ASSERT_TRUE(writer.append(bytes_of(row)).ok());
    ASSERT_EQ(message(writer.finish()), "no error");
    EXPECT_LT(allocated_bytes() - before, std::size_t{1} << 20);
    EXPECT_EQ(open(folder.path("m.gguf")).tensors()[0].view.size_bytes(), std::size_t{1} << 26);
}

TEST(GgufWriterTest, NothingAppearsWithoutFinish) {
    const TemporaryFolder folder;
    folder.write("m.gguf", "the old content");
    {
        GgufWriter writer = create(folder.path("m.gguf"));
        writer.declare_tensor("w", DType::F32, Shape{{8, 1, 1, 1}});
        ASSERT_TRUE(writer.append(bytes_of(std::string(16, 'x'))).ok());
        EXPECT_EQ(folder.entries(), 2u);
    }
    EXPECT_EQ(folder.entries(), 1u);
    EXPECT_EQ(read_all(folder.path("m.gguf")), "the old content");
}

TEST(GgufWriterTest, MistakesAreReportedAndLeaveNothing) {
    const TemporaryFolder folder;
    const std::string path = folder.path("m.gguf");
    const Shape eight{{8, 1, 1, 1}};
    const std::string data(32, 'x');
    const auto fails = [&](std::string_view part, const auto& mistake) {
        GgufWriter writer = create(path);
        mistake(writer);
        const std::string error = message(writer.finish());
        EXPECT_TRUE(error.starts_with(path + ": ")) << error;
        EXPECT_NE(error.find(part), std::string::npos) << error;
        EXPECT_EQ(folder.entries(), 0u) << part;
        EXPECT_EQ(message(writer.append(bytes_of("more"))), error);
    };
    fails("metadata key 0 is empty", [](GgufWriter& w) { w.set_u32("", 1); });
    fails("metadata key 0 is not valid UTF-8", [](GgufWriter& w) { w.set_u32("\xff", 1); });
    fails("the name of tensor 0 is empty", [&](GgufWriter& w) { w.declare_tensor("", DType::F32, eight); });
    fails("tensor 'w' occurs twice", [&](GgufWriter& w) {
        w.declare_tensor("w", DType::F32, eight);
        w.declare_tensor("w", DType::F32, eight);
    });
    fails("tensor 'w' cannot have the shape [8] with type Q8_0",
          [&](GgufWriter& w) { w.declare_tensor("w", DType::Q8_0, eight); });
    fails("tensor 'w' cannot have the shape [0]", [&](GgufWriter& w) {
        w.declare_tensor("w", DType::F32, Shape{{0, 1, 1, 1}});
    });
    fails("tensor 'w' cannot have the shape", [&](GgufWriter& w) {
        w.declare_tensor("w", DType::F32, Shape{{std::size_t{1} << 40, std::size_t{1} << 40, 1, 1}});
    });
    fails("the data of tensor 'w' is not complete", [&](GgufWriter& w) { w.declare_tensor("w", DType::F32, eight); });
    fails("more data than tensor 'w' has room for", [&](GgufWriter& w) {
        w.declare_tensor("w", DType::F32, eight);
        EXPECT_FALSE(w.append(bytes_of(data + "x")).ok());
    });
    fails("data behind the last tensor", [&](GgufWriter& w) {
        w.declare_tensor("w", DType::F32, eight);
        EXPECT_TRUE(w.append(bytes_of(data)).ok());
        EXPECT_FALSE(w.append(bytes_of("x")).ok());
    });
    fails("key 'late' comes after the first data", [&](GgufWriter& w) {
        w.declare_tensor("w", DType::F32, eight);
        EXPECT_TRUE(w.append(bytes_of(data)).ok());
        w.set_u32("late", 1);
    });
    fails("tensor 'late' comes after the first data", [&](GgufWriter& w) {
        w.declare_tensor("w", DType::F32, eight);
        EXPECT_TRUE(w.append(bytes_of(data)).ok());
        w.declare_tensor("late", DType::F32, eight);
    });
}

TEST(GgufWriterTest, FinishesOnce) {
    const TemporaryFolder folder;
    GgufWriter writer = create(folder.path("m.gguf"));
    ASSERT_EQ(message(writer.finish()), "no error");
    EXPECT_NE(message(writer.finish()).find("already finished"), std::string::npos);
    EXPECT_EQ(open(folder.path("m.gguf")).keys().size(), 0u);
}

TEST(GgufWriterTest, RefusesTargetsThatCannotBeReplaced) {
    const TemporaryFolder folder;
    const auto error = [](const std::string& path, std::uint32_t alignment = 32) {
        const Result<GgufWriter> writer = GgufWriter::create(path, alignment);
        return writer.ok() ? "no error" : writer.error().message;
    };
    EXPECT_EQ(error(folder.path("")), folder.path("") + ": is a directory");
    EXPECT_EQ(error("/dev/null"), "/dev/null: not a regular file");
    EXPECT_NE(error(folder.path("absent/m.gguf")).find("No such file or directory"), std::string::npos);
    EXPECT_NE(error(folder.path("m.gguf"), 24).find("the alignment must be a power of two"), std::string::npos);
    EXPECT_EQ(folder.entries(), 0u);
}

TEST(GgufWriterTest, AFullDiskIsAnErrorThatLeavesTheOldFile) {
    const TemporaryFolder folder;
    folder.write("m.gguf", "the old content");
    // A limit on file sizes stands for the full disk: write() fails in the same place.
    rlimit old_limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
    const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit small = old_limit;
    small.rlim_cur = 1 << 20;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    Status status;
    {
        GgufWriter writer = create(folder.path("m.gguf"));
        writer.declare_tensor("w", DType::F32, Shape{{1 << 20, 1, 1, 1}});
        const std::string data(1 << 16, 'x');
        for (int i = 0; i < 64 && status.ok(); ++i) status = writer.append(bytes_of(data));
        EXPECT_FALSE(writer.finish().ok());
    }
    ::setrlimit(RLIMIT_FSIZE, &old_limit);
    std::signal(SIGXFSZ, old_handler);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::OutOfResources);
    EXPECT_NE(status.error().message.find("File too large"), std::string::npos);
    EXPECT_EQ(folder.entries(), 1u);
    EXPECT_EQ(read_all(folder.path("m.gguf")), "the old content");
}

}  // namespace
}  // namespace hearth
