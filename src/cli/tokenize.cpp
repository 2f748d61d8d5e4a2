// hearth tokenize: text to token ids and back.
#include <algorithm>

#include "base/json.h"
#include "cli/catalogue.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "text/tokenizer.h"

namespace hearth {

namespace {

constexpr Positional kPositionals[] = {
    {.name = "MODEL", .kind = ValueKind::Model, .help = "Whose tokenizer: a GGUF file or a pulled model."}};
constexpr Option kOptions[] = {
    {.name = "bos", .help = "Add the tokens the model wants around a text (BOS, EOS)."},
    {.name = "special", .help = "Read control tokens such as <|im_end|> in the text as the tokens, not as letters."},
    {.name = "detokenize",
     .help = "The other way: ids on standard input (separated by spaces, commas or lines) to text."},
};
constexpr Example kExamples[] = {
    {"echo -n 'Hello world' | hearth tokenize smollm2-135m", "A table of ids and their texts."},
    {"hearth tokenize model.gguf --json --bos < file.txt",
     "An array of ids. The text is taken as it is, last newline included."},
    {"echo '[19556, 905]' | hearth tokenize smollm2-135m --detokenize", "The text of two tokens."}};

Result<std::vector<TokenId>> parse_ids(std::string_view text, const Tokenizer& tokenizer) {
    std::vector<TokenId> ids;
    constexpr std::string_view kBetween = " \t\r\n,[]";
    for (;;) {
        text.remove_prefix(std::min(text.find_first_not_of(kBetween), text.size()));
        if (text.empty()) return ids;
        const std::size_t end = std::min(text.find_first_of(kBetween), text.size());
        const std::uint64_t highest = tokenizer.vocabulary_size() - 1;
        ids.push_back(static_cast<TokenId>(TRY(parse_whole("tokenize: token id", text.substr(0, end), 0, highest))));
        text.remove_prefix(end);
    }
}

std::string table_of(const std::vector<TokenId>& tokens, const Tokenizer& tokenizer) {
    std::string out;
    for (const TokenId token : tokens) {
        std::string number = std::to_string(token);
        number.insert(0, number.size() < 7 ? 7 - number.size() : 0, ' ');
        const bool shown_as_stored = tokenizer.kind(token) == TokenKind::Control || tokenizer.bytes(token).empty();
        out += number + "  " + json_quote(shown_as_stored ? tokenizer.text(token) : tokenizer.bytes(token));
        out += tokenizer.kind(token) == TokenKind::Control ? "  control\n" : "\n";
    }
    return out;
}

Status run_tokenize(const Arguments& arguments, Session& session) {
    const Catalogue catalogue = TRY(Catalogue::load(session.environment));
    const GgufFile file =
        TRY(GgufFile::open(TRY(resolve_model(session.environment, catalogue, *arguments.positional(0)))));
    const Tokenizer tokenizer = TRY(Tokenizer::load(file));
    const std::string text = TRY(read_standard_input());
    Console& console = session.console;
    if (arguments.flag("detokenize")) {
        const std::string decoded = tokenizer.decode(TRY(parse_ids(text, tokenizer)), arguments.flag("special"));
        console.print(arguments.flag("json") ? json_quote(decoded) + "\n" : decoded);
        return {};
    }
    const std::vector<TokenId> tokens =
        tokenizer.encode(text, arguments.flag("bos") ? AddSpecial::Yes : AddSpecial::No,
                         arguments.flag("special") ? ParseSpecial::Yes : ParseSpecial::No);
    if (!arguments.flag("json")) {
        console.print(table_of(tokens, tokenizer));
        console.note(console.for_error(Style::Dim, std::to_string(tokens.size()) + " tokens"));
        return {};
    }
    std::string json = "[";
    for (std::size_t i = 0; i < tokens.size(); ++i) json += (i > 0 ? ", " : "") + std::to_string(tokens[i]);
    console.print(json + "]\n");
    return {};
}

}  // namespace

const Command kTokenizeCommand = {
    "tokenize",
    "Turn text into token ids, or ids into text",
    "Reads a text on standard input and prints its tokens as the model sees them: a table, or with --json an array of "
    "ids. The text is taken exactly as it comes.",
    kPositionals,
    kOptions,
    kExamples,
    run_tokenize};

}  // namespace hearth
