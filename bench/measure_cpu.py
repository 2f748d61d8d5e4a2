#!/usr/bin/env python3
"""Measures Hearth beside llama.cpp on this machine and keeps the figures as JSON, for bench/render_cpu.py.

    bench/measure_cpu.py docs/results/cpu/neoverse-v1.json --hearth build/release/hearth --peer llama-bench \\
        --name "Neoverse-V1, 2 cores" smollm2-135m.Q4_0.gguf llama-3.2-1b.Q4_0.gguf

Each file is timed by `hearth bench --against`: both engines in turn, the same file, the same threads, medians. Models of
real shapes with random weights come from bench/make_model.py and `hearth quantize`. Other processes spoil the figures:
measure on a quiet machine. A test measured again takes the place of its old figures. What follows `--` goes to hearth bench.
"""
import argparse
import json
import pathlib
import platform
import subprocess
import sys


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def measure(arguments, model: pathlib.Path, threads: int, extra: list[str]) -> list[dict]:
    command = [arguments.hearth, "bench", str(model), "--threads", str(threads), "--json",
               "--repetitions", str(arguments.repetitions), "--against", arguments.peer, *extra]
    print("$", " ".join(command), flush=True)
    return json.loads(output(*command))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--hearth", required=True)
    parser.add_argument("--peer", required=True, help="a llama-bench built for this machine")
    parser.add_argument("--peer-name", default="llama.cpp", help="with its commit")
    parser.add_argument("--name", required=True, help="of the machine, for people")
    parser.add_argument("--threads", default="", help="comma-separated; default: all CPUs this process may use")
    parser.add_argument("--repetitions", type=int, default=5)
    given = sys.argv[1:sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    arguments = parser.parse_args(given)
    arguments.extra = sys.argv[len(given) + 2:] or ["--depth", "0"]

    machine = json.loads(output(arguments.hearth, "inspect", "machine", "--json"))
    counts = [int(n) for n in arguments.threads.split(",") if n] or [machine["recommended_threads"]]
    kept = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"runs": []}
    kept |= {"name": arguments.name, "architecture": platform.machine(),
             "commit": output("git", "rev-parse", "--short", "HEAD").strip(),
             "peer": arguments.peer_name}
    for model in arguments.models:
        for threads in counts:
            tests = measure(arguments, model, threads, arguments.extra)
            run = next((r for r in kept["runs"] if (r["model"], r["threads"]) == (model.stem, threads)), None)
            if run is None:
                run = {"model": model.stem, "threads": threads, "tests": []}
                kept["runs"].append(run)
            measured = {test["test"] for test in tests}
            run["tests"] = [t for t in run["tests"] if t["test"] not in measured] + tests
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(kept, indent=1) + "\n")
            for test in tests:
                ratio = f" {test['ratio']:.2f}x" if test.get("ratio") else ""
                print(f"  {test['test']:>14} {test['tok_s']:9.1f} tok/s{ratio}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
