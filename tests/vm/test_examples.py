"""The example programs print what they should: under wasm-interp, and in the VM with every engine and mode."""
import hashlib
import json
import pathlib
import subprocess
import tempfile
import unittest

import reference
import toolchain
import vm_support

FOLDER = toolchain.ROOT / "examples/vm"
LONG = {"sudoku", "sudoku_hard"}  # millions of tokens: not in every mode
SLOW_IN_HULLS = {"primes"}  # a hull for every head is for checking, not for speed


class Example:
    def __init__(self, line):
        self.name, program, self.input = line.rstrip("\n").split("\t")
        self.source = FOLDER / program
        self.expected = (FOLDER / "expected" / f"{self.name}.txt").read_bytes()


def examples():
    with open(FOLDER / "cases.tsv", encoding="utf-8") as lines:
        return [Example(line) for line in lines]


class ExamplesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.examples = examples()
        folder = tempfile.TemporaryDirectory(prefix="hearth_vm_")
        cls.addClassCleanup(folder.cleanup)
        cls.modules = {}
        for source in {e.source for e in cls.examples}:
            path = pathlib.Path(folder.name) / f"{source.stem}.wasm"
            path.write_bytes(toolchain.compile_c(source, "-Wall", "-Wextra", "-Werror"))
            cls.modules[source] = path

    def test_every_program_has_a_case_and_every_case_its_output(self):
        self.assertEqual({p.name for p in FOLDER.glob("*.c")}, {e.source.name for e in self.examples})
        self.assertEqual({p.stem for p in (FOLDER / "expected").iterdir()}, {e.name for e in self.examples})

    def test_the_kept_modules_are_made_from_these_sources(self):
        if b"14.0.6" not in subprocess.run(["clang-14", "--version"], capture_output=True, check=True).stdout:
            self.skipTest("they were made with clang 14.0.6")
        for source, module in self.modules.items():
            self.assertEqual(toolchain.kept_module(source).read_bytes(), module.read_bytes(),
                             f"{source.name}: make them anew with tests/vm/toolchain.py")

    def test_the_reference_interpreter_agrees(self):
        for example in self.examples:
            with self.subTest(example.name):
                module = self.modules[example.source].read_bytes()
                self.assertEqual(reference.run(module, example.input.encode()), (example.expected, None))

    def test_the_digest_is_the_one_everybody_computes(self):
        module = self.modules[FOLDER / "sha256.c"].read_bytes()
        for length in (0, 1, 55, 56, 63, 64, 65, 119, 120, 200):
            data = bytes(33 + i * 7 % 90 for i in range(length))
            digest = hashlib.sha256(data).hexdigest().encode() + b"\n"
            self.assertEqual(reference.run(module, data), (digest, None), length)

    def test_the_prime_test_agrees_with_division(self):
        module = self.modules[FOLDER / "primes.c"].read_bytes()
        numbers = [*range(300), *range(65500, 65560), 4292870399, 4294049777, 3825123056 + 1, 2**32 - 5]
        output, trap = reference.run(module, " ".join(map(str, numbers)).encode())
        self.assertIsNone(trap)
        for number, line in zip(numbers, output.decode().splitlines()):
            prime = number > 1 and all(number % d for d in range(2, int(number**0.5) + 1))
            self.assertEqual(line.endswith("is prime"), prime, line)

    def check_in_vm(self, chosen, *options):
        """Gives the JSON answers by example's name."""
        answers = vm_support.batch([(self.modules[e.source], e.input) for e in chosen], *options)
        for example, fields in zip(chosen, answers):
            with self.subTest(example.name, options=options):
                self.assertEqual(vm_support.answer(fields), (example.expected, None))
                self.assertTrue(fields["halted"])
        return {e.name: a for e, a in zip(chosen, answers)}

    @unittest.skipUnless(vm_support.BINARY, "no HEARTH_BINARY")
    def test_every_engine_and_mode_prints_the_same_by_the_same_trace(self):
        chosen = [e for e in self.examples if e.name not in LONG]
        plain = self.check_in_vm(chosen)
        for options in (("--speculate",), ("--engine", "float64"), ("--engine", "float64", "--speculate"),
                        ("--heads", "hull"), ("--engine", "float64", "--heads", "hull")):
            some = [e for e in chosen if "hull" not in options or e.name not in SLOW_IN_HULLS]
            for name, fields in self.check_in_vm(some, *options).items():
                self.assertEqual(fields["trace_hash"], plain[name]["trace_hash"], (name, options))
                self.assertEqual(fields["tokens"], plain[name]["tokens"], (name, options))

    @unittest.skipUnless(vm_support.BINARY, "no HEARTH_BINARY")
    def test_every_position_of_every_trace_is_what_the_model_says(self):
        for example in (e for e in self.examples if e.name not in LONG):
            hashes = set()
            for options in (("--threads", "1"), ("--threads", "3"), ("--engine", "float64", "--threads", "2")):
                done = vm_support.hearth("vm", "verify", self.modules[example.source], "--input", example.input, "--json",
                                         *options)
                fields = json.loads(done.stdout.decode())
                self.assertEqual((done.returncode, fields["mismatches"]), (0, 0), (example.name, options))
                hashes.add((fields["trace_hash"], fields["positions"]))
            self.assertEqual(len(hashes), 1, example.name)

    @unittest.skipUnless(vm_support.BINARY, "no HEARTH_BINARY")
    def test_sudokus_are_solved_in_generation_and_in_speculation(self):
        chosen = [e for e in self.examples if e.name in LONG]
        plain = self.check_in_vm([e for e in chosen if e.name == "sudoku"])
        drafted = self.check_in_vm(chosen, "--speculate")
        self.assertEqual(plain["sudoku"]["trace_hash"], drafted["sudoku"]["trace_hash"])
        self.assertGreater(drafted["sudoku_hard"]["tokens"], 5_000_000)

    @unittest.skipUnless(vm_support.BINARY, "no HEARTH_BINARY")
    def test_c_files_are_built_by_the_binary_itself(self):
        chosen = [e for e in self.examples if e.name not in LONG]
        answers = vm_support.batch([(e.source, e.input) for e in chosen], "--engine", "native")
        for example, fields in zip(chosen, answers):
            self.assertEqual(vm_support.answer(fields), (example.expected, None), example.name)


if __name__ == "__main__":
    unittest.main()
