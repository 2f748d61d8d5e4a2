#!/usr/bin/env python3
"""Converts a llama2.c checkpoint (version 0) and its tokenizer to a GGUF file in F32.

    llama2c_to_gguf.py stories260K.bin tok512.bin stories260K.gguf
"""
import re
import struct
import sys

import numpy

import gguf_write

BYTE_TOKEN = re.compile(rb"<0x[0-9A-F]{2}>\Z")


def read_tokenizer(path: str, count: int):
    """int32 longest token, then for each token: float score, int32 length, bytes."""
    data = open(path, "rb").read()
    tokens, scores, offset = [], [], 4
    for _ in range(count):
        score, length = struct.unpack_from("<fi", data, offset)
        offset += 8
        tokens.append(data[offset:offset + length])
        scores.append(score)
        offset += length
    return tokens, scores


def write_tokenizer(writer: gguf_write.GgufWriter, tokens, scores) -> None:
    kinds = [gguf_write.BYTE if BYTE_TOKEN.match(token) else gguf_write.NORMAL for token in tokens]
    kinds[0] = gguf_write.UNKNOWN
    kinds[1] = kinds[2] = gguf_write.CONTROL
    tokens = [b"<unk>", b"<s>", b"</s>"] + tokens[3:]  # the exporter put newlines around the names of these
    # The exporter turned SentencePiece's mark for a space into a space; GGUF keeps the mark.
    texts = [token.replace(b" ", "▁".encode()) for token in tokens]
    writer.set("tokenizer.ggml.model", "string", "llama")
    writer.set_array("tokenizer.ggml.tokens", "string", texts)
    writer.set_array("tokenizer.ggml.scores", "f32", scores)
    writer.set_array("tokenizer.ggml.token_type", "i32", kinds)
    writer.set("tokenizer.ggml.unknown_token_id", "u32", 0)
    writer.set("tokenizer.ggml.bos_token_id", "u32", 1)
    writer.set("tokenizer.ggml.eos_token_id", "u32", 2)
    writer.set("tokenizer.ggml.add_bos_token", "bool", True)
    writer.set("tokenizer.ggml.add_space_prefix", "bool", True)


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    model, tokenizer, out = sys.argv[1:]
    data = open(model, "rb").read()
    dim, ffn_dim, layers, heads, kv_heads, vocabulary, context = struct.unpack_from("<7i", data)
    tied, vocabulary = vocabulary > 0, abs(vocabulary)  # a negative count says: a classifier of its own follows
    head_dim = dim // heads
    floats = numpy.frombuffer(data, "<f4", offset=28)
    position = 0

    def take(*shape):
        nonlocal position
        size = int(numpy.prod(shape))
        position += size
        return floats[position - size:position].reshape(shape)

    writer = gguf_write.GgufWriter("llama")
    for key, value in ((".block_count", layers), (".context_length", context), (".embedding_length", dim),
                       (".feed_forward_length", ffn_dim), (".attention.head_count", heads),
                       (".attention.head_count_kv", kv_heads), (".rope.dimension_count", head_dim),
                       (".vocab_size", vocabulary), ("general.file_type", 0)):
        writer.set(key, "u32", value)
    writer.set(".attention.layer_norm_rms_epsilon", "f32", 1e-5)
    writer.set(".rope.freq_base", "f32", 10000.0)
    write_tokenizer(writer, *read_tokenizer(tokenizer, vocabulary))

    tensors = {"token_embd.weight": take(vocabulary, dim)}
    for name, shape in (("attn_norm", (dim,)), ("attn_q", (dim, dim)), ("attn_k", (kv_heads * head_dim, dim)),
                        ("attn_v", (kv_heads * head_dim, dim)), ("attn_output", (dim, dim)), ("ffn_norm", (dim,)),
                        ("ffn_gate", (ffn_dim, dim)), ("ffn_down", (dim, ffn_dim)), ("ffn_up", (ffn_dim, dim))):
        for layer, array in enumerate(take(layers, *shape)):
            tensors[f"blk.{layer}.{name}.weight"] = array
    tensors["output_norm.weight"] = take(dim)
    take(2, context, head_dim // 2)  # cosines and sines, which are computed anew
    if not tied:
        tensors["output.weight"] = take(vocabulary, dim)
    for name, array in tensors.items():
        writer.add_tensor(name, array.shape, "F32", lambda array=array: array)
    writer.write(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
