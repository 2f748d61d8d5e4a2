// A run as bytes: the state of every table, the tokens so far, and what has been reported.
#include <array>
#include <bit>

#include "vm/transformer.h"

namespace hearth::vm {

namespace {

constexpr std::array<std::uint8_t, 8> kMagic = {'H', 'E', 'A', 'R', 'T', 'H', 'V', 'S'};
constexpr std::uint32_t kVersion = 2;

template <typename Number>
std::uint64_t to_bits(Number value) {
    return std::bit_cast<std::uint64_t>(value);
}

template <typename Number>
void put(ByteWriter& out, std::span<const Number> numbers) {
    out.u32(static_cast<std::uint32_t>(numbers.size()));
    for (const Number number : numbers) out.u64(to_bits(number));
}

// Exactly `numbers.size()` of them.
template <typename Number>
Status get(ByteReader& in, std::span<Number> numbers) {
    for (Number& number : numbers) number = std::bit_cast<Number>(TRY(in.u64()));
    return {};
}

Error damaged() {
    return Error{ErrorCode::InvalidModel, "snapshot: damaged, or of another version"};
}

std::uint64_t fingerprint(const Program& program) {
    return hash_bytes(write_program(program));
}

}  // namespace

template <typename Number>
void Engine<Number>::save(ByteWriter& out) const {
    out.u64(position_);
    out.u64(prompt_end_);
    out.u32(running_ ? 1 : 0);
    out.u32(predicted_);
    out.u32(static_cast<std::uint32_t>(tokens_.size()));
    for (const Token token : tokens_) out.u16(token);
    put<Number>(out, variables_);
    for (const TableState<Number>& state : states_) {
        put<Number>(out, state.numbers);
        std::uint32_t pages = 0;
        for (std::size_t i = 0; i < state.keyed.page_count(); ++i) pages += state.keyed.page(i) != nullptr ? 1 : 0;
        out.u32(pages);
        for (std::size_t i = 0; i < state.keyed.page_count(); ++i) {
            if (state.keyed.page(i) == nullptr) continue;
            out.u32(static_cast<std::uint32_t>(i));
            put<Number>(out, std::span(state.keyed.page(i), state.keyed.page_numbers()));
        }
    }
}

template <typename Number>
Status Engine<Number>::load(ByteReader& in) {
    position_ = TRY(in.u64());
    prompt_end_ = TRY(in.u64());
    running_ = TRY(in.u32()) != 0;
    const std::uint32_t predicted = TRY(in.u32());
    const std::size_t tokens = TRY(in.count(2));
    if (predicted >= token::kCount || tokens != position_ || prompt_end_ > position_ || tokens == 0) return damaged();
    predicted_ = static_cast<Token>(predicted);
    tokens_.clear();
    for (std::size_t i = 0; i < tokens; ++i) {
        const Token token = TRY(in.u16());
        if (token >= token::kCount) return damaged();
        tokens_.push_back(token);
    }
    if (TRY(in.count(8)) != variables_.size()) return damaged();
    TRY(get<Number>(in, variables_));
    for (std::size_t i = 0; i < states_.size(); ++i) {
        TableState<Number>& state = states_[i];
        if (TRY(in.count(8)) != state.numbers.size()) return damaged();
        TRY(get<Number>(in, state.numbers));
        const std::size_t pages = TRY(in.count(8));
        for (std::size_t k = 0; k < pages; ++k) {
            const std::uint32_t index = TRY(in.u32());
            if (index >= kMaxKeyPages || TRY(in.count(8)) != state.keyed.page_numbers()) return damaged();
            TRY(get<Number>(in, std::span(state.keyed.make_page(index), state.keyed.page_numbers())));
        }
    }
    return {};
}

template void Engine<std::int64_t>::save(ByteWriter&) const;
template void Engine<double>::save(ByteWriter&) const;
template Status Engine<std::int64_t>::load(ByteReader&);
template Status Engine<double>::load(ByteReader&);

template <typename Number>
std::vector<std::byte> Generation<Number>::save(const Program& program) const {
    ByteWriter out;
    for (const std::uint8_t byte : kMagic) out.u8(byte);
    out.u32(kVersion);
    out.u32(std::is_same_v<Number, double> ? 1 : 0);
    out.u64(fingerprint(program));
    out.text(report_.output);
    out.u64(report_.prompt_tokens);
    out.u64(report_.tokens);
    out.u64(to_bits(report_.seconds));
    out.u64(report_.trace_hash.state());
    engine_.save(out);
    std::vector<std::byte> bytes = out.take();
    const std::uint64_t check = hash_bytes(bytes);
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(check >> (8 * i)));
    return bytes;
}

template <typename Number>
Result<Generation<Number>> Generation<Number>::load(const Transformer& transformer, const Program& program,
                                                    std::span<const std::byte> bytes) {
    if (bytes.size() < kMagic.size() + 8) return damaged();
    const std::span<const std::byte> content = bytes.first(bytes.size() - 8);
    std::uint64_t check = 0;
    for (std::size_t i = 0; i < 8; ++i) {
        check |= std::uint64_t{static_cast<std::uint8_t>(bytes[content.size() + i])} << (8 * i);
    }
    if (check != hash_bytes(content)) return damaged();
    ByteReader in(content, "snapshot");
    for (const std::uint8_t byte : kMagic) {
        if (TRY(in.u8()) != byte) return damaged();
    }
    if (TRY(in.u32()) != kVersion) return damaged();
    if ((TRY(in.u32()) == 1) != std::is_same_v<Number, double>) {
        return Error{ErrorCode::Usage, "snapshot: made by the other engine (--engine)"};
    }
    if (TRY(in.u64()) != fingerprint(program)) {
        return Error{ErrorCode::InvalidModel, "snapshot: of another program"};
    }
    RunReport report;
    report.output = TRY(in.text());
    report.prompt_tokens = TRY(in.u64());
    report.tokens = TRY(in.u64());
    report.seconds = std::bit_cast<double>(TRY(in.u64()));
    report.trace_hash.set_state(TRY(in.u64()));
    Engine<Number> engine(transformer.forward, transformer.plans.get());
    TRY(engine.load(in));
    if (in.left() != 0) return damaged();
    return Generation(std::move(engine), std::move(report));
}

template std::vector<std::byte> Generation<std::int64_t>::save(const Program&) const;
template std::vector<std::byte> Generation<double>::save(const Program&) const;
template Result<Generation<std::int64_t>> Generation<std::int64_t>::load(const Transformer&, const Program&,
                                                                         std::span<const std::byte>);
template Result<Generation<double>> Generation<double>::load(const Transformer&, const Program&,
                                                             std::span<const std::byte>);

}  // namespace hearth::vm
