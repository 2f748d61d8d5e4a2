#!/usr/bin/env python3
"""Turns a Hugging Face tokenizer.json of byte-level BPE into a GGUF file that holds only the vocabulary.

Usage: tokenizer_to_gguf.py tokenizer.json --out vocabulary.gguf [--pre llama-bpe] [--bos TEXT] [--eos TEXT]
"""
import argparse
import json
import sys

import hf_tokenizer
from gguf_write import GgufWriter


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", help="the tokenizer.json")
    parser.add_argument("--out", required=True, help="the GGUF file to write")
    parser.add_argument("--pre", help="name of the pre-tokeniser, e.g. qwen2, llama-bpe, gpt-2 (default: recognised)")
    parser.add_argument("--bos", help="text of the token that begins a text")
    parser.add_argument("--eos", help="text of the token that ends one")
    options = parser.parse_args()
    try:
        with open(options.tokenizer, encoding="utf-8") as file:
            tokenizer = json.load(file)
    except (OSError, ValueError) as error:
        raise SystemExit(f"{options.tokenizer}: {error}") from error

    writer = GgufWriter("vocabulary")
    tokens = hf_tokenizer.write_byte_level_bpe(writer, options.tokenizer, tokenizer, options.pre)
    for name, text in (("bos", options.bos), ("eos", options.eos)):
        if text is None:
            continue
        if text not in tokens:
            raise SystemExit(f"{options.tokenizer}: no token '{text}'")
        writer.set(f"tokenizer.ggml.{name}_token_id", "u32", tokens.index(text))
    writer.write(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
