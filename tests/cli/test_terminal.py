"""In a real (pseudo) terminal: the chat, Ctrl-C and Ctrl-D, colours, the progress bar."""
import http.server
import json
import os
import pty
import select
import signal
import threading
import time
import unittest

from support import BINARY, CliTest, write_chat_model

ALWAYS_A = ("--temperature", "0", "--logit-bias", "97=100")  # answers are letters a until something stops them


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, words, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(BINARY, [BINARY, *words], env)
        self.seen = ""
        self.status = None

    def wait_for(self, text, seconds=60):
        """Reads until `text` has come since the last wait; gives what came up to it."""
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            if not self.read_more(deadline):
                raise AssertionError(f"waited for {text!r}, saw {self.seen!r}")
        before, _, self.seen = self.seen.partition(text)
        return before

    def read_more(self, deadline):
        ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.seen += data.decode("utf-8", "replace")
        return bool(data)

    def type(self, text):
        os.write(self.fd, text.encode())

    def finish(self, seconds=60):
        """Gives the exit code and the rest of the output."""
        deadline = time.monotonic() + seconds
        while self.read_more(deadline):
            pass
        if time.monotonic() >= deadline:
            os.kill(self.pid, signal.SIGKILL)  # it hangs: its exit code will say so
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        self.pid = 0
        return os.waitstatus_to_exitcode(status), self.seen

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            self.finish()


class ChatOnATerminal(CliTest):
    def setUp(self):
        super().setUp()
        self.model = write_chat_model(self.folder / "chat.gguf")

    def start(self, *words, **env):
        terminal = Terminal([str(word) for word in words], self.environment(**env))
        self.addCleanup(terminal.close)
        return terminal

    def chat(self, *words):
        terminal = self.start("run", self.model, *ALWAYS_A, *words, NO_COLOR="1")
        terminal.wait_for("/help lists commands")
        terminal.wait_for("> ")
        return terminal

    def test_answers_stream_and_only_new_tokens_are_computed(self):
        chat = self.chat("-n", "5")
        chat.type("hi\n")
        chat.wait_for("aaaaa\r\n")
        self.assertIn("prompt 21 tok", chat.wait_for("threads" if (os.cpu_count() or 1) > 1 else "thread"))
        chat.wait_for("> ")
        chat.type("more\n")
        chat.wait_for("aaaaa\r\n")
        # The whole first exchange is still there, but for the last token of its answer, which nothing was computed from.
        self.assertIn("(25 cached)", chat.wait_for(" · "))
        chat.type("\x04")
        self.assertEqual(chat.finish()[0], 0)

    def test_the_commands(self):
        chat = self.chat("-n", "2")
        chat.type("/help\n")
        chat.wait_for("/save FILE")
        chat.type("/undo\n")
        chat.wait_for("nothing to forget")
        chat.type("/system be brief\n")
        chat.wait_for("system: be brief")
        chat.type("one\n")
        chat.wait_for("aa\r\n")
        chat.type("/nonsense\n")
        chat.wait_for("unknown command /nonsense")
        path = self.folder / "saved.json"
        chat.type(f"/save {path}\n")
        chat.wait_for("saved to")
        self.assertEqual([m["role"] for m in json.loads(path.read_text())["messages"]], ["system", "user", "assistant"])
        chat.type("/undo\n")
        chat.wait_for("the last exchange is forgotten")
        chat.type("/clear\n")
        chat.wait_for("forgotten")
        chat.type("/quit\n")
        self.assertEqual(chat.finish()[0], 0)

    def test_messages_of_several_lines(self):
        chat = self.chat("-n", "1")
        chat.type("a\\\nb\n")
        self.assertIn("prompt 22 tok", chat.wait_for(" s · "))
        chat.type('/clear\n"""one\ntwo"""\n')
        chat.wait_for("forgotten")
        self.assertIn("prompt 26 tok", chat.wait_for(" s · "))
        chat.type("/quit\n")
        self.assertEqual(chat.finish()[0], 0)

    def test_ctrl_c_stops_the_answer_and_then_leaves(self):
        chat = self.chat("--ctx", "200000", "-n", "1000000")  # or the answer ends by itself before Ctrl-C is typed
        chat.type("go\n")
        chat.wait_for("aaa")
        chat.type("\x03")
        chat.wait_for("> ")
        chat.type("again\n")
        chat.wait_for("aaa")
        chat.type("\x03")
        chat.wait_for("> ")
        chat.type("\x03")
        self.assertEqual(chat.finish()[0], 0)

    def test_ctrl_c_at_the_prompt_warns_first(self):
        chat = self.chat()
        chat.type("half a line\x03")
        chat.wait_for("Ctrl-C again")
        chat.type("\x03")
        self.assertEqual(chat.finish()[0], 0)

    def test_a_full_context_is_said_and_the_chat_goes_on(self):
        chat = self.chat("--ctx", "40")
        chat.type("hi\n")
        chat.wait_for("the context is full")
        chat.wait_for("> ")
        chat.type("too much\n")
        chat.wait_for("the context has room for 40")
        chat.type("/clear\nhi\n")
        chat.wait_for("aaa")
        chat.type("\x04")
        self.assertEqual(chat.finish()[0], 0)

    def test_ctrl_c_ends_a_single_answer_with_its_text(self):
        run = self.start("run", self.model, "go", *ALWAYS_A, "--ctx", "60000")
        run.wait_for("aaa")
        run.type("\x03")
        code, rest = run.finish()
        self.assertEqual(code, 130)
        self.assertIn("interrupted", rest)

    def test_colours_are_for_terminals_that_welcome_them(self):
        self.assertIn("\x1b[1m", self.start("help").finish()[1])
        self.assertNotIn("\x1b", self.start("help", NO_COLOR="1").finish()[1])

    def test_a_progress_bar_is_drawn_and_wiped(self):
        text = self.folder / "text.txt"
        text.write_text("some words to predict, one after the other; " * 40)
        code, seen = self.start("perplexity", self.model, "-f", text, "--ctx", "64").finish()
        self.assertEqual(code, 0)
        self.assertIn("█", seen)
        self.assertIn("\r\x1b[Kperplexity  ", seen.split("░")[-1].split("█")[-1])


class HealthHandler(http.server.BaseHTTPRequestHandler):
    """As much of a server as top asks for."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):  # noqa: N802, the name the library calls
        body = b'{"status": "ok", "version": "1", "models": [{"id": "tiny", "status": "ready"}]}'
        self.send_response(200)
        self.send_header("Connection", "close")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class TopOnATerminal(CliTest):
    def setUp(self):
        super().setUp()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), HealthHandler)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.address = f"127.0.0.1:{server.server_port}"

    def start(self, *words):
        terminal = Terminal(["top", self.address, *words], self.environment())
        self.addCleanup(terminal.close)
        return terminal

    def test_ctrl_c_ends_it_between_two_looks(self):
        top = self.start("--interval", "3600000")
        top.wait_for("Ctrl-C ends this.")
        top.type("\x03")
        self.assertEqual(top.finish(20)[0], 0)

    def test_json_is_one_look_on_a_terminal_too(self):
        code, seen = self.start("--json").finish()
        self.assertEqual((code, json.loads(seen)["models"][0]["id"]), (0, "tiny"))


if __name__ == "__main__":
    unittest.main()
