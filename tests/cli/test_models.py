"""Model files through inspect and tokenize: good ones are described, bad ones are one line and exit code 3."""
import json
import os
import pathlib
import resource
import struct
import subprocess
import unittest

from support import (ARRAY, BINARY, F32, STRING, TINY_MODEL, U32, CliTest, Gguf, pack_string, write_chat_model)


SANITIZED = bool(os.environ.get("HEARTH_SANITIZE"))  # a sanitizer reserves the whole address space


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))


class Inspect(CliTest):
    def test_a_model_in_words_and_as_json(self):
        text = self.ok("inspect", TINY_MODEL)
        self.assertIn("architecture", text)
        self.assertIn("token_embd.weight", text)
        described = self.json("inspect", TINY_MODEL)
        self.assertIn("llama", json.dumps(described))

    def test_the_machine_in_words_and_as_json(self):
        self.assertIn("Memory", self.ok("inspect", "machine"))
        self.assertIsInstance(self.json("inspect", "machine"), dict)


class Hostile(CliTest):
    def refused(self, path):
        """One line that names the file, exit 3, quickly and without a big allocation, from both readers."""
        for words in (["inspect", path], ["tokenize", path]):
            # The timeout is for hangs; 256 MiB of address space is far more than an honest refusal needs.
            done = subprocess.run([BINARY, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=20,
                                  env=self.environment(), check=False, preexec_fn=None if SANITIZED else limit_memory)
            error = done.stderr.decode()
            self.assertEqual(done.returncode, 3, f"{words}: {error}")
            self.assertEqual(error.count("\n"), 1, error)
            self.assertIn(os.path.basename(str(path)), error)
        return error

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def changed(self, name, change):
        model = Gguf(TINY_MODEL)
        change(model)
        return model.write(self.folder / name)

    def test_things_that_are_no_files(self):
        self.assertIn("is a directory", self.refused(self.folder))
        self.assertIn("empty", self.refused(self.write("empty.gguf", b"")))
        fifo = self.folder / "fifo.gguf"
        os.mkfifo(fifo)
        self.assertIn("not a regular file", self.refused(fifo))
        self.assertIn("not a regular file", self.refused("/dev/zero"))
        loop = self.folder / "loop.gguf"
        loop.symlink_to(loop)
        self.refused(loop)
        self.refused(self.folder / "absent.gguf")
        if os.geteuid() != 0:
            secret = self.write("secret.gguf", b"GGUF")
            os.chmod(secret, 0)
            self.assertIn("Permission denied", self.refused(secret))

    def test_garbage_and_other_formats(self):
        self.refused(self.write("text.gguf", b"hello, this is no model\n" * 10))
        self.refused(self.write("zeros.gguf", bytes(4096)))
        self.refused(self.write("magic.gguf", b"GGUF"))

    def test_truncations_of_a_valid_model(self):
        whole = pathlib.Path(TINY_MODEL).read_bytes()
        for length in (4, 8, 20, 24, 100, 1000, 5000, len(whole) // 2, len(whole) - 1):
            self.refused(self.write("cut.gguf", whole[:length]))

    def test_counts_beyond_any_file(self):
        for count in (2**63 - 1, 2**64 - 1, 2**40):
            self.refused(self.write("tensors.gguf", b"GGUF" + struct.pack("<IQQ", 3, count, 0) + bytes(64)))
            self.refused(self.write("keys.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, count) + bytes(64)))
            self.refused(self.write("string.gguf", b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, count) + bytes(64)))
            self.refused(self.write("array.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pack_string("k") +
                                    struct.pack("<IIQ", ARRAY, U32, count) + bytes(64)))

    def test_arrays_nested_a_thousand_deep(self):
        nested = pack_string("k") + struct.pack("<I", ARRAY) + struct.pack("<IQ", ARRAY, 1) * 1000
        self.refused(self.write("deep.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + nested + bytes(64)))

    def test_alignments_that_are_none(self):
        for alignment in (0, 3, 2**31):
            def change(model, alignment=alignment):
                model.metadata["general.alignment"] = (U32, alignment)
                model.alignment = 32
            self.refused(self.changed("alignment.gguf", change))

    def test_wrong_metadata_names_the_key(self):
        def tokenize_fails(name, key, kind, value):
            def change(model):
                model.metadata[key] = (kind, value)
            path = self.changed(name, change)
            return self.fails(3, "tokenize", path)
        self.assertIn("tokenizer.ggml.tokens", tokenize_fails("a.gguf", "tokenizer.ggml.tokens", U32, 5))
        self.assertIn("tokenizer.ggml.model", tokenize_fails("b.gguf", "tokenizer.ggml.model", F32, 1.0))
        self.assertIn("tokenizer.ggml.pre", tokenize_fails("c.gguf", "tokenizer.ggml.pre", STRING, "no-such-thing"))


class Tokenize(CliTest):
    def setUp(self):
        super().setUp()
        self.model = write_chat_model(self.folder / "chat.gguf")

    def ids(self, text, *options):
        return self.json("tokenize", self.model, *options, stdin=text)

    def test_json_is_an_array_of_ids_and_the_text_is_taken_exactly(self):
        self.assertEqual(self.ids(b"Hi\n"), [72, 105, 10])
        self.assertEqual(self.ids(b"Hi"), [72, 105])
        self.assertEqual(self.ids(b""), [])

    def test_control_texts_are_letters_unless_asked_for(self):
        self.assertEqual(self.ids(b"a<|end|>", "--special"), [97, 318])
        self.assertEqual(self.ids(b"a<|end|>"), list(b"a<|end|>"))

    def test_any_bytes_come_back(self):
        data = bytes(range(256)) + "日本".encode()
        back = self.hearth("tokenize", self.model, "--detokenize", stdin=json.dumps(self.ids(data)).encode())
        self.assertEqual(back.stdout, data)

    def test_a_table_for_people(self):
        self.assertEqual(self.ok("tokenize", self.model, "--special", stdin=b"a<|end|>"),
                         '     97  "a"\n    318  "<|end|>"  control\n')

    def test_ids_outside_the_vocabulary_are_named(self):
        self.assertIn("'320' is not a whole number from 0 to 319",
                      self.fails(2, "tokenize", self.model, "--detokenize", stdin=b"1 320"))

    def test_a_megabyte_of_one_letter(self):
        self.assertGreater(len(self.ids(b"a" * 1_000_000)), 0)


class Names(CliTest):
    def test_a_model_that_is_not_here_says_how_to_get_it(self):
        self.assertEqual(self.fails(3, "inspect", "smollm2-135m"),
                         "smollm2-135m: not here yet; fetch it with: hearth pull smollm2-135m")
        self.assertIn("did you mean smollm2-135m?", self.fails(3, "inspect", "smollm2-135"))
        self.assertIn("no such file", self.fails(3, "inspect", "whatever"))

    def test_an_own_catalogue_adds_models_and_faults_in_it_name_the_line(self):
        self.home.mkdir()
        (self.home / "models.toml").write_text('default = "mine"\n[models.mine]\nhub = "a/b/c.gguf"\n')
        names = {m["name"]: m for m in self.json("pull", "--list")}
        self.assertTrue(names["mine"]["default"])
        self.assertFalse(names["smollm2-135m"]["default"])
        (self.home / "models.toml").write_text("[models.mine\n")
        self.assertIn("models.toml, line 1", self.fails(1, "pull", "--list"))


if __name__ == "__main__":
    unittest.main()
