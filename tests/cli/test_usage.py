"""Help, usage faults and exit codes of every command; completion scripts; the manual."""
import os
import subprocess
import unittest

from support import BINARY, SOURCE, CliTest

COMMANDS = ["run", "serve", "top", "tree", "pull", "plan", "doctor", "inspect", "tokenize", "quantize", "perplexity", "bench", "vm", "completion",
            "help", "version"]


class Help(CliTest):
    def test_no_command_shows_help_and_is_a_usage_error(self):
        done = self.hearth()
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"Usage", done.stderr)
        self.assertEqual(done.stdout, b"")

    def test_every_command_is_listed_and_teaches_itself(self):
        text = self.ok("--help")
        for command in COMMANDS:
            self.assertIn(f"  {command}", text)
            one = self.ok("help", command)
            self.assertEqual(one, self.ok(command, "--help"))
            self.assertEqual(one, self.ok(command, "-h"))
            self.assertIn(f"hearth {command}", one)
            if command not in ("version",):
                self.assertIn("Examples", one)
            for line in one.splitlines():
                self.assertLessEqual(len(line), 100, line)

    def test_help_without_a_terminal_has_no_escape_codes(self):
        self.assertNotIn("\x1b", self.ok("help", "run"))

    def test_the_manual_is_current(self):
        written = (SOURCE / "docs/cli.md").read_text()
        self.assertEqual(written, self.ok("help", "--markdown"),
                         "docs/cli.md is stale: hearth help --markdown > docs/cli.md")

    def test_help_and_version_as_json(self):
        self.assertEqual([c["name"] for c in self.json("help")], COMMANDS)
        names = [o["name"] for o in self.json("help", "run")["options"]]
        self.assertIn("temperature", names)
        self.assertNotIn("eager", names)
        self.assertEqual(self.json("version")["name"], "hearth")
        self.assertEqual(self.ok("--version"), self.ok("version"))


class Faults(CliTest):
    def test_an_unknown_command_names_the_nearest(self):
        self.assertEqual(self.fails(2, "rnu"), "unknown command 'rnu' (did you mean run?)")
        self.assertIn("did you mean inspect", self.fails(2, "inspekt"))
        self.assertIn("hearth help lists", self.fails(2, "frobnicate"))

    def test_an_unknown_option_names_the_nearest_for_every_command(self):
        for command in COMMANDS:
            line = self.fails(2, command, "--jsno")
            self.assertEqual(line, f"{command}: unknown option '--jsno' (did you mean --json?)")

    def test_missing_and_surplus_arguments(self):
        self.assertIn("MODEL is missing", self.fails(2, "inspect"))
        self.assertIn("MODEL is missing", self.fails(2, "tokenize"))
        self.assertIn("OUT is missing", self.fails(2, "quantize", "in.gguf"))
        self.assertIn("unexpected argument 'more'", self.fails(2, "inspect", "a", "more"))
        self.assertIn("-f FILE is missing", self.fails(2, "perplexity", "m.gguf"))
        self.assertIn("not one of bash|zsh|fish", self.fails(2, "completion", "tcsh"))
        self.assertIn("unknown type", self.fails(2, "quantize", "a", "b", "Q99"))

    def test_values_out_of_range_name_option_and_range(self):
        for option, value in [("--temperature", "nan"), ("--temperature", "-1"), ("--top-p", "0"), ("--top-p", "1.5"),
                              ("--top-k", "-5"), ("--min-p", "2"), ("-n", "0"), ("-n", "x"), ("--threads", "0"),
                              ("--threads", "100000"), ("--threads-prefill", "0"), ("--seed", "-1"), ("--repetition-penalty", "0"),
                              ("--frequency-penalty", "9"), ("--logit-bias", "1"), ("--logit-bias", "x=1"),
                              ("--logit-bias", "1=x"), ("--logit-bias", "1=1000"), ("--ctx", "0")]:
            line = self.fails(2, "run", "m.gguf", "hi", option, value)
            name = option.lstrip("-").replace("-", "_")
            self.assertTrue(name in line.replace("-", "_") or option == "-n", line)

    def test_an_environment_variable_out_of_range_is_named(self):
        line = self.fails(2, "run", "m.gguf", "hi", env={"HEARTH_CPU_THREADS": "many"})
        self.assertIn("HEARTH_CPU_THREADS: 'many'", line)
        line = self.fails(2, "run", "m.gguf", "hi", env={"HEARTH_CPU_PIN": "yes"})
        self.assertIn("HEARTH_CPU_PIN: 'yes' is neither 0 nor 1", line)

    def test_a_line_stays_one_line_whatever_is_in_a_name(self):
        self.assertIn("a?b", self.fails(2, "a\nb"))


class Output(CliTest):
    def test_a_closed_standard_output_ends_quietly(self):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([BINARY, "help"], stdout=write, stderr=subprocess.PIPE, env=self.environment(), check=False)
        os.close(write)
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full here")
    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([BINARY, "help"], stdout=full, stderr=subprocess.PIPE, env=self.environment(), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output", done.stderr)


class Completion(CliTest):
    def test_bash_script_parses_and_completes(self):
        script = self.ok("completion", "bash")
        check = subprocess.run(["bash", "-n"], input=script.encode(), capture_output=True, check=False)
        self.assertEqual((check.returncode, check.stderr), (0, b""))

        def complete(*words):
            # A wordlist and a function: what the shell itself would do on TAB.
            quoted = " ".join(f"'{w}'" for w in words)
            ask = f"{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _hearth; printf '%s\\n' \"${{COMPREPLY[@]}}\""
            done = subprocess.run(["bash", "-c", ask], capture_output=True, cwd=self.folder, check=False)
            return done.stdout.decode().split()

        self.assertEqual(complete("hearth", "tok"), ["tokenize"])
        self.assertEqual(complete("hearth", "run", "--temp"), ["--temperature"])
        self.assertIn("smollm2-135m", complete("hearth", "run", "smo"))
        self.assertEqual(complete("hearth", "completion", "z"), ["zsh"])
        self.assertEqual(complete("hearth", "help", "qu"), ["quantize"])
        self.assertIn("Q4_K_M", complete("hearth", "quantize", "a", "b", "Q4_K"))
        self.assertIn("machine", complete("hearth", "inspect", "mach"))
        (self.folder / "text.txt").write_text("x")
        self.assertEqual(complete("hearth", "perplexity", "m", "-f", "te"), ["text.txt"])

    def test_the_other_shells_get_every_command_and_option(self):
        for shell in ("zsh", "fish"):
            script = self.ok("completion", shell)
            for command in COMMANDS:
                self.assertIn(command, script)
            self.assertIn("temperature", script)
            self.assertNotIn("eager", script)


if __name__ == "__main__":
    unittest.main()
