// Verification and speculation: the same answer for every number of threads, and no wrong token passes.
#include "vm/verify.h"

#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "vm/speculate.h"
#include "vm/wasm_compiler.h"
#include "vm_programs.h"

namespace hearth::vm {
namespace {

// One of the examples, compiled by tests/vm/toolchain.py.
Program module(const std::string& name) {
    const std::string path = std::string(HEARTH_SOURCE_DIR) + "/tests/vm/modules/" + name + ".wasm";
    const Result<std::string> bytes = read_file(path, 1 << 20);
    EXPECT_TRUE(bytes.ok()) << path;
    return compile_wasm(std::as_bytes(std::span(bytes.value()))).value();
}

template <typename Number>
std::optional<Mismatch> verify(ThreadPool& pool, std::span<const Token> prompt, std::span<const Token> trace,
                               std::size_t* assumed = nullptr) {
    TraceVerifier<Number> verifier(transformer(), pool);
    verifier.begin(prompt);
    const std::optional<Mismatch> mismatch = verifier.check(trace, {});
    if (assumed != nullptr) *assumed = verifier.blocks_assumed();
    return mismatch;
}

TEST(Verify, EveryPositionIsComparedAndTheFirstDifferenceReported) {
    const Program program = recursion(9);
    const std::vector<Token> prompt = whole_prompt(program, "");
    std::vector<Token> trace = native_trace(program);
    for (const std::size_t threads : {1u, 2u, 3u}) {
        ThreadPool pool(threads);
        TraceVerifier<std::int64_t> verifier(transformer(), pool);
        verifier.begin(prompt);
        EXPECT_FALSE(verifier.check(trace, {}));
        EXPECT_EQ(verifier.tokens().size(), prompt.size() + trace.size());
    }
    for (const std::size_t at : {std::size_t{0}, trace.size() / 2, trace.size() - 1}) {
        std::vector<Token> wrong = trace;
        wrong[at] = wrong[at] == token::kByte + 9 ? token::kByte + 8 : token::kByte + 9;
        ThreadPool pool(2);
        TraceVerifier<std::int64_t> verifier(transformer(), pool);
        verifier.begin(prompt);
        const std::optional<Mismatch> mismatch = verifier.check(wrong, {});
        ASSERT_TRUE(mismatch);
        EXPECT_EQ(mismatch->position, prompt.size() + at);
        EXPECT_EQ(mismatch->predicted, trace[at]);
        EXPECT_NE(describe(*mismatch, program, verifier.tokens()).find("function main"), std::string::npos);
    }
}

TEST(Verify, ATraceReadsBackFromItsNames) {
    const Program program = recursion(3);
    std::vector<Token> tokens = whole_prompt(program, "");
    const std::vector<Token> trace = native_trace(program);
    tokens.insert(tokens.end(), trace.begin(), trace.end());
    std::string text;
    for (const Token token : tokens) text += token_name(token) + "\n";
    const Result<std::vector<Token>> read = parse_trace(text);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read.value(), tokens);
    ASSERT_TRUE(split_trace(tokens).ok());
    EXPECT_EQ(split_trace(tokens)->generated.size(), trace.size());
    EXPECT_FALSE(parse_trace("{ nonsense").ok());
    EXPECT_FALSE(split_trace({}).ok());
}

TEST(Speculate, GivesTheModelsOwnTraceForEveryThreadCount) {
    const Program program = recursion(11);
    const RunLimits limits;
    const Result<RunReport> plain = PreparedProgram<std::int64_t>(transformer(), program).generate("", limits);
    ASSERT_TRUE(plain.ok());
    EXPECT_TRUE(plain->halted);
    for (const std::size_t threads : {1u, 2u, 4u}) {
        ThreadPool pool(threads);
        const Result<RunReport> drafted = run_speculatively<std::int64_t>(transformer(), program, "", limits, pool);
        ASSERT_TRUE(drafted.ok());
        EXPECT_EQ(drafted->trace_hash.text(), plain->trace_hash.text());
        EXPECT_EQ(drafted->tokens, plain->tokens);
        EXPECT_EQ(drafted->output, plain->output);
    }
}

TEST(Speculate, EveryLimitOfTokensEndsEveryWayOfRunningAtTheSameToken) {
    const Program program = recursion(5);
    const std::uint64_t whole = run_native(program, "", {})->tokens;
    for (std::uint64_t limit = 1; limit <= whole; ++limit) {
        RunLimits limits;
        limits.max_tokens = limit;
        const RunReport plain = PreparedProgram<std::int64_t>(transformer(), program).generate("", limits).value();
        ASSERT_EQ(plain.tokens, limit);
        std::vector<RunReport> others = {run_native(program, "", limits).value(),
                                         PreparedProgram<double>(transformer(), program).generate("", limits).value()};
        for (const std::size_t threads : {1u, 3u}) {
            ThreadPool pool(threads);
            others.push_back(run_speculatively<std::int64_t>(transformer(), program, "", limits, pool).value());
        }
        for (const RunReport& other : others) {
            EXPECT_EQ(other.tokens, limit);
            EXPECT_EQ(other.output, plain.output) << limit;
            EXPECT_EQ(other.trace_hash.text(), plain.trace_hash.text()) << limit;
            EXPECT_EQ(other.halted, limit == whole) << limit;
            EXPECT_EQ(other.stopped_by, plain.stopped_by) << limit;
        }
    }
}

TEST(Speculate, WhatWasVerifiedWhenARunIsStoppedIsReported) {
    const Program program = recursion(14);
    const std::uint64_t whole = run_native(program, "", {})->tokens;
    for (const std::size_t threads : {1u, 2u}) {
        ThreadPool pool(threads);
        RunLimits limits;
        limits.on_progress = [](std::uint64_t tokens) { return tokens == 0; };
        const RunReport report = run_speculatively<std::int64_t>(transformer(), program, "", limits, pool).value();
        EXPECT_EQ(report.stopped_by, "request");
        EXPECT_GT(report.tokens, 0u);
        EXPECT_LT(report.tokens, whole);
        RunLimits same;
        same.max_tokens = report.tokens;
        EXPECT_EQ(report.trace_hash.text(), run_native(program, "", same)->trace_hash.text());
    }
}

TEST(Generation, StopsWhereACallNamesNoInstruction) {
    const Program program = make_program({77, 'x'}, {{Opcode::Output, 0, 0, constant_slot(1), 0},
                                                     {Opcode::CallSlot, 0, constant_slot(0), 0, 0},
                                                     {Opcode::Halt, 0, 0, 0, 0}});
    ASSERT_TRUE(check_program(program).ok());
    EXPECT_EQ(run_native(program, "", {})->trap, TrapKind::UninitializedElement);
    RunLimits limits;
    limits.max_tokens = 1000;
    const RunReport report = PreparedProgram<std::int64_t>(transformer(), program).generate("", limits).value();
    EXPECT_TRUE(report.left_program);
    EXPECT_EQ(report.output, "x");
    EXPECT_EQ(report.stopped_by, "a call of what is no instruction");
}

// Calls, loads and stores of all widths, bit operations, 64-bit numbers and output, in traces of several blocks.
struct Long {
    std::string_view name, input;
};
constexpr Long kLong[] = {{"sha256", "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"},
                          {"min_cost_matching", "5 9 2 7 6 4 3 5 8 1 7 7 2 8 9 1 3 3 2 5 6 8 4 4 1 2"},
                          {"primes", "97 3763 65537 2147483647"}};

constexpr std::string_view kPuzzle =
    "530070000600195000098000060800060003400803001700020006060000280000419005000080079";

TEST(Verify, BlocksBeginWithTheStateTheModelReaches) {
    for (const Long& one : kLong) {
        const Program program = module(std::string(one.name));
        const std::vector<Token> prompt = whole_prompt(program, one.input);
        const std::vector<Token> trace = native_trace(program, one.input);
        for (const std::size_t threads : {1u, 2u, 3u, 5u, 16u}) {
            ThreadPool pool(threads);
            std::size_t assumed = 0;
            EXPECT_FALSE(verify<std::int64_t>(pool, prompt, trace, &assumed)) << one.name << ", " << threads;
            // All but the first block; the last one may be twice as long.
            EXPECT_GE(assumed + 3, threads == 1 ? 3 : trace.size() / 8192) << one.name;
            EXPECT_EQ(assumed == 0, threads == 1) << one.name;
            EXPECT_FALSE(verify<double>(pool, prompt, trace, &assumed)) << one.name;
            EXPECT_EQ(assumed == 0, threads == 1) << one.name;
        }
    }
}

TEST(Verify, EveryBlockOfALongTraceBeginsWithTheModelsState) {
    const Program program = module("sudoku");
    const std::vector<Token> prompt = whole_prompt(program, kPuzzle);
    const std::vector<Token> trace = native_trace(program, kPuzzle);
    ThreadPool pool(2);
    std::size_t assumed = 0;
    EXPECT_FALSE(verify<std::int64_t>(pool, prompt, trace, &assumed));
    EXPECT_GE(assumed, 90u);
}

TEST(Verify, TheFirstWrongTokenIsTheSameForEveryThreadCount) {
    const Program program = module("sha256");
    const std::string_view input = kLong[0].input;
    const std::vector<Token> prompt = whole_prompt(program, input);
    const std::vector<Token> trace = native_trace(program, input);
    ASSERT_GT(trace.size(), 40000u);
    std::vector<std::size_t> places = {0, 1, trace.size() - 2, trace.size() - 1};
    // Blocks are cut where an instruction ends behind 8192 tokens, and 64 tokens later.
    for (const std::size_t border : {8192u, 8256u, 16448u, 24704u}) {
        for (const std::size_t off : {0u, 1u, 3u}) places.push_back(border + off - 1);
    }
    for (std::size_t at = 777; at < trace.size(); at += 11003) places.push_back(at);
    for (const std::size_t at : places) {
        std::vector<Token> wrong = trace;
        wrong[at] = static_cast<Token>(wrong[at] == token::kByte + 9 ? token::kByte + 8 : token::kByte + 9);
        for (const std::size_t threads : {1u, 2u, 3u, 5u, 16u}) {
            ThreadPool pool(threads);
            const std::optional<Mismatch> mismatch = verify<std::int64_t>(pool, prompt, wrong);
            ASSERT_TRUE(mismatch) << at;
            EXPECT_EQ(mismatch->position, prompt.size() + at) << threads;
            EXPECT_EQ(mismatch->predicted, trace[at]) << at;
        }
    }
}

// The claim in the middle of a run that began in another check.
TEST(Verify, ATraceMayComeInParts) {
    const Program program = module("sha256");
    const std::vector<Token> prompt = whole_prompt(program, "abc");
    const std::vector<Token> trace = native_trace(program, "abc");
    for (const std::size_t part : {1000u, 8192u, 20001u}) {
        ThreadPool pool(3);
        TraceVerifier<std::int64_t> verifier(transformer(), pool);
        verifier.begin(prompt);
        for (std::size_t first = 0; first < trace.size(); first += part) {
            const std::size_t count = std::min(part, trace.size() - first);
            EXPECT_FALSE(verifier.check(std::span(trace).subspan(first, count), {})) << first;
        }
        EXPECT_EQ(verifier.tokens().size(), prompt.size() + trace.size());
    }
}

TEST(Verify, APromptReadsBackAsTheProgramItLists) {
    const Program program = module("calculator");
    const Result<Program> read = program_of_prompt(whole_prompt(program, "1+2"));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(native_trace(read.value()), native_trace(program, "1+2"));
    std::vector<Token> prompt = whole_prompt(program, "");
    EXPECT_FALSE(program_of_prompt(std::span(prompt).first(prompt.size() - 1)).ok());
    EXPECT_FALSE(program_of_prompt({}).ok());
    prompt[5] = token::kHalt;
    EXPECT_FALSE(program_of_prompt(prompt).ok());
}

TEST(Verify, APromptGivesAProgramItsInputAndNothingElse) {
    const Program program = module("calculator");
    const std::vector<Token> prompt = whole_prompt(program, "1+2");
    EXPECT_EQ(input_of_prompt(program, prompt).value(), "1+2");
    EXPECT_EQ(input_of_prompt(program, whole_prompt(program, "")).value(), "");
    EXPECT_FALSE(input_of_prompt(module("hello"), prompt).ok());
    EXPECT_FALSE(input_of_prompt(program, {}).ok());
    const auto with = [&](std::size_t before_end, std::vector<Token> more) {
        std::vector<Token> changed = prompt;
        changed.insert(changed.end() - static_cast<std::ptrdiff_t>(before_end), more.begin(), more.end());
        return input_of_prompt(program, changed).ok();
    };
    const std::size_t listed = prompt_program(program).size();
    EXPECT_TRUE(with(1, {}));
    // A segment of its own, before and behind the input; a zero byte inside it; another entry.
    EXPECT_FALSE(with(prompt.size() - listed, {token::kByte + 16, token::kAt, token::kByte + 1, token::kEnd}));
    const std::size_t entry = static_cast<std::size_t>(byte_length(program.entry)) + 1;
    EXPECT_FALSE(with(entry, {token::kByte + 16, token::kAt, token::kByte + 1, token::kEnd}));
    EXPECT_FALSE(with(entry + 3, {token::kByte}));
    EXPECT_FALSE(with(1, {token::kByte + 1}));
}

// Written down once, checked on every architecture: the trace of each example, prompt included.
TEST(Trace, HashesOfTheExamplesAreTheSameOnEveryMachineInEveryEngine) {
    struct Expected {
        std::string_view name, input, hash;
        bool in_the_model;  // else by the machine alone: it takes long
    };
    const Expected cases[] = {
        {"hello", "World", "d2fab31802c42cba", true},
        {"addition", "12345+6789", "d2609ae7e4281cdb", true},
        {"fibonacci", "10", "77736387b054dde4", true},
        {"collatz", "7", "06658ffb88e596ce", true},
        {"min_cost_matching", "3 9 2 7 6 4 3 5 8 1", "3a23c7a810f22d2e", true},
        {"sudoku", kPuzzle, "8f384a5a8f1420aa", true},
        {"calculator", "1+2*3; -2^2; 2^3^2; (7-10)%2; max(3, gcd(84,36))*min(4,9); fact(10)/(1000-3*7); 7/(5-5)",
         "e82ba933d1a58d16", true},
        {"primes", "0 1 2 9 97 3763 65537 3215031751 2147483647 4294967291 4294967295", "ed0321de06a3b04d", false},
        {"sha256", "abc", "b4073e340371ad1d", true},
        {"sha256", kLong[0].input, "a5eea861cc860f5c", true},
        {"sudoku", "......52..8.4......3...9...5.1...6..2..7........3.....6...1..........7.4.......3.",
         "7d7465c903c82d41", false}};
    ThreadPool pool(4);
    for (const Expected& one : cases) {
        const Program program = module(std::string(one.name));
        EXPECT_EQ(run_native(program, one.input, {})->trace_hash.text(), one.hash) << one.name;
        if (!one.in_the_model) continue;
        const Transformer& model = transformer();
        EXPECT_EQ(PreparedProgram<std::int64_t>(model, program).generate(one.input, {})->trace_hash.text(), one.hash)
            << one.name;
        EXPECT_EQ(PreparedProgram<double>(model, program).generate(one.input, {})->trace_hash.text(), one.hash)
            << one.name;
        EXPECT_EQ(run_speculatively<std::int64_t>(model, program, one.input, {}, pool)->trace_hash.text(), one.hash)
            << one.name;
    }
}

}  // namespace
}  // namespace hearth::vm
