// 16-bit floats as storage: IEEE half and bfloat16. Conversions round to nearest even and are the same bits everywhere.
#pragma once

#include <bit>
#include <cstdint>

namespace hearth {

struct Half {
    std::uint16_t bits = 0;
};

struct BFloat16 {
    std::uint16_t bits = 0;
};

inline float to_float(Half h) {
    const std::uint32_t sign = static_cast<std::uint32_t>(h.bits & 0x8000u) << 16;
    const std::uint32_t exponent = (h.bits >> 10) & 0x1fu;
    const std::uint32_t mantissa = h.bits & 0x3ffu;
    if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
    if (exponent == 0) {
        // Subnormal: mantissa * 2^-24, exact in float.
        const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
    }
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

inline Half to_half(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {  // NaN: keep it quiet, keep the top of its payload
        return Half{static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu))};
    }
    if (magnitude >= 0x477ff000u) return Half{static_cast<std::uint16_t>(sign | 0x7c00u)};  // rounds to infinity
    if (magnitude < 0x38800000u) {
        // Subnormal half: adding 0.5 aligns the mantissa so that the hardware rounds it to nearest even.
        const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
        return Half{static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u))};
    }
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return Half{static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

inline float to_float(BFloat16 b) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(b.bits) << 16);
}

inline BFloat16 to_bfloat16(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return BFloat16{static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
    return BFloat16{static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace hearth
