#!/usr/bin/env python3
"""Measures `hearth serve` over HTTP, beside llama.cpp's server on the same file, and writes a page of results.

    bench/measure_server.py docs/results/server.md --hearth build/release/hearth --peer llama-server \\
        --name "Neoverse-V1, 2 cores" smollm2-135m.Q4_0.gguf

The peer is built elsewhere. Both servers run all the time and are asked in turn, with the same threads and the same
requests: prompts of random token ids that no two requests share, sampled greedily, as streams. A client sends its next
request when its last one has ended. A request's time to the first token begins when it is sent; tokens are those the
server says it made. Other processes spoil the figures: measure on a quiet machine.
"""
import argparse
import asyncio
import json
import pathlib
import platform
import random
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

PROMPT = ANSWER = 128
CLIENTS = (1, 4, 16)
PREFIX = 2000
IDLE_STREAMS = 2000
REST_SECONDS = 3
PIECE = b'"finish_reason": null'  # one in each event with text


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, name: str, command: list[str], port: int):
        self.name, self.port = name, port
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise SystemExit(f"{' '.join(command)} does not serve")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def start_hearth(arguments, *more: str) -> Server:
    port = free_port()
    return Server("hearth", [arguments.hearth, "serve", f"model={arguments.model}", "--port", str(port),
                             "--threads", str(arguments.threads), "--ctx", "4096", *more], port)


def start_peer(arguments) -> Server:
    port = free_port()
    context = max(CLIENTS) * 2 * (PROMPT + ANSWER)
    return Server("llama-server", [arguments.peer, "-m", str(arguments.model), "--port", str(port), "-t", str(arguments.threads),
                                   "-np", str(max(CLIENTS)), "-c", str(context)], port)


def http_post(body: dict) -> bytes:
    data = json.dumps(body).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(data)) + data


def completion(prompt: list[int], tokens: int) -> bytes:
    return http_post({"model": "model", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
                      "stream": True, "stream_options": {"include_usage": True}})


class Answer:
    """One request: when it was sent, when pieces of text came, and how many tokens the server counted."""

    async def ask(self, port: int, prompt: list[int], tokens: int) -> "Answer":
        request = completion(prompt, tokens)
        lines = []  # looked at when all is there: reading must not cost the server time
        self.sent = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        writer.write(request)
        status = await reader.readline()
        if b" 200 " not in status:
            raise RuntimeError(f"{status!r} {await reader.read(2000)!r}")
        while line := await reader.readline():
            if line.startswith(b"data: {"):
                lines.append((time.perf_counter(), line))
        writer.close()
        events = [(when, json.loads(line[6:])) for when, line in lines]
        if failed := [event for _, event in events if "choices" not in event]:
            raise RuntimeError(f"port {port}: {failed}")
        self.texts = [when for when, event in events if event["choices"] and event["choices"][0]["text"]]
        usage = next(event["usage"] for _, event in reversed(events) if event.get("usage"))
        self.tokens = usage["completion_tokens"]
        self.cached = usage["prompt_tokens_details"]["cached_tokens"]
        if self.tokens != tokens or usage["prompt_tokens"] < len(prompt):
            raise RuntimeError(f"asked for {tokens} tokens, got {usage}")
        return self

    @property
    def first_ms(self) -> float:
        return 1000 * (self.texts[0] - self.sent)


class Prompts:
    """Random ids of ordinary tokens; every prompt is new."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def next(self, length: int) -> list[int]:
        return [self.random.randrange(300, 40000) for _ in range(length)]


async def load(server: Server, clients: int, requests: int, prompts: Prompts) -> tuple[float, list[float]]:
    """Generated tokens a second, and every request's time to its first token."""
    async def client() -> list[Answer]:
        return [await Answer().ask(server.port, prompts.next(PROMPT), ANSWER) for _ in range(requests)]

    started = time.perf_counter()
    answers = sum(await asyncio.gather(*(client() for _ in range(clients))), [])
    seconds = time.perf_counter() - started
    return sum(a.tokens for a in answers) / seconds, [a.first_ms for a in answers]


