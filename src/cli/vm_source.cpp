#include "cli/vm_source.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "base/mapped_file.h"
#include "cli/child_process.h"
#include "cli/files.h"
#include "vm/c_runtime.h"
#include "vm/wasm_compiler.h"

namespace hearth {

namespace {

// A folder of our own, gone when the compilation is.
class TemporaryFolder {
public:
    static Result<TemporaryFolder> create() {
        std::error_code error;
        const std::filesystem::path where = std::filesystem::temp_directory_path(error);  // TMPDIR, else /tmp
        if (error) return Error{ErrorCode::Failed, "there is no folder for temporary files: TMPDIR names none"};
        std::string path = (where / "hearth_vm_XXXXXX").string();
        if (::mkdtemp(path.data()) == nullptr) {
            return Error{ErrorCode::Failed, where.string() + ": cannot make a temporary folder"};
        }
        return TemporaryFolder(std::move(path));
    }
    TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    TemporaryFolder& operator=(TemporaryFolder&&) = delete;
    ~TemporaryFolder() {
        if (!path_.empty()) remove_tree(path_);
    }
    std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

private:
    explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

// The first of these names under which the tool is installed: the version that is tested, the plain one, then the
// newest.
Result<std::string> find_tool(std::string_view tool) {
    for (const std::string_view version : {"-14", "", "-19", "-18", "-17", "-16", "-15", "-13"}) {
        const std::string name = std::string(tool) + std::string(version);
        const Result<ChildResult> found = run_child(
            {name, "--version"}, {}, [] {}, ChildOutput::Keep);
        if (found.ok() && found->exit_code == 0) return name;
    }
    return Error{ErrorCode::Failed, "C programs need " + std::string(tool) +
                                        ", which is not installed (Debian: apt install clang-14 lld-14)"};
}

Status run_tool(const std::vector<std::string>& words) {
    const ChildResult done = TRY(run_child(words, {}, [] {}));
    if (done.exit_code == 0) return {};
    // The first line says what is wrong and where.
    const std::string text = done.errors.substr(0, done.errors.find('\n'));
    return Error{ErrorCode::InvalidModel, words[0] + ": " + (text.empty() ? "failed" : text)};
}

Result<std::string> compile_c(const std::string& path) {
    if (!file_size(path)) return Error{ErrorCode::InvalidModel, path + ": no such file"};
    const std::string clang = TRY(find_tool("clang"));
    const std::string linker = TRY(find_tool("wasm-ld"));
    const TemporaryFolder folder = TRY(TemporaryFolder::create());
    const std::string header = folder.file("hearth_vm.h");
    const std::string object = folder.file("program.o");
    const std::string module = folder.file("program.wasm");
    TRY(write_file_atomically(header, std::as_bytes(std::span(vm::kRuntimeHeader))));
    TRY(run_tool({clang, "--target=wasm32", "-nostdlib", "-O2", "-fno-builtin", "-std=c11", "-include", header, "-c",
                  "-o", object, "--", path}));
    // The stack comes first, so that it runs out of memory's lower end (a trap) instead of into the program's data.
    TRY(run_tool({linker, "--no-entry", "--export=compute", "--export=__heap_base", "--stack-first", "-z",
                  "stack-size=16384", "--initial-memory=10485760", object, "-o", module}));
    return read_file(module, std::size_t{64} << 20);
}

}  // namespace

Result<vm::Program> load_vm_program(const std::string& path) {
    std::string content;
    if (std::string_view(path).ends_with(".c")) {
        content = TRY(compile_c(path));
    } else {
        content = TRY(read_file(path, std::size_t{256} << 20));
    }
    const std::span<const std::byte> bytes = std::as_bytes(std::span(content));
    Result<vm::Program> program = vm::is_program_file(bytes) ? vm::read_program(bytes) : vm::compile_wasm(bytes);
    if (!program.ok()) return Error{program.error().code, path + ": " + program.error().message};
    return program;
}

}  // namespace hearth
