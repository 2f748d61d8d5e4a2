// The native interpreter proposes, the model checks every token in blocks: the model's own answer at verifier speed.
#pragma once

#include <string_view>

#include "vm/verify.h"

namespace hearth::vm {

// Should a draft ever differ, the model generates alone; the answer is the model's in any case.
template <typename Number>
Result<RunReport> run_speculatively(const Transformer& transformer, const Program& program, std::string_view input,
                                    const RunLimits& limits, ThreadPool& pool);

extern template Result<RunReport> run_speculatively<std::int64_t>(const Transformer&, const Program&, std::string_view,
                                                                  const RunLimits&, ThreadPool&);
extern template Result<RunReport> run_speculatively<double>(const Transformer&, const Program&, std::string_view,
                                                            const RunLimits&, ThreadPool&);

}  // namespace hearth::vm
