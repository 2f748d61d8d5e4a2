#!/usr/bin/env python3
"""Turns a Hugging Face tokenizer.json of byte-level BPE into a GGUF file that holds only the vocabulary.

Usage: tokenizer_to_gguf.py tokenizer.json --pre llama-bpe --out vocabulary.gguf [--bos TEXT] [--eos TEXT]
"""

import argparse
import json
import struct
import sys

U32, I32, STRING, ARRAY = 4, 5, 8, 9
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5


def fail(message):
    print(f"tokenizer_to_gguf: {message}", file=sys.stderr)
    sys.exit(1)


def string(text):
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def string_value(text):
    return struct.pack("<I", STRING) + string(text)


def u32_value(number):
    return struct.pack("<II", U32, number)


def strings_value(texts):
    return struct.pack("<IIQ", ARRAY, STRING, len(texts)) + b"".join(string(text) for text in texts)


def integers_value(numbers):
    return struct.pack(f"<IIQ{len(numbers)}i", ARRAY, I32, len(numbers), *numbers)


def read_tokens(tokenizer):
    """The texts and types of all tokens, by id."""
    by_id = {token: (text, NORMAL) for text, token in tokenizer["model"]["vocab"].items()}
    for added in tokenizer.get("added_tokens", []):
        by_id[added["id"]] = (added["content"], CONTROL if added["special"] else USER_DEFINED)
    tokens, types = [], []
    for token in range(max(by_id) + 1):
        text, kind = by_id.get(token, (f"[PAD{token}]", UNUSED))
        tokens.append(text)
        types.append(kind)
    return tokens, types


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", help="the tokenizer.json")
    parser.add_argument("--pre", required=True, help="name of the pre-tokeniser, e.g. qwen2, llama-bpe, gpt-2")
    parser.add_argument("--out", required=True, help="the GGUF file to write")
    parser.add_argument("--bos", help="text of the token that begins a text")
    parser.add_argument("--eos", help="text of the token that ends one")
    options = parser.parse_args()

    try:
        with open(options.tokenizer, encoding="utf-8") as file:
            tokenizer = json.load(file)
    except (OSError, ValueError) as error:
        fail(f"{options.tokenizer}: {error}")
    model = tokenizer.get("model", {})
    if model.get("type", "BPE") != "BPE" or "merges" not in model or model.get("byte_fallback"):
        fail(f"{options.tokenizer}: not a byte-level BPE tokenizer")

    tokens, types = read_tokens(tokenizer)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    metadata = {
        "general.architecture": string_value("vocabulary"),
        "tokenizer.ggml.model": string_value("gpt2"),
        "tokenizer.ggml.pre": string_value(options.pre),
        "tokenizer.ggml.tokens": strings_value(tokens),
        "tokenizer.ggml.token_type": integers_value(types),
        "tokenizer.ggml.merges": strings_value(merges),
    }
    for name, text in (("bos", options.bos), ("eos", options.eos)):
        if text is None:
            continue
        if text not in tokens:
            fail(f"{options.tokenizer}: no token '{text}'")
        metadata[f"tokenizer.ggml.{name}_token_id"] = u32_value(tokens.index(text))

    with open(options.out, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(metadata)))
        for key, value in metadata.items():
            file.write(string(key) + value)
    return 0


if __name__ == "__main__":
    sys.exit(main())
