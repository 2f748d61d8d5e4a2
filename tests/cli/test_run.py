"""run, perplexity and quantize on the tiny models: the forms scripts rely on, reuse, limits, faults."""
import os
import pathlib
import struct
import subprocess
import unittest

from support import BINARY, SOURCE, TINY_MODEL, U32, CliTest, Gguf, write_chat_model

GREEDY = ("--temperature", "0")


class Raw(CliTest):
    def run_raw(self, prompt, *words, **more):
        return self.json("run", TINY_MODEL, prompt, "--raw", *words, **more)

    def test_the_form_scripts_rely_on(self):
        result = self.run_raw("Hello there", "-n", "64", *GREEDY, "--threads", "1")
        self.assertEqual(result["prompt_tokens"], 11)
        self.assertEqual(result["cached_tokens"], 0)
        self.assertLessEqual(len(result["tokens"]), 64)
        self.assertTrue(all(isinstance(token, int) for token in result["tokens"]))
        self.assertRegex(result["logits_hash"], "^[0-9a-f]{16}$")
        self.assertIn(result["stop_reason"], ("end", "length"))
        self.assertEqual(result["threads"], 1)
        for key in ("text", "decode_tok_s", "prompt_tok_s", "model", "isa", "seed"):
            self.assertIn(key, result)

    def test_threads_chunks_and_eager_execution_change_no_bit(self):
        prompt = "The quick brown fox jumps over the lazy dog. " * 3
        base = self.run_raw(prompt, "-n", "20", *GREEDY, "--threads", "1")
        for words in (["--threads", "2"], ["--chunk", "1"], ["--chunk", "7"], ["--eager"]):
            other = self.run_raw(prompt, "-n", "20", *GREEDY, *words)
            self.assertEqual((other["tokens"], other["logits_hash"]), (base["tokens"], base["logits_hash"]), words)

    def test_a_seed_fixes_the_answer(self):
        first = self.run_raw("abc", "-n", "30", "--seed", "5", "--temperature", "2", "--top-k", "0")
        self.assertEqual(self.run_raw("abc", "-n", "30", "--seed", "5", "--temperature", "2", "--top-k", "0")["tokens"],
                         first["tokens"])
        self.assertNotEqual(
            self.run_raw("abc", "-n", "30", "--seed", "6", "--temperature", "2", "--top-k", "0")["tokens"],
            first["tokens"])

    def test_a_prompt_longer_than_the_context_gives_both_counts(self):
        line = self.fails(2, "run", TINY_MODEL, "x" * 33, "--raw", "--ctx", "32")
        self.assertIn("33", line)
        self.assertIn("32", line)

    def test_a_prompt_of_exactly_the_context_runs_and_a_full_context_is_said(self):
        result = self.run_raw("x" * 32, "--ctx", "32", *GREEDY)
        self.assertIn(result["stop_reason"], ("context", "end"))
        self.assertEqual(result["tokens"], [])
        bias = ("--logit-bias", "97=100")  # always "a": nothing but the context ends this
        done = self.hearth("run", TINY_MODEL, "x" * 20, "--raw", "--ctx", "32", *GREEDY, *bias)
        self.assertEqual(done.stdout, b"a" * 12 + b"\n")
        self.assertIn(b"the context of 32 tokens is full", done.stderr)

    def test_an_answer_is_text_then_one_line_on_standard_error(self):
        done = self.hearth("run", TINY_MODEL, "hey", "--raw", "-n", "5", *GREEDY, "--logit-bias", "97=100")
        self.assertEqual(done.stdout, b"aaaaa\n")
        self.assertRegex(done.stderr.decode(), r"^prompt 3 tok \d+\.\d\d s · 5 tok \d+\.\d tok/s · cpu \d+ threads?\n$")
        done = self.hearth("run", TINY_MODEL, "hey", "--raw", "-n", "5", *GREEDY, "--stats", "--logit-bias", "97=100")
        self.assertIn("% of the memory roof".encode(), done.stderr)

    def test_stop_strings_end_the_answer_before_them(self):
        result = self.run_raw("hey", "-n", "50", *GREEDY, "--logit-bias", "97=100", "--stop", "aaa")
        self.assertEqual((result["text"], result["stop_reason"], len(result["tokens"])), ("", "stop", 3))
        result = self.run_raw("hey", "-n", "2", *GREEDY, "--logit-bias", "97=100", "--stop", "aaa")
        self.assertEqual((result["text"], result["stop_reason"]), ("aa", "length"))

    def test_half_a_character_never_comes_out(self):
        done = self.hearth("run", TINY_MODEL, "hey", "--raw", "-n", "3", *GREEDY, "--logit-bias", f"{0xe2}=100")
        self.assertEqual(done.stdout.decode("utf-8"), "\ufffd" * 3 + "\n")

    def test_a_logit_bias_outside_the_vocabulary_is_named(self):
        self.assertIn("token 320 is outside [0, 320)",
                      self.fails(2, "run", TINY_MODEL, "x", "--raw", "--logit-bias", "320=1"))

    def test_an_empty_prompt_and_an_unknown_level_are_errors(self):
        self.assertIn("empty", self.fails(2, "run", TINY_MODEL, "", "--raw"))
        self.assertIn("nonesuch", self.hearth("run", TINY_MODEL, "x", "--raw", "--isa", "nonesuch").stderr.decode())

    def test_nan_weights_end_with_an_error(self):
        model = Gguf(TINY_MODEL)
        model.data = struct.pack("<f", float("nan")) * (len(model.data) // 4)
        path = model.write(self.folder / "nan.gguf")
        self.assertIn("NaN", self.fails(1, "run", path, "hello", "--raw", "-n", "5"))

    def test_a_reader_that_goes_away_ends_it_quietly(self):
        with subprocess.Popen([BINARY, "run", TINY_MODEL, "hey", "--raw", "--logit-bias", "97=100"], bufsize=0,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=self.environment()) as process:
            process.stdout.read(1)
            process.stdout.close()
            process.wait(60)
            self.assertEqual(process.returncode, 0, process.stderr.read())

    def test_a_bad_model_is_named(self):
        bad = self.folder / "bad.gguf"
        bad.write_bytes(pathlib.Path(TINY_MODEL).read_bytes()[:5000])
        self.assertIn("bad.gguf", self.fails(3, "run", bad, "x"))
        model = Gguf(TINY_MODEL)
        model.metadata["llama.attention.head_count"] = (U32, 0)
        self.assertIn("head_count", self.fails(3, "run", model.write(self.folder / "heads.gguf"), "x"))


class Chat(CliTest):
    def setUp(self):
        super().setUp()
        self.model = write_chat_model(self.folder / "chat.gguf")

    def prompt_tokens(self, text, *words, **more):
        return self.json("run", self.model, text, "-n", "1", *words, **more)["prompt_tokens"]

    def test_the_template_surrounds_the_message(self):
        # <|begin|> user \n hi <|end|> \n <|begin|> assistant \n
        self.assertEqual(self.prompt_tokens("hi"), 1 + 5 + 2 + 1 + 1 + 1 + 10)
        self.assertEqual(self.prompt_tokens("hi", "--system", "be"), 21 + 1 + 7 + 2 + 1 + 1)

    def test_control_texts_typed_by_a_user_stay_text(self):
        self.assertEqual(self.prompt_tokens("<|end|>"), 19 + len("<|end|>"))

    def test_standard_input_is_the_prompt_or_added_to_it(self):
        self.assertEqual(self.prompt_tokens("-", stdin=b"hi"), 21)
        self.assertEqual(self.json("run", self.model, "-n", "1", stdin=b"hi")["prompt_tokens"], 21)
        self.assertEqual(self.prompt_tokens("hi", stdin=b"yo"), 21 + 4)

    def test_raw_does_not_wait_for_standard_input(self):
        read, write = os.pipe()  # stays open: whoever reads it to the end hangs
        done = subprocess.run([BINARY, "run", self.model, "hi", "--raw", "-n", "1", "--json"], stdin=read,
                              capture_output=True, timeout=60, env=self.environment(), check=False)
        os.close(write)
        os.close(read)
        self.assertEqual(done.returncode, 0)

    def test_a_model_without_a_template_continues_the_text_and_says_so(self):
        done = self.hearth("run", TINY_MODEL, "hi", "-n", "3")
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"continuing the text instead", done.stderr)

    def test_a_hostile_template_is_an_error_and_raw_still_works(self):
        for index, template in enumerate(["{% if x %}" * 5000, "{{ " + "(" * 5000, "{% for i in range(10**12) %}x{% endfor %}",
                                          "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ raise_exception('no') }}"]):
            path = write_chat_model(self.folder / f"hostile{index}.gguf", template)
            done = self.hearth("run", path, "hi", "-n", "1")
            self.assertIn(done.returncode, (0, 1, 2, 3), template[:30])
            self.assertEqual(self.json("run", path, "hi", "--raw", "-n", "1")["prompt_tokens"], 2)


