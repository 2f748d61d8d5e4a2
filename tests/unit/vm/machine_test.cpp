// The model against the interpreter: every token of every trace, for both engines and both kinds of heads.
#include "vm/machine.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "vm/draw.h"
#include "vm/interpreter.h"
#include "vm/model_file.h"
#include "vm_programs.h"

namespace hearth::vm {
namespace {

const std::vector<std::uint64_t> kEdges = {
    0,   1,     2,     3,          7,          10,         31,         32,         33,         255,
    256, 65535, 65536, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff, 0x00ff00ff, 0x12345678};
const std::vector<std::uint64_t> kWideEdges = {0,
                                               1,
                                               0xffffffff,
                                               0x100000000,
                                               0x100000001,
                                               0x7fffffffffffffff,
                                               0x8000000000000000,
                                               0xffffffffffffffff,
                                               0xffffffff00000000,
                                               0x0123456789abcdef,
                                               0x80000000,
                                               10};

template <typename Number>
void expect_equal(const Program& program, HeadMode mode, std::string_view what) {
    ASSERT_TRUE(check_program(program).ok()) << check_program(program).error().message;
    Engine<Number> engine(transformer(mode).forward, transformer(mode).plans.get());
    for (const Token token : whole_prompt(program, "")) engine.feed(token);
    const std::vector<Token> trace = native_trace(program);
    for (std::size_t i = 0; i < trace.size(); ++i) {
        ASSERT_EQ(token_name(engine.predict()), token_name(trace[i]))
            << what << ", token " << i << ", instruction " << engine.cursor();
        if (!is_stop(trace[i])) engine.feed(trace[i]);
    }
}

TEST(Machine, EveryBinaryOpcodeIsExactOnAllPairsOfEdgeValues) {
    for (const Opcode opcode : {Opcode::Move,   Opcode::MoveIf,  Opcode::Add32,    Opcode::Sub32,    Opcode::Mul32,
                                Opcode::And32,  Opcode::Or32,    Opcode::Xor32,    Opcode::Shl32,    Opcode::ShrU32,
                                Opcode::ShrS32, Opcode::Rotl32,  Opcode::Clz32,    Opcode::LessS32,  Opcode::LessEqS32,
                                Opcode::Low,    Opcode::Extend8, Opcode::Extend16, Opcode::Extend32, Opcode::Pack}) {
        const Program program = all_pairs(opcode, kEdges);
        expect_equal<std::int64_t>(program, HeadMode::Auto, mnemonic(opcode));
        expect_equal<double>(program, HeadMode::Auto, mnemonic(opcode));
    }
}

TEST(Machine, EveryWideOpcodeIsExactOnAllPairsOfEdgeValues) {
    for (const Opcode opcode :
         {Opcode::Move, Opcode::MoveIf, Opcode::MulHigh64, Opcode::Mul32, Opcode::Clz64, Opcode::Add64, Opcode::Sub64,
          Opcode::Equal, Opcode::NotEqual, Opcode::LessU, Opcode::LessEqU, Opcode::LessS64, Opcode::LessEqS64,
          Opcode::High, Opcode::Low, Opcode::Pack}) {
        const Program program = all_pairs(opcode, kWideEdges);
        expect_equal<std::int64_t>(program, HeadMode::Auto, mnemonic(opcode));
        expect_equal<double>(program, HeadMode::Auto, mnemonic(opcode));
    }
}

TEST(Machine, DivisionsAreExactAndTrapWhereTheyMust) {
    for (const Opcode opcode : {Opcode::DivU32, Opcode::DivS32, Opcode::RemU32, Opcode::RemS32}) {
        for (const std::uint64_t divisor : kEdges) {
            // One dividend a program, because a trap ends it.
            for (const std::uint64_t dividend : kEdges) {
                const Program program =
                    make_program({dividend, divisor}, {{opcode, 0, constant_slot(0), constant_slot(1), 0},
                                                       {Opcode::Output, 0, 0, 0, 0},
                                                       {Opcode::Halt, 0, 0, 0, 0}});
                expect_equal<std::int64_t>(program, HeadMode::Auto, mnemonic(opcode));
            }
        }
    }
}

TEST(Machine, AHullForEveryHeadGivesTheSameTokens) {
    for (const Opcode opcode : {Opcode::Mul32, Opcode::Xor32, Opcode::Shl32, Opcode::Add64}) {
        expect_equal<std::int64_t>(all_pairs(opcode, {0, 1, 255, 65536, 0x80000000, 0xffffffff}), HeadMode::Hull,
                                   mnemonic(opcode));
    }
}

TEST(Machine, MemoryOfEveryWidthIsReadAsItWasWritten) {
    std::vector<Instruction> code;
    for (const std::uint16_t base : {constant_slot(0), constant_slot(1)}) {
        code.push_back({Opcode::Store64, 0, base, constant_slot(2), 8});
        code.push_back({Opcode::Store8, 0, base, constant_slot(3), 9});
        code.push_back({Opcode::Store16, 0, base, constant_slot(3), 12});
        code.push_back({Opcode::Load64, 0, base, 0, 8});
        code.push_back({Opcode::Load32, 1, base, 0, 7});
        code.push_back({Opcode::Load16, 2, base, 0, 9});
        code.push_back({Opcode::Load8, 3, base, 0, 15});
        code.push_back({Opcode::Load32, 4, base, 0, 100});
        for (std::uint16_t slot = 0; slot < 5; ++slot) code.push_back({Opcode::Output, 0, 0, slot, 0});
        code.push_back({Opcode::Store32, 0, base, constant_slot(2), 8});
        code.push_back({Opcode::Load64, 0, base, 0, 8});
    }
    code.push_back({Opcode::Load8, 0, constant_slot(4), 0, 0});   // the last byte
    code.push_back({Opcode::Load16, 0, constant_slot(4), 0, 0});  // one beyond
    code.push_back({Opcode::Halt, 0, 0, 0, 0});
    const Program program = make_program({0, 4096, 0x8877665544332211, 0xabcdef, 65535}, std::move(code));
    expect_equal<std::int64_t>(program, HeadMode::Auto, "memory");
    expect_equal<double>(program, HeadMode::Auto, "memory");
    expect_equal<std::int64_t>(program, HeadMode::Hull, "memory");
    EXPECT_EQ(native_trace(program).back(), token::kTrap + static_cast<Token>(TrapKind::OutOfBounds));
}

TEST(Machine, CallsReturnToWhereTheyCameFrom) {
    expect_equal<std::int64_t>(recursion(10), HeadMode::Auto, "recursion");
    expect_equal<double>(recursion(10), HeadMode::Auto, "recursion");
    const std::vector<Token> trace = native_trace(recursion(10));
    EXPECT_EQ(trace[trace.size() - 2], token::kOut + 55);
}

TEST(Machine, EndlessRecursionTraps) {
    const Program program = make_program({}, {{Opcode::Call, 0, 0, 0, 0}, {Opcode::Halt, 0, 0, 0, 0}});
    expect_equal<std::int64_t>(program, HeadMode::Auto, "endless recursion");
    EXPECT_EQ(native_trace(program).back(), token::kTrap + static_cast<Token>(TrapKind::StackOverflow));
}

TEST(Machine, BranchTablesTakeTheLastEntryBeyondTheirEnd) {
    for (const std::uint64_t index : {0u, 1u, 2u, 3u, 0xffffffffu}) {
        const Program program = make_program({index, 'a', 'b', 'c'}, {{Opcode::BranchTable, 0, constant_slot(0), 0, 2},
                                                                      {Opcode::Branch, 0, 0, 0, 4},
                                                                      {Opcode::Branch, 0, 0, 0, 6},
                                                                      {Opcode::Branch, 0, 0, 0, 8},
                                                                      {Opcode::Output, 0, 0, constant_slot(1), 0},
                                                                      {Opcode::Halt, 0, 0, 0, 0},
                                                                      {Opcode::Output, 0, 0, constant_slot(2), 0},
                                                                      {Opcode::Halt, 0, 0, 0, 0},
                                                                      {Opcode::Output, 0, 0, constant_slot(3), 0},
                                                                      {Opcode::Halt, 0, 0, 0, 0}});
        expect_equal<std::int64_t>(program, HeadMode::Auto, "branch table");
    }
}

TEST(Machine, MultiplyingLargeNumbersCostsFewTokens) {
    const Program program = make_program(
        {1000, 1000}, {{Opcode::Mul32, 0, constant_slot(0), constant_slot(1), 0}, {Opcode::Halt, 0, 0, 0, 0}});
    EXPECT_EQ(native_trace(program).size(), 6u);  // sep, three bytes, commit, halt
}

TEST(Machine, TheArgMaxByKindsIsTheArgMaxOverAllTokens) {
    const Program program = recursion(6);
    Engine<std::int64_t> engine(transformer().forward);  // no plans: every variable is there
    for (const Token token : whole_prompt(program, "")) engine.feed(token);
    for (const Token token : native_trace(program)) {
        ASSERT_EQ(engine.predict_full(), engine.predict());
        ASSERT_EQ(engine.predict(), token);
        if (!is_stop(token)) engine.feed(token);
    }
}

TEST(Machine, EveryRangeIsProvedToFitInSixtyFourBits) {
    std::size_t assumed = 0;
    for (const DimNode& node : transformer().graph.dims()) {
        EXPECT_LT(node.range.high, std::int64_t{1} << 62) << node.name;
        EXPECT_GT(node.range.low, -(std::int64_t{1} << 62)) << node.name;
        assumed += node.assumed ? 1 : 0;
    }
    EXPECT_GT(assumed, 0u);
}

TEST(Machine, EveryHeadIsClassifiedWithAProofAndNoneNeedsASearch) {
    for (const Layer& layer : transformer().model.layers) {
        for (const Head& head : layer.heads) {
            EXPECT_NE(head.kind, HeadKind::Search) << head.name;
            EXPECT_FALSE(head.proof.empty()) << head.name;
        }
    }
}

TEST(Machine, TheSameWeightsAreBuiltEveryTime) {
    const Model one = schedule(build_machine());
    const Model two = schedule(build_machine());
    ASSERT_EQ(one.layers.size(), two.layers.size());
    EXPECT_EQ(one.width, two.width);
    for (std::size_t i = 0; i < one.layers.size(); ++i) {
        ASSERT_EQ(one.layers[i].neurons.size(), two.layers[i].neurons.size());
        for (std::size_t k = 0; k < one.layers[i].neurons.size(); ++k) {
            EXPECT_EQ(one.layers[i].neurons[k].name, two.layers[i].neurons[k].name);
        }
    }
}

TEST(ModelFile, ReadsBackWithTheSameProofsAndRunsTheSame) {
    const Model& built = transformer().model;
    const Result<Model> read = read_model(write_model(built));
    ASSERT_TRUE(read.ok()) << read.error().message;
    ASSERT_EQ(read->layers.size(), built.layers.size());
    for (std::size_t l = 0; l < built.layers.size(); ++l) {
        ASSERT_EQ(read->layers[l].heads.size(), built.layers[l].heads.size());
        for (std::size_t i = 0; i < built.layers[l].heads.size(); ++i) {
            EXPECT_EQ(read->layers[l].heads[i].kind, built.layers[l].heads[i].kind);
            EXPECT_EQ(read->layers[l].heads[i].proof, built.layers[l].heads[i].proof);
        }
    }
    const Forward forward = compile_forward(read.value(), HeadMode::Auto);
    const Program program = all_pairs(Opcode::Mul32, {3, 70000, 0xffffffff});
    Engine<std::int64_t> engine(forward);
    for (const Token token : whole_prompt(program, "")) engine.feed(token);
    for (const Token token : native_trace(program)) {
        ASSERT_EQ(engine.predict(), token);
        if (!is_stop(token)) engine.feed(token);
    }
}

TEST(ModelFile, DamageIsRefusedOrHarmless) {
    const std::vector<std::byte> bytes = write_model(transformer().model);
    for (std::size_t size = 0; size < bytes.size(); size += 997) {
        EXPECT_FALSE(read_model(std::span(bytes).first(size)).ok());
    }
    for (std::size_t i = 0; i < bytes.size(); i += 1009) {
        std::vector<std::byte> damaged = bytes;
        damaged[i] ^= std::byte{0x55};
        static_cast<void>(read_model(damaged));  // an answer, whatever it is
    }
}

TEST(ModelFile, AHeadWhoseKeyIsNotWhatItClaimsNeedsASearch) {
    Model model = transformer().model;
    std::size_t changed = 0;
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
        for (std::size_t i = 0; i < model.layers[l].heads.size(); ++i) {
            Head& head = model.layers[l].heads[i];
            if (head.kind != HeadKind::LatestByKey) continue;
            head.key_x[0].factor += 1;
            EXPECT_EQ(classify_head(model, l, i).kind, HeadKind::Search);
            ++changed;
        }
    }
    EXPECT_GT(changed, 0u);
}

TEST(Draw, NamesEveryHeadAndSlot) {
    const std::string svg = draw_svg(transformer().model);
    EXPECT_EQ(svg.compare(0, 4, "<svg"), 0);
    EXPECT_NE(svg.find("latest of class"), std::string::npos);
    EXPECT_NE(svg.find("operand a"), std::string::npos);
    EXPECT_NE(svg.find("</svg>"), std::string::npos);
}

TEST(Run, TheHashOfATraceIsTheSameOnEveryMachine) {
    const Result<RunReport> report = PreparedProgram<std::int64_t>(transformer(), recursion(10)).generate("", {});
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->trace_hash.text(), run_native(recursion(10), "", {})->trace_hash.text());
    EXPECT_EQ(report->trace_hash.text(), "0ebbc05ffb83016c");
}

