"""A server of its own for each suite: a tiny random model with a chat template that knows tools."""
import http.client
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from support import BINARY, STRING, U32, Gguf, TINY_MODEL  # noqa: E402

TEMPLATE = (
    "{%- if tools %}<|begin|>system\nTools: {% for t in tools %}{{ t | tojson }}{% endfor %}"
    " Answer with <tool_call>{...}</tool_call>.<|end|>\n{%- endif %}"
    "{%- for m in messages %}<|begin|>{{ m.role }}\n{{ m.content }}"
    "{%- for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|end|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|begin|>assistant\n{% endif %}"
)
CONTEXT = 2048


def write_model(path, template=TEMPLATE):
    model = Gguf(TINY_MODEL)
    _, (_, tokens) = model.metadata["tokenizer.ggml.tokens"]
    _, (_, kinds) = model.metadata["tokenizer.ggml.token_type"]
    tokens[317], tokens[318] = b"<|begin|>", b"<|end|>"
    kinds[317] = kinds[318] = 3
    model.metadata["llama.context_length"] = (U32, CONTEXT)
    if template:
        model.metadata["tokenizer.chat_template"] = (STRING, template)
    return model.write(path)


class Server:
    headers = {}  # of every request

    def __init__(self, folder, *options, models=None, env=None, descriptors=None):
        self.folder = pathlib.Path(folder)
        if models is None:
            models = [write_model(self.folder / "tiny.gguf"),
                      write_model(self.folder / "bare.gguf", template=None)]
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HEARTH_", "HF_", "NO_COLOR", "XDG_"))}
        environment = {**kept, "HEARTH_HOME": str(self.folder / "home"), **(env or {})}
        self.log = open(self.folder / "log", "w+b")
        self.process = subprocess.Popen(
            [BINARY, "serve", *models, "--port", "0", "--kv-memory", "64", "--pack", "off", *map(str, options)],
            stdout=subprocess.PIPE, stderr=self.log, env=environment,
            preexec_fn=descriptors and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))))
        self.url = self.process.stdout.readline().decode().strip()
        if not self.url:
            self.process.wait()
            raise RuntimeError("hearth serve did not start: " + self.errors())
        self.port = int(self.url.rsplit(":", 1)[1])
        self.wait_until_ready()

    def wait_until_ready(self):
        for line in self.lines():
            if line.startswith("ready: "):
                return
        self.stop()
        raise RuntimeError("hearth serve is not ready: " + self.errors())

    def lines(self):
        """Lines of standard error as they come, until the process ends."""
        with open(self.folder / "log", "rb") as log:
            pending = b""
            while True:
                more = log.readline()
                if more:
                    pending += more
                    if pending.endswith(b"\n"):
                        yield pending.decode().rstrip("\n")
                        pending = b""
                elif self.process.poll() is not None:
                    return
                else:
                    try:
                        self.process.wait(0.02)
                    except subprocess.TimeoutExpired:
                        pass

    def errors(self):
        return (self.folder / "log").read_text()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def request(self, method, path, body=None, headers=None):
        """Status, headers, body (as JSON where it is)."""
        connection = self.connect()
        data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        given = {**self.headers, **({"Content-Type": "application/json"} if data is not None else {}), **(headers or {})}
        connection.request(method, path, data, given)
        response = connection.getresponse()
        raw = response.read()
        connection.close()
        if response.headers.get("content-type", "").startswith("application/json"):
            return response.status, response.headers, json.loads(raw)
        return response.status, response.headers, raw

    def events(self, path, body):
        """The (event, data) pairs of a stream; data is text."""
        connection = self.connect()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream"), response.headers
        found = []
        for block in response.read().decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
            if "data" in fields:
                found.append((fields.get("event"), fields["data"]))
        connection.close()
        return found

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(60)
        finally:
            self.process.stdout.close()
            self.log.close()


class ServerTest(unittest.TestCase):
    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="hearth_server_")
        cls.server = Server(cls.folder.name, *cls.OPTIONS)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        errors = cls.server.errors()
        cls.folder.cleanup()
        assert code == 0, f"exit code {code}: {errors}"

    def post(self, path, body, status=200):
        got, headers, reply = self.server.request("POST", path, body)
        self.assertEqual(got, status, reply)
        return reply

    def get(self, path, status=200):
        got, headers, reply = self.server.request("GET", path)
        self.assertEqual(got, status, reply)
        return reply

    def refused(self, path, body, param, status=400):
        """Refused with an error object that names this field; gives the message."""
        error = self.post(path, body, status)["error"]
        self.assertEqual(error["param"], param, error)
        return error["message"]


def chat(text="hello", **more):
    return {"model": "tiny", "messages": [{"role": "user", "content": text}], "seed": 1, "max_tokens": 12, **more}


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]},
                                                    "days": {"type": "integer"}},
                   "required": ["city", "days"], "additionalProperties": False}}}
