// Sums of exponentials over many logits, in vectors and in an order of their own: the same bits on every machine.
#pragma once

#include <cstddef>
#include <span>

#include "sampling/chunked_logits.h"

namespace hearth {

// Sum of e^(logit - highest), in double: what the chain's probabilities are relative to.
double sum_of_exponentials(const ChunkedLogits& row);

// The same to float precision, at a quarter of the cost: for log-probabilities, which are told as floats.
double sum_of_exponentials_fast(std::span<const float> logits, float highest);

// weights[i] = e^((values[i * stride] - highest) * inverse_temperature), as floats `stride` apart.
void exponentials(const float* values, std::size_t stride, std::size_t count, float highest, double inverse_temperature,
                  double* weights);

}  // namespace hearth
