// What a grammar costs per token, on the vocabulary of the GGUF file named on the command line. "cold": nothing is kept
// from earlier answers; "warm": the answer before used the same grammar.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "gguf/gguf.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

namespace hearth {
namespace {

struct Vocabulary {
    MappedFile file;
    Tokenizer tokenizer;
    std::shared_ptr<const TokenTrie> trie;
};
std::unique_ptr<Vocabulary> g_vocabulary;  // set by main before any benchmark runs

constexpr const char* kSchema = R"({"type": "object", "properties": {
    "name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 40}, "maxItems": 10},
    "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"},
        "country": {"enum": ["DE", "FR", "US"]}}, "required": ["street", "city", "country"]},
    "born": {"type": "string", "format": "date"}, "score": {"type": "number"}, "active": {"type": "boolean"}},
    "required": ["name", "age", "tags", "address", "active"], "additionalProperties": false})";
constexpr const char* kAnswer =
    "{\"name\": \"Ada Lovelace\", \"age\": 36, \"tags\": [\"mathematics\", \"poetry of the engine\", "
    "\"caf\xc3\xa9\"],\n"
    "  \"address\": {\"street\": \"12 St. James's Square\", \"city\": \"London\", \"country\": \"FR\"},\n"
    "  \"born\": \"1815-12-10\", \"score\": 99.5, \"active\": true}";

std::shared_ptr<const Grammar> schema_grammar() {
    return Grammar::from_json_schema(Json::parse(kSchema).value()).value();
}
std::shared_ptr<const Grammar> object_grammar() {
    return Grammar::json_object();
}

std::vector<TokenId> answer_tokens() {
    return g_vocabulary->tokenizer.encode(kAnswer, AddSpecial::No, ParseSpecial::No);
}

TokenGrammar::State state_after(TokenGrammar& tokens, std::string_view text) {
    TokenGrammar::State state = TokenGrammar::kStart;
    for (const TokenId token : g_vocabulary->tokenizer.encode(text, AddSpecial::No, ParseSpecial::No)) {
        state = tokens.advance(state, token).value();
    }
    return state;
}

void make_trie(benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(make_token_trie(g_vocabulary->tokenizer));
}
BENCHMARK(make_trie)->Unit(benchmark::kMillisecond);

void compile_schema(benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(schema_grammar());
}
BENCHMARK(compile_schema)->Unit(benchmark::kMicrosecond);

using MakeGrammar = std::shared_ptr<const Grammar> (*)();

void first_mask(benchmark::State& state, MakeGrammar make, const char* after) {
    for (auto _ : state) {
        state.PauseTiming();
        TokenGrammar tokens(make(), g_vocabulary->trie);
        const TokenGrammar::State at = state_after(tokens, after);
        state.ResumeTiming();
        benchmark::DoNotOptimize(tokens.mask(at).value());
    }
}
BENCHMARK_CAPTURE(first_mask, start, object_grammar, "")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(first_mask, in_string, object_grammar, "{\"name\": \"Ad")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(first_mask, before_value, object_grammar, "{\"name\":")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(first_mask, in_number, object_grammar, "{\"name\": 12")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(first_mask, in_bounded_string, schema_grammar, "{\"name\": \"x\", \"age\": 36, \"tags\": [\"ab")
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(first_mask, before_key, schema_grammar, "{\"name\": \"x\", ")->Unit(benchmark::kMicrosecond);

void cached_mask(benchmark::State& state) {
    TokenGrammar tokens(object_grammar(), g_vocabulary->trie);
    const TokenGrammar::State at = state_after(tokens, "{\"name\": \"Ad");
    for (auto _ : state) benchmark::DoNotOptimize(tokens.mask(at).value());
}
BENCHMARK(cached_mask)->Unit(benchmark::kNanosecond);

void decode(TokenGrammar& tokens, const std::vector<TokenId>& answer) {
    TokenGrammar::State at = TokenGrammar::kStart;
    for (const TokenId token : answer) {
        benchmark::DoNotOptimize(tokens.mask(at).value());
        at = tokens.advance(at, token).value();
    }
    benchmark::DoNotOptimize(tokens.mask(at).value());
}

enum class Before { Nothing, Answer };

// The counter is the time for one token of the answer.
void answer(benchmark::State& state, MakeGrammar make, Before before) {
    const std::vector<TokenId> tokens = answer_tokens();
    const std::shared_ptr<const Grammar> kept = make();
    if (before == Before::Answer) {
        TokenGrammar warm(kept, g_vocabulary->trie);
        decode(warm, tokens);
    }
    for (auto _ : state) {
        state.PauseTiming();
        const std::shared_ptr<const Grammar> grammar = before == Before::Answer ? kept : make();
        state.ResumeTiming();
        TokenGrammar words(grammar, g_vocabulary->trie);
        decode(words, tokens);
    }
    state.counters["per_token"] =
        benchmark::Counter(static_cast<double>(state.iterations() * static_cast<std::int64_t>(tokens.size())),
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(answer, schema_cold, schema_grammar, Before::Nothing)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(answer, schema_warm, schema_grammar, Before::Answer)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(answer, object_cold, object_grammar, Before::Nothing)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(answer, object_warm, object_grammar, Before::Answer)->Unit(benchmark::kMicrosecond);

Result<std::unique_ptr<Vocabulary>> load_vocabulary(const std::string& path) {
    MappedFile file = TRY(MappedFile::open(path));
    const GgufFile gguf = TRY(GgufFile::parse(file.bytes(), path));
    Tokenizer tokenizer = TRY(Tokenizer::load(gguf));
    std::shared_ptr<const TokenTrie> trie = make_token_trie(tokenizer);
    return std::make_unique<Vocabulary>(Vocabulary{std::move(file), std::move(tokenizer), std::move(trie)});
}

}  // namespace
}  // namespace hearth

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (argc != 2) {
        std::fprintf(stderr, "usage: bench_text VOCABULARY.gguf [--benchmark_...]\n");
        return 2;
    }
    hearth::Result<std::unique_ptr<hearth::Vocabulary>> loaded = hearth::load_vocabulary(argv[1]);
    if (!loaded.ok()) {
        std::fprintf(stderr, "%s\n", loaded.error().message.c_str());
        return 1;
    }
    hearth::g_vocabulary = std::move(loaded).value();
    std::printf("%zu tokens\n", hearth::g_vocabulary->tokenizer.vocabulary_size());
    benchmark::RunSpecifiedBenchmarks();
    hearth::g_vocabulary.reset();
    return 0;
}
