"""Damaged WebAssembly: never a crash, refused wherever the reference refuses it, and the same result where both run it."""
import pathlib
import random
import subprocess
import tempfile
import unittest

import reference
import vm_support
from random_programs import Program

COUNT = 500


def damaged(seed):
    """A valid program with a few bytes changed, removed or put in, or cut off."""
    pick = random.Random(seed)
    code = bytearray(Program(seed % 100).code)
    for _ in range(pick.choice((1, 1, 1, 2, 4))):
        at = pick.randrange(len(code))
        form = pick.randrange(4)
        if form == 0:
            code[at] = pick.randrange(256)
        elif form == 1:
            code[at] ^= 1 << pick.randrange(8)
        elif form == 2 and len(code) > 16:
            del code[at:at + pick.randint(1, 3)]
        else:
            code[at:at] = bytes(pick.randrange(256) for _ in range(pick.randint(1, 3)))
    if pick.random() < 0.05:
        del code[pick.randrange(len(code)):]
    return bytes(code)


def is_valid(path):
    command = ["wasm-interp", str(path), "--dummy-import-func"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@unittest.skipUnless(vm_support.BINARY, "no HEARTH_BINARY")
class MalformedTest(unittest.TestCase):
    def test_damaged_modules_are_refused_or_run_like_the_reference(self):
        with tempfile.TemporaryDirectory(prefix="hearth_vm_") as name:
            paths = []
            for seed in range(COUNT):
                paths.append(pathlib.Path(name) / f"{seed}.wasm")
                paths[-1].write_bytes(damaged(seed))
            answers = vm_support.batch([(path, "in") for path in paths], "--max-tokens", "200000")
            ran = 0
            for path, fields in zip(paths, answers):
                with self.subTest(path.stem):
                    ran += self.check(path, fields)
        self.assertGreater(ran, COUNT // 50)

    def check(self, path, fields):
        """Gives whether the program ran in both."""
        if "error" in fields:
            return False
        self.assertTrue(is_valid(path), "accepted, and not valid")
        if not fields["halted"] and not fields["trap"]:
            return False  # the damage made it endless
        try:
            expected = reference.run(path.read_bytes(), b"in")
        except ValueError:
            return False  # the wrapper around it does not fit any more
        if "call stack exhausted" in (expected[1], fields["trap"]):
            return False  # the two stacks are not equally deep
        self.assertEqual(vm_support.answer(fields), expected)
        return True

    def test_sizes_out_of_thin_air_are_refused_at_once(self):
        huge = b"\xff\xff\xff\xff\x0f"
        header = b"\0asm\1\0\0\0"
        modules = [b"", header[:4], header, header + b"\1" + huge, header + b"\1\5" + huge, header + b"\x0a\5" + huge,
                   header + b"\5\7\1\0" + huge, header + b"\4\x08\1\x70\0" + huge, b"\x7fELF" * 8]
        with tempfile.TemporaryDirectory(prefix="hearth_vm_") as name:
            paths = [pathlib.Path(name) / f"{i}.wasm" for i in range(len(modules))]
            for path, module in zip(paths, modules):
                path.write_bytes(module)
            for path, fields in zip(paths, vm_support.batch([(path, "") for path in paths])):
                self.assertIn("error", fields, path.stem)


if __name__ == "__main__":
    unittest.main()