class Prefill(CliTest):
    def test_a_level_without_fast_kernels_says_so_once_and_is_exact(self):
        words = ("run", TINY_MODEL, "--raw", "word " * 40, "-n", "4", "--temperature", "0", "--isa", "reference")
        done = self.hearth(*words, "--prefill", "fast")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count(b"--prefill fast: not available here"), 1)
        self.assertEqual(done.stdout.decode(), self.ok(*words))

    def test_only_exact_and_fast_are_known(self):
        for words in (("run", TINY_MODEL, "hi"), ("bench", TINY_MODEL), ("perplexity", TINY_MODEL, "-f", "-")):
            self.assertEqual(self.fails(2, *words, "--prefill", "quick"), "--prefill: 'quick' is neither exact nor fast")


class Kv(CliTest):
    def test_every_type_answers_and_one_that_is_not_there_is_named(self):
        words = ("run", TINY_MODEL, "--raw", "word " * 40, "-n", "4", "--temperature", "0")
        self.assertEqual(self.ok(*words, "--kv", "f16"), self.ok(*words))
        for kv in ("q8", "q4"):
            self.assertEqual(self.ok(*words, "--kv", kv), self.ok(*words, "--kv", kv, "--threads", "1", "--isa", "reference"))
        for words in (("run", TINY_MODEL, "hi"), ("bench", TINY_MODEL), ("plan", TINY_MODEL), ("serve", TINY_MODEL),
                      ("perplexity", TINY_MODEL, "-f", "-")):
            line = self.fails(2, *words, "--kv", "q5")
            self.assertIn("--kv", line)
            self.assertIn("q5", line)


