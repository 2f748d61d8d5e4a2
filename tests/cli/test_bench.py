"""bench on the tiny model: the JSON programs read, the table, and another engine beside it. No speed is asserted."""
import stat
import unittest

from support import TINY_MODEL, CliTest

QUICK = ("-p", "16", "-n", "4", "-r", "2", "--threads", "1")

# A llama-bench that only claims: it writes down how it was called and answers 10 tok/s.
PEER = """#!/bin/sh
echo "$@" >> "{log}"
p=0 n=0 d=0
while [ $# -gt 1 ]; do
  case "$1" in -p) p=$2;; -n) n=$2;; -d) d=$2;; esac
  shift
done
echo "[{{\\"n_prompt\\": $p, \\"n_gen\\": $n, \\"n_depth\\": $d, \\"avg_ts\\": 10.0}}]"
"""


class Bench(CliTest):
    def peer(self, script):
        path = self.folder / "llama-bench"
        path.write_text(script)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def test_the_form_scripts_rely_on(self):
        results = self.json("bench", TINY_MODEL, *QUICK, "--depth", "0,32", "--batch", "1,3")
        self.assertEqual([r["test"] for r in results],
                         ["pp16", "tg4", "pp16@d32", "tg4@d32", "tg4@b1", "tg4@b3"])
        for result in results:
            self.assertEqual(list(result), ["test", "tok_s", "stddev", "threads", "roof_share", "roof_gb_s",
                                            "relative_step_time"])
            self.assertGreater(result["tok_s"], 0)
            self.assertGreaterEqual(result["stddev"], 0)
            self.assertEqual(result["threads"], 1)
            self.assertGreater(result["roof_gb_s"], 0)
            self.assertEqual(result["roof_share"] is None, result["test"].startswith("pp"))
            self.assertEqual(result["relative_step_time"] is None, "@b" not in result["test"])
        self.assertEqual(results[4]["relative_step_time"], 1)

    def test_the_table_has_a_line_for_each_test(self):
        lines = self.ok("bench", TINY_MODEL, *QUICK, "--depth", "0", "--batch", "2").splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["test", "pp16", "tg4", "tg4@b1", "tg4@b2"])

    def test_another_engine_takes_turns_and_has_no_batches(self):
        log = self.folder / "calls"
        peer = self.peer(PEER.format(log=log))
        results = self.json("bench", TINY_MODEL, *QUICK, "--depth", "0,32", "--batch", "1", "--against", peer)
        for result in results[:-1]:
            self.assertEqual((result["peer_tok_s"], result["peer_stddev"]), (10, 0))
            self.assertAlmostEqual(result["ratio"], result["tok_s"] / 10)
        self.assertEqual((results[-1]["test"], results[-1]["peer_tok_s"], results[-1]["ratio"]), ("tg4@b1", None, None))
        common = f"-m {TINY_MODEL} %s -t 1 -r 1 -o json"
        expected = [common % "-p 16 -n 0", common % "-p 0 -n 4",
                    common % "-p 16 -n 0" + " -d 32", common % "-p 0 -n 4" + " -d 32"]
        self.assertEqual(log.read_text().splitlines(), [call for call in expected for _ in range(2)])

    def test_another_engine_that_fails_is_named(self):
        words = ("bench", TINY_MODEL, *QUICK, "--depth", "0", "--against")
        self.assertIn("absent/llama-bench: No such file", self.fails(1, *words, self.folder / "absent/llama-bench"))
        broken = self.peer("#!/bin/sh\necho cannot load >&2\nexit 7\n")
        self.assertIn(f"{broken}: pp16: ended with exit code 7: cannot load", self.fails(1, *words, broken))
        silent = self.peer("#!/bin/sh\n")
        self.assertIn(f"{silent}: pp16: wrote no JSON", self.fails(1, *words, silent))

    def test_what_does_not_fit_the_context_is_skipped_and_said(self):
        done = self.hearth("bench", TINY_MODEL, *QUICK, "--depth", "0,250", "--batch", "0")
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"skipped, longer than the model's context of 256: pp16@d250\n", done.stderr)
        self.assertIn(b"tg4@d250", done.stdout)
        self.assertIn("every test", self.fails(2, "bench", TINY_MODEL, "--depth", "5000", "--batch", "0"))

    def test_values_out_of_range_are_named(self):
        for option, value in [("--depth", "1,,2"), ("--batch", "65"), ("-r", "0"), ("-p", "x"), ("-n", "-1")]:
            self.assertIn(f"'{value if ',' not in value else ''}' is not a whole number",
                          self.fails(2, "bench", TINY_MODEL, option, value))
        self.assertIn("nothing is left", self.fails(2, "bench", TINY_MODEL, "-p", "0", "-n", "0"))
        self.assertIn("absent.gguf", self.fails(3, "bench", self.folder / "absent.gguf"))


if __name__ == "__main__":
    unittest.main()
