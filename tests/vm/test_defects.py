"""Programs on which a known compiler-into-weights goes wrong: in defects/, each with the result it must have."""
import pathlib
import tempfile
import unittest

import defect_cases
import reference
import toolchain
import vm_support
from wasm_binary import I32, I64, Module, op

NEEDS_BINARY = unittest.skipUnless(vm_support.BINARY, "no HEARTH_BINARY")


def many_locals(count):
    """A frame of very many locals, every third never written; prints a byte of each."""
    module = Module()
    kinds = [I64 if i % 5 == 4 else I32 for i in range(count)]
    code = b""
    for i, kind in enumerate(kinds):
        if i % 3:
            code += op("i32.const" if kind == I32 else "i64.const", i * 7) + op("local.set", i + 1)
    for i, kind in enumerate(kinds):
        code += op("local.get", i + 1) + (b"" if kind == I32 else op("i32.wrap_i64")) + op("call", 0)
    module.function([I32], [], kinds, code, export="compute")
    return module.encode(), bytes(i * 7 % 256 if i % 3 else 0 for i in range(count))


def much_data(count):
    """Initialised memory, printed byte by byte."""
    module = Module(heap_base=8192)
    data = bytes((i * 31 + 1) % 255 + 1 for i in range(count))
    module.data.append((1024, data))
    code = op("block") + b"\x40" + op("loop") + b"\x40"
    code += op("local.get", 1) + op("i32.load8_u", 0, 1024) + op("call", 0)
    code += op("local.get", 1) + op("i32.const", 1) + op("i32.add") + op("local.tee", 1)
    code += op("i32.const", count) + op("i32.lt_u") + op("br_if", 0) + op("end") + op("end")
    module.function([I32], [], [I32], code, export="compute")
    return module.encode(), data


class DefectsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="hearth_vm_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.runnable, cls.refused = [], []
        for case in defect_cases.cases():
            path = cls.write(case.name, case.module())
            if case.refused:
                cls.refused.append((case.name, path, case.refused))
            else:
                cls.runnable.append((case.name, path, case.input, (case.output, case.trap)))
        for name, (module, output) in (("many_locals", many_locals(500)), ("much_data", much_data(2000))):
            cls.runnable.append((name, cls.write(name, module), "", (output, None)))

    @classmethod
    def write(cls, name, module):
        path = cls.folder / f"{name}.wasm"
        path.write_bytes(module)
        return path

    def test_the_expected_results_are_those_of_the_reference(self):
        for name, path, data, expected in self.runnable:
            with self.subTest(name):
                self.assertEqual(reference.run(path.read_bytes(), data.encode()), expected)

    @NEEDS_BINARY
    def test_what_newer_compilers_emit_by_default_runs(self):
        """Table numbers in five bytes (reference types), memory.copy and memory.fill (bulk memory)."""
        source = self.folder / "newer.c"
        source.write_text("""
            static int twice(int n) { return 2 * n; }
            static int square(int n) { return n * n; }
            int (*volatile table[2])(int) = {twice, square};
            struct block { char bytes[500]; } one, two;
            void compute(const char *input) {
                for (int i = 0; i < 2; i++) print_int(table[i](9 + input[0]));
                __builtin_memset(one.bytes, 'a', sizeof one.bytes);
                one.bytes[(unsigned char)input[0]] = 'b';
                two = one;
                putchar(two.bytes[499]);
            }""")
        module = toolchain.compile_c(source, "-mreference-types", "-mbulk-memory")
        for part in (b"\x80\x80\x80\x80\x00", b"\xfc\x0a\x00\x00", b"\xfc\x0b\x00"):
            self.assertIn(part, module)
        expected = reference.run(module, b"")
        self.assertEqual(expected, (b"1881a", None))
        answer, = vm_support.batch([(self.write("newer", module), "")])
        self.assertEqual(vm_support.answer(answer), expected)

    def check_in_vm(self, *options):
        answers = vm_support.batch([(path, data) for _, path, data, _ in self.runnable], *options)
        for (name, _, _, expected), fields in zip(self.runnable, answers):
            with self.subTest(name, options=options):
                self.assertEqual(vm_support.answer(fields), expected)

    @NEEDS_BINARY
    def test_the_exact_engine_gets_them_right(self):
        self.check_in_vm()

    @NEEDS_BINARY
    def test_the_float_engine_gets_them_right(self):
        self.check_in_vm("--engine", "float64")

    @NEEDS_BINARY
    def test_speculation_gets_them_right(self):
        self.check_in_vm("--speculate")

    @NEEDS_BINARY
    def test_what_the_machine_cannot_do_is_refused_by_name(self):
        for name, path, word in self.refused:
            with self.subTest(name):
                done = vm_support.hearth("vm", "run", path, "--input", "", "--json")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(word.lower(), done.stderr.decode().lower())

    @NEEDS_BINARY
    def test_tokens_do_not_grow_with_the_values_computed(self):
        path = next(p for name, p, _, _ in self.runnable if name == "multiplication_is_cheap")
        small, large = vm_support.batch([(path, "100 101"), (path, "1000 1000")])
        self.assertLess(large["tokens"], 2 * small["tokens"])
        self.assertLess(large["tokens"], 30_000)

    @NEEDS_BINARY
    def test_a_program_without_end_meets_the_token_limit(self):
        module = Module()
        module.function([I32], [], [], op("loop") + b"\x40" + op("br", 0) + op("end"), export="compute")
        path = self.write("endless", module.encode())
        fields, = vm_support.batch([(path, "")], "--max-tokens", "20000")
        self.assertFalse(fields["halted"])
        self.assertLessEqual(fields["tokens"], 21_000)


if __name__ == "__main__":
    unittest.main()
