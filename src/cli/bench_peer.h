// The engine `hearth bench` compares with: llama.cpp's llama-bench, run once for every repetition of a test.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/bench_report.h"

namespace hearth {

struct BenchPeer {
    std::string program;  // a path, or a name looked up in PATH
    std::string model;
    std::size_t threads = 1;
};

// The command line that runs `test` once, after a warm-up of the peer's own.
std::vector<std::string> peer_command(const BenchPeer& peer, const BenchTest& test);
// Tokens a second of `test` from what the peer wrote. An error names the program.
Result<double> parse_peer(const BenchPeer& peer, const BenchTest& test, std::string_view output);
// Runs it; `on_tick` is called about ten times a second.
Result<double> measure_peer(const BenchPeer& peer, const BenchTest& test, const std::function<void()>& on_tick);

}  // namespace hearth
