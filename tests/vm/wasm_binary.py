"""Writing WebAssembly binaries by hand: numbers, sections, a module builder, and fixing a program's input in place."""

I32, I64, FUNCREF = 0x7F, 0x7E, 0x70
MAGIC = b"\0asm\1\0\0\0"
TYPE, IMPORT, FUNCTION, TABLE, MEMORY, GLOBAL, EXPORT, START, ELEMENT, CODE, DATA = range(1, 12)

# The opcodes of the integer MVP, by name.
OPCODES = {
    "unreachable": 0x00, "nop": 0x01, "block": 0x02, "loop": 0x03, "if": 0x04, "else": 0x05, "end": 0x0B,
    "br": 0x0C, "br_if": 0x0D, "br_table": 0x0E, "return": 0x0F, "call": 0x10, "call_indirect": 0x11,
    "drop": 0x1A, "select": 0x1B,
    "local.get": 0x20, "local.set": 0x21, "local.tee": 0x22, "global.get": 0x23, "global.set": 0x24,
    "i32.load": 0x28, "i64.load": 0x29, "i32.load8_s": 0x2C, "i32.load8_u": 0x2D, "i32.load16_s": 0x2E,
    "i32.load16_u": 0x2F, "i64.load8_s": 0x30, "i64.load8_u": 0x31, "i64.load16_s": 0x32, "i64.load16_u": 0x33,
    "i64.load32_s": 0x34, "i64.load32_u": 0x35, "i32.store": 0x36, "i64.store": 0x37, "i32.store8": 0x3A,
    "i32.store16": 0x3B, "i64.store8": 0x3C, "i64.store16": 0x3D, "i64.store32": 0x3E,
    "memory.size": 0x3F, "memory.grow": 0x40, "i32.const": 0x41, "i64.const": 0x42,
    "i32.wrap_i64": 0xA7, "i64.extend_i32_s": 0xAC, "i64.extend_i32_u": 0xAD,
    "i32.extend8_s": 0xC0, "i32.extend16_s": 0xC1,
    "i64.extend8_s": 0xC2, "i64.extend16_s": 0xC3, "i64.extend32_s": 0xC4,
}
COMPARISONS = ("eq", "ne", "lt_s", "lt_u", "gt_s", "gt_u", "le_s", "le_u", "ge_s", "ge_u")
UNARY = ("clz", "ctz", "popcnt")
BINARY = ("add", "sub", "mul", "div_s", "div_u", "rem_s", "rem_u", "and", "or", "xor", "shl", "shr_s", "shr_u",
          "rotl", "rotr")
for _type, _test, _number in (("i32", 0x45, 0x67), ("i64", 0x50, 0x79)):
    for _i, _name in enumerate(("eqz",) + COMPARISONS):
        OPCODES[f"{_type}.{_name}"] = _test + _i
    for _i, _name in enumerate(UNARY + BINARY):
        OPCODES[f"{_type}.{_name}"] = _number + _i


def unsigned(value):
    """LEB128."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value):
    """Signed LEB128."""
    out = bytearray()
    while not -64 <= value < 64:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value & 127)
    return bytes(out)


def wrap(value, bits):
    """The two's complement number of so many bits that equals `value` modulo 2^bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def op(name, *immediates):
    """One instruction with unsigned immediates; i32.const and i64.const take their number."""
    if name.endswith(".const"):
        return bytes([OPCODES[name]]) + signed(wrap(immediates[0], 32 if name[1] == "3" else 64))
    return bytes([OPCODES[name]]) + b"".join(unsigned(i) for i in immediates)


def block_type(result):
    return bytes([0x40 if result is None else result])


def vector(items):
    items = list(items)
    return unsigned(len(items)) + b"".join(items)


def text(value):
    data = value.encode("utf-8")
    return unsigned(len(data)) + data


def section(number, payload):
    return bytes([number]) + unsigned(len(payload)) + payload


def function_type(parameters, results):
    return b"\x60" + vector(bytes([t]) for t in parameters) + vector(bytes([t]) for t in results)


def limits(minimum, maximum=None):
    return b"\0" + unsigned(minimum) if maximum is None else b"\1" + unsigned(minimum) + unsigned(maximum)


def code_body(local_types, instructions):
    runs = []
    for local in local_types:
        if runs and runs[-1][1] == local:
            runs[-1][0] += 1
        else:
            runs.append([1, local])
    body = vector(unsigned(count) + bytes([local]) for count, local in runs) + instructions + op("end")
    return unsigned(len(body)) + body


