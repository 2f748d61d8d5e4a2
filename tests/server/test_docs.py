"""Runs the curl examples of docs/api.md and compares their answers with the written ones: same fields, same types."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from serving import Server, write_model

DOCUMENT = pathlib.Path(os.environ["HEARTH_SOURCE"]) / "docs/api.md"
EXAMPLE = re.compile(r"```sh\n(.*?)```\n```(json|text)\n(.*?)```", re.S)
NUMBERS = (int, float)


def difference(written, got, path=""):
    """Where the forms differ; nothing: they do not."""
    if written is None:
        return None
    if isinstance(written, dict):
        if not isinstance(got, dict):
            return f"{path}: an object was expected"
        for key, value in written.items():
            if key not in got:
                return f"{path}.{key} is missing"
            if found := difference(value, got[key], f"{path}.{key}"):
                return found
        return None
    if isinstance(written, list):
        if not isinstance(got, list) or (written and not got):
            return f"{path}: a list with items was expected"
        return difference(written[0], got[0], path + "[0]") if written else None
    if isinstance(written, NUMBERS) and not isinstance(written, bool):
        return None if isinstance(got, NUMBERS) and not isinstance(got, bool) else f"{path}: a number was expected"
    return None if type(written) is type(got) else f"{path}: {type(written).__name__} was expected"


class Examples(unittest.TestCase):
    def test_all_examples_answer_as_written(self):
        examples = EXAMPLE.findall(DOCUMENT.read_text())
        self.assertGreater(len(examples), 12)
        with tempfile.TemporaryDirectory(prefix="hearth_server_") as folder:
            server = Server(folder, models=["smollm2-135m=" + write_model(folder + "/tiny.gguf")])
            self.addCleanup(server.stop)
            for command, kind, written in examples:
                with self.subTest(command=command[:60]):
                    done = subprocess.run(["bash", "-euc", command.replace("http://127.0.0.1:8080", server.url)],
                                          capture_output=True, timeout=120, check=False)
                    output = done.stdout.decode()
                    self.assertEqual(done.returncode, 0, done.stderr)
                    if kind == "json":
                        self.assertIsNone(difference(json.loads(written), json.loads(output)), output[:500])
                    else:
                        self.assertEqual(output.split("{")[0].split("\n")[0], written.split("{")[0].split("\n")[0])


if __name__ == "__main__":
    unittest.main()
