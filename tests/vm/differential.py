"""Random programs through wasm-interp and through `hearth vm run`: the same bytes out and the same end.

    differential.py --hearth BINARY [--count 300] [--first-seed 0] [--keep FOLDER] [--options="--speculate ..."]

`hearth vm run --batch LIST --json` takes lines FILE<TAB>INPUT and answers one JSON object a line, in order:
`output_hex` (the bytes printed, also those before a trap), `trap` (null, or the kind as named in reference.TRAPS).
Without --hearth only wasm-interp runs, which still checks that every program is valid and ends."""
import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

import reference
import vm_support
import wasm_binary
from random_programs import Program

CHUNK = 250
TRACED = re.compile(rb"^#.*?\| (\S+)", re.MULTILINE)
# How wasm-interp's own instructions are called in WebAssembly; those without an equal are left out.
TRACE_NAMES = {b"br_unless": "if or br_if", b"call_import": "call", b"alloca": None, b"drop_keep": None,
               b"catch_drop": None}
NOT_TRACED = {"block", "loop", "if", "else", "end", "nop", "br_if"}


class Coverage:
    def __init__(self):
        self.emitted = collections.Counter()
        self.executed = collections.Counter()
        self.ends = collections.Counter()
        self.output_bytes = 0

    def trace(self, path):
        done = subprocess.run(["wasm-interp", path, "--run-all-exports", "--dummy-import-func", "--trace"],
                              capture_output=True, check=True)
        for name, count in collections.Counter(TRACED.findall(done.stdout)).items():
            known = TRACE_NAMES.get(name, name.decode())
            if known:
                self.executed[known] += count

    def report(self, traced):
        total = len(wasm_binary.OPCODES)
        print(f"opcodes written: {len(self.emitted)} of {total}; {sum(self.emitted.values())} instructions")
        if traced:
            wanted = set(wasm_binary.OPCODES) - NOT_TRACED
            missing = sorted(wanted - set(self.executed))
            print(f"opcodes executed in {traced} traced programs: {len(wanted) - len(missing)} of {len(wanted)}; "
                  f"{sum(self.executed.values())} instructions" + (f"; never: {', '.join(missing)}" if missing else ""))
        print(f"bytes printed: {self.output_bytes}")
        for end, count in self.ends.most_common():
            print(f"  {count:6d}  {end or 'ran to the end'}")


def describe(result):
    output, trap = result
    return f"{len(output)} bytes {output[:24].hex()}{'...' if len(output) > 24 else ''}, {trap or 'no trap'}"


def keep(folder, seed, program):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{seed}.wasm").write_bytes(program.code)
    (folder / f"{seed}.input").write_text(program.input)


def run_chunk(seeds, arguments, coverage):
    """Gives the seeds on which the two disagree."""
    with tempfile.TemporaryDirectory(prefix="hearth_vm_") as name:
        folder = pathlib.Path(name)
        programs, expected = [], []
        for seed in seeds:
            program = Program(seed)
            fixed = folder / f"{seed}.fixed.wasm"
            fixed.write_bytes(wasm_binary.with_fixed_input(program.code, program.input.encode()))
            (folder / f"{seed}.wasm").write_bytes(program.code)
            programs.append((folder / f"{seed}.wasm", program))
            expected.append(reference.run_file(str(fixed)))
            coverage.emitted.update(program.emitted)
            coverage.ends[expected[-1][1]] += 1
            coverage.output_bytes += len(expected[-1][0])
            if arguments.trace_every and seed % arguments.trace_every == 0:
                coverage.trace(str(fixed))
        if not arguments.hearth:
            return []
        listed = [(path, program.input) for path, program in programs]
        answers = map(vm_support.answer, vm_support.batch(listed, *arguments.options.split(), binary=arguments.hearth))
        different = []
        for seed, (_, program), wanted, answer in zip(seeds, programs, expected, answers):
            if wanted == answer:
                continue
            different.append(seed)
            print(f"seed {seed}: wasm-interp: {describe(wanted)}; hearth: {describe(answer)}")
            if arguments.keep:
                keep(pathlib.Path(arguments.keep), seed, program)
        return different


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--hearth", help="the binary under test")
    parser.add_argument("--options", default="", help="further options for `hearth vm run`")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--keep", help="folder for the programs on which the two disagree")
    parser.add_argument("--trace-every", type=int, default=0, help="trace every N-th program: opcodes executed")
    arguments = parser.parse_args()
    coverage = Coverage()
    different = []
    end = arguments.first_seed + arguments.count
    for first in range(arguments.first_seed, end, CHUNK):
        different += run_chunk(range(first, min(first + CHUNK, end)), arguments, coverage)
    traced = arguments.trace_every and -(-arguments.count // arguments.trace_every)
    coverage.report(traced)
    print(f"{arguments.count} programs, {len(different)} differences" if arguments.hearth else
          f"{arguments.count} programs, wasm-interp only")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