def load_again_if_refused(server: Server, clients: int, requests: int, prompts: Prompts) -> tuple[float, list[float]]:
    """A server may fail over what a model says to random tokens; such a round is said and made again."""
    for _ in range(5):
        try:
            return asyncio.run(load(server, clients, requests, prompts))
        except RuntimeError as error:
            print(f"{server.name}: {error}", flush=True)
    raise SystemExit(f"{server.name} fails again and again")


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measure_load(arguments, servers: list[Server], prompts: Prompts) -> list[dict]:
    rows = []
    for clients in CLIENTS:
        rates = {s.name: [] for s in servers}
        firsts = {s.name: [] for s in servers}
        for round_number in range(arguments.rounds + 1):  # the first one warms up
            for server in servers:
                rate, first = load_again_if_refused(server, clients, 1 if round_number == 0 else 2, prompts)
                if round_number > 0:
                    rates[server.name].append(rate)
                    firsts[server.name] += first
        for server in servers:
            row = {"server": server.name, "clients": clients, "tok_s": statistics.median(rates[server.name]),
                   "low": min(rates[server.name]), "high": max(rates[server.name]),
                   "first_ms": statistics.median(firsts[server.name]), "first_p95_ms": percentile(firsts[server.name], 0.95)}
            rows.append(row)
            print(f"{clients:3} clients  {server.name:13} {row['tok_s']:8.1f} tok/s  first token {row['first_ms']:7.1f} ms, "
                  f"p95 {row['first_p95_ms']:7.1f} ms", flush=True)
    return rows


def decode_rate(port: int, prompt: list[int], tokens: int) -> float:
    """Pieces of text a second, each a token or more, read with as little work as can be: the cores are the server's."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(completion(prompt, tokens))
        data = bytearray()
        while data.count(PIECE) == 0:
            data += connection.recv(65536)
        first, before = time.perf_counter(), data.count(PIECE)
        while more := connection.recv(65536):
            data += more
        return (data.count(PIECE) - before) / (time.perf_counter() - first)


def measure_share(arguments, prompts: Prompts) -> dict:
    """Decoding by HTTP beside `hearth bench`: both from a context of next to nothing, both in new processes each time, as
    some are a few percent faster than others all their life. A system that takes back the memory of a process that has
    ended is given the time."""
    command = [arguments.hearth, "bench", str(arguments.model), "--threads", str(arguments.threads), "-p", "0", "-n", "128",
               "--depth", "0", "--batch", "0", "-r", "3", "--json"]
    alone, served = [], []
    for _ in range(2 * arguments.rounds):
        server = start_hearth(arguments)
        try:
            time.sleep(REST_SECONDS)
            served.append(statistics.median(decode_rate(server.port, prompts.next(1), 129) for _ in range(5)))
        finally:
            server.stop()
        time.sleep(REST_SECONDS)
        tests = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        alone.append(next(t["tok_s"] for t in tests if t["test"] == "tg128"))
    figures = {"bench": statistics.median(alone), "http": statistics.median(served),
               "share": statistics.median(h / b for h, b in zip(served, alone))}
    print(f"one client {figures['http']:.1f} tok/s, hearth bench {figures['bench']:.1f}: {100 * figures['share']:.1f} %", flush=True)
    return figures


def measure_prefix(arguments, server: Server, prompts: Prompts) -> dict:
    cold, warm = [], []
    for _ in range(arguments.rounds):
        prefix = prompts.next(PREFIX)
        first = asyncio.run(Answer().ask(server.port, prefix + prompts.next(16), 4))
        again = asyncio.run(Answer().ask(server.port, prefix + prompts.next(16), 4))
        cold.append(first.first_ms)
        warm.append(again.first_ms)
    figures = {"cold_ms": statistics.median(cold), "warm_ms": statistics.median(warm), "cached": again.cached}
    print(f"prefix of {PREFIX}: cold {figures['cold_ms']:.0f} ms, warm {figures['warm_ms']:.1f} ms, "
          f"{100 * figures['warm_ms'] / figures['cold_ms']:.1f} %", flush=True)
    return figures


async def hold_stream(port: int, prompt: list[int], opened: asyncio.Event) -> None:
    """Opens a stream and reads what comes, until cancelled."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(completion(prompt, 4000))
    status = await reader.readline()
    if b" 200 " not in status:
        raise RuntimeError(f"a stream was refused: {status!r} {await reader.read(2000)!r}")
    opened.set()
    while await reader.read(65536):
        pass


async def health(port: int) -> float:
    started = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    status = await reader.readline()
    elapsed = 1000 * (time.perf_counter() - started)
    await reader.read()
    writer.close()
    if b" 200 " not in status:
        raise RuntimeError(f"/health: {status!r}")
    return elapsed


