// Quantised rows of the KV cache to f16, for any vector ISA. Include after the ISA's vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth {

namespace {

// The nibbles of a group of n, 8 too large, to signed bytes.
[[gnu::always_inline]] inline void unpack_nibbles(const std::byte* from, std::size_t half, std::int8_t* q) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(from);
    for (std::size_t i = 0; i < half; ++i) {
        q[i] = static_cast<std::int8_t>((bytes[i] & 15) - 8);
        q[i + half] = static_cast<std::int8_t>((bytes[i] >> 4) - 8);
    }
}

template <KvType kType>
[[gnu::always_inline]] inline void widen_group(const std::byte* from, std::uint16_t* out) {
    std::uint16_t scale;
    __builtin_memcpy(&scale, from, sizeof scale);
    if constexpr (kType == KvType::Q8) {
        widen_bytes32(reinterpret_cast<const std::int8_t*>(from + sizeof scale), scale, out);
    } else {
        widen_nibbles32(reinterpret_cast<const std::uint8_t*>(from + sizeof scale), scale, out);
    }
}

// The last group of a row, shorter than the others.
template <KvType kType>
inline void widen_rest(const std::byte* from, std::size_t n, std::uint16_t* out) {
    std::uint16_t scale;
    std::int8_t q[kKvGroup] = {};
    std::uint16_t wide[kKvGroup];
    __builtin_memcpy(&scale, from, sizeof scale);
    if constexpr (kType == KvType::Q8) {
        __builtin_memcpy(q, from + sizeof scale, n);
    } else {
        unpack_nibbles(from + sizeof scale, (n + 1) / 2, q);
    }
    widen_bytes32(q, scale, wide);
    __builtin_memcpy(out, wide, n * sizeof(std::uint16_t));
}

template <KvType kType>
inline void widen_rows(const std::byte* from, std::size_t rows, std::size_t dim, std::uint16_t* out) {
    const std::size_t rest = dim % kKvGroup;
    if (rest == 0) {  // rows follow each other without a seam
        rows *= dim / kKvGroup;
        for (std::size_t group = 0; group < rows; ++group) {
            widen_group<kType>(from, out);
            from += kv_group_bytes(kType, kKvGroup);
            out += kKvGroup;
        }
        return;
    }
    for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t group = 0; group < dim / kKvGroup; ++group) {
            widen_group<kType>(from, out);
            from += kv_group_bytes(kType, kKvGroup);
            out += kKvGroup;
        }
        widen_rest<kType>(from, rest, out);
        from += kv_group_bytes(kType, rest);
        out += rest;
    }
}

inline void widen_rows(KvType type, const std::byte* from, std::size_t rows, std::size_t dim, std::uint16_t* out) {
    if (type == KvType::Q8) {
        widen_rows<KvType::Q8>(from, rows, dim, out);
    } else {
        widen_rows<KvType::Q4>(from, rows, dim, out);
    }
}

inline void widen_kv(const KvWidenTask& task) {
    widen_rows(task.type, task.rows, task.row_count, task.head_dim, reinterpret_cast<std::uint16_t*>(task.out));
}

}  // namespace

}  // namespace hearth
