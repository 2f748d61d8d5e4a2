"""Programs under `wasm-interp`, the reference: what they print and how they end.

What works with wabt 1.0.32 (Debian 12):
- `--dummy-import-func` provides env.output_byte as it stands and prints `called host env.output_byte(i32:72) =>`
  for every call. (`--host-print` provides only host.print and refuses every other import.)
- `--run-all-exports` skips functions with parameters, so that `compute` needs a wrapper (with_fixed_input).
- A trap is a line `run() => error: MESSAGE` on standard output; the exit status stays 0.
- A module it cannot instantiate is `error initializing module: MESSAGE` on standard error and exit status 1.
- A process takes about 3 ms to start, so that one process a program is quick enough.
"""
import re
import subprocess
import tempfile

import wasm_binary

# How wasm-interp begins its messages, and how the kind is called here and by the VM.
TRAPS = {
    "unreachable executed": "unreachable executed",
    "integer divide by zero": "integer divide by zero",
    "integer overflow": "integer overflow",
    "out of bounds memory access": "out of bounds memory access",
    "undefined table index": "undefined table element",
    "uninitialized table element": "uninitialized table element",
    "indirect call signature mismatch": "indirect call signature mismatch",
    "call stack exhausted": "call stack exhausted",
}
CALL = re.compile(rb"called host env\.output_byte\(i32:(\d+)\) =>")


def trap_kind(message):
    for words, kind in TRAPS.items():
        if message.startswith(words):
            return kind
    raise ValueError(f"wasm-interp says something new: {message}")


def run_file(path, seconds=60):
    """Runs the exports of a module that takes no input: (output bytes, trap kind or None)."""
    done = subprocess.run(["wasm-interp", path, "--run-all-exports", "--dummy-import-func"], capture_output=True,
                          timeout=seconds, check=False)
    if done.returncode != 0:
        raise ValueError(f"{path}: {done.stderr.decode().strip()}")
    output = bytes(int(byte) & 255 for byte in CALL.findall(done.stdout))
    last = done.stdout.decode().rstrip("\n").rpartition("\n")[2]
    if last == "run() =>":
        return output, None
    return output, trap_kind(last.removeprefix("run() => error: "))


def run(module, data, seconds=60):
    """Runs a program (bytes of a module that exports compute and __heap_base) on an input."""
    fixed = wasm_binary.with_fixed_input(module, data)
    with tempfile.NamedTemporaryFile(suffix=".wasm") as file:
        file.write(fixed)
        file.flush()
        return run_file(file.name, seconds)
