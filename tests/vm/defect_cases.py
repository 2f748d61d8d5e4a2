"""The programs in defects/: what each is for and how it must end, from the comment at its head.

Lines `input:`, `output:` (a JSON string, one character a byte), `trap:` (a kind of reference.TRAPS) and `refused:` (a
word the refusal must contain)."""
import json
import pathlib
import re
import subprocess
import tempfile

import toolchain

FOLDER = pathlib.Path(__file__).resolve().parent / "defects"
FIELD = re.compile(r"^(?:;;| \*|/\*) (input|output|trap|refused): (.*?)(?: \*/)?$", re.MULTILINE)


class Case:
    def __init__(self, path):
        self.name, self.path = path.stem, path
        fields = dict(FIELD.findall(path.read_text()))
        self.input = fields.get("input", "")
        self.output = json.loads(fields.get("output", '""')).encode("latin-1")
        self.trap = fields.get("trap")
        self.refused = fields.get("refused")

    def module(self):
        """The program as WebAssembly, as bytes."""
        if self.path.suffix == ".c":
            return toolchain.compile_c(self.path, "-Wall", "-Wextra", "-Werror")
        with tempfile.NamedTemporaryFile(suffix=".wasm") as file:
            subprocess.run(["wat2wasm", str(self.path), "-o", file.name], check=True)
            return pathlib.Path(file.name).read_bytes()


def cases():
    return [Case(path) for path in sorted(FOLDER.iterdir()) if path.suffix in (".c", ".wat")]
