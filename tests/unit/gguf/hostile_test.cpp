// Files that lie. Each is refused in one line that names the file, the key or tensor and the byte, at almost no cost.
#include <gtest/gtest.h>

#include <functional>

#include "gguf/gguf.h"
#include "unit/gguf/allocation.h"
#include "unit/gguf/model_bytes.h"
#include "unit/gguf/walk.h"

namespace hearth {
namespace {

using namespace gguf_test;
using enum GgufType;

constexpr std::uint64_t kHuge63 = 0x7fffffffffffffffu;
constexpr std::uint64_t kHuge64 = ~std::uint64_t{0};
constexpr std::uint64_t kTera = std::uint64_t{1} << 40;

struct Refusal {
    std::string error;
    std::size_t allocated = 0;
};

Refusal refusal_of(const std::string& bytes) {
    const ExactBytes copy(bytes);
    const std::size_t before = allocated_bytes();
    const Result<GgufFile> file = GgufFile::parse(copy.span(), "bad.gguf");
    return {file.ok() ? "accepted" : file.error().message, allocated_bytes() - before};
}

// The refusal holds `part`, keeps to the form of errors, and cost less than 64 KiB.
testing::AssertionResult refused(const std::string& bytes, std::string_view part) {
    const Refusal refusal = refusal_of(bytes);
    if (refusal.error == "accepted") return testing::AssertionFailure() << "accepted, expected: " << part;
    const std::string fault = fault_of_error(Error{ErrorCode::InvalidModel, refusal.error}, "bad.gguf");
    if (!fault.empty()) return testing::AssertionFailure() << fault;
    if (refusal.error.find(", at byte ") == std::string::npos) {
        return testing::AssertionFailure() << "no offset in: " << refusal.error;
    }
    if (refusal.error.find(part) == std::string::npos) {
        return testing::AssertionFailure() << refusal.error << "\n  expected: " << part;
    }
    if (refusal.allocated > 65536) return testing::AssertionFailure() << "allocated " << refusal.allocated;
    return testing::AssertionSuccess();
}

testing::AssertionResult refused(const ModelBytes& model, std::string_view part) {
    return refused(model.build(), part);
}

testing::AssertionResult accepted(const ModelBytes& model) {
    const Refusal refusal = refusal_of(model.build());
    if (refusal.error == "accepted") return testing::AssertionSuccess();
    return testing::AssertionFailure() << refusal.error;
}

ModelBytes with_key(std::string_view name, GgufType type, const std::string& payload) {
    ModelBytes model;
    model.key("general.architecture", String, raw_string("x")).key(name, type, payload);
    return model;
}

ModelBytes with_tensor(const std::vector<std::uint64_t>& extents, std::uint32_t type = 0, std::uint64_t offset = 0) {
    ModelBytes model;
    model.tensor("w", extents, type, offset);
    model.data = std::string(4096, '\0');
    return model;
}

TEST(GgufHostile, TheModelsTheTestsStartFromAreGood) {
    EXPECT_TRUE(accepted(tiny_model()));
    EXPECT_TRUE(accepted(aligned_model()));
    EXPECT_TRUE(accepted(vocabulary_model()));
    EXPECT_TRUE(accepted(with_tensor({32, 32})));
}

TEST(GgufHostile, EveryTruncationOfATinyModelIsACleanError) {
    for (const ModelBytes& model : {tiny_model(), aligned_model(), vocabulary_model()}) {
        const std::string whole = model.build();
        for (std::size_t length = 0; length < whole.size(); ++length) {
            ASSERT_TRUE(refused(whole.substr(0, length), "")) << "length " << length;
        }
    }
}

TEST(GgufHostile, OtherFilesAndVersionsAreRefused) {
    ModelBytes model = tiny_model();
    EXPECT_TRUE(refused(std::string("PK\3\4 something else"), "not a GGUF file"));
    EXPECT_TRUE(refused(std::string("GGU"), "not a GGUF file"));
    EXPECT_TRUE(refused(std::string(1000, '\0'), "not a GGUF file"));
    model.magic = "FUGG";
    EXPECT_TRUE(refused(model, "not a GGUF file"));
    model.magic = "GGUF";
    model.version = 1;
    EXPECT_TRUE(refused(model, "GGUF version 1 is not supported"));
    model.version = 0;
    EXPECT_TRUE(refused(model, "GGUF version 0 is not supported"));
    model.version = 4;
    EXPECT_TRUE(refused(model, "GGUF version 4 is not supported"));
    model.version = 0x03000000;
    EXPECT_TRUE(refused(model, "big-endian"));
}

TEST(GgufHostile, CountsAreRefusedFromTheSizeOfTheFile) {
    for (const std::uint64_t count : {kHuge63, kHuge64, kTera, std::uint64_t{1000}}) {
        ModelBytes model = tiny_model();
        model.tensor_count = count;
        EXPECT_TRUE(refused(model, "the tensor count " + std::to_string(count)));
        model = tiny_model();
        model.key_count = count;
        EXPECT_TRUE(refused(model, "the metadata count " + std::to_string(count)));
    }
    ModelBytes model = tiny_model();
    model.key_count = model.keys.size() + 1;
    EXPECT_TRUE(refused(model, ""));
    model.key_count = model.keys.size() - 1;
    EXPECT_TRUE(refused(model, ""));
}

TEST(GgufHostile, ACountThatOnlyTheWholeFileHasRoomForIsRefusedBehindTheMetadata) {
    ModelBytes model;
    model.key("padding", String, raw_string(std::string(5000, 'x')));
    model.tensor_count = 100;
    EXPECT_TRUE(refused(model, "the tensor count 100 does not fit in the 0 bytes behind the metadata"));
}

TEST(GgufHostile, StringsAndArraysOfATerabyteAreRefusedBeforeAllocation) {
    for (const std::uint64_t count : {kTera, kHuge63, kHuge64, kHuge64 - 7, std::uint64_t{1} << 61}) {
        EXPECT_TRUE(refused(with_key("k.s", String, raw(count) + "abc"), "key 'k.s' claims " + std::to_string(count)));
        for (const GgufType type : {U8, I16, F32, Bool, String, U64, F64}) {
            EXPECT_TRUE(refused(with_key("k.a", Array, raw_array(type, count, "abcdefghijklmnop")),
                                "key 'k.a' claims " + std::to_string(count) + " elements"));
        }
    }
    EXPECT_TRUE(refused(with_key("k.t", Array, raw_array(String, 2, raw_string("a") + raw(kTera) + "b")),
                        "element 1 of key 'k.t' claims 1099511627776 bytes"));
    ModelBytes model;
    model.keys.push_back(raw(kTera) + "name and more");
    EXPECT_TRUE(refused(model, "metadata key 0 claims 1099511627776 bytes"));
    model = ModelBytes();
    model.tensors.push_back(raw(kHuge64) + std::string(100, 'n'));
    EXPECT_TRUE(refused(model, "the name of tensor 0 claims 18446744073709551615 bytes"));
}

TEST(GgufHostile, ArraysOfArraysAreRefusedHoweverDeep) {
    for (const int depth : {1, 2, 1000, 100000}) {
        std::string payload;
        for (int i = 0; i < depth; ++i) payload += raw_array(Array, 1, "");
        EXPECT_TRUE(
            refused(with_key("nest", Array, payload + raw_array(U8, 1, "x")), "key 'nest' is an array of arrays"));
    }
}

TEST(GgufHostile, UnknownMetadataTypesAreRefusedWithTheirNumber) {
    ModelBytes model;
    model.key("odd", 13, "12345678");
    EXPECT_TRUE(refused(model, "key 'odd' has the unknown type 13"));
    model = ModelBytes();
    model.key("odd", 0xffffffffu, "12345678");
    EXPECT_TRUE(refused(model, "key 'odd' has the unknown type 4294967295"));
    EXPECT_TRUE(refused(with_key("odd", Array, raw(std::uint32_t{77}) + raw(std::uint64_t{0})),
                        "key 'odd' has the unknown element type 77"));
}

TEST(GgufHostile, BooleansAreZeroOrOne) {
    EXPECT_TRUE(refused(with_key("flag", Bool, "\x02"), "key 'flag' holds a bool that is neither 0 nor 1"));
    EXPECT_TRUE(refused(with_key("flag", Bool, "\xff"), "key 'flag' holds a bool"));
    EXPECT_TRUE(
        refused(with_key("flags", Array, raw_array(Bool, 3, std::string("\0\1\3", 3))), "key 'flags' holds a bool"));
}

TEST(GgufHostile, NamesMustBeShortPrintableUtf8) {
    const std::vector<std::pair<std::string, std::string>> names = {
        {"", "is empty"},
        {std::string(257, 'a'), "is longer than 256 bytes"},
        {std::string(70000, 'a'), "is longer than 256 bytes"},
        {"a\xff", "is not valid UTF-8"},
        {"a\xc0\x80", "is not valid UTF-8"},
        {"\xed\xa0\x80", "is not valid UTF-8"},
        {"a\xe2\x82", "is not valid UTF-8"},
        {"two\nlines", "holds a control character"},
        {std::string("nul\0", 4), "holds a control character"},
        {"\x1b[2J", "holds a control character"},
        {"c1 \xc2\x9b", "holds a control character"},
    };
    for (const auto& [name, part] : names) {
        EXPECT_TRUE(refused(with_key(name, U32, raw(1)), "metadata key 1 " + part));
        ModelBytes model;
        model.tensor(name, {8}, 0, 0);
        model.data = std::string(32, '\0');
        EXPECT_TRUE(refused(model, "the name of tensor 0 " + part));
    }
    EXPECT_TRUE(accepted(with_key(std::string(256, 'a'), U32, raw(1))));
}

TEST(GgufHostile, DuplicatesAreRefusedByName) {
    ModelBytes model = tiny_model();
    model.key("a.f32", F32, raw(2.0f));
    EXPECT_TRUE(refused(model, "key 'a.f32' occurs twice"));
    model = tiny_model();
    model.tensor("token_embd.weight", {8}, 0, 128);
    model.data += std::string(32, '\0');
    EXPECT_TRUE(refused(model, "tensor 'token_embd.weight' occurs twice"));
}

TEST(GgufHostile, ImpossibleShapesAreRefused) {
    EXPECT_TRUE(refused(with_tensor({}), "tensor 'w' has 0 dimensions"));
    EXPECT_TRUE(refused(with_tensor({1, 1, 1, 1, 1}), "tensor 'w' has 5 dimensions"));
    EXPECT_TRUE(refused(with_tensor(std::vector<std::uint64_t>(200, 1)), "tensor 'w' has 200 dimensions"));
    EXPECT_TRUE(refused(with_tensor({0}), "tensor 'w' has the extent 0 in dimension 0"));
    EXPECT_TRUE(refused(with_tensor({8, 0}), "tensor 'w' has the extent 0 in dimension 1"));
    EXPECT_TRUE(refused(with_tensor({8, kHuge64}), "tensor 'w' has the extent -1 in dimension 1"));
    EXPECT_TRUE(refused(with_tensor({std::uint64_t{1} << 63}), "tensor 'w' has the extent -9223372036854775808"));
    EXPECT_TRUE(refused(with_tensor({std::uint64_t{1} << 32, std::uint64_t{1} << 32}), "more elements than"));
    EXPECT_TRUE(refused(with_tensor({3, kHuge63}), "more elements than"));
    EXPECT_TRUE(refused(with_tensor({65536, 65536, 65536, 65536}), "more elements than"));
    EXPECT_TRUE(refused(with_tensor({kHuge63}), "tensor 'w' reaches past the end"));
    EXPECT_TRUE(refused(with_tensor({std::uint64_t{1} << 62}), "tensor 'w' reaches past the end"));
    EXPECT_TRUE(refused(with_tensor({std::uint64_t{1} << 62}, 8), "tensor 'w' reaches past the end"));
}

TEST(GgufHostile, ColumnsMustFillWholeBlocks) {
    EXPECT_TRUE(refused(with_tensor({33}, 8), "tensor 'w' of type Q8_0 has 33 columns, not a multiple of 32"));
    EXPECT_TRUE(refused(with_tensor({16, 16}, 12), "tensor 'w' of type Q4_K has 16 columns, not a multiple of 256"));
}

TEST(GgufHostile, UnknownTensorTypesAreRefusedWithTheirNumber) {
    for (const std::uint32_t type : {4u, 5u, 9u, 31u, 40u, 255u, 256u, 0xffffffffu}) {
        EXPECT_TRUE(refused(with_tensor({256}, type), "tensor 'w' has the unknown type " + std::to_string(type)));
    }
}

TEST(GgufHostile, TensorsOutsideTheFileAreRefused) {
    EXPECT_TRUE(accepted(with_tensor({8}, 0, 4096 - 32)));
    EXPECT_TRUE(refused(with_tensor({9}, 0, 4096 - 32), "tensor 'w' reaches past the end"));
    EXPECT_TRUE(refused(with_tensor({8}, 0, 4096), "tensor 'w' reaches past the end"));
    EXPECT_TRUE(refused(with_tensor({1025}), "tensor 'w' reaches past the end"));
    EXPECT_TRUE(refused(with_tensor({8}, 0, kHuge64 - 31), "tensor 'w' reaches past the end"));
    EXPECT_TRUE(refused(with_tensor({8}, 0, kHuge63 - 31), "tensor 'w' reaches past the end"));
}

TEST(GgufHostile, MisalignedTensorsAreRefused) {
    EXPECT_TRUE(refused(with_tensor({8}, 0, 1), "tensor 'w' has the offset 1, not a multiple of 32"));
    EXPECT_TRUE(refused(with_tensor({8}, 0, 16), "tensor 'w' has the offset 16"));
    EXPECT_TRUE(refused(with_tensor({8}, 0, kHuge64), "tensor 'w' has the offset 18446744073709551615"));
}

TEST(GgufHostile, OverlappingTensorsAreRefused) {
    const auto pair = [](std::uint64_t first, std::uint64_t second) {
        ModelBytes model;
        model.tensor("a", {16}, 0, first).tensor("b", {16}, 0, second);
        model.data = std::string(256, '\0');
        return model;
    };
    EXPECT_TRUE(accepted(pair(0, 64)));
    EXPECT_TRUE(accepted(pair(128, 0)));
    EXPECT_TRUE(refused(pair(0, 32), "tensors 'a' and 'b' overlap"));
    EXPECT_TRUE(refused(pair(96, 64), "tensors 'b' and 'a' overlap"));
    EXPECT_TRUE(refused(pair(64, 64), "overlap"));
}

TEST(GgufHostile, AlignmentMustBeAModestPowerOfTwo) {
    const auto aligned = [](GgufType type, const std::string& payload) {
        ModelBytes model;
        model.key("general.alignment", type, payload);
        return model;
    };
    for (const std::uint32_t bad : {0u, 1u, 3u, 4u, 33u, 96u, 131072u, 0x80000000u, 0xffffffffu}) {
        EXPECT_TRUE(refused(aligned(U32, raw(bad)), "key 'general.alignment' must be a power of two")) << bad;
    }
    EXPECT_TRUE(refused(aligned(U64, raw(kHuge64)), "key 'general.alignment' must be a power of two"));
    EXPECT_TRUE(refused(aligned(I32, raw(-32)), "key 'general.alignment' must be a power of two"));
    EXPECT_TRUE(refused(aligned(F32, raw(32.0f)), "key 'general.alignment' is of type f32, not u32"));
    EXPECT_TRUE(refused(aligned(String, raw_string("32")), "key 'general.alignment' is of type string, not u32"));
    EXPECT_TRUE(refused(aligned(Array, raw_array(U32, 1, raw(32u))), "key 'general.alignment' is of type array"));
    for (const std::uint32_t good : {8u, 32u, 64u, 65536u}) EXPECT_TRUE(accepted(aligned(U32, raw(good)))) << good;
}

TEST(GgufHostile, PartsOfSplitModelsAreNotParsedFromMemory) {
    ModelBytes model = tiny_model();
    model.key("split.count", U16, raw(std::uint16_t{3}));
    EXPECT_NE(refusal_of(model.build()).error.find("key 'split.count' is 3"), std::string::npos);
    model = tiny_model();
    model.key("split.count", U16, raw(std::uint16_t{0}));
    EXPECT_NE(refusal_of(model.build()).error.find("key 'split.count' is 0"), std::string::npos);
    model = tiny_model();
    model.key("split.count", F32, raw(1.0f));
    EXPECT_NE(refusal_of(model.build()).error.find("key 'split.count' of type f32"), std::string::npos);
}

TEST(GgufHostile, ManyHonestEntriesCostInProportionToTheFile) {
    ModelBytes model;
    for (int i = 0; i < 20000; ++i) model.key("key." + std::to_string(i), U8, "x");
    for (int i = 0; i < 20000; ++i) model.tensor("t." + std::to_string(i), {8}, 0, static_cast<std::uint64_t>(i) * 32);
    model.data = std::string(32 * 20000, '\0');
    const std::string bytes = model.build();
    const Refusal whole = refusal_of(bytes);
    EXPECT_EQ(whole.error, "accepted");
    EXPECT_LT(whole.allocated, 16 * bytes.size());
}

}  // namespace
}  // namespace hearth
