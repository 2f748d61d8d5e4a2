"""Verification asks the model at every position: a trace with one wrong token anywhere must not pass."""
import json
import os
import pathlib
import pty
import signal
import subprocess
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

    def test_a_prompt_that_holds_more_than_program_and_input_is_refused(self):
        start = self.tokens.index("start")
        at = [i for i, token in enumerate(self.tokens[:start]) if token == "at"][-1]
        first = at  # of the input's segment: its address is the bytes before
        while self.tokens[first - 1] not in ("}", "const"):
            first -= 1
        for place in (first, start - 1):
            tokens = self.tokens[:place] + ["10", "at", "2a", "}"] + self.tokens[place:]
            with self.subTest(place=place):
                status, answer = self.verify(tokens)
                self.assertEqual((status, answer), (3, {}))

    def test_a_trace_of_another_input_is_refused(self):
        trace = self.folder / "trace"
        trace.write_text(" ".join(self.tokens))
        other = vm_support.hearth("vm", "verify", self.program, "--input", "95+8", "--trace", trace)
        self.assertEqual(other.returncode, 3)
        self.assertIn(b"another input", other.stderr)
        self.assertEqual(vm_support.hearth("vm", "verify", self.program, "--trace", trace).returncode, 0)

    def test_a_limit_of_tokens_is_the_same_for_every_engine(self):
        for limit in (1, 2, 3, 50, 101):
            answers = set()
            for options in (("--engine", "native"), ("--engine", "int64"), ("--engine", "float64"),
                            ("--speculate", "--threads", "1"), ("--speculate", "--threads", "2")):
                answer, = vm_support.batch([(self.program, INPUT)], "--max-tokens", str(limit), *options)
                answers.add((answer["tokens"], answer["output"], answer["trace_hash"], answer["stopped_by"]))
            self.assertEqual(len(answers), 1, answers)
            self.assertEqual(answers.pop()[0], limit)

    def test_a_program_without_end_is_benched_within_its_limits(self):
        source = self.folder / "endless.c"
        source.write_text("void compute(const char *input) { volatile int i = 0; (void)input; for (;;) i = i + 1; }\n")
        done = vm_support.hearth("vm", "bench", source, "--max-tokens", 1001, "--json", timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertTrue(answer["equal"])
        self.assertEqual({row["tokens"] for row in answer["rows"]}, {1001})
        self.assertFalse([row for row in answer["rows"] if "without trace" in row["name"]])

    def test_ctrl_c_ends_a_run_with_130(self):
        source = self.folder / "endless.c"
        source.write_text("void compute(const char *input) { volatile int i = 0; (void)input; for (;;) i = i + 1; }\n")
        built = self.folder / "endless.vm"
        self.assertEqual(vm_support.hearth("vm", "build", source, "-o", built).returncode, 0)
        progress, slave = pty.openpty()
        process = subprocess.Popen([vm_support.BINARY, "vm", "run", built], stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        self.assertTrue(os.read(progress, 1))  # it runs: the progress is drawn
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)
        os.close(progress)

    def test_options_that_do_not_go_together_are_usage_errors(self):
        kept, lines = self.folder / "kept", self.folder / "lines"
        lines.write_text("1+1\n")
        for options in (("run", self.program, "--resume", kept, "--input", "1+1"),
                        ("run", self.program, "--resume", kept, "--inputs", lines),
                        ("run", "--resume", kept, "--batch", lines),
                        ("run", self.program, "--snapshot", kept, "--inputs", lines),
                        ("run", "--snapshot", kept, "--batch", lines),
                        ("run", self.program, "--max-seconds", "0"),
                        ("run", self.program, "--max-seconds", "-1"),
                        ("verify", self.program, "--engine", "native")):
            with self.subTest(options=options[1:]):
                self.assertEqual(vm_support.hearth("vm", *options).returncode, 2)

    def test_every_verb_answers_in_json(self):
        def answer(*words):
            done = vm_support.hearth("vm", *words, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)

        self.assertEqual(answer("trace", self.program, "--input", INPUT), self.tokens)
        self.assertIn("halt", answer("disasm", self.program))
        self.assertIn("<svg", answer("draw"))
        model = answer("model")
        self.assertEqual(model["sizes"]["vocabulary"], 588)
        self.assertTrue(all(head["proof"] for head in model["heads"]))
        self.assertEqual(answer("model", "-o", self.folder / "weights"), {"out": str(self.folder / "weights")})
        self.assertEqual(answer("model", self.folder / "weights"), model)

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
