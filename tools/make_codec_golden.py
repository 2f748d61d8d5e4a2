#!/usr/bin/env python3
"""Writes tests/golden/codec/TYPE.bin: random blocks of each type and the floats gguf-py decodes them to.

A file is: u32 elements, u32 bytes of blocks, the blocks, the floats (little endian). Needs numpy and gguf.
Run from the repository root; the output is the same on every run."""
import pathlib
import struct
import sys

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

# The places of the f16 fields of each block, which random bytes must not make infinite or NaN.
HALF_FIELDS = {
    "F32": [], "F16": [0], "BF16": [], "MXFP4": [],
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64],
}  # fmt: skip


def random_blocks(name: str, count: int, rng: np.random.Generator) -> np.ndarray:
    elements, size = GGML_QUANT_SIZES[T[name]]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in HALF_FIELDS[name]:
        magnitude = (2.0 ** rng.uniform(-26, 4, count)).astype(np.float16)  # subnormals and zero included
        sign = rng.choice(np.array([-1, 1], dtype=np.float16), count)
        blocks[:, at : at + 2] = (magnitude * sign).view(np.uint8).reshape(count, 2)
    if name == "F32":
        blocks = rng.standard_normal(count).astype(np.float32).view(np.uint8).reshape(count, 4)
    if name == "BF16":
        top = rng.standard_normal(count).astype(np.float32).view(np.uint32) >> 16
        blocks = top.astype(np.uint16).view(np.uint8).reshape(count, 2)
    if name == "MXFP4":
        blocks[:, 0] = rng.integers(0, 240, count)
        blocks[:3, 0] = [0, 1, 2]  # the subnormal scales and the first normal one
    return blocks


def main() -> None:
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/codec")
    per_type = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    out.mkdir(parents=True, exist_ok=True)
    for index, name in enumerate(HALF_FIELDS):
        rng = np.random.default_rng(1000 + index)
        elements = GGML_QUANT_SIZES[T[name]][0]
        count = per_type or {1: 40, 32: 6, 256: 3}[elements]
        blocks = random_blocks(name, count, rng)
        values = np.concatenate([dequantize(block, T[name]).ravel() for block in blocks]).astype(np.float32)
        assert values.size == count * elements and np.isfinite(values).all(), name
        payload = blocks.tobytes()
        header = struct.pack("<II", values.size, len(payload))
        (out / f"{name}.bin").write_bytes(header + payload + values.tobytes())


if __name__ == "__main__":
    main()
