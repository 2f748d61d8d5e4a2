// A model file quantised into another: which type each tensor gets (the mix), importance data, and the work itself.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"

namespace hearth {

// How much each column of each matrix matters: the mean square of the activations it was multiplied with.
class ImportanceMatrix {
public:
    // From the GGUF form of an importance matrix: NAME.in_sum2 and NAME.counts for every matrix NAME.
    static Result<ImportanceMatrix> read(const GgufFile& file);

    std::size_t size() const { return weights_.size(); }
    // Of tensor `name`: [columns, experts], or empty when nothing is known about it.
    std::span<const float> find(std::string_view name) const;

private:
    std::map<std::string, std::vector<float>, std::less<>> weights_;
};

// Calls work(0) ... work(count - 1), in any order and on any threads, and returns when all have returned.
using ParallelFor = std::function<void(std::size_t count, const std::function<void(std::size_t)>& work)>;

struct QuantizeOptions {
    std::string mix = "Q4_K_M";                    // one of quantize_mixes(), in either case
    const ImportanceMatrix* importance = nullptr;  // owned by the caller
    ParallelFor parallel;                          // empty: everything on the calling thread
};

// One tensor has been written.
struct QuantizeEvent {
    std::size_t index = 0;  // of `count` tensors
    std::size_t count = 0;
    std::string_view name;
    DType from = DType::F32;
    DType to = DType::F32;
    std::size_t bytes_before = 0;
    std::size_t bytes_after = 0;
    std::string_view warning;  // empty, or what the user should know about this tensor
};
enum class QuantizeNext { Continue, Cancel };
using QuantizeProgress = std::function<QuantizeNext(const QuantizeEvent&)>;

// The names QuantizeOptions::mix may have, smallest result first.
std::span<const std::string_view> quantize_mixes();

// The type of every tensor of `in` under `options`, in file order. Tensors that are not matrices keep theirs.
Result<std::vector<DType>> plan_quantization(const GgufFile& in, const QuantizeOptions& options);

// Writes `in`, quantised, to `out_path`, which appears only when all went well and may not be a file of `in` itself.
// The bytes written depend on the model, the mix and the importance alone.
Status quantize_model(const GgufFile& in, const std::string& out_path, const QuantizeOptions& options,
                      const QuantizeProgress& progress = {});

}  // namespace hearth
