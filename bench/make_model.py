#!/usr/bin/env python3
"""Writes a GGUF file with the shape of a real model and random weights: for speed, which does not depend on them.

    bench/make_model.py qwen2.5-0.5b f16.gguf
    hearth quantize f16.gguf q4_k_m.gguf Q4_K_M

Usage: make_model.py SHAPE OUT.gguf [--type F16|F32] [--seed N]
Shapes: smollm2-135m, qwen2.5-0.5b, llama-3.2-1b. The vocabulary is every byte, then placeholders up to the real size.
Tensors are made and written one at a time, so memory holds only the largest.
"""
import argparse
import dataclasses
import json
import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import gguf_write  # noqa: E402
import hf_tokenizer  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Shape:
    architecture: str
    layers: int
    dim: int
    ffn_dim: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    rope_base: float
    norm_eps: float


# As config.json of each model has them. All three use the embedding as output matrix.
SHAPES = {
    "smollm2-135m": Shape("llama", 30, 576, 1536, 9, 3, 64, 49152, 8192, 1e5, 1e-5),
    "qwen2.5-0.5b": Shape("qwen2", 24, 896, 4864, 14, 2, 64, 151936, 32768, 1e6, 1e-6),
    "llama-3.2-1b": Shape("llama", 16, 2048, 8192, 32, 8, 64, 128256, 131072, 5e5, 1e-5),
}


def tensors(shape: Shape):
    """(name, numpy shape): matrices have two dimensions, norms and biases one."""
    query, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    yield "token_embd.weight", (shape.vocabulary, shape.dim)
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        yield prefix + "attn_norm.weight", (shape.dim,)
        for part, rows in (("q", query), ("k", kv), ("v", kv)):
            yield f"{prefix}attn_{part}.weight", (rows, shape.dim)
            if shape.architecture == "qwen2":
                yield f"{prefix}attn_{part}.bias", (rows,)
        yield prefix + "attn_output.weight", (shape.dim, query)
        yield prefix + "ffn_norm.weight", (shape.dim,)
        yield prefix + "ffn_gate.weight", (shape.ffn_dim, shape.dim)
        yield prefix + "ffn_up.weight", (shape.ffn_dim, shape.dim)
        yield prefix + "ffn_down.weight", (shape.dim, shape.ffn_dim)
    yield "output_norm.weight", (shape.dim,)


def make(name: str, extents, seed: int):
    """Norms are 1, biases 0; a matrix has the spread that keeps activations of one size from layer to layer."""
    if name.endswith(".bias"):
        return numpy.zeros(extents, dtype="<f4")
    if len(extents) == 1:
        return numpy.ones(extents, dtype="<f4")
    generator = numpy.random.default_rng(seed)
    weights = generator.standard_normal(extents, dtype=numpy.float32)
    weights *= numpy.float32(extents[1] ** -0.5)
    return weights


def write_vocabulary(writer: gguf_write.GgufWriter, size: int, tokenizer) -> None:
    if tokenizer is None:
        hf_tokenizer.write_byte_vocabulary(writer, size)
        return
    content = json.loads(tokenizer.read_text("utf-8"))
    tokens = hf_tokenizer.write_byte_level_bpe(writer, tokenizer, content, size=size)
    if len(tokens) > size:
        raise SystemExit(f"{tokenizer}: {len(tokens)} tokens, and the shape has room for {size}")


def build(name: str, matrix_type: str, seed: int, tokenizer=None) -> gguf_write.GgufWriter:
    shape = SHAPES[name]
    writer = gguf_write.GgufWriter(shape.architecture)
    writer.set("general.name", "string", f"{name}, random weights")
    writer.set("general.file_type", "u32", {"F32": 0, "F16": 1}[matrix_type])
    for key, value in ((".block_count", shape.layers), (".context_length", shape.context),
                       (".embedding_length", shape.dim), (".feed_forward_length", shape.ffn_dim),
                       (".attention.head_count", shape.heads), (".attention.head_count_kv", shape.kv_heads),
                       (".rope.dimension_count", shape.head_dim), (".vocab_size", shape.vocabulary)):
        writer.set(key, "u32", value)
    writer.set(".attention.layer_norm_rms_epsilon", "f32", shape.norm_eps)
    writer.set(".rope.freq_base", "f32", shape.rope_base)
    write_vocabulary(writer, shape.vocabulary, tokenizer)
    for index, (tensor, extents) in enumerate(tensors(shape)):
        kind = matrix_type if len(extents) == 2 else "F32"
        writer.add_tensor(tensor, extents, kind,
                          lambda tensor=tensor, extents=extents, index=index: make(tensor, extents, seed * 4096 + index))
    return writer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=sorted(SHAPES))
    parser.add_argument("out")
    parser.add_argument("--type", choices=("F16", "F32"), default="F16", help="of the matrices")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokenizer", type=pathlib.Path, metavar="TOKENIZER.JSON",
                        help="whose vocabulary it gets: loading it is part of a start [default: bytes and placeholders]")
    arguments = parser.parse_args()
    build(arguments.shape, arguments.type, arguments.seed, arguments.tokenizer).write(arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