class Module:
    """A module under construction. Function 0 is the import env.output_byte."""

    def __init__(self, pages=1, maximum_pages=None, heap_base=1024):
        self.types = []
        self.functions = []  # (type index, local types, instructions)
        self.globals = []  # (type, mutable, value)
        self.table = []  # function index or None for a null entry; empty: no table
        self.data = []  # (address, bytes)
        self.exports = []
        self.start = None  # index of a function to run before all else
        self.memory = (pages, maximum_pages)
        self.output = self.type_index([I32], [])
        self.exports.append(("__heap_base", 3, self.global_(I32, heap_base, mutable=False)))

    def type_index(self, parameters, results):
        encoded = function_type(parameters, results)
        if encoded not in self.types:
            self.types.append(encoded)
        return self.types.index(encoded)

    def global_(self, kind, value, mutable=True):
        self.globals.append((kind, mutable, value))
        return len(self.globals) - 1

    def function(self, parameters, results, local_types, instructions, export=None):
        """Gives the function's index."""
        self.functions.append((self.type_index(parameters, results), local_types, instructions))
        index = len(self.functions)
        if export:
            self.exports.append((export, 0, index))
        return index

    def element_runs(self):
        """Element segments cannot hold nulls in the MVP: one segment a run of functions."""
        runs = []
        for slot, function in enumerate(self.table):
            if function is None:
                continue
            if runs and runs[-1][0] + len(runs[-1][1]) == slot:
                runs[-1][1].append(function)
            else:
                runs.append((slot, [function]))
        return runs

    def encode(self):
        def constant(kind, value):
            return op("i32.const" if kind == I32 else "i64.const", value) + op("end")

        parts = [
            MAGIC,
            section(TYPE, vector(self.types)),
            section(IMPORT, vector([text("env") + text("output_byte") + b"\0" + unsigned(self.output)])),
            section(FUNCTION, vector(unsigned(f[0]) for f in self.functions)),
        ]
        if self.table:
            parts.append(section(TABLE, vector([bytes([FUNCREF]) + limits(len(self.table), len(self.table))])))
        parts.append(section(MEMORY, vector([limits(*self.memory)])))
        parts.append(section(GLOBAL, vector(bytes([k, m]) + constant(k, v) for k, m, v in self.globals)))
        parts.append(section(EXPORT, vector(text(n) + bytes([k]) + unsigned(i) for n, k, i in self.exports)))
        if self.start is not None:
            parts.append(section(START, unsigned(self.start)))
        if self.table:
            parts.append(section(ELEMENT, vector(
                b"\0" + constant(I32, slot) + vector(unsigned(f) for f in run) for slot, run in self.element_runs())))
        parts.append(section(CODE, vector(code_body(f[1], f[2]) for f in self.functions)))
        if self.data:
            parts.append(section(DATA, vector(
                b"\0" + constant(I32, address) + unsigned(len(data)) + data for address, data in self.data)))
        return b"".join(parts)


# --- taking a module apart ---


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def bytes(self, count):
        self.at += count
        return self.data[self.at - count:self.at]

    def unsigned(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value - (1 << shift) if byte & 64 else value

    def limits(self):
        flags = self.byte()
        return (self.unsigned(), self.unsigned() if flags & 1 else None)


def sections(module):
    """[(number, payload)] in file order."""
    reader = Reader(module)
    if reader.bytes(8) != MAGIC:
        raise ValueError("not a WebAssembly module")
    found = []
    while reader.at < len(module):
        number = reader.byte()
        found.append((number, reader.bytes(reader.unsigned())))
    return found


def exported(parts, name, kind):
    """The index of an exported function (kind 0) or global (kind 3)."""
    reader = Reader(dict(parts).get(EXPORT, b"\0"))
    for _ in range(reader.unsigned()):
        if (reader.bytes(reader.unsigned()), reader.byte()) == (name.encode(), kind):
            return reader.unsigned()
        reader.unsigned()
    raise ValueError(f"does not export {name}")


def global_value(parts, index):
    """The initial value of a global that is a plain i32 constant."""
    reader = Reader(dict(parts)[GLOBAL])
    for at in range(reader.unsigned()):
        reader.bytes(2)
        opcode = reader.byte()
        if opcode not in (0x41, 0x42):
            raise ValueError("a global that is not a constant")
        value = reader.signed()
        reader.byte()
        if at == index:
            return value
    raise ValueError("no such global")


def input_base(module):
    """Where the VM puts the input: behind the program's data, aligned to 16."""
    parts = sections(module)
    return (global_value(parts, exported(parts, "__heap_base", 3)) + 15) & ~15


def imported_functions(parts):
    reader = Reader(dict(parts).get(IMPORT, b"\0"))
    count = 0
    for _ in range(reader.unsigned()):
        reader.bytes(reader.unsigned())
        reader.bytes(reader.unsigned())
        if reader.byte() != 0:
            raise ValueError("only functions may be imported")
        reader.unsigned()
        count += 1
    return count


def append(payload, item):
    """One more item in a section that is a vector."""
    reader = Reader(payload)
    return unsigned(reader.unsigned() + 1) + payload[reader.at:] + item


def with_fixed_input(module, data):
    """The same module with `data` and a final 0 in its memory and one export, `run`, that calls compute on it. This is
    how an interpreter that can neither pass a string nor call functions with parameters comes to run the program."""
    parts = sections(module)
    payloads = dict(parts)
    base = input_base(module)
    compute = exported(parts, "compute", 0)
    defined = Reader(payloads[FUNCTION]).unsigned()
    types = Reader(payloads[TYPE]).unsigned()
    payloads[TYPE] = append(payloads[TYPE], function_type([], []))
    payloads[FUNCTION] = append(payloads[FUNCTION], unsigned(types))
    payloads[EXPORT] = vector([text("run") + b"\0" + unsigned(imported_functions(parts) + defined)])
    payloads[CODE] = append(payloads[CODE], code_body([], op("i32.const", base) + op("call", compute)))
    segment = b"\0" + op("i32.const", base) + op("end") + unsigned(len(data) + 1) + data + b"\0"
    payloads[DATA] = append(payloads.get(DATA, b"\0"), segment)
    return MAGIC + b"".join(section(n, payloads[n]) for n in range(1, 12) if n in payloads)
