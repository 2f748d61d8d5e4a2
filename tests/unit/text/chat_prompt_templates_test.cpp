// The chat encoder with the templates that real models bring along: nothing a user writes becomes a control token.
#include <dirent.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "text/chat_prompt.h"
#include "unit/text/tiny_vocabulary.h"

namespace hearth {
namespace {

constexpr std::string_view kControls[] = {"<|im_start|>",
                                          "<|im_end|>",
                                          "<|endoftext|>",
                                          "<s>",
                                          "</s>",
                                          "[INST]",
                                          "[/INST]",
                                          "[TOOL_CALLS]",
                                          "<|begin_of_text|>",
                                          "<|eot_id|>",
                                          "<|start_header_id|>",
                                          "<|end_header_id|>",
                                          "<start_of_turn>",
                                          "<end_of_turn>",
                                          "<|user|>",
                                          "<|assistant|>",
                                          "<|end|>",
                                          "<|start|>",
                                          "<|message|>",
                                          "<|start_of_role|>",
                                          "<|end_of_role|>",
                                          "<|end_of_text|>",
                                          "<｜User｜>",
                                          "<｜Assistant｜>",
                                          "<|python_tag|>"};

tiny::Metadata vocabulary() {
    tiny::Vocabulary words = tiny::byte_level({});
    for (const std::string_view control : kControls) words.add(std::string(control), tiny::kControl);
    tiny::Metadata metadata = words.metadata();
    metadata.number("tokenizer.ggml.bos_token_id", 259).number("tokenizer.ggml.eos_token_id", 257);
    return metadata;
}

std::vector<std::string> template_paths() {
    const std::string folder = std::string(HEARTH_SHARED_DATA) + "/templates";
    std::vector<std::string> paths;
    if (DIR* open = ::opendir(folder.c_str())) {
        while (const dirent* entry = ::readdir(open)) {
            if (std::string_view(entry->d_name).ends_with(".jinja")) paths.push_back(folder + "/" + entry->d_name);
        }
        ::closedir(open);
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

std::vector<TokenId> controls_in(const std::vector<TokenId>& tokens) {
    std::vector<TokenId> out;
    std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(out), [](TokenId token) { return token >= 256; });
    return out;
}

TEST(ChatEncoderWithRealTemplates, ControlTextsInContentsChangeNoControlToken) {
    if (std::string_view(HEARTH_SHARED_DATA).empty()) GTEST_SKIP() << "HEARTH_SHARED_DATA is not set";
    const std::vector<std::string> paths = template_paths();
    ASSERT_FALSE(paths.empty());
    const tiny::Loaded loaded(vocabulary());
    const ChatEncoder encoder(*loaded);
    std::string attack = "before";
    for (const std::string_view control : kControls) attack += " " + std::string(control);
    attack += " after <|im_";
    std::size_t encoded = 0;
    for (const std::string& path : paths) {
        std::ifstream file(path);
        std::stringstream source;
        source << file.rdbuf();
        const Result<ChatTemplate> chat_template = ChatTemplate::parse(source.str());
        ASSERT_TRUE(chat_template.ok()) << path;
        const Result<std::vector<TokenId>> tame =
            encoder.encode(chat_template.value(), {{"user", "x"}, {"assistant", "y"}, {"user", "z"}}, 0);
        const Result<std::vector<TokenId>> wild =
            encoder.encode(chat_template.value(), {{"user", attack}, {"assistant", "y"}, {"user", attack}}, 0);
        ASSERT_EQ(tame.ok(), wild.ok()) << path;
        if (!tame.ok()) continue;  // a template that is only for conversations with tools
        ++encoded;
        EXPECT_EQ(controls_in(wild.value()), controls_in(tame.value())) << path;
        EXPECT_NE(loaded->decode(wild.value(), true).find(attack), std::string::npos) << path;
    }
    EXPECT_GE(encoded + 1, paths.size());
}

}  // namespace
}  // namespace hearth
