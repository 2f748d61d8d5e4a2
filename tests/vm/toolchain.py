"""C programs to WebAssembly with the same tools and flags as the VM's own build. Run by itself, it makes modules/ anew:
the examples compiled, for tests on machines without a compiler for them."""
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "src/vm/runtime/hearth_vm.h"
COMPILE = ["clang-14", "--target=wasm32", "-nostdlib", "-O2", "-fno-builtin", "-std=c11", "-include", str(RUNTIME), "-c"]
# The stack comes first, so that it runs out of memory's lower end (a trap) instead of into the program's data.
LINK = ["wasm-ld-14", "--no-entry", "--export=compute", "--export=__heap_base", "--stack-first", "-z",
        "stack-size=16384", "--initial-memory=10485760"]


def compile_c(source, *flags):
    """The module of a C file, as bytes."""
    with tempfile.TemporaryDirectory(prefix="hearth_vm_") as folder:
        made = pathlib.Path(folder)
        subprocess.run([*COMPILE, *flags, str(source), "-o", str(made / "program.o")], check=True)
        subprocess.run([*LINK, str(made / "program.o"), "-o", str(made / "program.wasm")], check=True)
        return (made / "program.wasm").read_bytes()


def kept_module(source):
    return pathlib.Path(__file__).resolve().parent / "modules" / f"{source.stem}.wasm"


if __name__ == "__main__":
    for example in sorted((ROOT / "examples/vm").glob("*.c")):
        kept_module(example).write_bytes(compile_c(example))
