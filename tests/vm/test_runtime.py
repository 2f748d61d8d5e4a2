"""The C runtime header: every function it gives, under wasm-interp and in the VM; and that compilers take it quietly."""
import pathlib
import subprocess
import tempfile
import unittest

import reference
import toolchain
import vm_support
import wasm_binary

SOURCE = pathlib.Path(__file__).resolve().parent / "runtime_check.c"
EXPECTED = b"""0 -1 2147483647 -2147483648|28
0 4294967295 0 deadbeef|24
text||ab%|10
%q|100%|%|9
-2147483648 7
AB65 66
42 -17 5 0 0 0 -1 -2147483648 8 0 3
3 1 -2 3
2 10 20 3
-1 -1 0 1 1 5
0 529 name
0101234567 0123456767 0---45xyz7
<input text>
"""


class RuntimeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.module = toolchain.compile_c(SOURCE, "-Wall", "-Wextra", "-Werror", "-Wno-format-security")

    def test_every_function_does_what_it_says(self):
        self.assertEqual(reference.run(self.module, b"input text"), (EXPECTED, None))

    def test_nothing_depends_on_the_optimiser(self):
        for level in ("-O0", "-O1", "-Os", "-O3"):
            module = toolchain.compile_c(SOURCE, level, "-Wno-format-security")
            self.assertEqual(reference.run(module, b"input text"), (EXPECTED, None), level)

    def test_unused_functions_cost_nothing(self):
        with tempfile.TemporaryDirectory(prefix="hearth_vm_") as folder:
            source = pathlib.Path(folder) / "empty.c"
            source.write_text("void compute(const char *input) { (void)input; }\n")
            parts = dict(wasm_binary.sections(toolchain.compile_c(source, "-Wall", "-Wextra", "-Werror", "-Wpedantic")))
        self.assertNotIn(wasm_binary.IMPORT, parts)
        self.assertLessEqual(len(parts[wasm_binary.CODE]), 16)

    def test_a_stack_that_overflows_traps_instead_of_spoiling_data(self):
        with tempfile.TemporaryDirectory(prefix="hearth_vm_") as folder:
            source = pathlib.Path(folder) / "deep.c"
            source.write_text("""
                __attribute__((noinline)) static int deep(int n) {
                    volatile char page[1000];
                    page[n % 1000] = 1;
                    return n == 0 ? 0 : deep(n - 1) + page[n % 1000];
                }
                void compute(const char *input) { printf("%d\\n", deep(parse_int(input))); }
                """)
            module = toolchain.compile_c(source)
        self.assertEqual(reference.run(module, b"10"), (b"10\n", None))
        self.assertEqual(reference.run(module, b"100"), (b"", "out of bounds memory access"))

    def test_the_header_compiles_without_a_warning(self):
        command = [*toolchain.COMPILE[:-1], "-Weverything", "-Werror", "-Wno-missing-prototypes", "-fsyntax-only",
                   "-x", "c", "/dev/null"]
        done = subprocess.run(command, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())

    @unittest.skipUnless(vm_support.BINARY, "no HEARTH_BINARY")
    def test_the_vm_prints_the_same(self):
        with tempfile.TemporaryDirectory(prefix="hearth_vm_") as folder:
            path = pathlib.Path(folder) / "runtime_check.wasm"
            path.write_bytes(self.module)
            for fields in vm_support.batch([(path, "input text"), (SOURCE, "input text")]):
                self.assertEqual(vm_support.answer(fields), (EXPECTED, None))


if __name__ == "__main__":
    unittest.main()
