// One number for a whole trace, prompt included: equal on every machine, engine and thread count.
#pragma once

#include <span>
#include <string>

#include "base/hash.h"
#include "vm/isa.h"

namespace hearth::vm {

class TraceHash {
public:
    void add(Token token) { value_ = (value_ ^ (token + 1u)) * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du; }
    void add(std::span<const Token> tokens) {
        for (const Token token : tokens) add(token);
    }
    std::uint64_t value() const { return mix64(value_); }
    std::uint64_t state() const { return value_; }  // to go on from in another process
    void set_state(std::uint64_t state) { value_ = state; }
    std::string text() const {
        std::string digits(16, '0');
        std::uint64_t rest = value();
        for (std::size_t i = 16; i-- > 0; rest >>= 4) digits[i] = "0123456789abcdef"[rest & 15];
        return digits;
    }

private:
    std::uint64_t value_ = 0x6a09e667f3bcc909u;
};

}  // namespace hearth::vm
