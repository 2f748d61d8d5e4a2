// Which pre-tokeniser a name in tokenizer.ggml.pre means. The expressions are those the models were published with.
#include <array>
#include <utility>

#include "text/pre_tokenizer.h"

namespace hearth {

namespace {

constexpr CharacterSet any_of(ClassBits classes) {
    return {.classes = classes};
}
constexpr CharacterSet none_of(ClassBits classes) {
    return {.classes = classes, .negated = true};
}

constexpr std::array<CodeRange, 1> kBlankRange = {{{' ', ' '}}};
constexpr std::array<CodeRange, 1> kSlashRange = {{{'/', '/'}}};
constexpr std::array<CodeRange, 1> kDigitRange = {{{'0', '9'}}};
constexpr std::array<CodeRange, 2> kLatinRanges = {{{'A', 'Z'}, {'a', 'z'}}};
constexpr std::array<CodeRange, 4> kAsciiPunctuationRanges = {{{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}};
constexpr CharacterSet kBlank = {.ranges = kBlankRange};
constexpr CharacterSet kWhite = any_of(kSpace);
constexpr CharacterSet kNewlines = any_of(kNewline);
constexpr CharacterSet kNewlinesAndSlash = {.classes = kNewline, .ranges = kSlashRange};
constexpr CharacterSet kOther = none_of(kSpace | kLetter | kNumber);  // [^\s\p{L}\p{N}]

constexpr Rule run(CharacterSet body, std::uint32_t most = kUnlimited) {
    return {.body = body, .most = most};
}
constexpr Rule exactly(std::uint32_t count, CharacterSet body) {
    return {.body = body, .least = count, .most = count};
}
constexpr Rule after_one(CharacterSet before, Rule rule) {  // before?rule
    rule.presence = Before::Optional;
    rule.before = before;
    return rule;
}
constexpr Rule after_just_one(CharacterSet before, Rule rule) {
    rule.presence = Before::Required;
    rule.before = before;
    return rule;
}
constexpr Rule then_any(Rule rule, CharacterSet after) {  // rule after*
    rule.after = after;
    return rule;
}
constexpr Rule of_kind(RuleKind kind) {
    return {.kind = kind};
}

// One character that is no line break, letter or number may lead a word.
constexpr CharacterSet kLead = none_of(kNewline | kLetter | kNumber);

constexpr Rule kContraction = of_kind(RuleKind::Contraction);
constexpr Rule kContractionAnyCase = of_kind(RuleKind::ContractionAnyCase);
constexpr Rule kLineBreaks = of_kind(RuleKind::LineBreaks);
constexpr Rule kSpaceBeforeText = of_kind(RuleKind::SpaceBeforeText);
constexpr Rule kSpaces = run(kWhite);
constexpr Rule kWord = after_one(kLead, run(any_of(kLetter)));
constexpr Rule kOthersAndLineBreaks = then_any(after_one(kBlank, run(kOther)), kNewlines);
constexpr Rule kOthersLineBreaksAndSlashes = then_any(after_one(kBlank, run(kOther)), kNewlinesAndSlash);

// gpt-2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
constexpr std::array kGpt2Rules = {
    kContraction,
    after_one(kBlank, run(any_of(kLetter))),
    after_one(kBlank, run(any_of(kNumber))),
    after_one(kBlank, run(kOther)),
    kSpaceBeforeText,
    kSpaces,
};

// llama 3, with `digits` numbers together:
// (?i:'s|...)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
constexpr std::array<Rule, 7> llama3_rules(std::uint32_t digits) {
    return {kContractionAnyCase, kWord,  run(any_of(kNumber), digits), kOthersAndLineBreaks, kLineBreaks,
            kSpaceBeforeText,    kSpaces};
}
constexpr std::array kLlama3Rules = llama3_rules(3);
constexpr std::array kQwen2Rules = llama3_rules(1);
constexpr std::array kMiniCpm5Rules = llama3_rules(kUnlimited);

// qwen 3.5: marks belong to letters.
constexpr std::array kQwen35Rules = {
    kContractionAnyCase,
    after_one(kLead, run(any_of(kLetter | kMark))),
    run(any_of(kNumber), 1),
    then_any(after_one(kBlank, run(none_of(kSpace | kLetter | kMark | kNumber))), kNewlines),
    kLineBreaks,
    kSpaceBeforeText,
    kSpaces,
};

// seed-coder: ... ?[^\s\p{L}\p{N}\r\n]+ without line breaks after it.
constexpr std::array kSeedCoderRules = {
    kContractionAnyCase, kWord,   run(any_of(kNumber), 1), after_one(kBlank, run(kOther)), kLineBreaks,
    kSpaceBeforeText,    kSpaces,
};

// jais-2: white space in blocks of powers of two.
constexpr Rule space_block(std::uint32_t least, std::uint32_t most) {
    return {.kind = RuleKind::SpaceBlock, .least = least, .most = most};
}
constexpr std::array kJais2Rules = {
    kContractionAnyCase,
    kWord,
    run(any_of(kNumber), 3),
    kOthersAndLineBreaks,
    kLineBreaks,
    space_block(512, 512),
    space_block(256, 256),
    space_block(128, 128),
    space_block(64, 64),
    space_block(32, 32),
    space_block(16, 16),
    space_block(8, 8),
    space_block(4, 4),
    space_block(1, 2),
    run(kWhite, 1),
};

// gpt-4o and tekken: words end where a capital follows a small letter.
constexpr Rule cased_word(bool with_contraction) {
    return {.kind = RuleKind::CasedWord,
            .presence = Before::Optional,
            .before = kLead,
            .with_contraction = with_contraction};
}
constexpr std::array<Rule, 6> cased_rules(bool with_contraction, std::uint32_t digits) {
    return {cased_word(with_contraction),
            run(any_of(kNumber), digits),
            kOthersLineBreaksAndSlashes,
            kLineBreaks,
            kSpaceBeforeText,
            kSpaces};
}
constexpr std::array kGpt4oRules = cased_rules(true, 3);
constexpr std::array kTekkenRules = cased_rules(false, 1);
constexpr std::array kYoutuWordRules = cased_rules(true, 1);

// youtu: scripts of East Asia and their punctuation first.
constexpr std::array<CodeRange, 2> kHangulRanges = {{{0xac00, 0xd7a3}, {0x3131, 0x318e}}};
constexpr std::array<CodeRange, 9> kEastPunctuationRanges = {{{0xff01, 0xff01},
                                                              {0x2026, 0x2026},
                                                              {0x201c, 0x201d},
                                                              {0x2018, 0x2019},
                                                              {0x2014, 0x2014},
                                                              {0xff1a, 0xff1b},
                                                              {0xff0c, 0xff0c},
                                                              {0x3001, 0x303f},
                                                              {0xfe30, 0xfe4f}}};
constexpr std::array<CodeRange, 1> kBopomofoRange = {{{0x3105, 0x312f}}};
constexpr std::array<CodeRange, 2> kHanAndKanaRanges = {{{0x4e00, 0x9fa5}, {0x3040, 0x30ff}}};
constexpr std::array kYoutuScriptRules = {
    run({.ranges = kHangulRanges}),
    run({.ranges = kEastPunctuationRanges}),
    run({.ranges = kBopomofoRange}),
    run({.ranges = kHanAndKanaRanges}),
};

// deepseek-v3: \p{N}{1,3}, then Han and Kana, then
// [ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
constexpr std::array kThreeNumbersRules = {run(any_of(kNumber), 3)};
constexpr std::array kHanAndKanaRules = {run({.ranges = kHanAndKanaRanges})};
constexpr std::array kDeepseek3Rules = {
    after_just_one({.ranges = kAsciiPunctuationRanges}, run({.ranges = kLatinRanges})),
    after_one(none_of(kNewline | kLetter | kPunctuation | kSymbol), run(any_of(kLetter | kMark))),
    then_any(after_one(kBlank, run(any_of(kPunctuation | kSymbol))), kNewlines),
    kLineBreaks,
    kSpaceBeforeText,
    kSpaces,
};

// deepseek-llm: [\r\n], \s?[letters with case]+, \s?[punctuation]+, \s+$, [Han, Hangul and more]+, \p{N}+
constexpr std::array<CodeRange, 84> kCasedScriptRanges = {{
    {0x41, 0x5a},       {0x61, 0x7a},       {0xb5, 0xb5},       {0xc0, 0xd6},       {0xd8, 0xf6},
    {0xf8, 0x1ba},      {0x1bc, 0x1bf},     {0x1c4, 0x293},     {0x295, 0x2af},     {0x370, 0x373},
    {0x376, 0x377},     {0x37b, 0x37d},     {0x37f, 0x37f},     {0x386, 0x386},     {0x388, 0x38a},
    {0x38c, 0x38c},     {0x38e, 0x3a1},     {0x3a3, 0x3f5},     {0x3f7, 0x481},     {0x48a, 0x52f},
    {0x531, 0x556},     {0x10a0, 0x10c5},   {0x13a0, 0x13f5},   {0x13f8, 0x13fd},   {0x1c90, 0x1cba},
    {0x1cbd, 0x1cbf},   {0x1d00, 0x1d2b},   {0x1d6b, 0x1d77},   {0x1d79, 0x1d9a},   {0x1e00, 0x1f15},
    {0x1f18, 0x1f1d},   {0x1f20, 0x1f45},   {0x1f48, 0x1f4d},   {0x1f50, 0x1f57},   {0x1f59, 0x1f59},
    {0x1f5b, 0x1f5b},   {0x1f5d, 0x1f5d},   {0x1f5f, 0x1f7d},   {0x1f80, 0x1fb4},   {0x1fb6, 0x1fbc},
    {0x1fbe, 0x1fbe},   {0x1fc2, 0x1fc4},   {0x1fc6, 0x1fcc},   {0x1fd0, 0x1fd3},   {0x1fd6, 0x1fdb},
    {0x1fe0, 0x1fec},   {0x1ff2, 0x1ff4},   {0x1ff6, 0x1ffc},   {0x2102, 0x2102},   {0x2107, 0x2107},
    {0x210a, 0x2113},   {0x2115, 0x2115},   {0x2119, 0x211d},   {0x2124, 0x2124},   {0x2126, 0x2126},
    {0x2128, 0x2128},   {0x212a, 0x212d},   {0x212f, 0x2134},   {0x2139, 0x2139},   {0x213c, 0x213f},
    {0x2145, 0x2149},   {0x214e, 0x214e},   {0x2183, 0x2184},   {0x2c00, 0x2c7b},   {0x2c7e, 0x2ce4},
    {0x2ceb, 0x2cee},   {0x2cf2, 0x2cf3},   {0xa640, 0xa66d},   {0xa680, 0xa69b},   {0xa722, 0xa76f},
    {0xa771, 0xa787},   {0xa78b, 0xa78e},   {0xab70, 0xabbf},   {0xfb00, 0xfb06},   {0xfb13, 0xfb17},
    {0xff21, 0xff3a},   {0xff41, 0xff5a},   {0x10400, 0x1044f}, {0x104b0, 0x104d3}, {0x104d8, 0x104fb},
    {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943},
}};
constexpr std::array<CodeRange, 6> kDeepseekPunctuationRanges = {
    {{'!', '/'}, {':', '~'}, {0xff01, 0xff0f}, {0xff1a, 0xff5e}, {0x2018, 0x201f}, {0x3000, 0x3002}}};
constexpr std::array<CodeRange, 2> kDeepseekEastRanges = {{{0x800, 0x9fa5}, {0xac00, 0xd7ff}}};
constexpr std::array kOneLineBreakRules = {run(kNewlines, 1)};
constexpr std::array kCasedScriptRules = {after_one(kWhite, run({.ranges = kCasedScriptRanges}))};
constexpr std::array kDeepseekPunctuationRules = {after_one(kWhite, run({.ranges = kDeepseekPunctuationRanges}))};
constexpr std::array kSpaceAtEndRules = {of_kind(RuleKind::SpaceAtEnd)};
constexpr std::array kDeepseekEastRules = {run({.ranges = kDeepseekEastRanges})};
constexpr std::array kNumbersRules = {run(any_of(kNumber))};

// deepseek-coder: [\r\n], \s?\p{L}+, \s?\p{P}+, [Han, Hangul and more]+, \p{N}
constexpr std::array kSpacedLettersRules = {after_one(kWhite, run(any_of(kLetter)))};
constexpr std::array kSpacedPunctuationRules = {after_one(kWhite, run(any_of(kPunctuation)))};
constexpr std::array kOneNumberRules = {run(any_of(kNumber), 1)};

// falcon and the default: [\p{P}$+<=>^~|]+ (falcon: and `), gpt-2, [0-9][0-9][0-9]
constexpr std::array<CodeRange, 6> kDefaultSymbolRanges = {
    {{'$', '$'}, {'+', '+'}, {'<', '>'}, {'^', '^'}, {'|', '|'}, {'~', '~'}}};
constexpr std::array<CodeRange, 7> kFalconSymbolRanges = {
    {{'$', '$'}, {'+', '+'}, {'<', '>'}, {'^', '^'}, {'`', '`'}, {'|', '|'}, {'~', '~'}}};
constexpr std::array kDefaultPunctuationRules = {run({.classes = kPunctuation, .ranges = kDefaultSymbolRanges})};
constexpr std::array kFalconPunctuationRules = {run({.classes = kPunctuation, .ranges = kFalconSymbolRanges})};
constexpr std::array kThreeDigitsRules = {exactly(3, {.ranges = kDigitRange})};

// bloom: ?[^(\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+
constexpr std::array<CodeRange, 12> kBloomEndRanges = {{{'(', ')'},
                                                        {'|', '|'},
                                                        {',', ','},
                                                        {'.', '.'},
                                                        {'!', '!'},
                                                        {'?', '?'},
                                                        {0x2026, 0x2026},
                                                        {0x3001, 0x3002},
                                                        {0xff0c, 0xff0c},
                                                        {0x964, 0x964},
                                                        {0x6d4, 0x6d4},
                                                        {0x60c, 0x60c}}};
constexpr std::array kBloomRules = {
    after_one(kBlank, run({.classes = kSpace, .ranges = kBloomEndRanges, .negated = true}))};

// laguna: lines apart from line breaks, before anything else.
constexpr std::array<CodeRange, 1> kLineFeedRange = {{{'\n', '\n'}}};
constexpr std::array kLinesRules = {
    run({.ranges = kLineFeedRange, .negated = true}),
    run({.ranges = kLineFeedRange}),
};

constexpr std::array<Stage, 1> kGpt2Stages = {kGpt2Rules};
constexpr std::array<Stage, 2> kStarcoderStages = {kOneNumberRules, kGpt2Rules};
constexpr std::array<Stage, 4> kDefaultStages = {kDefaultPunctuationRules, kGpt2Rules, kNumbersRules,
                                                 kThreeDigitsRules};
constexpr std::array<Stage, 3> kFalconStages = {kFalconPunctuationRules, kGpt2Rules, kThreeDigitsRules};
constexpr std::array<Stage, 1> kLlama3Stages = {kLlama3Rules};
constexpr std::array<Stage, 1> kQwen2Stages = {kQwen2Rules};
constexpr std::array<Stage, 1> kQwen35Stages = {kQwen35Rules};
constexpr std::array<Stage, 2> kMiniCpm5Stages = {kThreeNumbersRules, kMiniCpm5Rules};
constexpr std::array<Stage, 1> kSeedCoderStages = {kSeedCoderRules};
constexpr std::array<Stage, 1> kJais2Stages = {kJais2Rules};
constexpr std::array<Stage, 1> kGpt4oStages = {kGpt4oRules};
constexpr std::array<Stage, 1> kTekkenStages = {kTekkenRules};
constexpr std::array<Stage, 2> kYoutuStages = {kYoutuScriptRules, kYoutuWordRules};
constexpr std::array<Stage, 3> kDeepseek3Stages = {kThreeNumbersRules, kHanAndKanaRules, kDeepseek3Rules};
constexpr std::array<Stage, 6> kDeepseekLlmStages = {kOneLineBreakRules, kCasedScriptRules,  kDeepseekPunctuationRules,
                                                     kSpaceAtEndRules,   kDeepseekEastRules, kNumbersRules};
constexpr std::array<Stage, 5> kDeepseekCoderStages = {kOneLineBreakRules, kSpacedLettersRules, kSpacedPunctuationRules,
                                                       kDeepseekEastRules, kOneNumberRules};
constexpr std::array<Stage, 1> kBloomStages = {kBloomRules};
constexpr std::array<Stage, 2> kVikingStages = {kBloomRules, kOneNumberRules};
constexpr std::array<Stage, 2> kLagunaStages = {kLinesRules, kQwen2Rules};

constexpr PreTokenizer kDefault = {kDefaultStages};
constexpr PreTokenizer kGpt2 = {kGpt2Stages};
constexpr PreTokenizer kStarcoder = {kStarcoderStages};
constexpr PreTokenizer kFalcon = {kFalconStages};
constexpr PreTokenizer kLlama3 = {.stages = kLlama3Stages, .ignore_merges = true, .adds_bos = true};
constexpr PreTokenizer kLlama3ByMerges = {kLlama3Stages};
constexpr PreTokenizer kQwen2 = {kQwen2Stages};
constexpr PreTokenizer kQwen35 = {kQwen35Stages};
constexpr PreTokenizer kMiniCpm5 = {.stages = kMiniCpm5Stages, .ignore_merges = true};
constexpr PreTokenizer kSeedCoder = {kSeedCoderStages};
constexpr PreTokenizer kJais2 = {kJais2Stages};
constexpr PreTokenizer kGpt4o = {kGpt4oStages};
constexpr PreTokenizer kGraniteEmbedding = {.stages = kGpt4oStages, .ignore_merges = true};
constexpr PreTokenizer kTekken = {.stages = kTekkenStages, .ignore_merges = true, .adds_bos = true};
constexpr PreTokenizer kYoutu = {.stages = kYoutuStages, .ignore_merges = true};
constexpr PreTokenizer kDeepseek3 = {kDeepseek3Stages};
constexpr PreTokenizer kDeepseekLlm = {kDeepseekLlmStages};
constexpr PreTokenizer kDeepseekCoder = {kDeepseekCoderStages};
constexpr PreTokenizer kBloom = {kBloomStages};
constexpr PreTokenizer kViking = {kVikingStages};
constexpr PreTokenizer kLaguna = {kLagunaStages};

struct NamedPreTokenizer {
    std::string_view name;
    const PreTokenizer* pre_tokenizer;
};

constexpr NamedPreTokenizer kPreTokenizers[] = {
    {"default", &kDefault},
    {"gpt-2", &kGpt2},
    {"phi-2", &kGpt2},
    {"mpt", &kGpt2},
    {"olmo", &kGpt2},
    {"jais", &kGpt2},
    {"trillion", &kGpt2},
    {"granite-docling", &kGpt2},
    {"exaone4", &kGpt2},
    {"jina-es", &kGpt2},
    {"jina-de", &kGpt2},
    {"gigachat", &kGpt2},
    {"jina-v2-es", &kGpt2},
    {"jina-v2-de", &kGpt2},
    {"a.x-4.0", &kGpt2},
    {"mellum", &kGpt2},
    {"modern-bert", &kGpt2},
    {"jina-v1-en", &kGpt2},
    {"jina-v2-code", &kGpt2},
    {"roberta-bpe", &kGpt2},
    {"starcoder", &kStarcoder},
    {"refact", &kStarcoder},
    {"command-r", &kStarcoder},
    {"smollm", &kStarcoder},
    {"codeshell", &kStarcoder},
    {"exaone", &kStarcoder},
    {"minerva-7b", &kStarcoder},
    {"mellum2", &kStarcoder},
    {"falcon", &kFalcon},
    {"llama-bpe", &kLlama3},
    {"llama3", &kLlama3},
    {"llama-v3", &kLlama3},
    {"falcon3", &kLlama3},
    {"falcon-h1", &kLlama3},
    {"pixtral", &kLlama3},
    {"midm-2.0", &kLlama3},
    {"lfm2", &kLlama3},
    {"jina-v5-nano", &kLlama3},
    {"dbrx", &kLlama3ByMerges},
    {"smaug-bpe", &kLlama3ByMerges},
    {"glm4", &kLlama3ByMerges},
    {"chatglm-bpe", &kLlama3ByMerges},
    {"qwen2", &kQwen2},
    {"deepseek-r1-qwen", &kQwen2},
    {"kormo", &kQwen2},
    {"f2llmv2", &kQwen2},
    {"megrez", &kQwen2},
    {"stablelm2", &kQwen2},
    {"hunyuan", &kQwen2},
    {"solar-open", &kQwen2},
    {"bailingmoe", &kQwen2},
    {"bailingmoe2", &kQwen2},
    {"llada-moe", &kQwen2},
    {"grok-2", &kQwen2},
    {"qwen35", &kQwen35},
    {"minicpm5", &kMiniCpm5},
    {"seed-coder", &kSeedCoder},
    {"jais-2", &kJais2},
    {"gpt-4o", &kGpt4o},
    {"llama4", &kGpt4o},
    {"kanana2", &kGpt4o},
    {"talkie", &kGpt4o},
    {"minimax-m2", &kGpt4o},
    {"granite-embed-multi-97m", &kGraniteEmbedding},
    {"tekken", &kTekken},
    {"youtu", &kYoutu},
    {"deepseek-v3", &kDeepseek3},
    {"hunyuan-dense", &kDeepseek3},
    {"joyai-llm", &kDeepseek3},
    {"deepseek-llm", &kDeepseekLlm},
    {"deepseek-coder", &kDeepseekCoder},
    {"bloom", &kBloom},
    {"poro-chat", &kBloom},
    {"gpt3-finnish", &kBloom},
    {"viking", &kViking},
    {"laguna", &kLaguna},
};

}  // namespace

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
    for (const NamedPreTokenizer& entry : kPreTokenizers) {
        if (entry.name == name) return entry.pre_tokenizer;
    }
    return nullptr;
}

}  // namespace hearth
