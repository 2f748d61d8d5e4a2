#!/usr/bin/env python3
"""Measures the transformer VM beside the system it follows, in one run on one machine, for bench/render_vm.py.

    bench/measure_vm.py docs/results/vm/neoverse-v1.json --name "Neoverse-V1, 2 cores" --hearth build/release/hearth \\
        --blas build/release/bench/bench_vm_blas --peer "sparse=transformer_sparse model.bin {program}" \\
        --peer "blas=transformer_blas model.bin {program}" --peer-programs FOLDER --repetitions 5 collatz

The peer's executables are built elsewhere; {program} becomes FOLDER/PROGRAM.txt. All arms take turns, so that a slow
minute hits all of them; figures are medians. Both systems generate the program's trace token by token and then replay it
in batches; a peer prints its rates itself. Tokens are each system's own: ours needs fewer for the same program. Other
processes spoil the figures: measure on a quiet machine. Runs of one commit and machine add up in OUT; others replace it.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
LEAST_SHARE = 0.9  # of the processors asked for; a run that got less was disturbed and does not count
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def run(command: list[str]) -> tuple[str, int, float]:
    """Standard output, peak memory in bytes, and the share of one processor that it got."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=os.environ | ONE_THREAD)
        _, status, used = os.wait4(child.pid, 0)
        share = (used.ru_utime + used.ru_stime) / (time.monotonic() - started)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode("utf-8", "replace")
    if child.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: exit status {child.returncode}\n{text[-2000:]}")
    return text, used.ru_maxrss * 1024, share


class Figures:
    """Samples by arm, in the order they were first seen; `kept` is what earlier runs left."""

    def __init__(self, kept: list[dict]):
        self.arms = {arm["arm"]: arm for arm in kept}

    def add(self, name: str, rate: float, tokens: int, share: float, peak: int = 0) -> None:
        if share < LEAST_SHARE:
            print(f"disturbed: {name} got {share:.2f} of its processors", flush=True)
            return
        arm = self.arms.setdefault(name, {"arm": name, "samples": []})
        arm["samples"].append(round(rate, 1))
        rates = arm["samples"]
        arm |= {"tok_s": statistics.median(rates), "low": min(rates), "high": max(rates), "runs": len(rates),
                "tokens": tokens}
        if peak:
            arm["peak_memory_bytes"] = max(peak, arm.get("peak_memory_bytes", 0))


def measure_hearth(arguments, figures: Figures, program: str, data: str) -> None:
    text, _, _ = run([arguments.hearth, "vm", "bench", program, "--input", data, "--threads", str(arguments.threads), "--json"])
    answer = json.loads(text.splitlines()[-1])
    if not answer["equal"]:
        raise RuntimeError("the traces differ")
    for row in answer["rows"]:
        # Short traces are not cut into blocks: one thread does them.
        share = row["cpu_seconds"] / row["seconds"] / (row["threads"] if row["tokens"] > 65536 else 1)
        figures.add(row["name"], row["tokens_per_second"], row["tokens"], share)
    text, peak, share = run([arguments.hearth, "vm", "run", program, "--input", data, "--json"])
    answer = json.loads(text.splitlines()[-1])
    # The whole process: the model built, the prompt read, the program generated.
    figures.add("hearth vm run, whole process", answer["tokens"] / answer["seconds"], answer["tokens"], share, peak)


def measure_blas(arguments, figures: Figures, program: str, data: str) -> None:
    text, _, share = run([arguments.blas, program, data, str(arguments.blas_tokens)])
    answer = json.loads(text)
    figures.add("verify float64, dense, OpenBLAS, 1 thread", answer["tokens_per_second"], answer["tokens"], share)


def measure_peer(figures: Figures, name: str, command: str, program: pathlib.Path) -> None:
    text, peak, share = run([word.replace("{program}", str(program)) for word in shlex.split(command)])
    generated = re.search(r"(\d+) tok, .*?\(\s*(\d+) tok/s\)", text)
    batched = re.search(r"Batched total:.*?\(\s*(\d+) tok/s\)", text)
    if not generated:
        raise RuntimeError("no rate in what the peer printed:\n" + text[-2000:])
    figures.add(f"peer {name}: generate", float(generated[2]), int(generated[1]), share, peak)
    if batched:
        figures.add(f"peer {name}: batched replay", float(batched[1]), int(generated[1]), share)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("programs", nargs="+", help="names of examples/vm/cases.tsv")
    parser.add_argument("--hearth", required=True)
    parser.add_argument("--blas", help="bench_vm_blas")
    parser.add_argument("--blas-tokens", type=int, default=100_000, help="how much of a trace it is given")
    parser.add_argument("--peer", action="append", default=[], help="NAME=COMMAND with {program} in it")
    parser.add_argument("--peer-programs", type=pathlib.Path, help="folder of the peer's prompts")
    parser.add_argument("--peer-name", default="", help="whose they are, with the commit")
    parser.add_argument("--name", required=True, help="of the machine, for people")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    cases = dict((line.split("\t")[0], line.rstrip("\n").split("\t")[1:])
                 for line in (ROOT / "examples/vm/cases.tsv").read_text().splitlines())
    kept = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"programs": {}}
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], check=True, capture_output=True,
                            text=True).stdout.strip()
    if (kept.get("commit"), kept.get("name")) != (commit, arguments.name):
        kept["programs"] = {}
    kept |= {"name": arguments.name, "architecture": platform.machine(), "commit": commit, "threads": arguments.threads,
             "peer": arguments.peer_name or kept.get("peer", "")}
    for name in arguments.programs:
        source, data = cases[name]
        figures = Figures(kept["programs"].get(name, []))
        with tempfile.TemporaryDirectory() as folder:
            program = f"{folder}/{name}.vm"
            run([arguments.hearth, "vm", "build", str(ROOT / "examples/vm" / source), "-o", program])
            for _ in range(arguments.repetitions):
                measure_hearth(arguments, figures, program, data)
                if arguments.blas:
                    measure_blas(arguments, figures, program, data)
                for peer in arguments.peer:
                    peer_name, command = peer.split("=", 1)
                    measure_peer(figures, peer_name, command, arguments.peer_programs / f"{name}.txt")
        kept["programs"][name] = list(figures.arms.values())
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(kept, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
