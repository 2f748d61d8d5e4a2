"""Turns a Hugging Face tokenizer.json into the tokenizer.ggml.* metadata of a GGUF file."""
import json
import pathlib
import re

from gguf_write import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, GgufWriter

BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>\Z")
# How a byte-level tokenizer cuts text into words is a pattern in tokenizer.json, but a name in GGUF.
# Tried in order: the first whose fragments all stand in the pattern.
PRE_TOKENIZERS = (
    ("gpt-4o", (r"\p{Lu}\p{Lt}", r"\p{N}{1,3}")),
    ("tekken", (r"\p{Lu}\p{Lt}", r"\p{N}|")),
    ("llama-bpe", (r"[^\r\n\p{L}\p{N}]?\p{L}+", r"\p{N}{1,3}")),
    ("qwen2", (r"[^\r\n\p{L}\p{N}]?\p{L}+", r"\p{N}|")),
)


def byte_alphabet():
    """GPT-2's printable character for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable}
    table.update({byte: chr(256 + index) for index, byte in enumerate(others)})
    return [table[byte] for byte in range(256)]


def write_byte_vocabulary(writer: GgufWriter, size: int) -> None:
    """A vocabulary for models that came without one: every byte, then placeholders."""
    tokens = byte_alphabet()[:size] + [f"<extra_{index}>" for index in range(size - 256)]
    writer.set("tokenizer.ggml.model", "string", "gpt2")
    writer.set("tokenizer.ggml.pre", "string", "gpt-2")
    writer.set_array("tokenizer.ggml.tokens", "string", tokens)
    writer.set_array("tokenizer.ggml.token_type", "i32", [NORMAL] * min(size, 256) + [CONTROL] * max(size - 256, 0))
    writer.set_array("tokenizer.ggml.merges", "string", [])
    writer.set("tokenizer.ggml.eos_token_id", "u32", size - 1)
    writer.set("tokenizer.ggml.add_bos_token", "bool", False)


def _pre_tokenizer_name(tokenizer: dict) -> str:
    parts = tokenizer.get("pre_tokenizer") or {}
    parts = parts.get("pretokenizers", [parts])
    kinds = [part.get("type") for part in parts]
    for part in parts:
        pattern = part.get("pattern", {}).get("Regex", "")
        for name, fragments in PRE_TOKENIZERS:
            if pattern and all(fragment in pattern for fragment in fragments):
                return name
    if kinds == ["Digits", "ByteLevel"]:
        return "smollm"
    if kinds == ["ByteLevel"]:
        return "gpt-2"
    raise SystemExit(f"tokenizer.json: no name is known for this pre_tokenizer: {json.dumps(parts)}")


def _tokens_and_kinds(tokenizer: dict, size: int, sentence_piece: bool):
    tokens = [f"[PAD{index}]" for index in range(size)]
    kinds = [UNUSED] * size
    for text, index in tokenizer["model"]["vocab"].items():
        tokens[index] = text
        kinds[index] = BYTE if sentence_piece and BYTE_TOKEN.match(text) else NORMAL
    for added in tokenizer.get("added_tokens", []):
        tokens[added["id"]] = added["content"]
        kinds[added["id"]] = CONTROL if added["special"] else USER_DEFINED
    unknown = tokenizer["model"].get("unk_token")
    if sentence_piece and unknown in tokens:
        kinds[tokens.index(unknown)] = UNKNOWN
    return tokens, kinds


def _special_ids(folder: pathlib.Path, config: dict, tokens) -> dict:
    """bos, eos, ... by name; tokenizer_config.json before config.json."""
    ids = {}
    settings_path = folder / "tokenizer_config.json"
    settings = json.loads(settings_path.read_text("utf-8")) if settings_path.is_file() else {}
    for name, gguf_name in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        text = settings.get(f"{name}_token")
        text = text.get("content") if isinstance(text, dict) else text
        index = config.get(f"{name}_token_id")
        index = index[0] if isinstance(index, list) else index
        if text in tokens:
            index = tokens.index(text)
        if isinstance(index, int) and 0 <= index < len(tokens):
            ids[gguf_name] = index
    return ids


def _merges(tokenizer: dict):
    return [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]


def write_byte_level_bpe(writer: GgufWriter, path, tokenizer: dict, pre=None, size: int = 0):
    """Tokens, their kinds and merges; returns the tokens. `pre` None: recognised by its pattern."""
    model = tokenizer.get("model", {})
    if model.get("type", "BPE") != "BPE" or "merges" not in model or model.get("byte_fallback"):
        raise SystemExit(f"{path}: not a byte-level BPE tokenizer")
    ids = [*model["vocab"].values(), *(added["id"] for added in tokenizer.get("added_tokens", []))]
    tokens, kinds = _tokens_and_kinds(tokenizer, max(size, max(ids) + 1), sentence_piece=False)
    writer.set("tokenizer.ggml.model", "string", "gpt2")
    writer.set("tokenizer.ggml.pre", "string", pre or _pre_tokenizer_name(tokenizer))
    writer.set_array("tokenizer.ggml.tokens", "string", tokens)
    writer.set_array("tokenizer.ggml.token_type", "i32", kinds)
    writer.set_array("tokenizer.ggml.merges", "string", _merges(tokenizer))
    return tokens


def _write_sentence_piece(writer: GgufWriter, tokenizer: dict, config: dict, size: int):
    tokens, kinds = _tokens_and_kinds(tokenizer, size, sentence_piece=True)
    # SentencePiece orders merges by the score of what they make; the first merge that makes a token is its rank.
    ranks = {}
    for rank, merge in enumerate(_merges(tokenizer)):
        left, _, right = merge.partition(" ")
        ranks.setdefault(left + right, rank)
    writer.set("tokenizer.ggml.model", "string", "llama")
    writer.set("tokenizer.ggml.pre", "string", "default")
    writer.set_array("tokenizer.ggml.tokens", "string", tokens)
    writer.set_array("tokenizer.ggml.token_type", "i32", kinds)
    writer.set_array("tokenizer.ggml.scores", "f32", [-float(ranks[t]) if t in ranks else -1e6 for t in tokens])
    # Gemma puts no space before a text, Llama and Phi do.
    prefix = '"Prepend"' in json.dumps(tokenizer.get("normalizer")) or config["model_type"] == "phi3"
    writer.set("tokenizer.ggml.add_space_prefix", "bool", prefix)
    return tokens


def write_tokenizer(writer: GgufWriter, folder: pathlib.Path, config: dict, size: int) -> None:
    path = folder / "tokenizer.json"
    if not path.is_file():
        write_byte_vocabulary(writer, size)
        return
    tokenizer = json.loads(path.read_text("utf-8"))
    if tokenizer["model"]["type"] == "BPE" and tokenizer["model"].get("byte_fallback", False):
        tokens = _write_sentence_piece(writer, tokenizer, config, size)
    else:
        tokens = write_byte_level_bpe(writer, path, tokenizer, size=size)
    ids = _special_ids(folder, config, tokens)
    for name, index in ids.items():
        writer.set(f"tokenizer.ggml.{name}_token_id", "u32", index)
    processor = json.dumps(tokenizer.get("post_processor"), ensure_ascii=False)
    adds_bos = "bos" in ids and json.dumps(tokens[ids["bos"]], ensure_ascii=False) in processor
    writer.set("tokenizer.ggml.add_bos_token", "bool", adds_bos)
    _write_chat_template(writer, folder)


def _write_chat_template(writer: GgufWriter, folder: pathlib.Path) -> None:
    template = None
    if (folder / "chat_template.jinja").is_file():
        template = (folder / "chat_template.jinja").read_text("utf-8")
    elif (folder / "tokenizer_config.json").is_file():
        template = json.loads((folder / "tokenizer_config.json").read_text("utf-8")).get("chat_template")
    if isinstance(template, list):  # several by name
        template = next((entry["template"] for entry in template if entry["name"] == "default"), None)
    if isinstance(template, str):
        writer.set("tokenizer.chat_template", "string", template)