TEST(Specialize, AProgramInTheWeightsDoesWhatItDoesInThePrompt) {
    const Program program = recursion(8);
    const RunReport listed = PreparedProgram<std::int64_t>(transformer(), program).generate("", {}).value();
    const std::unique_ptr<Transformer> baked = build_specialized(program, HeadMode::Auto).value();
    const RunReport int64 = PreparedProgram<std::int64_t>(*baked, program).generate("", {}).value();
    const RunReport float64 = PreparedProgram<double>(*baked, program).generate("", {}).value();
    EXPECT_EQ(int64.output, listed.output);
    EXPECT_EQ(int64.tokens, listed.tokens);
    EXPECT_LT(int64.prompt_tokens, listed.prompt_tokens);
    EXPECT_EQ(float64.trace_hash.text(), int64.trace_hash.text());
    Program large = program;
    large.code.insert(large.code.begin(), kMaxBaked, {Opcode::Branch, 0, 0, 0, 0});
    EXPECT_FALSE(build_specialized(large, HeadMode::Auto).ok());
}

TEST(Run, ASnapshotGoesOnAsIfNothingHadHappened) {
    const Program program = recursion(10);
    const RunReport whole = PreparedProgram<std::int64_t>(transformer(), program).generate("", {}).value();
    for (const std::uint64_t stop : {1u, 700u, 2000u}) {
        Generation<std::int64_t> first = PreparedProgram<std::int64_t>(transformer(), program).begin("").value();
        RunLimits limits;
        limits.max_tokens = stop;
        first.run(limits);
        const std::vector<std::byte> bytes = first.save(program);
        Result<Generation<std::int64_t>> second = Generation<std::int64_t>::load(transformer(), program, bytes);
        ASSERT_TRUE(second.ok()) << second.error().message;
        second->run({});
        EXPECT_EQ(second->report().trace_hash.text(), whole.trace_hash.text());
        EXPECT_EQ(second->report().output, whole.output);
        EXPECT_EQ(second->report().tokens, whole.tokens);
        EXPECT_FALSE(Generation<std::int64_t>::load(transformer(), recursion(11), bytes).ok());
        EXPECT_FALSE(Generation<double>::load(transformer(), program, bytes).ok());
        std::vector<std::byte> damaged = bytes;
        damaged[damaged.size() / 2] ^= std::byte{1};
        EXPECT_FALSE(Generation<std::int64_t>::load(transformer(), program, damaged).ok());
    }
}

