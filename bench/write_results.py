#!/usr/bin/env python3
"""Runs the engine's benchmarks and writes their table as Markdown, with machine, commit and command.

Usage: write_results.py BUILD_FOLDER OUT.md
"""
import json
import platform
import subprocess
import sys


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def cpu_model() -> str:
    for line in output("lscpu").splitlines():
        if line.startswith("Model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def rows(results: dict):
    """(name, nanoseconds): plain entries as they are, repeated ones by their median."""
    for entry in results["benchmarks"]:
        if entry.get("aggregate_name", "median") != "median":
            continue
        unit = {"ns": 1.0, "us": 1e3, "ms": 1e6}[entry["time_unit"]]
        yield entry["run_name"], entry["real_time"] * unit, entry.get("label", "")


def readable(nanoseconds: float) -> str:
    for limit, scale, unit in ((1e3, 1, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms")):
        if nanoseconds < limit:
            return f"{nanoseconds / scale:.2f} {unit}"
    return f"{nanoseconds / 1e9:.2f} s"


def main() -> int:
    build, target = sys.argv[1:3]
    wanted = "^(regress|fork|decode|prefill)/"  # the scheduler's steps are no part of this page
    command = [f"{build}/bench/bench_engine", "--benchmark_format=json", f"--benchmark_filter={wanted}"]
    results = json.loads(output(*command))
    commit = output("git", "rev-parse", "--short", "HEAD").strip()
    lines = [
        "# Time travel and replay",
        "",
        f"Machine: {cpu_model()}, {platform.machine()}, {results['context']['num_cpus']} CPUs. Commit {commit}.",
        "Command: `make bench` (`bench/engine_bench.cpp`; a random model of 30 layers, width 768, Q4_0; medians where repeated).",
        "",
        "| what | time |",
        "|---|---|",
    ]
    for name, nanoseconds, label in rows(results):
        lines.append(f"| `{name}` {label} | {readable(nanoseconds)} |")
    lines += [
        "",
        "`regress` goes back 10 tokens, or all of them; `fork` starts a sibling 10 tokens back and drops it again.",
        "Both must stay below 5 µs at 128 and at 8,192 tokens. Replay must not be slower than eager execution.",
    ]
    with open(target, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    print(f"wrote {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
