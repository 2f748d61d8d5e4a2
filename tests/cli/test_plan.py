"""plan and doctor: the JSON programs read, the text people read, and what is refused. No speed is asserted."""
import unittest

from support import TINY_MODEL, CliTest


class Plan(CliTest):
    def test_the_form_scripts_rely_on(self):
        plan = self.json("plan", TINY_MODEL, "--threads", "1")
        self.assertEqual(list(plan), ["model", "machine", "memory", "decode", "prompt", "assumptions"])
        memory = plan["memory"]
        self.assertTrue(memory["fits"])
        self.assertEqual(memory["advice"], [])
        self.assertEqual(memory["total_bytes"], memory["weights_bytes"] + memory["packed_bytes"] +
                         memory["kv_f16_bytes"] + memory["activation_bytes"])
        self.assertEqual(plan["machine"]["threads"], 1)
        self.assertGreater(plan["machine"]["read_gb_s"], 0)
        self.assertEqual(plan["decode"][0]["depth"], 0)
        for forecast in plan["decode"] + plan["prompt"]:
            self.assertGreater(forecast["tok_s"], 0)
        self.assertEqual(plan["decode"], sorted(plan["decode"], key=lambda f: f["depth"]))
        self.assertGreater(plan["model"]["matrices"][0]["multiplies_per_token"], 0)

    def test_memory_follows_context_and_batch(self):
        one = self.json("plan", TINY_MODEL, "--context", "128", "--threads", "1")["memory"]
        self.assertEqual(one["context"], 128)
        self.assertEqual(one, {**self.json("plan", TINY_MODEL, "--ctx", "128", "--threads", "1")["memory"],
                               "available_bytes": one["available_bytes"]})
        four = self.json("plan", TINY_MODEL, "--context", "128", "--batch", "4", "--threads", "1")["memory"]
        self.assertEqual(four["kv_f16_bytes"], 4 * one["kv_f16_bytes"])

    def test_a_smaller_kv_cache_takes_less(self):
        words = ("plan", TINY_MODEL, "--context", "128", "--threads", "1")
        f16 = self.json(*words)["memory"]["kv_f16_bytes"]
        q8 = self.json(*words, "--kv", "q8")["memory"]["kv_q8_bytes"]
        q4 = self.json(*words, "--kv", "q4")["memory"]["kv_q4_bytes"]
        self.assertTrue(q4 < q8 < f16, (q4, q8, f16))
        self.assertIn("KV cache, q8", self.ok(*words, "--kv", "q8"))

    def test_what_does_not_fit_is_said_with_what_would(self):
        words = ("plan", TINY_MODEL, "--context", "16777216", "--batch", "1024", "--threads", "1")
        memory = self.json(*words)["memory"]
        self.assertFalse(memory["fits"])
        self.assertTrue(any("--ctx" in advice for advice in memory["advice"]), memory["advice"])
        self.assertIn("It does not fit", self.ok(*words))

    def test_the_text_fits_a_terminal_and_states_what_it_assumes(self):
        text = self.ok("plan", TINY_MODEL, "--threads", "1")
        for word in ("weights", "KV cache, f16", "activations", "available", "decode", "prompt", "tok/s", "assumed",
                     "bandwidth"):
            self.assertIn(word, text)
        for line in text.splitlines():
            self.assertLessEqual(len(line), 80, line)
        self.assertNotIn("\x1b", text)

    def test_faults_are_named(self):
        self.assertIn("MODEL is missing", self.fails(2, "plan"))
        for option, value in [("--context", "0"), ("--context", "x"), ("--batch", "0"), ("--batch", "5000"),
                              ("--threads", "0")]:
            self.assertIn(option.strip("-"), self.fails(2, "plan", TINY_MODEL, option, value))
        self.assertIn("sve9", self.fails(2, "plan", TINY_MODEL, "--isa", "sve9"))
        broken = self.folder / "broken.gguf"
        broken.write_bytes(b"GGUF" + b"\xff" * 100)
        self.fails(3, "plan", broken)


class Doctor(CliTest):
    def ids(self, **env):
        return [finding["id"] for finding in self.json("doctor", env=env)["findings"]]

    def test_the_form_scripts_rely_on(self):
        report = self.json("doctor")
        self.assertEqual(list(report), ["healthy", "findings", "checked", "not_seen"])
        self.assertEqual(report["healthy"], not report["findings"])
        self.assertIn("threads", report["checked"])
        self.assertEqual(set(report["checked"]) & set(report["not_seen"]), set())
        for finding in report["findings"]:
            self.assertEqual(list(finding), ["id", "what", "why", "remedy"])
            self.assertTrue(all(finding.values()))

    def test_settings_that_slow_it_are_found(self):
        self.assertNotIn("threads_invalid", self.ids())
        self.assertIn("threads_invalid", self.ids(HEARTH_CPU_THREADS="many"))
        self.assertIn("threads_above_cpus", self.ids(HEARTH_CPU_THREADS="1024"))
        self.assertIn("isa_unknown", self.ids(HEARTH_ISA="sve9"))
        levels = self.ids(HEARTH_ISA="reference")
        self.assertTrue("isa_below_best" in levels or "isa_reference" in levels, levels)

    def test_the_text_gives_reason_and_remedy_in_a_terminals_width(self):
        text = self.ok("doctor", env={"HEARTH_CPU_THREADS": "many\x1b[2J"})
        self.assertIn("HEARTH_CPU_THREADS is 'many", text)
        self.assertIn("    why ", text)
        self.assertIn("    remedy ", text)
        self.assertIn("Looked at: build", text)
        self.assertNotIn("\x1b", text)
        for line in text.splitlines():
            self.assertLessEqual(len(line), 80, line)


class Threads(CliTest):
    def test_every_command_that_computes_refuses_a_bad_number_of_threads(self):
        text = self.folder / "text"
        text.write_text("some text")
        for words in (("run", TINY_MODEL, "hi"), ("bench", TINY_MODEL), ("plan", TINY_MODEL),
                      ("perplexity", TINY_MODEL, "-f", text), ("quantize", TINY_MODEL, self.folder / "out", "Q4_0")):
            for value in ("0", "-1", "2 ", "1025", "0x2", "two"):
                line = self.fails(2, *words, env={"HEARTH_CPU_THREADS": value})
                self.assertIn("HEARTH_CPU_THREADS", line)

    def test_the_variable_is_the_default_and_an_option_overrules_it(self):
        env = {"HEARTH_CPU_THREADS": "3"}
        self.assertEqual(self.json("plan", TINY_MODEL, env=env)["machine"]["threads"], 3)
        self.assertEqual(self.json("plan", TINY_MODEL, "-t", "1", env=env)["machine"]["threads"], 1)
        self.assertEqual(self.json("plan", TINY_MODEL, "-t", "1", env={"HEARTH_CPU_THREADS": "no"})["machine"]["threads"],
                         1)


if __name__ == "__main__":
    unittest.main()