async def idle_streams(port: int, count: int, prompts: Prompts, seconds: float) -> list[float]:
    opened = [asyncio.Event() for _ in range(count)]
    streams = [asyncio.create_task(hold_stream(port, prompts.next(16), event)) for event in opened]
    everything = asyncio.gather(*(event.wait() for event in opened))
    done, _ = await asyncio.wait([everything, *streams], return_when=asyncio.FIRST_COMPLETED, timeout=300)
    if everything not in done:
        raise RuntimeError(f"only {sum(e.is_set() for e in opened)} of {count} streams opened")
    latencies = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        latencies.append(await health(port))
        await asyncio.sleep(0.02)
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
    return latencies


def measure_idle(arguments, prompts: Prompts) -> dict:
    """Most of the streams wait their turn; those that have it keep the engine busy."""
    server = start_hearth(arguments, "--parallel", "16", "--queue", str(IDLE_STREAMS))
    latencies = asyncio.run(idle_streams(server.port, IDLE_STREAMS, prompts, 20))
    server.stop()
    figures = {"streams": IDLE_STREAMS, "probes": len(latencies), "p50_ms": percentile(latencies, 0.5),
               "p99_ms": percentile(latencies, 0.99), "worst_ms": max(latencies)}
    print(f"{IDLE_STREAMS} streams, 16 of them being answered: /health p50 {figures['p50_ms']:.1f} ms, "
          f"p99 {figures['p99_ms']:.1f} ms, worst {figures['worst_ms']:.1f} ms", flush=True)
    return figures


def page(arguments, rows: list[dict], share: dict, prefix: dict, idle: dict) -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    lines = [f"""# The server

{arguments.name} ({platform.machine()}), {arguments.threads} threads, {arguments.model.name}, commit {commit}, written by

    bench/measure_server.py docs/results/server.md --hearth build/release/hearth --peer llama-server --name NAME MODEL

## Clients at once

Each sends prompts of {PROMPT} random tokens and reads {ANSWER} as a stream, twice, one after the other; {arguments.rounds} rounds, the servers in
turn ({arguments.peer_name}). Tokens a second are those generated, over the whole time, prompts included; the median of the rounds.

| clients | server | tok/s | lowest to highest | first token, median | p95 |
|---|---|---|---|---|---|"""]
    for row in rows:
        lines.append(f"| {row['clients']} | {row['server']} | {row['tok_s']:.0f} | {row['low']:.0f} to {row['high']:.0f} | "
                     f"{row['first_ms']:.0f} ms | {row['first_p95_ms']:.0f} ms |")
    lines.append("")
    for ours, peers in zip(rows[::2], rows[1::2]):
        lines.append(f"- {ours['clients']} clients: {ours['tok_s'] / peers['tok_s']:.2f} times the tokens a second, "
                     f"{ours['first_p95_ms'] / peers['first_p95_ms']:.2f} times the p95 of the first token")
    lines.append(f"""
## One client

- Decoding 128 tokens over HTTP: {share['http']:.1f} tok/s, {100 * share['share']:.1f} % of what `hearth bench` gives in turn with it ({share['bench']:.1f}).
- A prompt of {PREFIX} tokens that another request has had, then 16 new ones: first token after {prefix['warm_ms']:.1f} ms, {100 * prefix['warm_ms'] / prefix['cold_ms']:.1f} % of
  the {prefix['cold_ms']:.0f} ms it takes new ({prefix['cached']} tokens reused).

## Many streams

{idle['streams']} streams open, 16 of them being answered, the others waiting: `/health` on a new connection, {idle['probes']} times in 20 s, answers after
{idle['p50_ms']:.1f} ms (median), {idle['p99_ms']:.1f} ms (p99), {idle['worst_ms']:.1f} ms (worst).
""")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--hearth", required=True)
    parser.add_argument("--peer", required=True, help="a llama-server built for this machine")
    parser.add_argument("--peer-name", default="llama.cpp", help="with its commit")
    parser.add_argument("--name", required=True, help="of the machine, for people")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    prompts = Prompts(time.time_ns())
    servers = [start_hearth(arguments), start_peer(arguments)]
    try:
        rows = measure_load(arguments, servers, prompts)
        servers.pop().stop()
        prefix = measure_prefix(arguments, servers[0], prompts)
        servers.pop().stop()
        share = measure_share(arguments, prompts)
        idle = measure_idle(arguments, prompts)
    finally:
        for server in servers:
            server.stop()
    arguments.out.write_text(page(arguments, rows, share, prefix, idle))
    return 0


if __name__ == "__main__":
    sys.exit(main())
