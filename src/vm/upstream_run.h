// Executing upstream's model.bin: its prompts are token spellings between white space, its output the out(..) tokens.
#pragma once

#include <string_view>

#include "vm/dense.h"
#include "vm/run.h"

namespace hearth::vm {

Result<std::vector<std::uint32_t>> parse_upstream_prompt(const UpstreamModel& model, std::string_view text);

// The byte of out(c) or out(hh); nothing for other tokens.
std::optional<char> upstream_output(std::string_view spelling);

// Token by token, until its stop token or a limit. There are no traps and no hash: those are of our machine.
RunReport run_upstream(const UpstreamModel& model, std::span<const std::uint32_t> prompt, const RunLimits& limits);

}  // namespace hearth::vm
