"""Verification asks the model at every position: a trace with one wrong token anywhere must not pass."""
import json
import pathlib
import tempfile
import unittest

import toolchain
import vm_support

SOURCE = toolchain.ROOT / "examples/vm/addition.c"
INPUT = "95+7"


@unittest.skipUnless(vm_support.BINARY, "no HEARTH_BINARY")
class VerifyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="hearth_vm_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.program = cls.folder / "addition.vm"
        built = vm_support.hearth("vm", "build", SOURCE, "-o", cls.program)
        if built.returncode != 0:
            raise RuntimeError(built.stderr.decode())
        cls.tokens = vm_support.hearth("vm", "trace", cls.program, "--input", INPUT).stdout.decode().split()

    def verify(self, tokens, *options):
        """(exit status, JSON answer)"""
        trace = self.folder / "trace"
        trace.write_text(" ".join(tokens) + "\n")
        done = vm_support.hearth("vm", "verify", self.program, "--input", INPUT, "--trace", trace, "--json", *options)
        return done.returncode, json.loads(done.stdout.decode() or "{}")

    def test_a_true_trace_passes_with_every_generated_position_asked(self):
        for options in ((), ("--engine", "float64"), ("--heads", "hull")):
            status, answer = self.verify(self.tokens, *options)
            self.assertEqual((status, answer["mismatches"]), (0, 0), options)
            ran, = vm_support.batch([(self.program, INPUT)])
            self.assertEqual(answer["positions"], ran["tokens"])
            self.assertEqual(answer["trace_hash"], ran["trace_hash"])

    def test_one_wrong_token_anywhere_is_found(self):
        _, answer = self.verify(self.tokens)
        first = len(self.tokens) - answer["positions"]
        for at in [first, first + 1, len(self.tokens) - 2, *range(first + 5, len(self.tokens) - 1, 23)]:
            wrong = list(self.tokens)
            wrong[at] = "2a" if wrong[at] != "2a" else "2b"
            with self.subTest(position=at, was=self.tokens[at]):
                status, answer = self.verify(wrong)
                self.assertNotEqual(status, 0)
                self.assertEqual(answer["mismatches"], 1)
                self.assertIn(str(at), answer["mismatch"])

    def test_many_inputs_of_one_program_are_answered_in_order(self):
        inputs = self.folder / "inputs"
        inputs.write_text("95+7\n1+1\n\n999+1\n")
        done = vm_support.hearth("vm", "run", self.program, "--inputs", inputs, "--json")
        answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
        alone = vm_support.batch([(self.program, data) for data in ("95+7", "1+1", "", "999+1")])
        self.assertEqual([a["output"] for a in answers], [a["output"] for a in alone])
        self.assertEqual([a["trace_hash"] for a in answers], [a["trace_hash"] for a in alone])
        self.assertEqual(answers[0]["output"], "102\n")

    def test_a_run_stopped_by_a_limit_goes_on_in_another_process(self):
        whole, = vm_support.batch([(self.program, INPUT)])
        kept = self.folder / "kept"
        first = vm_support.hearth("vm", "run", self.program, "--input", INPUT, "--max-tokens", 100, "--snapshot", kept)
        self.assertNotEqual(first.returncode, 0)
        second = vm_support.hearth("vm", "run", self.program, "--resume", kept, "--json")
        answer = json.loads(second.stdout.decode())
        self.assertEqual((answer["output"], answer["trace_hash"]), (whole["output"], whole["trace_hash"]))


if __name__ == "__main__":
    unittest.main()
