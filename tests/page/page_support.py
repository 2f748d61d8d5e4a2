"""What the page's suites share: a server with a tiny model, a gate in front of it, a browser."""
import http.client
import http.server
import json
import os
import pathlib
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

BINARY = os.environ["HEARTH_BINARY"]
SOURCE = pathlib.Path(os.environ["HEARTH_SOURCE"])
SHOTS = pathlib.Path(os.environ.get("HEARTH_PAGE_SHOTS", SOURCE / "build/page-shots"))
CHROMIUM = os.environ.get("HEARTH_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"

sys.path.insert(0, str(SOURCE / "tests/cli"))
from support import write_chat_model  # noqa: E402

from playwright.sync_api import expect, sync_playwright  # noqa: E402

expect.set_options(timeout=30_000)  # a busy machine is slow, not wrong


class Server:
    """`hearth serve` on a free port, in a home of its own."""

    def __init__(self, *options):
        self.folder = tempfile.TemporaryDirectory(prefix="hearth_page_")
        model = write_chat_model(pathlib.Path(self.folder.name) / "tiny.gguf")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HEARTH_")}
        environment["HEARTH_HOME"] = self.folder.name
        self.process = subprocess.Popen([BINARY, "serve", model, "--port", "0", *options], env=environment, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.port = None
        said = []
        for line in self.process.stdout:
            said.append(line)
            found = re.search(r"https?://[^\s:/]+:(\d+)", line)
            if found:
                self.port = int(found[1])
                break
        if self.port is None:
            raise RuntimeError("hearth serve did not name its address:\n" + "".join(said))
        # The pipe must not fill up.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.process.stdout.close()
        self.folder.cleanup()


def text_of(line):
    """The text that this line of a stream brings."""
    found = re.match(rb"data: *(\{.*)", line)
    choices = json.loads(found[1]).get("choices") if found else None
    return (choices[0]["delta"].get("content") or "") if choices else ""


class Gate:
    """Stands before the server and lets an answer through piece by piece, so that "in the middle of it" is no matter of luck."""

    def __init__(self, port):
        gate = self
        self.pieces = None  # how many events with visible text pass (tiny models say blanks, too); None: all
        self.written = 0    # events with text that passed before an answer was held
        self.cut = False    # the answer that is held breaks off
        self.questions = 0
        self.opened = threading.Event()
        self.held = threading.Event()  # an answer waits
        self.left = threading.Event()  # the page went away while it was waiting

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.forward()

            def do_POST(self):
                self.forward()

            def forward(self):
                body = gate.with_seed(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "origin", "referer", "connection", "content-length")}
                upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
                try:
                    upstream.request(self.command, self.path, body or None, {**headers, "Host": f"127.0.0.1:{port}"})
                    answer = upstream.getresponse()
                    if answer.getheader("Content-Type", "").startswith("text/event-stream"):
                        self.stream(answer)
                    else:
                        self.copy(answer)
                finally:
                    upstream.close()

            def head(self, answer, *more):
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "content-length", "connection", "keep-alive"):
                        self.send_header(name, value)
                for name, value in more:
                    self.send_header(name, value)
                self.end_headers()

            def copy(self, answer):
                data = answer.read()
                self.head(answer, ("Content-Length", str(len(data))))
                self.wfile.write(data)

            def stream(self, answer):
                self.head(answer, ("Transfer-Encoding", "chunked"))
                written, seen = 0, 0
                try:
                    for line in answer:
                        # Not at the blank line after an event, without which the page would not have that event.
                        held = line.startswith(b"data") and gate.pieces is not None and (
                            seen >= gate.pieces or b'"finish_reason": "' in line)
                        if held and not self.wait(written):
                            return
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                        self.wfile.flush()
                        text = text_of(line)
                        written += text != ""
                        seen += text.strip() != ""
                    self.wfile.write(b"0\r\n\r\n")
                except OSError:
                    self.close_connection = True

            def wait(self, written):
                """Gives whether the rest may pass."""
                gate.written = written
                gate.held.set()
                while not gate.cut and not gate.opened.is_set():
                    ready, _, _ = select.select([self.connection], [], [], 0.02)
                    if ready and not self.connection.recv(1, socket.MSG_PEEK):
                        gate.left.set()
                        self.close_connection = True
                        return False
                if gate.cut:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return False
                return True

            def log_message(self, *_):
                pass

        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.listener.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self.listener.server_address[1]}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def with_seed(self, body):
        """A question with a seed of its own, so that a test sees the same answers every time."""
        try:
            question = json.loads(body)
        except ValueError:
            return body
        if "messages" not in question or "seed" in question:
            return body
        self.questions += 1
        return json.dumps({**question, "seed": self.questions}).encode()

    def hold_after(self, pieces):
        self.pieces, self.cut = pieces, False
        self.opened.clear()
        self.held.clear()
        self.left.clear()

    def break_connection(self):
        """Breaks the answer that is held."""
        self.cut = True

    def open(self):
        self.pieces = None
        self.cut = False
        self.opened.set()

    def stop(self):
        self.open()
        self.listener.shutdown()
        self.listener.server_close()