TEST(Run, LimitsStopAnEndlessProgram) {
    const Program program = make_program({}, {{Opcode::Branch, 0, 0, 0, 0}});
    RunLimits limits;
    limits.max_tokens = 1000;
    const Result<RunReport> report = PreparedProgram<std::int64_t>(transformer(), program).generate("", limits);
    ASSERT_TRUE(report.ok());
    EXPECT_FALSE(report->halted);
    EXPECT_EQ(report->tokens, 1000u);
    EXPECT_FALSE(report->stopped_by.empty());
}

TEST(Run, APreparedProgramAnswersManyInputs) {
    Program program = make_program(
        {}, {{Opcode::Load8, 0, constant_slot(0), 0, 0}, {Opcode::Output, 0, 0, 0, 0}, {Opcode::Halt, 0, 0, 0, 0}});
    program.absolute.push_back(64);
    program.takes_input = true;
    program.input_base = 64;
    const PreparedProgram<std::int64_t> prepared(transformer(), program);
    EXPECT_EQ(prepared.generate("x", {})->output, "x");
    EXPECT_EQ(prepared.generate("yes", {})->output, "y");
    EXPECT_EQ(prepared.generate("", {})->output, std::string(1, '\0'));
    EXPECT_EQ(prepared.generate("x", {})->output, "x");
    EXPECT_FALSE(prepared.generate(std::string("a\0b", 3), {}).ok());
}

