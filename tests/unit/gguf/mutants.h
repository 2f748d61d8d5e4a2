// Damaged GGUF files, always the same ones: every small edit of three tiny models, and thousands of larger ones.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "unit/gguf/model_bytes.h"

namespace hearth::gguf_test {

struct MutantSource {
    std::string bytes;
    std::size_t head_bytes = 0;             // where metadata and tensor table end
    std::vector<std::size_t> field_starts;  // counts, lengths, types, extents, offsets
};

inline MutantSource mutant_source(const ModelBytes& model) {
    MutantSource source{model.build(), model.head().size(), {0, 4, 8, 16}};
    std::size_t at = 24;
    const auto name_bytes = [](const std::string& entry) {
        std::uint64_t length = 0;
        std::memcpy(&length, entry.data(), sizeof length);
        return 8 + static_cast<std::size_t>(length);
    };
    for (const std::string& entry : model.keys) {
        const std::size_t type_at = at + name_bytes(entry);
        // Payload, and of arrays the count and the first element.
        for (const std::size_t field : {at, at + 8, type_at, type_at + 4, type_at + 8, type_at + 16}) {
            if (field < at + entry.size()) source.field_starts.push_back(field);
        }
        at += entry.size();
    }
    for (const std::string& entry : model.tensors) {
        source.field_starts.push_back(at);
        const std::size_t rank_at = at + name_bytes(entry);
        source.field_starts.push_back(rank_at);
        at += entry.size();
        for (std::size_t field = rank_at + 4; field < at - 12; field += 8) source.field_starts.push_back(field);
        source.field_starts.push_back(at - 12);
        source.field_starts.push_back(at - 8);
    }
    return source;
}

// Numbers at which parsers break, besides those that depend on the file.
inline constexpr std::array<std::uint64_t, 22> kBoundaryValues = {0,
                                                                  1,
                                                                  3,
                                                                  8,
                                                                  9,
                                                                  12,
                                                                  13,
                                                                  32,
                                                                  255,
                                                                  256,
                                                                  0x7fffffffu,
                                                                  0x80000000u,
                                                                  0xffffffffu,
                                                                  0x100000000u,
                                                                  std::uint64_t{1} << 40,
                                                                  std::uint64_t{1} << 60,
                                                                  std::uint64_t{1} << 61,
                                                                  0x7fffffffffffffffu,
                                                                  0x8000000000000000u,
                                                                  0xfffffffffffffff0u,
                                                                  0xfffffffffffffff8u,
                                                                  0xffffffffffffffffu};

// Calls visit(bytes, kind) for each mutant.
template <typename Visit>
class Mutator {
public:
    explicit Mutator(Visit visit) : visit_(std::move(visit)) {}

    void run(const std::vector<MutantSource>& sources) {
        for (const MutantSource& source : sources) {
            small_edits(source);
            field_overwrites(source);
            truncations(source);
            moves(source);
            for (const MutantSource& other : sources) splices(source, other);
        }
        for (std::uint64_t round = 0; round < 3000; ++round) many_edits(sources[round % sources.size()], round);
    }

private:
    void small_edits(const MutantSource& source) {
        std::string mutant = source.bytes;
        for (std::size_t at = 0; at < source.head_bytes; ++at) {
            const char original = mutant[at];
            for (unsigned bit = 0; bit < 8; ++bit) {
                mutant[at] = static_cast<char>(static_cast<unsigned char>(original) ^ (1u << bit));
                visit_(mutant, "bit flip");
            }
            for (const char value : {'\0', '\x7f', '\xff'}) {
                mutant[at] = value;
                visit_(mutant, "byte set");
            }
            mutant[at] = original;
        }
    }

    void overwrite(const MutantSource& source, std::size_t at, std::uint64_t value, std::size_t width) {
        if (at + width > source.bytes.size()) return;
        std::string mutant = source.bytes;
        std::memcpy(mutant.data() + at, &value, width);
        visit_(mutant, width == 4 ? "4-byte field" : "8-byte field");
    }

    void field_overwrites(const MutantSource& source) {
        std::vector<std::uint64_t> values(kBoundaryValues.begin(), kBoundaryValues.end());
        const std::uint64_t size = source.bytes.size();
        for (const std::uint64_t value : {size - 1, size, size + 1, size / 8, size / 8 + 1}) values.push_back(value);
        for (const std::size_t at : source.field_starts) {
            for (const std::uint64_t value : values) {
                overwrite(source, at, value, 4);
                overwrite(source, at, value, 8);
            }
            for (const std::uint64_t left : {size - at - 8, size - at - 7, size - at}) overwrite(source, at, left, 8);
        }
    }

    void truncations(const MutantSource& source) {
        for (std::size_t length = 0; length < source.bytes.size(); ++length) {
            visit_(source.bytes.substr(0, length), "truncation");
        }
        for (const std::size_t extra : {1u, 31u, 32u, 4096u})
            visit_(source.bytes + std::string(extra, '\xff'), "extension");
    }

    // A run of fields doubled, or taken out.
    void moves(const MutantSource& source) {
        const std::vector<std::size_t>& fields = source.field_starts;
        for (std::size_t i = 0; i + 1 < fields.size(); ++i) {
            for (const std::size_t length : {std::size_t{1}, std::size_t{2}, std::size_t{5}}) {
                const std::size_t begin = fields[i];
                const std::size_t end = fields[std::min(i + length, fields.size() - 1)];
                visit_(source.bytes.substr(0, end) + source.bytes.substr(begin), "duplication");
                visit_(source.bytes.substr(0, begin) + source.bytes.substr(end), "deletion");
            }
        }
    }

    void splices(const MutantSource& front, const MutantSource& back) {
        for (std::size_t i = 0; i < front.field_starts.size(); i += 3) {
            for (std::size_t j = 0; j < back.field_starts.size(); j += 4) {
                visit_(front.bytes.substr(0, front.field_starts[i]) + back.bytes.substr(back.field_starts[j]),
                       "splice");
            }
        }
    }

    void many_edits(const MutantSource& source, std::uint64_t round) {
        std::uint64_t draw = 0;
        const auto below = [&](std::uint64_t limit) { return random_bits(20240229, round, draw++) % limit; };
        std::string mutant = source.bytes;
        for (std::uint64_t edit = 2 + below(6); edit > 0; --edit) {
            const bool field = below(2) == 0;
            const std::size_t at = static_cast<std::size_t>(
                field ? source.field_starts[below(source.field_starts.size())] : below(mutant.size()));
            std::uint64_t value = below(3) == 0 ? below(64) : kBoundaryValues[below(kBoundaryValues.size())];
            if (below(4) == 0) value = random_bits(7, round, draw++);
            const std::size_t width = std::min<std::size_t>(std::size_t{1} << below(4), mutant.size() - at);
            std::memcpy(mutant.data() + at, &value, width);
        }
        visit_(mutant, "many edits");
    }

    Visit visit_;
};

template <typename Visit>
void for_each_mutant(Visit visit) {
    Mutator<Visit>(std::move(visit))
        .run({mutant_source(tiny_model()), mutant_source(aligned_model()), mutant_source(vocabulary_model())});
}

}  // namespace hearth::gguf_test
