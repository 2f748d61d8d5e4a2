#!/usr/bin/env python3
"""Converts a Hugging Face checkpoint (config.json, *.safetensors, tokenizer.json) to a GGUF file.

    hf_to_gguf.py FOLDER OUT.gguf [--type f32|f16]

Families: llama (also mistral), qwen2, qwen3, phi3, gemma3. Names and conventions are those of llama.cpp: Q and K of
llama are permuted so that a rotated pair lies side by side, gemma's norms include the 1 of 1 + w.
"""
import argparse
import json
import math
import pathlib
import re
import struct
import sys

import numpy

import hf_tokenizer
from gguf_write import GgufWriter

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "phi3": "phi3",
                 "gemma3_text": "gemma3", "gemma3": "gemma3"}
OUTSIDE_LAYERS = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
                  "lm_head.weight": "output.weight"}
IN_LAYERS = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate_up_proj": "ffn_up",
}
GEMMA_IN_LAYERS = {**IN_LAYERS, "post_attention_layernorm": "post_attention_norm",
                   "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
LAYER_NAME = re.compile(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)\Z")


class SafeTensors:
    """The tensors of one or several .safetensors files, read when asked for."""

    KINDS = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "BF16": "<u2"}

    def __init__(self, folder: pathlib.Path):
        self.entries = {}
        paths = sorted(folder.glob("*.safetensors"))
        if not paths:
            raise SystemExit(f"{folder}: no .safetensors file")
        for path in paths:
            with open(path, "rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                header = json.loads(file.read(length))
            for name, entry in header.items():
                if name != "__metadata__":
                    self.entries[name] = (path, 8 + length, entry)

    def shape(self, name: str):
        return tuple(self.entries[name][2]["shape"])

    def read(self, name: str) -> numpy.ndarray:
        path, base, entry = self.entries[name]
        if entry["dtype"] not in self.KINDS:
            raise SystemExit(f"{path}: {name} is {entry['dtype']}, which is not supported")
        begin, end = entry["data_offsets"]
        with open(path, "rb") as file:
            file.seek(base + begin)
            raw = numpy.frombuffer(file.read(end - begin), self.KINDS[entry["dtype"]])
        if entry["dtype"] == "BF16":  # the upper half of a float
            raw = (raw.astype("<u4") << 16).view("<f4")
        return raw.astype("<f4").reshape(entry["shape"])


def rope_settings(config: dict):
    """(global, local) rope settings. Old files have rope_theta and rope_scaling, new ones rope_parameters."""
    stored = config.get("rope_parameters") or config.get("rope_scaling") or {}
    rope = dict(stored.get("full_attention") or stored)
    rope.setdefault("rope_theta", config.get("rope_theta", 1e6 if config["architecture"] == "gemma3" else 10000.0))
    rope.setdefault("rope_type", rope.get("type", "default"))
    for key in ("partial_rotary_factor", "original_max_position_embeddings"):
        if config.get(key) is not None:
            rope.setdefault(key, config[key])
    local = dict(stored.get("sliding_attention") or {})
    local.setdefault("rope_theta", config.get("rope_local_base_freq", 10000.0))
    return rope, local


def yarn_mscale(factor: float, multiplier: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * multiplier * math.log(factor) + 1.0


def write_rope(writer: GgufWriter, config: dict, head_dim: int) -> None:
    rope, local = rope_settings(config)
    rotated = int(head_dim * rope.get("partial_rotary_factor", 1.0))
    context = config["max_position_embeddings"]
    original = rope.get("original_max_position_embeddings", context)
    writer.set(".rope.dimension_count", "u32", rotated)
    writer.set(".rope.freq_base", "f32", rope["rope_theta"])
    if config["architecture"] == "gemma3":
        writer.set(".rope.freq_base_swa", "f32", local["rope_theta"])
    kind = rope["rope_type"]
    if kind == "linear":
        writer.set(".rope.scaling.type", "string", "linear")
        writer.set(".rope.scaling.factor", "f32", rope["factor"])
    elif kind == "yarn":
        writer.set(".rope.scaling.type", "string", "yarn")
        writer.set(".rope.scaling.factor", "f32", rope["factor"])
        writer.set(".rope.scaling.original_context_length", "u32", original)
        for key, name in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow"),
                          ("attention_factor", "yarn_attn_factor")):
            if rope.get(key) is not None:
                writer.set(f".rope.scaling.{name}", "f32", rope[key])
        if rope.get("attention_factor") is None and rope.get("mscale") and rope.get("mscale_all_dim"):
            ratio = yarn_mscale(rope["factor"], rope["mscale"]) / yarn_mscale(rope["factor"], rope["mscale_all_dim"])
            writer.set(".rope.scaling.yarn_attn_factor", "f32", ratio)
    elif kind == "llama3":
        factors = llama3_factors(rope, rotated, original)
        writer.add_tensor("rope_freqs.weight", factors.shape, "F32", lambda: factors)
    elif kind in ("longrope", "su"):
        scale = context / original
        magnitude = math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0
        writer.set(".rope.scaling.type", "string", "longrope")
        writer.set(".rope.scaling.original_context_length", "u32", original)
        writer.set(".rope.scaling.attn_factor", "f32", rope.get("attention_factor") or magnitude)
        for name in ("long", "short"):
            factors = numpy.array(rope[f"{name}_factor"], "<f4")
            writer.add_tensor(f"rope_factors_{name}.weight", (rotated // 2,), "F32", lambda factors=factors: factors)
    elif kind != "default":
        raise SystemExit(f"rope scaling '{kind}' is not supported")


def llama3_factors(rope: dict, rotated: int, original: int) -> numpy.ndarray:
    """By how much each pair's frequency is divided: long waves fully, short ones not, a ramp between."""
    low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
    factors = []
    for pair in range(rotated // 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (2 * pair / rotated)
        smooth = min(max((original / wavelength - low) / (high - low), 0.0), 1.0)
        factors.append(1 / ((1 - smooth) / factor + smooth))
    return numpy.array(factors, "<f4")


def write_hyperparameters(writer: GgufWriter, config: dict) -> None:
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    for key, value in ((".block_count", config["num_hidden_layers"]),
                       (".context_length", config["max_position_embeddings"]),
                       (".embedding_length", config["hidden_size"]),
                       (".feed_forward_length", config["intermediate_size"]), (".attention.head_count", heads),
                       (".attention.head_count_kv", config.get("num_key_value_heads") or heads),
                       (".attention.key_length", head_dim), (".attention.value_length", head_dim),
                       (".vocab_size", config["vocab_size"])):
        writer.set(key, "u32", value)
    writer.set(".attention.layer_norm_rms_epsilon", "f32", config["rms_norm_eps"])
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        writer.set(".attention.sliding_window", "u32", config["sliding_window"])
    if config["architecture"] == "gemma3":
        write_gemma_settings(writer, config, head_dim)
    write_rope(writer, config, head_dim)


def write_gemma_settings(writer: GgufWriter, config: dict, head_dim: int) -> None:
    if config.get("final_logit_softcapping") or config.get("attn_logit_softcapping"):
        raise SystemExit("a gemma3 model with soft-capped logits is not supported")
    if config.get("query_pre_attn_scalar", head_dim) != head_dim:
        writer.set(".attention.scale", "f32", config["query_pre_attn_scalar"] ** -0.5)
    kinds = config.get("layer_types")
    period = config.get("sliding_window_pattern") or config.get("_sliding_window_pattern") or 6
    if kinds is None or kinds == [("sliding_attention", "full_attention")[(layer + 1) % period == 0]
                                  for layer in range(len(kinds))]:
        writer.set(".attention.sliding_window_pattern", "u32", period)
    else:
        flags = [kind == "sliding_attention" for kind in kinds]
        writer.set_array("gemma3.attention.sliding_window_pattern", "bool", flags)


def permute(array: numpy.ndarray, heads: int) -> numpy.ndarray:
    """Rows of each head from (first halves, second halves) to pairs side by side."""
    rest = array.shape[1:]
    return array.reshape(heads, 2, array.shape[0] // heads // 2, *rest).swapaxes(1, 2).reshape(array.shape)


def gguf_name(name: str, architecture: str):
    """The tensor's name in GGUF, or None for one that is not part of the text model."""
    if name in OUTSIDE_LAYERS:
        return OUTSIDE_LAYERS[name]
    found = LAYER_NAME.match(name)
    names = GEMMA_IN_LAYERS if architecture == "gemma3" else IN_LAYERS
    if found is None or found.group(2) not in names:
        return None
    return f"blk.{found.group(1)}.{names[found.group(2)]}.{found.group(3)}"


def add_tensors(writer: GgufWriter, tensors: SafeTensors, config: dict, matrix_type: str) -> None:
    architecture = config["architecture"]
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    for stored in tensors.entries:
        # Models that also see keep their text part under a name of its own.
        name = re.sub(r"\A(model\.language_model\.|language_model\.model\.)", "model.", stored)
        name = re.sub(r"\Alanguage_model\.lm_head\.", "lm_head.", name)
        target = gguf_name(name, architecture)
        if target is None:
            if re.match(r"(vision|multi_modal|model\.vision|model\.multi_modal)", name) or "rotary_emb" in name:
                continue
            raise SystemExit(f"{stored}: no place is known for this tensor")
        if target == "output.weight" and config.get("tie_word_embeddings"):
            continue
        change = None
        if architecture == "llama" and re.search(r"\.attn_[qk]\.", target):
            count = heads if ".attn_q." in target else kv_heads
            change = lambda array, count=count: permute(array, count)  # noqa: E731
        if architecture == "gemma3" and target.endswith("norm.weight"):
            change = lambda array: array + numpy.float32(1)  # noqa: E731

        def make(stored=stored, change=change):
            array = tensors.read(stored)
            return array if change is None else change(array)

        shape = tensors.shape(stored)
        writer.add_tensor(target, shape, "F32" if len(shape) == 1 else matrix_type, make)


def convert(folder: pathlib.Path, out: pathlib.Path, matrix_type: str) -> None:
    config = json.loads((folder / "config.json").read_text("utf-8"))
    model_type = config["model_type"]
    config = {**config, **config.get("text_config", {}), "model_type": model_type}
    if model_type not in ARCHITECTURES:
        raise SystemExit(f"model_type '{model_type}' is not supported; known are {' '.join(ARCHITECTURES)}")
    config["architecture"] = ARCHITECTURES[model_type]
    if config["architecture"] == "gemma3":
        config.setdefault("tie_word_embeddings", True)
    tensors = SafeTensors(folder)
    writer = GgufWriter(config["architecture"])
    writer.set("general.name", "string", folder.name)
    writer.set("general.file_type", "u32", {"F32": 0, "F16": 1}[matrix_type])
    write_hyperparameters(writer, config)
    hf_tokenizer.write_tokenizer(writer, folder, config, config["vocab_size"])
    add_tensors(writer, tensors, config, matrix_type)
    writer.write(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--type", choices=("f32", "f16"), default="f16", help="of the matrices; norms stay f32")
    arguments = parser.parse_args()
    convert(arguments.folder, arguments.out, arguments.type.upper())
    return 0


if __name__ == "__main__":
    sys.exit(main())