// A head that looks up slot 3 = factor k, and the neuron that squares k.
Model key_model(std::int64_t factor, std::int64_t doubled) {
    Model model;
    model.width = 6;
    model.square_slot = 1;
    Head head;
    head.query_x = {{3, 1}};
    head.query_y = {{2, 1}};
    head.key_x = {{3, doubled}};
    head.key_y = {{4, -1}};
    head.out[0] = {{5, 1}};
    head.key = {{3, factor}};
    head.member = {{2, 1}};
    model.layers.resize(2);
    model.layers[0].neurons = {{{{3, factor}}, {{3, factor}}, {{4, 1}}, "square"}};
    model.layers[1].heads = {head};
    return model;
}

TEST(Model, AKeyTooLargeToDoubleIsOfNoKnownForm) {
    constexpr std::int64_t kLarge = std::int64_t{1} << 62;
    EXPECT_EQ(classify_head(key_model(7, 14), 1, 0).kind, HeadKind::LatestByKey);
    EXPECT_EQ(classify_head(key_model(-kLarge, std::numeric_limits<std::int64_t>::min()), 1, 0).kind,
              HeadKind::LatestByKey);
    EXPECT_EQ(classify_head(key_model(kLarge, std::numeric_limits<std::int64_t>::min()), 1, 0).kind, HeadKind::Search);
}

}  // namespace
}  // namespace hearth::vm
