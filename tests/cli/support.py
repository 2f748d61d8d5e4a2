"""What the suites share: running the binary in a home of its own, tiny models, GGUF files to order."""
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

BINARY = os.environ["HEARTH_BINARY"]
SOURCE = pathlib.Path(os.environ["HEARTH_SOURCE"])
TINY_MODEL = str(SOURCE / "tests/golden/families/llama.gguf")

CHAT_TEMPLATE = (
    "{% for m in messages %}<|begin|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|begin|>assistant\n{% endif %}"
)


class CliTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hearth_cli_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.home = self.folder / "home"

    def environment(self, **extra):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HEARTH_", "HF_", "NO_COLOR", "XDG_"))}
        return {**kept, "HEARTH_HOME": str(self.home), **extra}

    def hearth(self, *words, stdin=b"", env=None, timeout=120):
        """Gives the finished process; stdout and stderr are bytes."""
        return subprocess.run([BINARY, *map(str, words)], input=stdin, capture_output=True, timeout=timeout,
                              env=self.environment(**(env or {})), check=False)

    def ok(self, *words, **more):
        done = self.hearth(*words, **more)
        self.assertEqual(done.returncode, 0, done.stderr.decode("utf-8", "replace"))
        return done.stdout.decode("utf-8")

    def json(self, *words, **more):
        return json.loads(self.ok(*words, "--json", **more))

    def fails(self, code, *words, **more):
        """Runs into an error with this exit code; gives its one line."""
        done = self.hearth(*words, **more)
        error = done.stderr.decode("utf-8")
        self.assertEqual(done.returncode, code, error)
        self.assertEqual(error.count("\n"), 1, error)
        self.assertTrue(error.startswith("hearth: "), error)
        self.assertEqual(done.stdout, b"")
        return error.removeprefix("hearth: ").rstrip("\n")


# --- GGUF files, taken apart and put together ---

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
U32, F32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9


def pack_string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def pack_value(kind, value):
    if kind == STRING:
        return pack_string(value)
    if kind == ARRAY:
        element, items = value
        return struct.pack("<IQ", element, len(items)) + b"".join(pack_value(element, item) for item in items)
    return struct.pack("<" + SCALARS[kind], value)


class Gguf:
    """Metadata as {key: (type, value)}, tensor records as raw bytes, tensor data as one blob."""

    def __init__(self, path):
        self.bytes = pathlib.Path(path).read_bytes()
        self.at = 8
        tensor_count, key_count = self.take("<QQ")
        self.metadata = {}
        for _ in range(key_count):
            key = self.take_string().decode()
            kind = self.take("<I")[0]
            self.metadata[key] = (kind, self.take_value(kind))
        begin = self.at
        for _ in range(tensor_count):
            self.take_string()
            dims = self.take("<I")[0]
            self.at += 8 * dims + 4 + 8
        self.tensor_count = tensor_count
        self.tensors = self.bytes[begin:self.at]
        self.alignment = self.metadata.get("general.alignment", (U32, 32))[1]
        self.data = self.bytes[-(-self.at // self.alignment) * self.alignment:]

    def take(self, form):
        values = struct.unpack_from(form, self.bytes, self.at)
        self.at += struct.calcsize(form)
        return values

    def take_string(self):
        length = self.take("<Q")[0]
        self.at += length
        return self.bytes[self.at - length:self.at]

    def take_value(self, kind):
        if kind == STRING:
            return self.take_string()
        if kind == ARRAY:
            element, count = self.take("<IQ")
            return element, [self.take_value(element) for _ in range(count)]
        return self.take("<" + SCALARS[kind])[0]

    def write(self, path):
        head = b"GGUF" + struct.pack("<IQQ", 3, self.tensor_count, len(self.metadata))
        for key, (kind, value) in self.metadata.items():
            head += pack_string(key) + struct.pack("<I", kind) + pack_value(kind, value)
        head += self.tensors
        head += b"\0" * (-len(head) % self.alignment)
        pathlib.Path(path).write_bytes(head + self.data)
        return str(path)


def write_chat_model(path, template=CHAT_TEMPLATE):
    """The tiny model with two control tokens and a chat template."""
    model = Gguf(TINY_MODEL)
    _, (_, tokens) = model.metadata["tokenizer.ggml.tokens"]
    _, (_, kinds) = model.metadata["tokenizer.ggml.token_type"]
    tokens[317], tokens[318] = b"<|begin|>", b"<|end|>"
    kinds[317] = kinds[318] = 3
    model.metadata["tokenizer.chat_template"] = (STRING, template)
    return model.write(path)
