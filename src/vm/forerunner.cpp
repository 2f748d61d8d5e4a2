#include "vm/forerunner.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace hearth::vm {

// The tables by the names of machine.cpp, each with the columns it is known to have; those found by position need not
// be known.
template <typename Number>
std::optional<typename Forerunner<Number>::Tables> Forerunner<Number>::find_tables(const Forward& forward) {
    using enum TableInfo::Kind;
    Tables tables;
    struct Known {
        std::string_view name;
        TableInfo::Kind kind;
        std::size_t columns;
        std::size_t* place;
    };
    const std::array<Known, 7> known = {{{"operand a", Keyed, 5, &tables.slots},
                                         {"memory", Keyed, 2, &tables.memory},
                                         {"call stack", Keyed, 2, &tables.calls},
                                         {"counts", Sum, 3, &tables.counts},
                                         {"latest jump", Class, 2, &tables.jump},
                                         {"frame", Class, 1, &tables.frame},
                                         {"start of the run", Class, 5, &tables.run}}};
    std::size_t found = 0;
    for (std::size_t i = 0; i < forward.tables.size(); ++i) {
        const TableInfo& info = forward.tables[i];
        if (info.kind == Tokens || info.kind == Recent || info.kind == History) continue;
        const auto match = std::find_if(known.begin(), known.end(), [&](const Known& k) {
            return k.name == info.name && k.kind == info.kind && k.columns == info.columns.size();
        });
        if (match == known.end()) return std::nullopt;
        *match->place = i;
        ++found;
    }
    if (found != known.size()) return std::nullopt;
    return tables;
}

template <typename Number>
std::unique_ptr<Forerunner<Number>> Forerunner<Number>::create(const Forward& forward, const Engine<Number>& engine,
                                                               std::span<const Token> prompt) {
    const std::optional<Tables> tables = find_tables(forward);
    if (!tables) return nullptr;
    Result<Program> program = program_of_prompt(prompt);
    if (!program.ok()) return nullptr;
    auto made = std::make_unique<Forerunner>(std::move(program.value()), *tables, engine.clone());
    made->engine_.feed(prompt.back());
    return made;
}

template <typename Number>
void Forerunner<Number>::apply(const StateChange& change, std::uint64_t position) {
    const auto part = [&](int index) { return static_cast<Number>((change.value >> (16 * index)) & 0xffff); };
    switch (change.kind) {
        case StateChange::Kind::Slot: {
            Number* entry = engine_.table(tables_.slots).keyed.write(change.key);
            for (int i = 0; i < 4; ++i) entry[i] = part(i);
            entry[4] = static_cast<Number>(position - 1);
            break;
        }
        case StateChange::Kind::Byte: {
            Number* entry = engine_.table(tables_.memory).keyed.write(change.key);
            entry[0] = static_cast<Number>(change.value);
            entry[1] = static_cast<Number>(change.key);
            break;
        }
        case StateChange::Kind::Call: {
            Number* entry = engine_.table(tables_.calls).keyed.write(change.key);
            entry[0] = static_cast<Number>(change.value);
            entry[1] = static_cast<Number>(change.frame);
            break;
        }
    }
}

template <typename Number>
void Forerunner<Number>::advance(std::vector<Token>& trace, std::uint64_t position) {
    const std::uint64_t first = engine_.position();
    if (position <= first || !running()) return;
    tokens_.clear();
    changes_.clear();
    interpreter_.run_followed(tokens_, static_cast<std::size_t>(position - first), changes_);
    for (const StateChange& change : changes_) apply(change, first + change.at);
    Number& ends = engine_.table(tables_.counts).numbers[0];
    for (const Token token : tokens_) {
        if (token == token::kCommit || token == token::kSkip || is_output(token)) ends += 1;
    }
    engine_.table(tables_.counts).numbers[1] = static_cast<Number>(interpreter_.depth());
    // The cursor is the latest jump's target and one for every instruction that ended since.
    engine_.table(tables_.jump).numbers[0] = static_cast<Number>(interpreter_.pc()) - ends;
    engine_.table(tables_.frame).numbers[0] = static_cast<Number>(interpreter_.frame() - kFirstFrame);
    std::vector<Number>& run = engine_.table(tables_.run).numbers;
    std::fill(run.begin(), run.end(), Number{0});
    run[0] = static_cast<Number>(first + tokens_.size() - 1);
    engine_.set_position(first + tokens_.size());
    trace.insert(trace.end(), tokens_.begin(), tokens_.end());
}

template <typename Number>
Engine<Number> Forerunner<Number>::engine() {
    engine_.freeze();
    return engine_.clone();
}

template class Forerunner<std::int64_t>;
template class Forerunner<double>;

}  // namespace hearth::vm
