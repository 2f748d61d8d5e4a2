// Any bytes through each family: what comes back must be the text, by whole and token by token. The first byte selects
// the family and whether control tokens are read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "../unit/text/tiny_vocabulary.h"
#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using namespace hearth;

void require(bool condition) {
    if (!condition) std::abort();
}

tiny::Metadata byte_level(const char* pre) {
    tiny::Vocabulary vocabulary = tiny::byte_level(
        {{" ", " "}, {"a", "a"}, {"aa", "aa"}, {"1", "1"}, {"\xc3", "\xa9"}, {"'", "s"}, {"\n", "\n"}, {"  ", "  "}});
    vocabulary.pre = pre;
    vocabulary.add("<|im_end|>", tiny::kControl);
    vocabulary.add("<b>", tiny::kUserDefined);
    return vocabulary.metadata();
}

tiny::Metadata sentence_piece() {
    const std::string space(kVisibleSpace);
    tiny::Vocabulary vocabulary = tiny::sentence_piece(
        {space, "a", "b", space + space, space + "a", "aa", "aaaa", "b" + space, "b" + space + "a", "\xc3\xa9"});
    vocabulary.add("<b>", tiny::kUserDefined);
    return vocabulary.metadata();
}

tiny::Metadata word_piece() {
    const std::string space(kVisibleSpace);
    return tiny::word_piece_metadata({space + "a", space + "aa", "a", "b", space + "b", space + "!", space + "e"});
}

std::string with_spaces(std::string_view text) {
    std::string out(text);
    for (std::size_t at = out.find(kVisibleSpace); at != std::string::npos; at = out.find(kVisibleSpace, at)) {
        out.replace(at, kVisibleSpace.size(), " ");
    }
    return out;
}

void check_words(const char* pre, std::string_view text) {
    std::vector<std::size_t> ends;
    split_words(text, *find_pre_tokenizer(pre), ends);
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
        require(end > begin);
        begin = end;
    }
    require(begin == text.size());
}

void check_detokenizer(const Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
    DetokenizerState state;
    std::string out;
    for (const TokenId token : tokens) {
        detokenize(tokenizer, token, state, out);
        require(incomplete_utf8_tail(out) == 0);
    }
    flush(state, out);
    require(out == repair_utf8(tokenizer.decode(tokens)));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const char* const kPre[] = {"gpt-2",       "llama-bpe",    "qwen2",          "starcoder", "gpt-4o", "tekken",
                                       "deepseek-v3", "deepseek-llm", "deepseek-coder", "falcon",    "default"};
    static const std::vector<const tiny::Loaded*> kTokenizers = [] {
        std::vector<const tiny::Loaded*> out;
        for (const char* pre : kPre) out.push_back(new tiny::Loaded(byte_level(pre)));
        out.push_back(new tiny::Loaded(sentence_piece()));
        out.push_back(new tiny::Loaded(word_piece()));
        return out;
    }();
    if (size == 0) return 0;
    const std::size_t family = (data[0] & 0x7fu) % kTokenizers.size();
    const ParseSpecial parse = (data[0] & 0x80u) != 0 ? ParseSpecial::Yes : ParseSpecial::No;
    const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
    const Tokenizer& tokenizer = **kTokenizers[family];

    const std::vector<TokenId> tokens = tokenizer.encode(text, AddSpecial::No, parse);
    check_detokenizer(tokenizer, tokens);
    const std::string back = tokenizer.decode(tokens, /*with_control=*/true);
    if (family < std::size(kPre)) {
        check_words(kPre[family], text);
        require(back == text);
    } else if (family == std::size(kPre)) {
        // A space is put before every text between special tokens, so only texts without them come back exactly.
        if (text.find('<') == std::string::npos) require(back == with_spaces(text));
    } else {
        require(tokenizer.encode(back, AddSpecial::No, ParseSpecial::Yes) ==
                tokenizer.encode(tokenizer.decode(tokenizer.encode(back, AddSpecial::No, ParseSpecial::Yes), true),
                                 AddSpecial::No, ParseSpecial::Yes));
    }
    return 0;
}
