// The model the usual way, for comparison: dense doubles through a BLAS, many positions of a known trace at once, heads
// that need no search answered directly. `bench_vm_blas PROGRAM INPUT [TOKENS [BATCH]]` checks every position.
#include <cblas.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/clock.h"
#include "base/mapped_file.h"
#include "vm/dense.h"
#include "vm/interpreter.h"
#include "vm/machine.h"
#include "vm/wasm_compiler.h"

extern "C" void openblas_set_num_threads(int count);

namespace hearth::vm {
namespace {

void multiply_blas(std::size_t rows, std::size_t columns, std::size_t inner, const double* a, const double* b,
                   double* c, Write write) {
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(rows), static_cast<int>(columns),
                static_cast<int>(inner), 1.0, a, static_cast<int>(inner), b, static_cast<int>(inner),
                write == Write::Add ? 1.0 : 0.0, c, static_cast<int>(columns));
}

Result<int> run(const std::string& path, const std::string& input, std::size_t limit, std::size_t batch) {
    const std::string content = TRY(read_file(path, std::size_t{64} << 20));
    const std::span<const std::byte> bytes = std::as_bytes(std::span(content));
    const Program program = TRY(is_program_file(bytes) ? read_program(bytes) : compile_wasm(bytes));
    TRY(check_input(program, input));
    std::vector<Token> trace = prompt_program(program);
    const std::vector<Token> last = prompt_input(program, input);
    trace.insert(trace.end(), last.begin(), last.end());
    const std::size_t prompt = trace.size();
    Interpreter(program, input).run_traced(trace, prompt + limit);
    const std::vector<std::uint32_t> tokens(trace.begin(), trace.end());
    const DenseModel model = dense_model(schedule(build_machine()));
    DenseRunner runner(model, multiply_blas);
    std::size_t mismatches = 0;
    const double started = monotonic_seconds();
    for (std::size_t first = 0; first + 1 < tokens.size(); first += batch) {
        const std::size_t count = std::min(batch, tokens.size() - 1 - first);
        const std::vector<std::uint32_t> expected = runner.feed(std::span(tokens).subspan(first, count));
        for (std::size_t i = 0; i < count; ++i) {
            if (first + i + 1 >= prompt && expected[i] != tokens[first + i + 1]) ++mismatches;
        }
    }
    const double seconds = monotonic_seconds() - started;
    std::printf(
        "{\"tokens\": %zu, \"positions\": %zu, \"mismatches\": %zu, \"seconds\": %.6f, "
        "\"tokens_per_second\": %.1f}\n",
        tokens.size(), tokens.size() - prompt, mismatches, seconds, static_cast<double>(tokens.size()) / seconds);
    return mismatches == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hearth::vm

int main(int count, char** words) {
    if (count < 3) {
        std::fprintf(stderr, "usage: bench_vm_blas PROGRAM INPUT [TOKENS [BATCH]]\n");
        return 2;
    }
    openblas_set_num_threads(1);
    const std::size_t limit = count > 3 ? std::strtoull(words[3], nullptr, 10) : 1 << 20;
    const std::size_t batch = count > 4 ? std::strtoull(words[4], nullptr, 10) : 256;
    const hearth::Result<int> done = hearth::vm::run(words[1], words[2], limit, batch == 0 ? 1 : batch);
    if (done.ok()) return done.value();
    std::fprintf(stderr, "bench_vm_blas: %s\n", done.error().message.c_str());
    return 1;
}
