"""The harness itself: it must notice a wrong byte, a wrong trap and a missing answer, and its programs never change."""
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import reference
import wasm_binary
from random_programs import Program
from wasm_binary import I32, Module, op

HERE = pathlib.Path(__file__).resolve().parent

# Answers like `hearth vm run --batch` with wasm-interp's results, except for one mistake.
STAND_IN = """#!{python}
import json, os, sys
sys.path.insert(0, {here!r})
import reference
mistake = os.environ["MISTAKE"]
for number, line in enumerate(open(sys.argv[4], encoding="utf-8")):
    path, data = line.rstrip("\\n").split("\\t")
    output, trap = reference.run(open(path, "rb").read(), data.encode())
    if number == 7 and mistake == "byte":
        output += b"x"
    if number == 7 and mistake == "trap":
        trap = None if trap else "integer overflow"
    if number == 7 and mistake == "missing":
        break
    print(json.dumps({{"output_hex": output.hex(), "trap": trap, "halted": True}}))
"""


class HarnessTest(unittest.TestCase):
    def differential(self, mistake):
        with tempfile.TemporaryDirectory(prefix="hearth_vm_") as folder:
            stand_in = pathlib.Path(folder) / "stand_in"
            stand_in.write_text(STAND_IN.format(python=sys.executable, here=str(HERE)))
            stand_in.chmod(0o755)
            return subprocess.run(
                [sys.executable, str(HERE / "differential.py"), "--hearth", str(stand_in), "--count", "12"],
                capture_output=True, check=False, env={**os.environ, "MISTAKE": mistake})

    def test_equal_answers_pass(self):
        done = self.differential("none")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(b"12 programs, 0 differences", done.stdout)

    def test_a_wrong_byte_is_seen(self):
        done = self.differential("byte")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"seed 7:", done.stdout)

    def test_a_wrong_trap_is_seen(self):
        done = self.differential("trap")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"seed 7:", done.stdout)

    def test_a_missing_answer_is_seen(self):
        done = self.differential("missing")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"7 answers to 12 programs", done.stderr)

    def test_a_seed_gives_the_same_program_everywhere(self):
        digest = hashlib.sha256()
        for seed in range(40):
            program = Program(seed)
            digest.update(program.code + program.input.encode())
        self.assertEqual(digest.hexdigest()[:16], "64e36893a9f7c486")

    def test_all_opcodes_are_written(self):
        written = set()
        for seed in range(300):
            written |= set(Program(seed).emitted)
        self.assertEqual(written, set(wasm_binary.OPCODES))

    def test_the_input_is_fixed_behind_the_heap_base(self):
        module = Module(heap_base=1001)
        code = op("local.get", 0) + op("call", 0)  # the low byte of the address: 1008
        code += op("local.get", 0) + op("i32.load8_u", 0, 1) + op("call", 0)
        code += op("local.get", 0) + op("i32.load8_u", 0, 2) + op("call", 0)
        module.function([I32], [], [], code, export="compute")
        self.assertEqual(reference.run(module.encode(), b"hi"), (bytes([1008 % 256]) + b"i\0", None))


if __name__ == "__main__":
    unittest.main()
