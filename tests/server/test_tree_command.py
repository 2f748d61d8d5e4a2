"""`hearth tree` against a running server: the same as /v1/trees."""
import fcntl
import json
import os
import pty
import socket
import struct
import subprocess
import termios
import unittest

from serving import ServerTest
from support import BINARY


class TreeTest(ServerTest):
    def hearth(self, *words, stdin=b"", env=None, url=None):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HEARTH_", "NO_COLOR"))}
        return subprocess.run([BINARY, "tree", *map(str, words), "--url", url or self.server.url], input=stdin,
                              capture_output=True, timeout=120, env={**kept, **(env or {})}, check=False)

    def ok(self, *words, **more):
        done = self.hearth(*words, **more)
        self.assertEqual((done.returncode, done.stderr), (0, b""), done)
        return done.stdout.decode()

    def fails(self, code, *words, **more):
        done = self.hearth(*words, **more)
        error = done.stderr.decode()
        self.assertEqual((done.returncode, done.stdout, error.count("\n")), (code, b"", 1), done)
        return error.strip()


class Verbs(TreeTest):
    def test_a_tree_grows_branches_and_is_drawn(self):
        tree = self.ok("new", "once upon").strip()
        self.assertRegex(tree, "^tree_[A-Za-z0-9]{24}$")
        self.assertEqual(self.ok("append", tree, " a time"), '1 append " a time" · 7 tokens\n')
        sampled = self.ok("sample", tree, "--node", 1, "-n", 6, "--choices", 2, "--seed", 1).splitlines()
        self.assertEqual([line.split()[:2] for line in sampled], [["2", "sample"], ["3", "sample"]])
        self.assertEqual(self.ok("fork", tree, "--node", 1, "--at", 2), '4 fork " a" · 2 tokens\n')
        self.assertEqual(self.ok("regress", tree, "--at", 1), '4 fork " " · 1 token\n')
        lines = self.ok("show", tree).splitlines()
        self.assertEqual(lines[0], f"{tree} · tiny · 5 nodes")
        self.assertEqual(lines[1:3], ['0 prompt "once upon" · 9 tokens', '├─ 1 append " a time" · 7 tokens'])
        self.assertTrue(lines[3].startswith("│  ├─ 2 sample "), lines)
        self.assertTrue(lines[4].startswith("│  └─ 3 sample "), lines)
        self.assertEqual(lines[5], '└─ 4 fork " " · 1 token')

    def test_json_is_what_the_server_says(self):
        tree = json.loads(self.ok("new", "abc", "--json"))
        shown = json.loads(self.ok("show", tree["id"], "--json"))
        self.assertEqual(shown, self.get("/v1/trees/" + tree["id"]))
        nodes = json.loads(self.ok("sample", tree["id"], "--temperature", 0, "-n", 5, "--json"))["data"]
        again = self.post(f"/v1/trees/{tree['id']}/nodes", {"parent": 0, "sample": {"temperature": 0, "max_tokens": 5}})
        self.assertEqual(again["data"][0]["tokens"], nodes[0]["tokens"])

    def test_sampling_options_reach_the_server(self):
        tree = self.ok("new", "abc").strip()
        options = ("--node", 0, "--seed", 7, "--temperature", 2, "--top-k", 0, "--top-p", 1, "-n", 9, "--json")
        first, second = (json.loads(self.ok("sample", tree, *options))["data"][0]["tokens"] for _ in range(2))
        self.assertEqual(first, second)
        self.assertIn("sample.temperature", self.fails(2, "sample", tree, "--temperature", "101"))

    def test_trees_are_listed_and_deleted(self):
        tree = self.ok("new").strip()
        self.assertIn(f"{tree}  tiny  1 nodes\n", self.ok("show"))
        self.assertEqual(self.ok("delete", tree), "")
        self.assertNotIn(tree, self.ok("show"))

    def test_texts_come_from_standard_input_and_may_hold_anything(self):
        tree = self.ok("new", "-", stdin="é\n\"<|end|>\x1b[31m".encode()).strip()
        line = self.ok("show", tree).splitlines()[1]
        self.assertIn(r'"é\n\"<|end|>', line)
        self.assertNotIn("\x1b", line)

    def test_messages_begin_a_tree_with_the_template(self):
        tree = json.loads(self.ok("new", "hi", "--chat", "--model", "tiny", "--json"))
        self.assertEqual(tree["nodes"][0]["tokens"][0], 317)

    def test_on_a_terminal_lines_fit_its_width(self):
        tree = self.ok("new", "é" * 300).strip()
        self.ok("append", tree, "b" * 300, "--node", 0)
        self.ok("append", tree, "c" * 300, "--node", 1)
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HEARTH_")}
        subprocess.run([BINARY, "tree", "show", tree, "--url", self.server.url], stdout=theirs, stderr=theirs, timeout=60,
                       check=True, env={**environment, "NO_COLOR": "1"})
        lines = os.read(ours, 1 << 16).decode().splitlines()
        os.close(ours)
        os.close(theirs)
        self.assertEqual(len(lines), 4)
        for line in lines[1:]:
            self.assertIn(len(line), range(55, 61), line)
        self.assertTrue(lines[3].startswith('   └─ 2 append "ccc'), lines)

    def test_faults_are_one_line(self):
        tree = self.ok("new", "abc").strip()
        self.assertIn("does not exist", self.fails(2, "show", "tree_none"))
        self.assertIn("needs a TREE", self.fails(2, "append"))
        self.assertIn("needs a TEXT", self.fails(2, "append", tree))
        self.assertIn("needs --at", self.fails(2, "regress", tree))
        self.assertIn("position", self.fails(2, "regress", tree, "--at", 9))
        self.assertIn("no such node", self.fails(2, "sample", tree, "--node", 9))
        self.assertIn("not the name of a tree", self.fails(2, "show", "../../health"))
        self.assertIn("model", self.fails(2, "new", "x", "--model", "none"))
        self.assertIn("takes no TEXT", self.fails(2, "sample", tree, "x"))

    def test_addresses_that_are_none_and_servers_that_are_not_there(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            self.assertEqual(self.fails(1, "show", url=f"http://127.0.0.1:{port}"),
                             f"hearth: tree: no server answers at 127.0.0.1:{port} (hearth serve starts one)")
        for url in ("", "http://", "http://x:y", "http://a/b", "[::1", "http://x:123456"):
            self.assertIn("--url: ", self.fails(2, "show", url=url or "/"))
        self.assertIn("only plain HTTP", self.fails(2, "show", url="https://localhost"))


class Keys(TreeTest):
    OPTIONS = ("--key", "secret")

    def test_the_key_comes_from_the_environment_or_the_option(self):
        self.assertIn("a valid API key is needed", self.fails(2, "new", "x"))
        tree = self.ok("new", "x", env={"HEARTH_API_KEY": "secret"}).strip()
        self.ok("show", tree, "--key", "secret")
        self.assertIn("a valid API key is needed", self.fails(2, "show", tree, "--key", "other"))


if __name__ == "__main__":
    unittest.main()