def stream_of(*texts, finish="stop", done=True):
    """The body of a streamed answer with these pieces."""
    chunks = [{"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]} for text in texts]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    usage = {"prompt_tokens": 812, "completion_tokens": len(texts), "prompt_tokens_details": {"cached_tokens": 790}}
    chunks.append({"choices": [], "usage": usage})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + ("data: [DONE]\n\n" if done else "")


class PageTest(unittest.TestCase):
    """A fresh browser profile for each test; one server and one browser for each file."""

    server_options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.server_options)
        cls.addClassCleanup(cls.server.stop)
        cls.gate = Gate(cls.server.port)
        cls.addClassCleanup(cls.gate.stop)
        cls.playwright = sync_playwright().start()
        cls.addClassCleanup(cls.playwright.stop)
        cls.browser = cls.playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.gate.open()
        self.complaints = []
        self.expected_complaints = ()
        self.foreign = []
        self.context = None

    def tearDown(self):
        if self.context:
            self.context.close()
        unexpected = [line for line in self.complaints if not any(part in line for part in self.expected_complaints)]
        self.assertEqual(unexpected, [], "the console must stay empty")
        self.assertEqual(self.foreign, [], "the page must not ask anybody else for anything")

    def profile(self, width=1280, height=800, **options):
        if self.context:
            self.context.close()
        self.context = self.browser.new_context(viewport={"width": width, "height": height}, **options)
        self.context.set_default_timeout(60_000)
        return self.context

    def page(self, width=1280, height=800, ready=True, route=None, **options):
        self.profile(width, height, **options)
        return self.tab(ready, route)

    def tab(self, ready=True, route=None):
        page = self.context.new_page()
        page.on("console", lambda message: self.complaints.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith((self.gate.origin, "blob:")) else self.foreign.append(request.url))
        if route:
            route(page)
        page.goto(self.gate.origin + "/")
        if ready:
            expect(page.locator("#welcome-model, .message").first).not_to_be_empty()
        return page

    def answers_with(self, page, *texts, **options):
        """From now on every answer is this text."""
        page.unroute("**/v1/chat/completions")
        page.route("**/v1/chat/completions", lambda route: route.fulfill(content_type="text/event-stream", body=stream_of(*texts, **options)))

    def write(self, page, words):
        page.fill("#composer-text", words)
        page.press("#composer-text", "Enter")

    def ask(self, page, words):
        """Sends a message and waits for the end of the answer."""
        count = page.locator(".from-model").count()
        self.write(page, words)
        self.wait_for_answer(page, count + 1)

    def wait_for_answer(self, page, count):
        expect(page.locator(".from-model")).to_have_count(count)
        expect(page.locator(".live")).to_have_count(0)
        expect(page.locator("#send")).to_have_attribute("aria-label", "Send")

    def wait_until_held(self, page):
        """Everything that the gate let through is on the page: nothing more comes until it opens."""
        self.assertTrue(self.gate.held.wait(20), "no answer reached the gate")
        expect(page.locator(".from-model .statistics").last).to_contain_text(re.compile(rf"\b{self.gate.written} tokens"))

    def short_answers(self, page, tokens=12):
        """The tiny model knows no end, and its context is small as well. Greedy, so that it always says the same."""
        page.click("#show-settings")
        page.fill("#set-temperature", "0")
        page.fill("#set-max_tokens", str(tokens))
        page.keyboard.press("Escape")

    def answer_text(self, page, index=-1):
        return page.locator(".from-model .prose").nth(index).inner_text()

    def shot(self, page, name):
        SHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(SHOTS / f"{name}.png"))
