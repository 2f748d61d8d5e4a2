// What a model file may get wrong: each refusal names the key or the tensor.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <span>
#include <string>

#include "unit/models/edited_model.h"

namespace hearth {
namespace {

void expect_contains(const std::string& message, std::string_view part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

std::string refusal_with(std::string_view key, std::uint32_t value) {
    return EditedModel("llama").metadata([&](GgufWriter& writer) { writer.set_u32(key, value); }).refusal();
}

std::string refusal_with(std::string_view key, float value) {
    return EditedModel("llama").metadata([&](GgufWriter& writer) { writer.set_f32(key, value); }).refusal();
}

std::string refusal_without(std::string_view key) {
    return EditedModel("llama").metadata([&](GgufWriter& writer) { writer.remove(key); }).refusal();
}

TEST(ModelRefusals, AnUnknownArchitectureListsTheKnownOnes) {
    const std::string message =
        EditedModel("llama")
            .metadata([](GgufWriter& writer) { writer.set_string("general.architecture", "mamba"); })
            .refusal();
    expect_contains(message, "'mamba'");
    for (const std::string_view name : known_architectures()) expect_contains(message, name);
}

TEST(ModelRefusals, AFileWithoutAnArchitectureNamesTheKey) {
    expect_contains(refusal_without("general.architecture"), "general.architecture");
}

TEST(ModelRefusals, EveryRequiredKeyIsNamedWhenItIsMissing) {
    for (const std::string_view key :
         {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length", "llama.context_length",
          "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"}) {
        expect_contains(refusal_without(key), key);
    }
}

TEST(ModelRefusals, ACountOfZeroOrBeyondSenseIsNamed) {
    for (const std::string_view key :
         {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length", "llama.context_length",
          "llama.attention.head_count", "llama.attention.head_count_kv", "llama.attention.key_length",
          "llama.rope.dimension_count"}) {
        expect_contains(refusal_with(key, 0U), key);
        expect_contains(refusal_with(key, 0xFFFFFFFFU), key);
    }
}

TEST(ModelRefusals, HeadsThatAreNoMultipleOfKvHeadsNameBothKeys) {
    const std::string message = refusal_with("llama.attention.head_count_kv", 2U);
    expect_contains(message, "llama.attention.head_count (3)");
    expect_contains(message, "llama.attention.head_count_kv (2)");
}

TEST(ModelRefusals, AnOddHeadSizeIsNamed) {
    expect_contains(refusal_with("llama.attention.key_length", 15U), "llama.attention.key_length");
}

TEST(ModelRefusals, ADimThatHeadsDoNotDivideIsNamedWhenTheFileGivesNoHeadSize) {
    const std::string message = EditedModel("llama")
                                    .metadata([](GgufWriter& writer) {
                                        writer.remove("llama.attention.key_length");
                                        writer.set_u32("llama.attention.head_count", 5);
                                    })
                                    .refusal();
    expect_contains(message, "llama.embedding_length (48)");
}

TEST(ModelRefusals, ValuesOfAnotherLengthThanKeysAreNamed) {
    expect_contains(refusal_with("llama.attention.value_length", 8U), "llama.attention.value_length (8)");
}

TEST(ModelRefusals, ARopeBeyondTheHeadIsNamed) {
    expect_contains(refusal_with("llama.rope.dimension_count", 18U), "llama.rope.dimension_count is 18");
    expect_contains(refusal_with("llama.rope.dimension_count", 7U), "llama.rope.dimension_count is 7");
}

TEST(ModelRefusals, AnEpsilonOrRopeBaseThatIsNoSensibleNumberIsNamed) {
    const float infinity = std::numeric_limits<float>::infinity();
    const float not_a_number = std::numeric_limits<float>::quiet_NaN();
    for (const float value : {-1.0F, 2.0F, infinity, not_a_number}) {
        expect_contains(refusal_with("llama.attention.layer_norm_rms_epsilon", value),
                        "llama.attention.layer_norm_rms_epsilon");
    }
    for (const float value : {-1.0F, 0.0F, infinity, not_a_number}) {
        expect_contains(refusal_with("llama.rope.freq_base", value), "llama.rope.freq_base");
    }
}

TEST(ModelRefusals, HeadCountsThatDifferBetweenLayersAreNotSupported) {
    const std::array<std::int32_t, 2> counts{1, 3};
    const std::string message =
        EditedModel("llama")
            .metadata([&](GgufWriter& writer) { writer.set_integers("llama.attention.head_count_kv", counts); })
            .refusal();
    expect_contains(message, "llama.attention.head_count_kv differs between layers");
}

TEST(ModelRefusals, HeadCountsAsAnArrayOfEqualsAreRead) {
    const std::array<std::int32_t, 2> counts{1, 1};
    const Result<ModelInfo> info =
        EditedModel("llama")
            .metadata([&](GgufWriter& writer) { writer.set_integers("llama.attention.head_count_kv", counts); })
            .build();
    ASSERT_TRUE(info.ok()) << info.error().message;
    EXPECT_EQ(info->kv_heads, 1U);
}

TEST(ModelRefusals, ATokenListOfAnotherLengthThanTheEmbeddingNamesBoth) {
    const std::array<std::string_view, 3> tokens{"a", "b", "c"};
    const std::string message =
        EditedModel("llama")
            .metadata([&](GgufWriter& writer) { writer.set_strings("tokenizer.ggml.tokens", tokens); })
            .refusal();
    expect_contains(message, "tokenizer.ggml.tokens counts 3 tokens");
    expect_contains(message, "320 rows");
}

TEST(ModelRefusals, EveryMissingTensorIsNamed) {
    for (const std::string_view golden_name : kGoldenNames) {
        const Result<std::string> original = read_file(golden_path(golden_name, ".gguf"), 1 << 20);
        ASSERT_TRUE(original.ok());
        const Result<GgufFile> file = GgufFile::parse(std::as_bytes(std::span(original.value())), "original");
        ASSERT_TRUE(file.ok());
        for (const GgufTensor& tensor : file->tensors()) {
            // Those with a meaning when they are absent: tied embeddings, plain ropes, no biases.
            const bool optional = tensor.name == "output.weight" || tensor.name == "rope_freqs.weight" ||
                                  (tensor.name.ends_with(".bias") && golden_name == "llama_linear") ||
                                  tensor.name == "rope_factors_short.weight";
            if (optional) continue;
            std::string bytes = original.value();
            bytes[bytes.find(tensor.name)] = '_';  // under another name it is as good as missing
            const Result<GgufFile> edited = GgufFile::parse(std::as_bytes(std::span(bytes)), "edited");
            ASSERT_TRUE(edited.ok()) << edited.error().message;
            Arena arena;
            Graph graph(arena);
            const Result<ModelInfo> info = build_model(edited.value(), BuildRequest{}, graph);
            ASSERT_FALSE(info.ok()) << golden_name << " without " << tensor.name;
            expect_contains(info.error().message, tensor.name);
        }
    }
}

TEST(ModelRefusals, AnArrayOfMoreEntriesThanLayersThereCanBeIsNotRead) {
    const std::vector<std::int32_t> counts(1025, 3);
    const std::string message =
        EditedModel("llama")
            .metadata([&](GgufWriter& writer) { writer.set_integers("llama.attention.head_count_kv", counts); })
            .refusal();
    expect_contains(message, "llama.attention.head_count_kv has 1025 entries, at most 1024 layers are supported");
}

TEST(ModelRefusals, AMisshapenTensorIsNamed) {
    const Shape shape{{48, 81, 1, 1}};
    expect_contains(EditedModel("llama").replace("blk.1.ffn_up.weight", DType::F32, shape).refusal(),
                    "blk.1.ffn_up.weight");
    const Shape fused{{32, 63, 1, 1}};
    expect_contains(EditedModel("phi3").replace("blk.0.attn_qkv.weight", DType::F32, fused).refusal(),
                    "blk.0.attn_qkv.weight");
}

TEST(ModelRefusals, ANormThatIsNotF32IsNamedWithItsType) {
    const std::string message =
        EditedModel("llama").replace("blk.0.attn_norm.weight", DType::F16, Shape{{48, 1, 1, 1}}).refusal();
    expect_contains(message, "blk.0.attn_norm.weight is F16");
}

TEST(ModelRefusals, ATensorThatNoLayerUsesIsNamedInsteadOfIgnored) {
    for (const std::string_view name : {"blk.0.ffn_gate_exps.weight", "blk.1.attn_sinks.weight", "output.bias"}) {
        expect_contains(EditedModel("llama").replace(std::string(name), DType::F32, Shape{{48, 1, 1, 1}}).refusal(),
                        name);
    }
}

TEST(ModelRefusals, ATensorOutsideTheLayersIsTolerated) {
    for (const std::string_view name : {"blk.2.nextn.weight", "v.patch_embd.weight", "blk.0.attn_rot_embd.weight"}) {
        const Result<ModelInfo> info =
            EditedModel("llama").replace(std::string(name), DType::F32, Shape{{48, 1, 1, 1}}).build();
        EXPECT_TRUE(info.ok()) << info.error().message;
    }
}

TEST(ModelRefusals, SettingsThatWouldChangeTheComputationAreNamed) {
    expect_contains(refusal_with("llama.expert_count", 8U), "llama.expert_count");
    expect_contains(refusal_with("llama.final_logit_softcapping", 30.0F), "llama.final_logit_softcapping");
    expect_contains(refusal_with("llama.attention.clamp_kqv", 8.0F), "llama.attention.clamp_kqv");
    const Result<ModelInfo> info =
        EditedModel("llama").metadata([](GgufWriter& writer) { writer.set_u32("llama.expert_count", 0); }).build();
    EXPECT_TRUE(info.ok()) << info.error().message;
}

TEST(ModelRefusals, AnUnknownRopeScalingIsNamedWithTheKnownOnes) {
    const std::string message =
        EditedModel("llama")
            .metadata([](GgufWriter& writer) { writer.set_string("llama.rope.scaling.type", "spiral"); })
            .refusal();
    expect_contains(message, "llama.rope.scaling.type is 'spiral'");
    expect_contains(message, "yarn");
}

TEST(ModelRefusals, ARopeBaseThatMakesEndlessFrequenciesIsNamed) {
    expect_contains(refusal_with("llama.rope.freq_base", 1e-44F), "llama.rope.freq_base");
}

TEST(ModelRefusals, ARopeFactorOfZeroOrBelowIsNamed) {
    const std::string message =
        EditedModel("llama3").replace("rope_freqs.weight", DType::F32, Shape{{8, 1, 1, 1}}, -1.0F).refusal();
    expect_contains(message, "rope_freqs.weight");
}

TEST(ModelRefusals, AWindowPatternForAnotherNumberOfLayersIsNamed) {
    const std::array<std::int32_t, 3> flags{1, 1, 0};
    const std::string message = EditedModel("gemma3")
                                    .metadata([&](GgufWriter& writer) {
                                        writer.set_integers("gemma3.attention.sliding_window_pattern", flags);
                                    })
                                    .refusal();
    expect_contains(message, "gemma3.attention.sliding_window_pattern has 3 entries for 7 layers");
}

}  // namespace
}  // namespace hearth
