// A small random Llama-shaped model, written as a real GGUF file: what whole-engine tests run on without a download.
#pragma once

#include <cstdint>
#include <string>

#include "tensor/dtype.h"

namespace hearth::test {

struct TinyModelOptions {
    DType type = DType::Q8_0;  // of the matrices
    std::size_t layers = 2;
    std::size_t dim = 256;  // a multiple of 256, so that every block type fits
    std::size_t ffn_dim = 512;
    std::size_t heads = 4;
    std::size_t kv_heads = 2;
    std::size_t context = 1024;
    std::size_t vocabulary = 0;  // tokens at least
    std::uint32_t seed = 1;
    bool nan_weight = false;  // puts a NaN into the output norm
};

// Writes the file and returns its path, in a folder of this process that is removed when it ends.
std::string write_tiny_model(const std::string& name, const TinyModelOptions& options = {});

// The folder itself, for further files.
const std::string& temporary_folder();

}  // namespace hearth::test
