"""The inside of a random function: statements that leave the stack as it was, expressions that push one value."""
from wasm_binary import BINARY, COMPARISONS, I32, I64, OPCODES, UNARY, block_type, op, signed, unsigned, wrap

KINDS = (I32, I64)
NAMES = {I32: "i32", I64: "i64"}
LOADS = {kind: [(n, 1 if "8" in n else 2 if "16" in n else 4 if "32" in n[4:] or kind == I32 else 8)
                for n in OPCODES if n.startswith(NAMES[kind] + ".load")] for kind in KINDS}
STORES = {kind: [(n, 1 if "8" in n else 2 if "16" in n else 4 if "32" in n[4:] or kind == I32 else 8)
                 for n in OPCODES if n.startswith(NAMES[kind] + ".store")] for kind in KINDS}
NARROW = {I32: ("i32.extend8_s", "i32.extend16_s"), I64: ("i64.extend8_s", "i64.extend16_s", "i64.extend32_s")}

RESERVED_ZERO = ("memory.size", "memory.grow", "call_indirect")  # these end in a zero byte that is not a number


class Body:
    def __init__(self, program, parameters, result):
        self.program, self.random, self.result = program, program.random, result
        self.locals = list(parameters) + [self.random.choice(KINDS) for _ in range(self.random.randint(0, 5))]
        self.parameter_count = len(parameters)
        self.code = bytearray()
        self.labels = [result]  # the type a branch carries, innermost last; None carries nothing
        self.budget = self.random.choice((30, 80, 200))

    def local_types(self):
        return self.locals[self.parameter_count:]

    def put(self, name, *immediates):
        self.program.emitted[name] += 1
        if immediates and name not in RESERVED_ZERO and self.random.random() < 0.02:
            # Padded numbers are as valid as short ones; linkers write them.
            self.code.append(OPCODES[name])
            for number in immediates:
                short = unsigned(number)
                pad = min(1, 5 - len(short))
                self.code += short if pad == 0 else short[:-1] + bytes([short[-1] | 128, 0])
        else:
            self.code += op(name, *immediates)

    def constant(self, kind, value=None):
        name = NAMES[kind] + ".const"
        self.program.emitted[name] += 1
        value = self.program.constant(kind) if value is None else value
        self.code += bytes([OPCODES[name]]) + signed(wrap(value, 32 if kind == I32 else 64))

    def chance(self, probability):
        return self.random.random() < probability

    def weighted(self, choices):
        """Calls one of (weight, action, arguments...)."""
        at = self.random.random() * sum(c[0] for c in choices)
        for weight, action, *arguments in choices:
            at -= weight
            if at < 0:
                return action(*arguments)
        return choices[-1][1](*choices[-1][2:])

    # --- structure ---

    def open(self, name, result, branch_carries):
        self.program.emitted[name] += 1
        self.code.append(OPCODES[name])
        self.code += block_type(result)
        self.labels.append(branch_carries)

    def close(self):
        self.put("end")
        self.labels.pop()

    def burn(self):
        self.put("global.get", self.program.fuel)
        self.constant(I32, 1)
        self.put("i32.sub")
        self.put("global.set", self.program.fuel)

    def pay_entry(self):
        """Out of fuel, a function gives a constant."""
        self.put("global.get", self.program.fuel)
        self.put("i32.eqz")
        self.open("if", None, None)
        if self.result is not None:
            self.constant(self.result)
        self.put("return")
        self.close()
        self.burn()

    def block_of_statements(self, count, trap=None):
        place = self.random.randrange(count + 1)
        for i in range(count + 1):
            if i == place and trap:
                self.planned_trap(trap)
            if i < count:
                self.statement(3)

    def finish_with_value(self):
        if self.result is not None:
            self.expression(self.result, 3)

    def print_locals(self):
        for index, kind in enumerate(self.locals):
            self.put("local.get", index)
            self.put("call", self.program.emit32 if kind == I32 else self.program.emit64)

    def print_state(self):
        """Globals and some memory, so that little of what was computed stays unseen."""
        for index, kind in self.program.globals + [(self.program.fuel, I32)]:
            self.put("global.get", index)
            self.put("call", self.program.emit32 if kind == I32 else self.program.emit64)
        for address in (0, 16, 1024, self.random.randrange(65000)):
            self.constant(I32, address)
            self.put("i64.load", self.random.randint(0, 3), self.random.randint(0, 24))
            self.put("call", self.program.emit64)

    # --- statements ---

    def statement(self, depth):
        self.budget -= 1
        if depth <= 0 or self.budget <= 0:
            return self.weighted([(3, self.set_local, 1), (2, self.print_value, 1), (1, self.put, "nop")])
        return self.weighted([
            (14, self.set_local, depth), (6, self.set_global, depth), (12, self.store, depth),
            (9, self.print_value, depth), (7, self.loop_statement, depth), (5, self.block_statement, depth),
            (8, self.if_statement, depth), (6, self.branch_if, depth), (4, self.table_statement, depth),
            (7, self.call_statement, depth), (3, self.drop_statement, depth), (1, self.put, "nop"),
            (2, self.guarded_escape, depth), (10, self.probe)])

    def set_local(self, depth):
        if not self.locals:
            return self.put("nop")
        index = self.random.randrange(len(self.locals))
        self.expression(self.locals[index], depth)
        return self.put("local.set", index)

    def set_global(self, depth):
        if not self.program.globals:
            return self.put("nop")
        index, kind = self.random.choice(self.program.globals)
        self.expression(kind, depth)
        return self.put("global.set", index)

    def store(self, depth):
        kind = self.random.choice(KINDS)
        name, width = self.random.choice(STORES[kind])
        offset = self.address(width, depth)
        self.expression(kind, depth - 1)
        self.put(name, self.alignment(width), offset)

    def print_value(self, depth):
        form = self.random.randrange(3)
        self.expression(I64 if form == 2 else I32, depth)
        self.put("call", (0, self.program.emit32, self.program.emit64)[form])

    def probe(self):
        """One operation on two numbers of the kind at which mistakes show, printed at once."""
        kind = self.random.choice(KINDS)
        bits = 32 if kind == I32 else 64
        name = self.random.choice(BINARY + COMPARISONS + UNARY + NARROW[kind])
        first, second = self.program.constant(kind), self.program.constant(kind)
        if name[:3] in ("div", "rem"):
            if second % (1 << bits) == 0 or (name == "div_s" and wrap(first, bits) == -(1 << bits - 1)):
                second = 3
        self.constant(kind, first)
        if name in UNARY or name in NARROW[kind]:
            self.put(name if name in NARROW[kind] else f"{NAMES[kind]}.{name}")
        else:
            self.constant(kind, second)
            self.put(f"{NAMES[kind]}.{name}")
        self.put("call", self.program.emit64 if kind == I64 and name not in COMPARISONS else self.program.emit32)

    def drop_statement(self, depth):
        self.expression(self.random.choice(KINDS), depth)
        self.put("drop")

    def statements(self, depth):
        for _ in range(self.random.randint(0, 3)):
            self.statement(depth - 1)

    def loop_head(self):
        """Inside `block loop`: leaves by the outer block when the fuel is spent."""
        self.put("global.get", self.program.fuel)
        self.put("i32.eqz")
        self.put("br_if", 1)
        self.burn()

    def loop_statement(self, depth):
        self.open("block", None, None)
        self.open("loop", None, None)
        self.loop_head()
        self.statements(depth)
        if self.chance(0.8):
            self.expression(I32, 2)
            self.put("br_if", 0)
        self.close()
        self.close()

    def block_statement(self, depth):
        self.open("block", None, None)
        self.statements(depth)
        self.close()

    def if_statement(self, depth):
        self.expression(I32, depth - 1)
        self.open("if", None, None)
        self.statements(depth)
        if self.chance(0.6):
            self.put("else")
            self.statements(depth)
        self.close()

    def branch_if(self, depth):
        self.expression(I32, depth - 1)
        if self.labels[0] is None or len(self.labels) > 1:
            empty = [i for i, kind in enumerate(self.labels) if kind is None]
            if empty:
                return self.put("br_if", len(self.labels) - 1 - self.random.choice(empty))
        return self.put("drop")

    def table_statement(self, depth):
        """A switch: nested blocks, one behind each target."""
        count = self.random.randint(1, 4)
        for _ in range(count):
            self.open("block", None, None)
        self.expression(I32, depth - 1)
        if self.chance(0.7):
            self.constant(I32, self.random.choice((3, 7)))
            self.put("i32.and")
        empty = [i for i, kind in enumerate(self.labels) if kind is None]
        self.branch_table(empty)
        for _ in range(count):
            self.close()
            self.statements(depth - 1)

    def branch_table(self, labels):
        targets = [len(self.labels) - 1 - self.random.choice(labels) for _ in range(self.random.randint(1, 7))]
        self.program.emitted["br_table"] += 1
        self.code.append(OPCODES["br_table"])
        self.code += unsigned(len(targets) - 1) + b"".join(unsigned(t) for t in targets)

    def guarded_escape(self, depth):
        self.expression(I32, depth - 1)
        self.open("if", None, None)
        self.escape(depth)
        if self.chance(0.3):
            self.statement(0)  # dead code must be understood all the same
        self.close()

    def call_statement(self, depth):
        function, parameters, result = self.random.choice(self.program.callable)
        self.call(function, parameters, depth)
        if result is not None:
            self.put("drop")

    def call(self, function, parameters, depth):
        for kind in parameters:
            self.expression(kind, depth - 1)
        slots = [i for i, f in enumerate(self.program.table) if f == function]
        if not slots or self.chance(0.5):
            return self.put("call", function)
        size = self.program.family_size
        if slots[0] < size:
            self.expression(I32, 1)
            self.constant(I32, size - 1)
            self.put("i32.and")
        else:
            self.constant(I32, self.random.choice(slots))
        return self.indirect(parameters, self.program.signature_of(function)[1])

    def indirect(self, parameters, result):
        kind = self.program.module.type_index(list(parameters), [] if result is None else [result])
        self.put("call_indirect", kind, 0)

    # --- leaving, for good ---

    def escape(self, depth):
        """An unconditional way out. What follows in the same block is dead and its stack polymorphic."""
        form = self.random.randrange(20)
        if form == 0 and self.program.wild:
            return self.put("unreachable")
        if form < 6:
            if self.result is not None:
                self.expression(self.result, depth - 1)
            return self.put("return")
        target = self.random.randrange(len(self.labels))
        if self.labels[target] is not None:
            self.expression(self.labels[target], depth - 1)
        if form < 12:
            same = [i for i, kind in enumerate(self.labels) if kind == self.labels[target]]
            self.expression(I32, 1)
            return self.branch_table(same)
        return self.put("br", len(self.labels) - 1 - target)

    def dead_value(self, kind):
        form = self.random.randrange(4)
        if form == 0:
            self.put(NAMES[kind] + "." + self.random.choice(BINARY))  # both operands come from nowhere
        elif form == 1:
            self.put("drop")
            self.expression(kind, 1)
        elif form == 2:
            self.expression(kind, 1)

    # --- expressions ---

    def expression(self, kind, depth):
        self.budget -= 1
        if depth <= 0 or self.budget <= 0:
            return self.leaf(kind)
        choices = [
            (30, self.binary, kind, depth), (7, self.unary, kind, depth), (9, self.load, kind, depth),
            (5, self.select, kind, depth), (5, self.tee, kind, depth), (4, self.block_value, kind, depth),
            (5, self.if_value, kind, depth), (2, self.loop_value, kind, depth), (5, self.call_value, kind, depth),
            (4, self.branch_if_value, kind, depth), (3, self.escape_value, kind, depth), (10, self.leaf, kind),
            (5, self.read_then_write, kind, depth)]
        if kind == I32:
            choices += [(9, self.compare, depth), (3, self.wrap, depth), (2, self.memory_size, depth)]
        else:
            choices += [(7, self.widen, depth)]
        return self.weighted(choices)

    def leaf(self, kind):
        places = [("local.get", i) for i, k in enumerate(self.locals) if k == kind]
        places += [("global.get", i) for i, k in self.program.globals if k == kind]
        if places and self.chance(0.6):
            return self.put(*self.random.choice(places))
        return self.constant(kind)

    def binary(self, kind, depth):
        name = self.random.choice(BINARY)
        self.expression(kind, depth - 1)
        self.expression(kind, depth - 1)
        if name[:3] in ("div", "rem") and not self.program.wild:
            self.guard_divisor(kind, name)
        self.put(f"{NAMES[kind]}.{name}")

    def guard_divisor(self, kind, name):
        """Never 0, and never -1 where that may overflow; yet of either sign."""
        top = 1 << (31 if kind == I32 else 63)
        if name != "div_s":
            masks = (("or", 1),)
        elif self.chance(0.5):
            masks = (("and", top - 1), ("or", 1))
        else:
            masks = (("or", top), ("and", ~1))
        for operation, mask in masks:
            self.constant(kind, mask)
            self.put(f"{NAMES[kind]}.{operation}")

    def unary(self, kind, depth):
        self.expression(kind, depth - 1)
        self.put(self.random.choice([f"{NAMES[kind]}.{name}" for name in UNARY] + list(NARROW[kind])))

    def compare(self, depth):
        kind = self.random.choice(KINDS)
        self.expression(kind, depth - 1)
        if self.chance(0.2):
            return self.put(f"{NAMES[kind]}.eqz")
        self.expression(kind, depth - 1)
        return self.put(f"{NAMES[kind]}.{self.random.choice(COMPARISONS)}")

    def wrap(self, depth):
        self.expression(I64, depth - 1)
        self.put("i32.wrap_i64")

    def widen(self, depth):
        self.expression(I32, depth - 1)
        self.put(self.random.choice(("i64.extend_i32_s", "i64.extend_i32_u")))

    def memory_size(self, depth):
        if self.chance(0.5):
            return self.put("memory.size", 0)
        if self.chance(0.5):
            self.constant(I32, self.random.choice((0, 1, 1, 2, -1, 65535, 65536)))
        else:
            self.expression(I32, depth - 1)
            self.constant(I32, 3)
            self.put("i32.and")
        if self.program.maximum_pages is None:  # without a maximum the host's decides: grow by little or by too much
            self.constant(I32, -2147483647)
            self.put("i32.and")
        return self.put("memory.grow", 0)

    def alignment(self, width):
        return self.random.randint(0, width.bit_length() - 1)

    def address(self, width, depth):
        """Pushes an address; gives the offset that goes with it."""
        size = self.program.pages * 65536
        if self.program.wild and self.chance(0.3):
            self.expression(I32, depth - 1)
            return self.random.choice((0, 8, 65535, 0x7FFFFFFF, 0xFFFFFFFF))
        if self.chance(0.1):  # the very last bytes that are there
            offset = self.random.choice((0, 1, 100, size - width))
            self.constant(I32, size - width - offset)
            return offset
        if self.chance(0.15) and self.locals and self.parameter_count == 1 and self.result is None:
            self.constant(I32, self.random.choice((0, 4, 1024, 40000)))
        else:
            self.expression(I32, depth - 1)
            self.constant(I32, self.random.choice((0x1F, 0xFF, 0x3FF, 0x7FFF, 0xFFFF - 16)))
            self.put("i32.and")
        return self.random.choice((0, 0, 1, 3, 4, 8, self.random.randint(0, 8), (self.program.pages - 1) * 65536))

    def load(self, kind, depth):
        name, width = self.random.choice(LOADS[kind])
        offset = self.address(width, depth)
        self.put(name, self.alignment(width), offset)

    def select(self, kind, depth):
        self.expression(kind, depth - 1)
        self.expression(kind, depth - 1)
        self.expression(I32, depth - 1)
        self.put("select")

    def tee(self, kind, depth):
        places = [i for i, k in enumerate(self.locals) if k == kind]
        self.expression(kind, depth - 1)
        if places:
            self.put("local.tee", self.random.choice(places))

    def read_then_write(self, kind, depth):
        """A variable on the stack keeps the value it was read with, whatever is written to it later, and where."""
        places = [("local", i) for i, k in enumerate(self.locals) if k == kind]
        places += [("global", i) for i, k in self.program.globals if k == kind]
        if not places:
            return self.leaf(kind)
        space, index = self.random.choice(places)
        self.put(f"{space}.get", index)
        form = self.random.choice(("tee", "block", "if")) if space == "local" else self.random.choice(("block", "if"))
        if form == "if":
            self.expression(I32, 1)
        if form != "tee":
            self.open(form, kind, kind)
            self.statements(depth - 1)
        self.expression(kind, depth - 1)
        if form == "tee":
            self.put("local.tee", index)
        else:
            self.put(f"{space}.set", index)
            self.expression(kind, depth - 1)
            if form == "if":
                self.put("else")
                self.expression(kind, 1)
            self.close()
        return self.put(f"{NAMES[kind]}.{self.random.choice(('sub', 'xor', 'add', 'shl', 'rotr'))}")

    def block_value(self, kind, depth):
        self.open("block", kind, kind)
        self.statements(depth)
        self.expression(kind, depth - 1)
        self.close()

    def if_value(self, kind, depth):
        self.expression(I32, depth - 1)
        self.open("if", kind, kind)
        self.expression(kind, depth - 1)
        self.put("else")
        self.statements(depth - 1)
        self.expression(kind, depth - 1)
        self.close()

    def loop_value(self, kind, depth):
        """The way out when the fuel is spent carries a value; so does the loop's own end."""
        self.open("block", kind, kind)
        self.open("loop", kind, None)
        self.constant(kind)
        self.put("global.get", self.program.fuel)
        self.put("i32.eqz")
        self.put("br_if", 1)
        self.put("drop")
        self.burn()
        self.statements(depth - 1)
        self.expression(kind, depth - 1)
        self.expression(I32, 1)
        self.put("br_if", 0)
        self.close()
        self.close()

    def call_value(self, kind, depth):
        fitting = [f for f in self.program.callable if f[2] == kind]
        if not fitting:
            return self.leaf(kind)
        function, parameters, _ = self.random.choice(fitting)
        return self.call(function, parameters, depth)

    def branch_if_value(self, kind, depth):
        targets = [i for i, k in enumerate(self.labels) if k == kind]
        self.expression(kind, depth - 1)
        if targets:
            self.expression(I32, depth - 1)
            self.put("br_if", len(self.labels) - 1 - self.random.choice(targets))

    def escape_value(self, kind, depth):
        """One arm of an `if` leaves for somewhere else, with operands of the expressions around still on the stack."""
        self.expression(I32, 1)
        self.open("if", kind, kind)
        self.expression(kind, depth - 1)
        self.put("else")
        self.escape(depth)
        self.dead_value(kind)
        self.close()

    # --- traps, on purpose ---

    def planned_trap(self, trap):
        if self.chance(0.3):
            self.expression(I32, 1)
            self.open("if", None, None)
            self.trap(trap)
            self.close()
        else:
            self.trap(trap)

    def trap(self, trap):
        kind = self.random.choice(KINDS)
        bits = 32 if kind == I32 else 64
        if trap == "unreachable":
            self.put("unreachable")
        elif trap == "divide":
            self.expression(kind, 2)
            self.constant(kind, 0)
            self.put(f"{NAMES[kind]}.{self.random.choice(('div_s', 'div_u', 'rem_s', 'rem_u'))}")
            self.put("drop")
        elif trap == "overflow":
            self.constant(kind, -(1 << bits - 1))
            self.constant(kind, -1)
            self.put(f"{NAMES[kind]}.div_s")
            self.put("drop")
        elif trap in ("load", "store"):
            self.trap_in_memory(trap, kind)
        elif trap == "runaway":
            self.constant(I32)
            self.put("call", self.program.runaway)
            self.put("drop")
        else:
            self.trap_in_table(trap)

    def trap_in_memory(self, trap, kind):
        """One byte too far, or far away, or around the end of 32 bits."""
        name, width = self.random.choice((LOADS if trap == "load" else STORES)[kind])
        form = self.random.randrange(6)
        if form > 2:
            offset = self.random.choice((0, 0, 1, 60000))
            self.put("memory.size", 0)
            self.constant(I32, 16)
            self.put("i32.shl")
            self.constant(I32, offset + self.random.choice((width - 1, width - 1, 0)))
            self.put("i32.sub")
        else:
            self.constant(I32, (-1, -8, 0x7FFFFFF0)[form])
            offset = self.random.choice((1, 8, 65536, 0xFFFFFFFF))
        if trap == "store":
            self.expression(kind, 1)
        self.put(name, self.alignment(width), offset)
        if trap == "load":
            self.put("drop")

    def trap_in_table(self, trap):
        table = self.program.table
        slots = [i for i, f in enumerate(table) if (f is None) == (trap == "null")]
        if trap == "range" and table:
            self.constant(I32, self.random.choice((len(table), len(table), len(table) + 1, -1)))
            self.indirect((), None)
        elif slots and trap == "null":
            self.constant(I32, self.random.choice(slots))
            self.indirect((), None)
        elif slots and trap == "signature":
            slot = self.random.choice(slots)
            parameters, result = self.program.signature_of(table[slot])
            self.constant(I64)
            for kind in parameters:
                self.constant(kind)
            self.constant(I32, slot)
            self.indirect((I64, *parameters), result)
            if result is not None:
                self.put("drop")
        else:
            self.put("unreachable")
