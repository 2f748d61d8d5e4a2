#!/usr/bin/env python3
"""Writes docs/results/vm.md and its pictures from the figures that bench/measure_vm.py kept.

Usage: render_vm.py [RESULTS_FOLDER]     (default docs/results; reads vm/*.json in it, writes vm.md and vm/*.svg)
"""
import json
import math
import pathlib
import sys

HEARTH, PEER = "#d9480f", "#868e96"
GENERATE, VERIFY = "generate int64", "verify int64, 1 thread"


def is_peer(arm: dict) -> bool:
    return arm["arm"].startswith("peer ")


def best(arms: list[dict], ending: str) -> dict | None:
    found = [a for a in arms if is_peer(a) and a["arm"].endswith(ending)]
    return max(found, key=lambda a: a["tok_s"], default=None)


def find(arms: list[dict], name: str) -> dict | None:
    return next((a for a in arms if a["arm"] == name), None)


def picture(title: str, arms: list[dict]) -> str:
    """Horizontal bars on a logarithmic scale: each step to the right is ten times as fast."""
    width, left, row, top = 860, 330, 24, 56
    height = top + row * len(arms) + 16
    low, high = 3.5, max(math.log10(a["tok_s"]) for a in arms)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           f'<text x="16" y="24" font-size="16" font-weight="bold">{title}</text>',
           f'<text x="16" y="44" fill="#495057">tok/s on a logarithmic scale. <tspan fill="{HEARTH}">Hearth</tspan>, '
           f'<tspan fill="{PEER}">upstream</tspan></text>']
    for i, arm in enumerate(arms):
        y = top + i * row
        length = max(2.0, (math.log10(arm["tok_s"]) - low) / (high - low) * (width - left - 110))
        colour = PEER if is_peer(arm) else HEARTH
        out.append(f'<text x="{left - 10}" y="{y + 16}" text-anchor="end">{arm["arm"].replace("peer ", "upstream ")}</text>')
        out.append(f'<rect x="{left}" y="{y + 3}" width="{length:.1f}" height="16" fill="{colour}"/>')
        out.append(f'<text x="{left + length + 6:.1f}" y="{y + 16}" font-size="11">{arm["tok_s"]:,.0f}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def summary(machine: dict) -> list[str]:
    lines = [f"| program | tokens, ours / upstream's | generation | verification, one core | {machine['threads']} threads | peak memory |",
             "|---|---|---|---|---|---|"]
    for name, arms in machine["programs"].items():
        generated, replayed = best(arms, ": generate"), best(arms, ": batched replay")
        if not generated or not replayed:
            continue
        ours, checked = find(arms, GENERATE), find(arms, VERIFY)
        parallel = find(arms, f"verify int64, {machine['threads']} threads")
        peak = find(arms, "hearth vm run, whole process")["peak_memory_bytes"]
        theirs = max(a["peak_memory_bytes"] for a in arms if is_peer(a) and "peak_memory_bytes" in a)
        scaling = f"{parallel['tok_s'] / checked['tok_s']:.2f} × of one" if parallel else "too short to be cut"
        lines.append(f"| {name} | {ours['tokens']:,} / {generated['tokens']:,} "
                     f"| {ours['tok_s'] / generated['tok_s']:.0f} × | {checked['tok_s'] / replayed['tok_s']:.0f} × "
                     f"| {scaling} | {peak / 1e6:,.0f} / {theirs / 1e6:,.0f} MB |")
    return lines


def details(machine: dict, folder: pathlib.Path, stem: str) -> list[str]:
    lines = []
    for name, arms in machine["programs"].items():
        (folder / "vm" / f"{stem}_{name}.svg").write_text(
            picture(f"{name}: {machine['name']}", [a for a in arms if "whole process" not in a["arm"]]))
        lines += ["", f"### {name}", "", f"![tok/s of {name}](vm/{stem}_{name}.svg)", "",
                  "| arm | tok/s, median | lowest to highest | runs | tokens | peak memory |", "|---|---|---|---|---|---|"]
        for a in arms:
            peak = f"{a['peak_memory_bytes'] / 1e6:,.0f} MB" if "peak_memory_bytes" in a else ""
            lines.append(f"| {a['arm'].replace('peer ', 'upstream ')} | {a['tok_s']:,.0f} | {a['low']:,.0f} to {a['high']:,.0f} "
                         f"| {a['runs']} | {a['tokens']:,} | {peak} |")
    return lines


def main() -> int:
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "docs/results")
    lines = ["# The transformer VM, measured", "",
             "Written by `bench/render_vm.py` from the figures of `bench/measure_vm.py`, which says how to run it.", "",
             "Upstream is the system whose mathematics this one follows. Its *generate* is its sequential engine; its *batched",
             "replay* runs a known trace through the model in one batch, skips the search in heads that need none, and compares",
             "the last position. Our *verify* compares every position; *speculate* drafts with the native interpreter and",
             "verifies. *Dense, OpenBLAS* is our model by upstream's method. One thread everywhere unless said. Tokens are each",
             "system's own: an instruction of ours is 2.6 tokens, and `1000*1000` is five (upstream: 13.8 million, a loop)."]
    for path in sorted((folder / "vm").glob("*.json")):
        machine = json.loads(path.read_text())
        lines += ["", f"## {machine['name']}", "",
                  f"{machine['architecture']}, commit {machine['commit']}, upstream {machine['peer']}. Ratios of medians, "
                  "ours over the best of upstream's engines; runs that got less than 0.9 of their processors are left out, and the number "
                  "of the others is in the tables below (upstream's whole sudoku: one, it takes 90 s).", ""]
        lines += summary(machine)
        if long := machine.get("verified"):
            times = ", ".join(f"{t} s with {n} thread{'s' * (n != '1')}" for n, t in long["seconds_by_threads"].items())
            lines += ["", f"A long one: `hearth vm verify` of {long['program']}, {long['positions']:,} positions, "
                      f"{long['mismatches']} mismatches, {times}, trace {long['trace_hash']} each time."]
        lines += details(machine, folder, path.stem)
    (folder / "vm.md").write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
