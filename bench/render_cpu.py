#!/usr/bin/env python3
"""Writes docs/results/cpu.md and its plots from the figures that bench/measure_cpu.py kept."""
import argparse
import json
import pathlib
import re
import sys

HEARTH, PEER = "#d9480f", "#868e96"
SHAPES = {"smollm2-135m": "135M", "qwen2.5-0.5b": "0.5B", "llama-3.2-1b": "1B"}


def label(model: str) -> str:
    shape, _, kind = model.rpartition(".")
    return f"{SHAPES.get(shape, shape)} {kind}"


def kind(test: str) -> str:
    """Decoding is decoding, however many tokens were timed."""
    return "decoding" if re.fullmatch(r"tg\d+", test) else test


def find(run: dict, wanted: str) -> dict | None:
    return next((t for t in run["tests"] if kind(t["test"]) == wanted), None)


def bars(title: str, where: str, entries: list[tuple[str, float, float]]) -> str:
    """Two horizontal bars an entry: Hearth and the peer, in tok/s; every entry on its own scale, so all can be read."""
    width, left, row, top = 760, 120, 44, 70
    height = top + row * len(entries) + 16
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           f'<text x="16" y="24" font-size="16" font-weight="bold">{title}</text>',
           f'<text x="16" y="42" fill="#495057">{where}</text>',
           f'<text x="16" y="60" fill="#495057">tok/s, longer is better; each pair has its own scale. '
           f'<tspan fill="{HEARTH}">Hearth</tspan>, <tspan fill="{PEER}">llama.cpp</tspan>, and the ratio</text>']
    for i, (name, ours, theirs) in enumerate(entries):
        y, scale = top + i * row, (width - left - 150) / max(ours, theirs)
        out.append(f'<text x="{left - 10}" y="{y + 24}" text-anchor="end">{name}</text>')
        for offset, value, colour in ((4, ours, HEARTH), (20, theirs, PEER)):
            length = value * scale
            out.append(f'<rect x="{left}" y="{y + offset}" width="{length:.1f}" height="14" fill="{colour}"/>')
            out.append(f'<text x="{left + length + 6:.1f}" y="{y + offset + 11}" font-size="11">{value:,.0f}</text>')
        out.append(f'<text x="{width - 16}" y="{y + 24}" text-anchor="end" font-weight="bold">{ours / theirs:.2f} ×</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def table(machine: dict) -> list[str]:
    tests = sorted({kind(t["test"]) for run in machine["runs"] for t in run["tests"] if t.get("ratio")},
                   key=lambda name: (name.split("@")[-1] if "@" in name else "", name != "pp512", name))
    lines = ["| model | threads | " + " | ".join(tests) + " | share of the memory roof |",
             "|---|---|" + "---|" * (len(tests) + 1)]
    for run in machine["runs"]:
        cells = []
        for name in tests:
            test = find(run, name)
            cells.append(f"{test['tok_s']:.1f} / {test['peer_tok_s']:.1f} = **{test['ratio']:.2f}**"
                         if test and test.get("ratio") else "")
        decode = find(run, "decoding")
        roof = f"{100 * decode['roof_share']:.0f} %" if decode and decode.get("roof_share") else ""
        lines.append(f"| {label(run['model'])} | {run['threads']} | " + " | ".join(cells) + f" | {roof} |")
    return lines


def batches(machine: dict) -> list[str]:
    lines = ["| model | threads | V(2) | V(4) | V(8) |", "|---|---|---|---|---|"]
    for run in machine["runs"]:
        one = find(run, "tg32@b1")
        if not one:
            continue
        cells = []
        for n in (2, 4, 8):
            test = find(run, f"tg32@b{n}")
            cells.append(f"{n * one['tok_s'] / test['tok_s']:.2f}" if test else "")
        lines.append(f"| {label(run['model'])} | {run['threads']} | " + " | ".join(cells) + " |")
    return lines if len(lines) > 2 else []


def overview(machines: list[dict]) -> list[str]:
    """The least and the greatest ratio of a kind of work, a line for each machine and number of threads."""
    works = (("decoding, 4 bits", "decoding", ("Q4_0", "Q4_K_M")), ("decoding, Q8_0 and F16", "decoding", ("Q8_0", "F16")),
             ("decoding at depth 2,048", "tg32@d2048", ()), ("pp512, Q4_0 and Q8_0", "pp512", ("Q4_0", "Q8_0")),
             ("pp512, Q4_K_M", "pp512", ("Q4_K_M",)), ("pp512, F16", "pp512", ("F16",)))
    lines = ["| machine | threads | " + " | ".join(name for name, _, _ in works) + " |", "|---|---|" + "---|" * len(works)]
    for machine in machines:
        for threads in sorted({run["threads"] for run in machine["runs"]}, reverse=True):
            cells = []
            for _, test, kinds in works:
                found = (find(run, test) for run in machine["runs"]
                         if run["threads"] == threads and (not kinds or run["model"].rpartition(".")[2] in kinds))
                ratios = sorted({f"{t['ratio']:.2f}" for t in found if t and t.get("ratio")}, key=float)
                cells.append(" to ".join(ratios[:1] + ratios[1:][-1:]))
            lines.append(f"| {machine['name'].partition(', ')[0]} | {threads} | " + " | ".join(cells) + " |")
    return lines


def plots(machine: dict, folder: pathlib.Path, stem: str) -> list[str]:
    lines = []
    most = max(run["threads"] for run in machine["runs"])
    for test, title in (("decoding", "Decoding"), ("pp512", "A prompt of 512 tokens"), ("tg32@d2048", "Decoding at depth 2,048")):
        entries = [(label(run["model"]), found["tok_s"], found["peer_tok_s"]) for run in machine["runs"]
                   if run["threads"] == most and (found := find(run, test)) and found.get("ratio")]
        if not entries:
            continue
        name = f"{stem}-{test.replace('@', '-')}.svg"
        (folder / name).write_text(bars(title, f"{machine['name']}, {most} threads", entries), encoding="utf-8")
        lines.append(f"![{title}](cpu/{name})")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=pathlib.Path, default=pathlib.Path("docs/results"),
                        help="reads cpu/*.json in it, writes cpu.md and cpu/*.svg (default: docs/results)")
    results = parser.parse_args().results
    lines = ["# Speed on CPUs, beside llama.cpp", "",
             "Written by `bench/render_cpu.py` from what `bench/measure_cpu.py` measured: the same GGUF file, the same number of",
             "threads, both engines in turn on an otherwise idle machine, medians. Cells are *Hearth / llama.cpp = ratio* in tok/s;",
             "pp512 is a prompt of 512 tokens, tg32 decoding 32, @d2048 after 2,048 tokens. The models have the shapes of",
             "SmolLM2-135M, Qwen2.5-0.5B and Llama-3.2-1B and random weights (`bench/make_model.py`), which change no speed.", ""]
    paths = sorted((results / "cpu").glob("*.json"))
    machines = [json.loads(path.read_text()) for path in paths]
    lines += ["Least and greatest ratio of every table below:", "", *overview(machines), ""]
    for path, machine in zip(paths, machines):
        lines += [f"## {machine['name']}", "",
                  f"{machine['architecture']}, Hearth at commit {machine['commit']}, {machine['peer']}.", ""]
        lines += plots(machine, results / "cpu", path.stem) + [""] + table(machine) + [""]
        if steps := batches(machine):
            lines += ["V(n): what a step of n sequences costs, one being 1 (the cost of verifying n proposals).", "", *steps, ""]
        for note in machine.get("notes", []):
            lines += [note, ""]
    (results / "cpu.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    print(f"wrote {results / 'cpu.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
