#!/usr/bin/env python3
"""Makes tests/golden/families: for each family a small random model and the logits that the original code gives.

    make_golden.py OUT_FOLDER [NAME...]        needs torch and transformers; versions are noted in the .json files

NAME.gguf    the model in F32, converted by hf_to_gguf.py
NAME.logits  float32, [64 positions][320 tokens], eager attention in float32
NAME.json    the tokens, the context to ask for, what is particular about the model
"""
import json
import pathlib
import sys
import tempfile

import numpy
import torch
import transformers

import hf_to_gguf

POSITIONS = 64
VOCABULARY = 320
TOKENS = [(37 * index + 11 * index * index + 5) % VOCABULARY for index in range(POSITIONS)]
SMALL = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, max_position_embeddings=256, tie_word_embeddings=False)
MIDDLE = dict(SMALL, hidden_size=64, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2,
              tie_word_embeddings=True)
NO_TOKENS = dict(bos_token_id=None, eos_token_id=None, pad_token_id=None)


def rope(kind: str, **settings) -> dict:
    return {"rope_type": kind, "rope_theta": 10000.0, **settings}


def longrope(original: int, **settings) -> dict:
    pairs = int(8 * settings.get("partial_rotary_factor", 1.0))
    return rope("longrope", original_max_position_embeddings=original,
                short_factor=[1.0 + 0.05 * pair for pair in range(pairs)],
                long_factor=[1.5 + 0.75 * pair for pair in range(pairs)], **settings)


# name: (configuration class, its settings, note)
MODELS = {
    "llama": ("LlamaConfig", dict(SMALL, hidden_size=48, intermediate_size=80, num_attention_heads=3, rms_norm_eps=1e-5,
                                  rope_parameters=rope("default")), "three query heads to a KV head, own output matrix"),
    "llama_linear": ("LlamaConfig", dict(SMALL, attention_bias=True, mlp_bias=True,
                                         rope_parameters=rope("linear", factor=4.0)),
                     "positions divided by 4, biases on every projection"),
    "llama3": ("LlamaConfig", dict(MIDDLE, rope_parameters={
        "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32}), "Llama 3's rope factors, tied embeddings"),
    "llama_yarn": ("LlamaConfig", dict(SMALL, num_key_value_heads=2, rope_parameters=rope(
        "yarn", factor=4.0, original_max_position_embeddings=64)), "YaRN with factor 4"),
    "mistral": ("MistralConfig", dict(SMALL, sliding_window=20, rope_parameters=rope("default")),
                "a sliding window of 20 positions in every layer"),
    "qwen2": ("Qwen2Config", dict(MIDDLE, use_sliding_window=False, rope_parameters=rope("default")),
              "biases on Q, K and V"),
    "qwen3": ("Qwen3Config", dict(SMALL, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                                  rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
              "normed heads of a size that is not dim / heads"),
    "phi3": ("Phi3Config", dict(SMALL, sliding_window=24, rope_parameters=rope("default"),
                                original_max_position_embeddings=256), "fused matrices, a sliding window of 24"),
    "phi3_short": ("Phi3Config", dict(SMALL, original_max_position_embeddings=128, rope_parameters=longrope(128)),
                   "LongRoPE within the original context"),
    "phi3_long": ("Phi3Config", dict(SMALL, original_max_position_embeddings=32, rope_parameters=longrope(
        32, partial_rotary_factor=0.75)), "LongRoPE beyond the original context, three quarters of a head rotated"),
    "gemma3": ("Gemma3TextConfig", dict(SMALL, intermediate_size=24, num_hidden_layers=7, num_attention_heads=4,
                                        num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=24, sliding_window=16,
                                        tie_word_embeddings=True, rope_parameters={
                                            "sliding_attention": rope("default"),
                                            "full_attention": {"rope_type": "linear", "factor": 8.0,
                                                               "rope_theta": 1e6}}),
               "local layers with a window of 16 around one global layer, attention scale of its own"),
}
CONTEXTS = {"phi3_short": 128}  # positions to ask for; elsewhere all the model was made for


def randomise(model, seed: int) -> None:
    """Every parameter away from its default: norms of 1 and biases of 0 would hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    gemma = model.config.model_type.startswith("gemma")
    # Small where the same matrix makes the logits: else the best token is always the one just read.
    embedding_scale = 0.3 if model.config.tie_word_embeddings else 1.0
    if gemma:  # its file holds w of 1 + w, and its embeddings are multiplied by sqrt(dim) afterwards
        embedding_scale = model.config.hidden_size ** -0.5
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("norm.weight"):
            mean = 1.0 if not gemma else -0.6 if ".post_" in name else 0.0
            parameter.data = mean + 0.25 * noise
        elif name.endswith(".bias"):
            parameter.data = 0.3 * noise
        elif "embed_tokens" in name:
            parameter.data = embedding_scale * noise
        else:
            parameter.data = noise / parameter.shape[1] ** 0.5


def make(name: str, seed: int, folder: pathlib.Path) -> None:
    kind, settings, note = MODELS[name]
    config = getattr(transformers, kind)(**{**NO_TOKENS, **settings}, attn_implementation="eager")
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    randomise(model, seed)
    model.tie_weights()
    with torch.no_grad():
        logits = model(torch.tensor([TOKENS]), use_cache=False).logits[0].numpy().astype("<f4")
    assert logits.shape == (POSITIONS, VOCABULARY) and numpy.isfinite(logits).all()
    with tempfile.TemporaryDirectory() as checkpoint:
        checkpoint = pathlib.Path(checkpoint) / name
        model.save_pretrained(checkpoint)
        hf_to_gguf.convert(checkpoint, folder / f"{name}.gguf", "F32")
    (folder / f"{name}.logits").write_bytes(logits.tobytes())
    about = {"note": note, "made_with": f"torch {torch.__version__}, transformers {transformers.__version__}",
             "seed": seed, "context": CONTEXTS.get(name, config.max_position_embeddings), "vocabulary": VOCABULARY,
             "tokens": TOKENS}
    (folder / f"{name}.json").write_text(json.dumps(about) + "\n")
    print(f"{name}: {(folder / f'{name}.gguf').stat().st_size} bytes, logits within "
          f"{logits.min():.2f} and {logits.max():.2f}, {len(set(logits.argmax(1)))} different best tokens, "
          f"{sum(logits.argmax(1) == numpy.array(TOKENS))} of them the token read")


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # one order of summation, so that a second run gives the same bytes
    for seed, name in enumerate(MODELS, 1):
        if len(sys.argv) == 2 or name in sys.argv[2:]:
            make(name, seed, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
