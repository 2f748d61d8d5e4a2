"""Writes GGUF version 3 files: metadata, then tensors that may be produced one at a time."""
import struct

import numpy

ALIGNMENT = 32
TYPES = {"u8": (0, "<B"), "i8": (1, "<b"), "u16": (2, "<H"), "i16": (3, "<h"), "u32": (4, "<I"), "i32": (5, "<i"),
         "f32": (6, "<f"), "bool": (7, "<?"), "string": (8, None), "array": (9, None), "u64": (10, "<Q"),
         "i64": (11, "<q"), "f64": (12, "<d")}
TENSOR_TYPES = {"F32": (0, "<f4"), "F16": (1, "<f2")}

# Kinds of token in tokenizer.ggml.token_type.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def _string(text) -> bytes:
    data = text if isinstance(text, bytes) else text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def _payload(kind: str, value) -> bytes:
    return _string(value) if kind == "string" else struct.pack(TYPES[kind][1], value)


class GgufWriter:
    def __init__(self, architecture: str):
        self.architecture = architecture
        self._metadata = []  # (key, bytes of type and value)
        self._tensors = []  # (name, shape with the contiguous dimension first, type, function that makes the array)
        self.set("general.architecture", "string", architecture)

    def set(self, key: str, kind: str, value) -> None:
        """A key that begins with a dot belongs to the architecture."""
        if key.startswith("."):
            key = self.architecture + key
        self._metadata.append((key, struct.pack("<I", TYPES[kind][0]) + _payload(kind, value)))

    def set_array(self, key: str, kind: str, values) -> None:
        head = struct.pack("<IIQ", TYPES["array"][0], TYPES[kind][0], len(values))
        self._metadata.append((key, head + b"".join(_payload(kind, value) for value in values)))

    def add_tensor(self, name: str, shape, kind: str, make) -> None:
        """`shape` as numpy has it (rows, columns); make() gives the array when the file is written."""
        self._tensors.append((name, tuple(reversed(shape)), kind, make))

    def write(self, path) -> None:
        with open(path, "wb") as out:
            out.write(b"GGUF" + struct.pack("<IQQ", 3, len(self._tensors), len(self._metadata)))
            for key, payload in self._metadata:
                out.write(_string(key) + payload)
            offset = 0
            for name, shape, kind, _ in self._tensors:
                number, element = TENSOR_TYPES[kind]
                out.write(_string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape))
                out.write(struct.pack("<IQ", number, offset))
                size = numpy.dtype(element).itemsize
                for extent in shape:
                    size *= extent
                offset += size + -size % ALIGNMENT
            out.write(bytes(-out.tell() % ALIGNMENT))
            for name, shape, kind, make in self._tensors:
                array = numpy.ascontiguousarray(make(), dtype=TENSOR_TYPES[kind][1])
                if array.shape != tuple(reversed(shape)):
                    raise ValueError(f"{name}: made {array.shape}, declared {tuple(reversed(shape))}")
                data = array.tobytes()
                out.write(data + bytes(-len(data) % ALIGNMENT))