class Perplexity(CliTest):
    def setUp(self):
        super().setUp()
        self.text = self.folder / "text.txt"
        self.text.write_text("It was a bright cold day in April, and the clocks were striking thirteen. " * 20)

    def test_the_result_in_words_and_as_json(self):
        result = self.json("perplexity", TINY_MODEL, "-f", self.text, "--ctx", "64", "--chunks", "3")
        self.assertGreater(result["perplexity"], 1)
        self.assertGreater(result["error"], 0)
        self.assertEqual((result["chunks"], result["tokens"]), (3, 3 * 31))
        text = self.ok("perplexity", TINY_MODEL, "-f", self.text, "--ctx", "64", "--chunks", "3")
        self.assertIn(f"perplexity  {result['perplexity']:.4f} ± ", text)

    def test_standard_input_will_do(self):
        one = self.json("perplexity", TINY_MODEL, "-f", "-", "--ctx", "64", stdin=self.text.read_bytes())
        two = self.json("perplexity", TINY_MODEL, "-f", self.text, "--ctx", "64", "--threads", "1")
        self.assertEqual(one["perplexity"], two["perplexity"])

    def test_exact_prompts_do_not_diverge_from_themselves(self):
        result = self.json("perplexity", TINY_MODEL, "-f", self.text, "--ctx", "64", "--chunks", "2", "--compare-exact")
        self.assertEqual(result["perplexity"], result["exact_perplexity"])
        self.assertEqual(result["kl_divergence"], 0)

    def test_fast_prompts_stay_near_the_exact_ones(self):
        words = ("perplexity", TINY_MODEL, "-f", self.text, "--ctx", "128", "--chunks", "2", "--prefill", "fast")
        result = self.json(*words, "--compare-exact")
        self.assertLess(result["kl_divergence"], 0.1)
        self.assertAlmostEqual(result["perplexity"] / result["exact_perplexity"], 1, delta=0.1)
        self.assertEqual(result["perplexity"], self.json(*words, "--threads", "1")["perplexity"])

    def test_a_smaller_kv_cache_stays_near_f16(self):
        words = ("perplexity", TINY_MODEL, "-f", self.text, "--ctx", "128", "--chunks", "2", "--compare-exact")
        q8 = self.json(*words, "--kv", "q8")
        q4 = self.json(*words, "--kv", "q4")
        self.assertEqual((q8["kv"], q4["kv"]), ("q8", "q4"))
        self.assertEqual(q8["exact_perplexity"], self.json(*words)["perplexity"])
        self.assertGreater(q8["kl_divergence"], 0)
        self.assertLess(q8["kl_divergence"], q4["kl_divergence"])
        self.assertLess(q4["kl_divergence"], 0.1)

    def test_a_text_too_short_gives_both_counts(self):
        self.text.write_text("x" * 100)
        line = self.fails(2, "perplexity", TINY_MODEL, "-f", self.text, "--ctx", "64")
        self.assertIn("has 100 tokens, 128 are needed", line)
        self.assertIn("absent.txt", self.fails(1, "perplexity", TINY_MODEL, "-f", "absent.txt"))


class Quantize(CliTest):
    def test_a_smaller_model_that_works_and_does_not_depend_on_threads(self):
        source = str(SOURCE / "tests/golden/families/qwen2.gguf")
        one, two = self.folder / "one.gguf", self.folder / "two.gguf"
        result = self.json("quantize", source, one, "q8_0", "--threads", "1")
        self.assertLess(result["bytes_after"], result["bytes_before"])
        self.assertEqual(result["type"], "Q8_0")
        self.assertIn("Q8_0", self.ok("quantize", source, two, "Q8_0", "--threads", "2"))
        self.assertEqual(one.read_bytes(), two.read_bytes())
        self.assertEqual(len(self.json("run", one, "hi", "--raw", "-n", "3", *GREEDY, "--logit-bias", "97=100")["tokens"]), 3)

    def test_a_failure_leaves_no_file(self):
        out = self.folder / "out.gguf"
        self.fails(3, "quantize", self.folder / "absent.gguf", out, "Q8_0")
        self.fails(1, "quantize", TINY_MODEL, self.folder / "no/such/folder.gguf", "Q8_0")
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
