// Options shared by the commands that compute with a model, and what they make of them.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "cli/options.h"
#include "cli/session.h"
#include "engine/engine.h"
#include "sampling/sampler.h"

namespace hearth {

inline constexpr Positional kModelPositional = {
    .name = "MODEL", .kind = ValueKind::Model, .help = "A GGUF file or a pulled model."};
inline constexpr Option kThreadsOption = {.name = "threads",
                                          .letter = 't',
                                          .kind = ValueKind::Whole,
                                          .value_name = "N",
                                          .help = "Threads to compute with.",
                                          .default_text = "HEARTH_CPU_THREADS, else what the machine offers"};
inline constexpr Option kThreadsPrefillOption = {.name = "threads-prefill",
                                                 .kind = ValueKind::Whole,
                                                 .value_name = "N",
                                                 .help = "Threads for prompts, where they should differ.",
                                                 .default_text = "as --threads"};
inline constexpr Option kIsaOption = {.name = "isa",
                                      .kind = ValueKind::Text,
                                      .value_name = "LEVEL",
                                      .help = "Kernel level, e.g. reference, neon, dotprod, avx2.",
                                      .default_text = "HEARTH_ISA, else the best"};
inline constexpr Option kContextOption = {.name = "ctx",
                                          .letter = 'c',
                                          .kind = ValueKind::Whole,
                                          .value_name = "N",
                                          .help = "Tokens of context: a prompt and its answer together.",
                                          .default_text = "the model's, at most 8192"};
inline constexpr Option kEagerOption = {
    .name = "eager",
    .help = "Compute node by node instead of replaying the compiled plan (same bits).",
    .visibility = Visibility::Hidden};

inline constexpr Option kPackOption = {
    .name = "pack",
    .kind = ValueKind::Choice,
    .value_name = "HOW",
    .help =
        "Weights rearranged for this CPU: auto keeps them in a file for the next start, memory keeps no file, off "
        "computes with the model file as it is.",
    .default_text = "auto",
    .choices = "auto|memory|off"};

inline constexpr Option kPrefillOption = {
    .name = "prefill",
    .kind = ValueKind::Text,
    .value_name = "HOW",
    .help =
        "Prompts: exact gives the same bits however they are cut; fast rounds weights and activations more coarsely "
        "in steps of 32 tokens and more.",
    .default_text = "exact"};

inline constexpr Option kKvOption = {
    .name = "kv",
    .kind = ValueKind::Choice,
    .value_name = "TYPE",
    .help = "What the KV cache keeps: f16; q8 takes 53 % of its memory, q4 28 %, and both change the answers a little.",
    .default_text = "f16",
    .choices = "f16|q8|q4"};

inline constexpr std::size_t kContextLimit = std::size_t{1} << 24;

// --threads (or HEARTH_CPU_THREADS); 0: not given.
Result<std::size_t> threads_option(const Arguments& arguments, const Environment& environment);
// --kv.
KvType kv_option(const Arguments& arguments);
// --threads, --threads-prefill, --isa, --ctx, --pack, --prefill, --kv and --eager, those the command has.
Result<EngineOptions> engine_options(const Arguments& arguments, const Environment& environment);
// Loads with a progress bar while weights are packed, and says on standard error when they could not be, and when
// prompts cannot be fast.
Result<std::shared_ptr<Engine>> load_engine(const std::string& path, EngineOptions options, Console& console);
// The sampling options; ranges that need the vocabulary are checked by SamplingOptions::validate.
Result<SamplingOptions> sampling_options(const Arguments& arguments);

// The memory bandwidth decoding is compared with, in GB/s, measured in about a tenth of a second.
double measure_roof(std::size_t threads);

}  // namespace hearth
