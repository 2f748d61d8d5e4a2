"""Random WebAssembly programs over the integer MVP, the same for the same seed on every machine.

A program exports compute(i32 input) and prints through env.output_byte. It always ends: loop heads and function entries
pay from one global, the fuel, and do nothing once it is spent. Only a planned runaway recursion does not pay; it ends
in the machine's own stack limit. What could trap is guarded, except at planned places: so most programs run to
their end, and the traps come in every kind."""
import collections
import random

from random_expressions import Body
from wasm_binary import I32, I64, MAGIC, Module, op, section, text

KINDS = (I32, I64)
TRAPS = ("unreachable", "divide", "overflow", "load", "store", "null", "range", "signature", "runaway")


class Program:
    """One random program; `code` is its module, `input` what it is to be run with."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.emitted = collections.Counter()  # opcodes written, by name
        chance = self.random.random
        self.pages = self.random.randint(1, 3)
        self.maximum_pages = self.random.choice((None, self.pages, self.pages + 1, self.pages + 4))
        self.module = Module(self.pages, self.maximum_pages, heap_base=self.random.choice((1024, 5000, 40000)))
        self.wild = chance() < 0.12  # addresses and divisors without a guard
        self.trap = self.random.choice(TRAPS) if chance() < 0.55 else None
        self.input = "".join(chr(self.random.randint(33, 126)) for _ in range(self.random.randint(0, 12)))
        self.fuel = self.module.global_(I32, self.random.randint(5, 120))
        self.globals = [(self.module.global_(kind, self.constant(kind)), kind)
                        for kind in (self.random.choice(KINDS) for _ in range(self.random.randint(0, 4)))]
        self.make_data()
        self.make_functions()
        self.code = self.finish()

    def constant(self, kind):
        """Numbers at which arithmetic changes its mind come as often as plain ones."""
        bits = 32 if kind == I32 else 64
        form = self.random.randrange(6)
        if form == 0:
            return self.random.choice((0, 1, -1, 2, 3, 7, 10, 127, 128, 255, 256))
        if form == 1:
            return self.random.randint(-20, 20)
        if form == 2:
            return (1 << self.random.randrange(bits)) + self.random.randint(-1, 1)
        if form == 3:
            return self.random.choice(((1 << bits - 1) - 1, -(1 << bits - 1), -(1 << bits - 1) + 1, (1 << bits) - 2))
        if form == 4:
            return self.random.getrandbits(self.random.randint(1, bits))
        return self.random.getrandbits(bits)

    def make_data(self):
        """Segments may overlap: the later one wins."""
        size = self.pages * 65536
        for _ in range(self.random.randint(0, 4)):
            data = bytes(self.random.choice((0, 255, self.random.randrange(256)))
                         for _ in range(self.random.randint(0, 24)))
            address = self.random.choice((self.random.randint(0, 64), self.random.randint(0, size - 24),
                                          size - len(data)))
            self.module.data.append((address, data))

    def make_functions(self):
        pick = self.random
        self.emit32 = self.module.function([I32], [], [], b"".join(
            op("local.get", 0) + op("i32.const", shift) + op("i32.shr_u") + op("call", 0) for shift in (0, 8, 16, 24)))
        self.emit64 = self.module.function([I64], [], [], b"".join(
            op("local.get", 0) + op("i64.const", shift) + op("i64.shr_u") + op("i32.wrap_i64") + op("call", self.emit32)
            for shift in (0, 32)))
        self.runaway = self.make_runaway()
        if pick.random() < 0.08:
            self.module.start = self.make_start()
        first = len(self.module.functions) + 1
        family = (tuple(pick.choice(KINDS) for _ in range(pick.randint(0, 3))), pick.choice((None, I32, I64)))
        signatures = [family] * pick.choice((0, 2, 4))
        for _ in range(pick.randint(1, 4)):
            signatures.append((tuple(pick.choice(KINDS) for _ in range(pick.randint(0, 4))),
                               pick.choice((None, I32, I64))))
        self.callable = [(first + i, *signature) for i, signature in enumerate(signatures)]
        self.make_table(signatures.count(family) if signatures.count(family) in (2, 4) else 0, family)
        planned = pick.randrange(len(signatures) + 1)
        for i, (parameters, result) in enumerate(signatures):
            body = Body(self, parameters, result)
            body.pay_entry()
            body.block_of_statements(pick.randint(0, 4), self.trap if i == planned else None)
            body.finish_with_value()
            self.module.function(list(parameters), [] if result is None else [result], body.local_types(),
                                 bytes(body.code))
        work = Body(self, (I32,), None)
        work.block_of_statements(pick.randint(3, 16), self.trap if planned == len(signatures) else None)
        work.print_locals()
        index = self.module.function([I32], [], work.local_types(), bytes(work.code))
        compute = Body(self, (I32,), None)
        compute.put("local.get", 0)
        compute.put("call", index)
        compute.print_state()
        self.module.function([I32], [], compute.local_types(), bytes(compute.code), export="compute")

    def make_runaway(self):
        """Calls itself, or by the table's way, until the stack ends."""
        index = len(self.module.functions) + 1
        code = op("local.get", 0) + op("i32.const", 1) + op("i32.add") + op("call", index)
        if self.random.random() < 0.5:
            code += op("local.get", 0) + op("i32.xor")
        return self.module.function([I32], [I32], [I64] * self.random.randint(0, 3), code)

    def make_start(self):
        """Runs before compute; here it may only write, for wasm-interp reports its traps as a bad module."""
        code = op("i32.const", self.random.randint(0, 60000)) + op("i64.const", self.constant(I64)) + op("i64.store", 0, 0)
        for index, kind in self.globals[:2]:
            code += op("i32.const" if kind == I32 else "i64.const", self.constant(kind)) + op("global.set", index)
        return self.module.function([], [], [], code)

    def make_table(self, family_size, family):
        """The family comes first, so that a masked index reaches any of it; then others and nulls."""
        pick = self.random
        self.family_size, self.family = family_size, family
        self.table = [f[0] for f in self.callable[:family_size]]
        if family_size or pick.random() < 0.6:
            self.table += [pick.choice([None] + [f[0] for f in self.callable]) for _ in range(pick.randint(1, 5))]
        self.module.table = self.table

    def signature_of(self, index):
        return next((f[1], f[2]) for f in self.callable if f[0] == index)

    def finish(self):
        code = self.module.encode()
        if self.random.random() < 0.1:  # custom sections may stand anywhere
            custom = section(0, text("hearth") + bytes(self.random.randrange(256) for _ in range(5)))
            code = MAGIC + custom + code[len(MAGIC):] + custom
        return code
