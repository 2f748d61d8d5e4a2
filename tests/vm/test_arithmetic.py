"""Every arithmetic instruction over pairs of awkward numbers, as variables and as constants, against Python's integers."""
import pathlib
import random
import struct
import tempfile
import unittest

import reference
import vm_support
from wasm_binary import BINARY, COMPARISONS, I32, I64, UNARY, Module, op, wrap

NARROW = {"i32": ("extend8_s", "extend16_s"), "i64": ("extend8_s", "extend16_s", "extend32_s")}
FIRST_PAIR, PRINT = 2048, 1  # where the pairs lie; the index of the function that prints eight bytes


def divide(a, b):
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def evaluate(name, a, b, bits):
    """The result modulo 2^bits, or None for a trap; a and b are unsigned."""
    mask, sa, sb = (1 << bits) - 1, wrap(a, bits), wrap(b, bits)
    by = b % bits
    if name[:3] in ("div", "rem") and b == 0 or name == "div_s" and sa == -(1 << bits - 1) and sb == -1:
        return None
    table = {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "div_s": lambda: divide(sa, sb),
        "div_u": lambda: a // b, "rem_s": lambda: sa - divide(sa, sb) * sb, "rem_u": lambda: a % b,
        "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b, "shl": lambda: a << by,
        "shr_s": lambda: sa >> by, "shr_u": lambda: a >> by, "rotl": lambda: a << by | a >> (bits - by),
        "rotr": lambda: a >> by | a << (bits - by), "clz": lambda: bits - a.bit_length(),
        "ctz": lambda: (a & -a).bit_length() - 1 if a else bits, "popcnt": lambda: a.bit_count(),
        "eqz": lambda: a == 0, "eq": lambda: a == b, "ne": lambda: a != b, "lt_s": lambda: sa < sb,
        "lt_u": lambda: a < b, "gt_s": lambda: sa > sb, "gt_u": lambda: a > b, "le_s": lambda: sa <= sb,
        "le_u": lambda: a <= b, "ge_s": lambda: sa >= sb, "ge_u": lambda: a >= b, "extend8_s": lambda: wrap(a, 8),
        "extend16_s": lambda: wrap(a, 16), "extend32_s": lambda: wrap(a, 32),
    }
    return int(table[name]()) & mask


def numbers(bits, pick):
    top = 1 << bits - 1
    awkward = [0, 1, 2, 3, 10, 255, 65535, 65536, top - 1, top, 2 * top - 1, 2 * top - 3]
    if bits == 64:
        awkward += [65537, 131071, (1 << 32) - 1, 1 << 32, (1 << 48) + 12345, (1 << 63) + (1 << 31)]
    return awkward, lambda: pick.getrandbits(pick.randint(1, bits))


def pairs(name, bits):
    """Those that do not trap."""
    pick = random.Random(name)
    awkward, any_number = numbers(bits, pick)
    found = [(a, b) for a in awkward for b in awkward] + [(any_number(), any_number()) for _ in range(60)]
    if name in UNARY or name.startswith("extend") or name == "eqz":
        found = [(a, 0) for a in awkward] + [(any_number(), 0) for _ in range(100)]
    return [(a, b) for a, b in found if evaluate(name, a, b, bits) is not None]


def build(kind, name):
    """(module, expected output): all pairs from memory in a loop, then a few with constants on either side."""
    bits = 32 if kind == "i32" else 64
    unary = name in UNARY or name.startswith("extend") or name == "eqz"
    narrow_result = kind == "i32" or name == "eqz" or name in COMPARISONS
    widen = op("i64.extend_i32_u") if narrow_result else b""
    chosen = pairs(name, bits)
    module = Module(heap_base=16384)
    size = bits // 8
    module.data.append((FIRST_PAIR, b"".join(struct.pack("<II" if bits == 32 else "<QQ", a, b) for a, b in chosen)))
    module.function([I64], [], [I32], op("loop") + b"\x40" + op("local.get", 0) + op("i32.wrap_i64") + op("call", 0)
                    + op("local.get", 0) + op("i64.const", 8) + op("i64.shr_u") + op("local.set", 0)
                    + op("local.get", 1) + op("i32.const", 1) + op("i32.add") + op("local.tee", 1)
                    + op("i32.const", 8) + op("i32.lt_u") + op("br_if", 0) + op("end"))

    def variable(offset):
        return op("local.get", 1) + op(f"{kind}.load", 0, FIRST_PAIR + offset)

    code = op("loop") + b"\x40" + variable(0) + (b"" if unary else variable(size)) + op(f"{kind}.{name}") + widen
    code += op("call", PRINT) + op("local.get", 1) + op("i32.const", 2 * size) + op("i32.add") + op("local.tee", 1)
    code += op("i32.const", 2 * size * len(chosen)) + op("i32.lt_u") + op("br_if", 0) + op("end")
    expected = [evaluate(name, a, b, bits) for a, b in chosen]
    for index in range(0, len(chosen), 9):
        a, b = chosen[index]
        at = op("i32.const", index * 2 * size) + op(f"{kind}.load", 0, FIRST_PAIR)
        second = op("i32.const", index * 2 * size) + op(f"{kind}.load", 0, FIRST_PAIR + size)
        first_constant, second_constant = op(f"{kind}.const", a), op(f"{kind}.const", b)
        forms = [first_constant] if unary else [at + second_constant, first_constant + second,
                                               first_constant + second_constant]
        for form in forms:
            code += form + op(f"{kind}.{name}") + widen + op("call", PRINT)
            expected.append(evaluate(name, a, b, bits))
    module.function([I32], [], [I32], code, export="compute")
    return module.encode(), b"".join(struct.pack("<Q", value) for value in expected)


class ArithmeticTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="hearth_vm_")
        cls.addClassCleanup(folder.cleanup)
        cls.programs = []
        for kind in ("i32", "i64"):
            for name in BINARY + COMPARISONS + UNARY + ("eqz",) + NARROW[kind]:
                module, expected = build(kind, name)
                path = pathlib.Path(folder.name) / f"{kind}.{name}.wasm"
                path.write_bytes(module)
                cls.programs.append((path, expected))

    def compare(self, path, result, expected):
        with self.subTest(path.stem):
            output, trap = result
            self.assertIsNone(trap)
            self.assertEqual(len(output), len(expected))
            wrong = [i // 8 for i in range(0, len(expected), 8) if output[i:i + 8] != expected[i:i + 8]]
            self.assertEqual(wrong, [])

    def test_the_reference_computes_like_python(self):
        for path, expected in self.programs:
            self.compare(path, reference.run(path.read_bytes(), b""), expected)

    @unittest.skipUnless(vm_support.BINARY, "no HEARTH_BINARY")
    def test_the_vm_computes_like_python(self):
        answers = vm_support.batch([(path, "") for path, _ in self.programs])
        for (path, expected), fields in zip(self.programs, answers):
            self.compare(path, vm_support.answer(fields), expected)


if __name__ == "__main__":
    unittest.main()
