#include "sampling/chunked_logits.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace hearth {

namespace {

using Float4 = float __attribute__((vector_size(16)));
using Mask4 = std::int32_t __attribute__((vector_size(16)));  // what comparing two Float4 gives

constexpr std::size_t kStep = 16;  // values of one step, in four registers

}  // namespace

float largest_logit(std::span<const float> logits) {
    constexpr float kLowest = -std::numeric_limits<float>::infinity();
    const Float4 lowest = {kLowest, kLowest, kLowest, kLowest};
    Float4 largest[4] = {lowest, lowest, lowest, lowest};
    Mask4 nan[4] = {};
    std::size_t i = 0;
    for (; i + kStep <= logits.size(); i += kStep) {
        for (std::size_t k = 0; k < 4; ++k) {
            Float4 values;
            __builtin_memcpy(&values, logits.data() + i + 4 * k, sizeof values);
            largest[k] = values > largest[k] ? values : largest[k];
            nan[k] |= values != values;
        }
    }
    largest[0] = largest[1] > largest[0] ? largest[1] : largest[0];
    largest[2] = largest[3] > largest[2] ? largest[3] : largest[2];
    largest[0] = largest[2] > largest[0] ? largest[2] : largest[0];
    const Mask4 any_nan = (nan[0] | nan[1]) | (nan[2] | nan[3]);
    bool found_nan = (any_nan[0] | any_nan[1] | any_nan[2] | any_nan[3]) != 0;
    float result = std::max(std::max(largest[0][0], largest[0][1]), std::max(largest[0][2], largest[0][3]));
    for (; i < logits.size(); ++i) {
        found_nan = found_nan || logits[i] != logits[i];
        result = std::max(result, logits[i]);
    }
    return found_nan ? std::numeric_limits<float>::quiet_NaN() : result;
}

ChunkedLogits::ChunkedLogits(std::size_t vocabulary_size)
    : own_maxima_(logit_chunks(vocabulary_size)),
      copies_(vocabulary_size),
      changed_(logit_chunks(vocabulary_size)),
      nothing_(kLogitChunk, -std::numeric_limits<float>::infinity()) {
    changed_chunks_.reserve(logit_chunks(vocabulary_size));
}

void ChunkedLogits::reset(const LogitRow& row) {
    CHECK(row.logits.size() <= copies_.size());
    for (const std::uint32_t index : changed_chunks_) changed_[index] = 0;
    changed_chunks_.clear();
    logits_ = row.logits;
    maxima_ = row.maxima;
    if (maxima_.empty()) {
        const std::span<float> own(own_maxima_.data(), logit_chunks(logits_.size()));
        maxima_ = own;  // gives chunk_count()
        for (std::size_t index = 0; index < own.size(); ++index) own[index] = largest_logit(chunk(index));
    }
    CHECK(maxima_.size() == logit_chunks(logits_.size()));
    highest_ = largest_logit(maxima_);
}

float& ChunkedLogits::change(std::size_t token) {
    const std::size_t index = token / kLogitChunk;
    if (changed_[index] == 0) {
        const std::span<const float> original = chunk(index);
        std::copy(original.begin(), original.end(), copies_.begin() + static_cast<std::ptrdiff_t>(index * kLogitChunk));
        changed_[index] = kCopied;
        changed_chunks_.push_back(static_cast<std::uint32_t>(index));
    }
    return copies_[token];
}

void ChunkedLogits::restrict_to(std::span<const std::uint64_t> mask) {
    static_assert(kLogitChunk == 64);
    CHECK(mask.size() >= chunk_count());
    for (std::size_t index = 0; index < chunk_count(); ++index) {
        const std::size_t begin = index * kLogitChunk;
        const std::size_t count = std::min(logits_.size() - begin, kLogitChunk);
        const std::uint64_t all = count == kLogitChunk ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
        const std::uint64_t allowed = mask[index] & all;
        if (allowed == all) continue;
        if (allowed == 0) {
            if (changed_[index] == 0) changed_chunks_.push_back(static_cast<std::uint32_t>(index));
            changed_[index] = kNothing;
            continue;
        }
        change(begin);
        for (std::size_t i = 0; i < count; ++i) {
            if ((allowed >> i & 1) == 0) copies_[begin + i] = -std::numeric_limits<float>::infinity();
        }
    }
}

void ChunkedLogits::settle() {
    if (changed_chunks_.empty()) return;
    if (maxima_.data() != own_maxima_.data()) {
        std::copy(maxima_.begin(), maxima_.end(), own_maxima_.begin());
        maxima_ = std::span<const float>(own_maxima_.data(), maxima_.size());
    }
    for (const std::uint32_t index : changed_chunks_) own_maxima_[index] = largest_logit(chunk(index));
    highest_ = largest_logit(maxima_);
}

}  // namespace hearth
