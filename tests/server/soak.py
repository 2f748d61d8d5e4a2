"""Soaks a server: normal and hostile traffic at once, for as long as is asked, with known answers compared all along.

    python3 tests/server/soak.py --binary build/release/hearth --minutes 10 [--model FILE.gguf] [--json]

Fails on a wrong answer, an unexpected status, a sanitizer's report, a dead process, a slow /health or growing memory.
AddressSanitizer keeps what was freed, to catch late uses, and its allocator never gives back what a size of allocations
once took: with the 1 MB that it keeps here memory can be judged; with more (--keep-freed) what is seen is the sum of the
peaks of all sizes, and is not judged, nor is it with ThreadSanitizer. With both the heap is judged as well, what was given
out and not got back (live_heap.c, which needs a C compiler)."""
import argparse
import contextlib
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import attacks
from attacks import CHAT, COMPLETIONS, HEAD, exchange, open_socket, post_bytes, status_of
from oracle import HEALTH_SECONDS, MEMORY_SHARE, REPORTS, SLACK, Prober, memory_kb

MODEL = "soak"
HEAP_FLOOR_KB = 256  # some request is always in flight
KEPT_FREED_MB = 1
MEMORY_SECONDS = 180  # of a shorter run the memory is not judged: every thread's arena has yet to see its largest request
PREFIX = "It was a dark and stormy night, and the rain fell in torrents, except at occasional intervals. "
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}}, "required": ["city"],
    "additionalProperties": False}}}
YES = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"], "additionalProperties": False}


def say(text):
    print(text, file=sys.stderr, flush=True)


def conversation(text, **more):
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 16, "temperature": 0,
            "ignore_eos": True, **more}


def watch_heap(folder):
    """The environment in which a server tells what its heap has given out, in the file HEARTH_LIVE_HEAP."""
    library = folder + "/live_heap.so"
    source = pathlib.Path(__file__).with_name("live_heap.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", str(source), "-o", library, "-lpthread"], check=True)
    return {"LD_PRELOAD": library, "HEARTH_LIVE_HEAP": folder + "/live_heap"}


def completion(text, **more):
    return {"model": MODEL, "prompt": text, "max_tokens": 16, "temperature": 0, "ignore_eos": True, **more}


def known_requests():
    """Name, path, body: what always has the same answer."""
    yield "completion", COMPLETIONS, completion("Once upon a time")
    yield "sampled", COMPLETIONS, completion("Once upon a time", temperature=1.5, seed=5, top_k=0, max_tokens=40)
    yield "logprobs", COMPLETIONS, completion("abc", logprobs=3)
    yield "n=4", COMPLETIONS, completion("Four ways", n=4, temperature=1, seed=9)
    yield "two prompts", COMPLETIONS, completion(["first", "second"])
    yield "grammar", COMPLETIONS, completion("x", grammar='root ::= ("yes" | "no") " " [a-z]{3}', ignore_eos=False)
    for i in range(6):
        yield f"shared prefix {i}", COMPLETIONS, completion(PREFIX * 4 + PREFIX[:10 * i], max_tokens=8 + 5 * i)
    yield "embeddings", "/v1/embeddings", {"model": MODEL, "input": ["a cat", "a dog", PREFIX]}
    yield "tokens", "/v1/tokenize", {"model": MODEL, "text": PREFIX}
    yield "chat", CHAT, conversation("Why is the sky blue?")
    yield "schema", CHAT, conversation("Is it?", max_tokens=40, ignore_eos=False, response_format={
        "type": "json_schema", "json_schema": {"name": "a", "schema": YES}})
    yield "tools", CHAT, conversation("Weather?", max_tokens=60, tools=[WEATHER], tool_choice="required", ignore_eos=False)
    yield "messages", "/v1/messages", conversation("Hello")


def essence(reply):
    """The reply without what differs each time: ids, times, what was cached."""
    if isinstance(reply, dict):
        return {k: essence(v) for k, v in reply.items() if k not in ("id", "created", "usage", "timings")}
    return [essence(v) for v in reply] if isinstance(reply, list) else reply


class Soak:
    def __init__(self, server, seed, seconds, heap_file, judges_memory):
        self.server = server
        self.sanitized = heap_file is not None
        self.heap_file = heap_file
        self.judges_memory = judges_memory
        self.seed = seed
        self.seconds = seconds
        self.ends = 0.0
        self.known = {}
        self.lock = threading.Lock()
        self.counts = {}
        self.faults = []
        info = server.request("GET", "/v1/models")[2]["data"][0]
        self.context, self.can_chat = info["context_length"], info["has_chat_template"]

    def count(self, name):
        with self.lock:
            self.counts[name] = self.counts.get(name, 0) + 1

    def fault(self, text):
        with self.lock:
            self.faults.append(text)
        say("FAULT " + text)

    def over(self):
        return time.monotonic() >= self.ends or len(self.faults) > 20

    # --- normal traffic ---

    def learn(self):
        """The known answers, each alone; then the KV is filled, as its memory is touched only when it is used."""
        for name, path, body in known_requests():
            if path in (CHAT, "/v1/messages") and not self.can_chat:
                continue
            status, _, reply = self.server.request("POST", path, body)
            assert status == 200, (name, reply)
            self.known[name] = (path, body, essence(reply))
        ids = random.Random(self.seed)
        for _ in range(200):
            health = self.server.request("GET", "/health")[2]["models"][0]
            if health["kv_blocks_free"] == 0:
                break
            prompt = [ids.randrange(33, 250) for _ in range(min(self.context, 2048) - 8)]
            self.server.request("POST", COMPLETIONS, completion(prompt, max_tokens=1))

    def ask(self, random_):
        name = random_.choice(list(self.known))
        path, body, wanted = self.known[name]
        status, headers, reply = self.server.request("POST", path, body)
        if status == 429 and headers["Retry-After"]:
            return self.count("told to come back")
        if status != 200 or essence(reply) != wanted:
            self.fault(f"{name}: {status} {json.dumps(essence(reply))[:600]} instead of {json.dumps(wanted)[:600]}")
        self.count("answers compared")

    def stream(self, random_):
        name = random_.choice(["completion", "sampled", "shared prefix 3"])
        path, body, wanted = self.known[name]
        events = self.server.events(path, {**body, "stream": True})
        text = "".join(json.loads(data)["choices"][0]["text"] for _, data in events if data != "[DONE]")
        if events[-1][1] != "[DONE]" or text != wanted["choices"][0]["text"]:
            self.fault(f"stream of {name}: {text!r} instead of {wanted['choices'][0]['text']!r}")
        self.count("streams compared")

    def tree(self, random_):
        """Going back and on again is as if it had not been."""
        def post(path, body):
            status, _, reply = self.server.request("POST", "/v1/trees" + path, body)
            if status != 200:
                raise RuntimeError(f"tree: {status} {reply}")
            return reply
        sample = {"max_tokens": 8, "seed": 3, "temperature": 0, "ignore_eos": True}
        tree = post("", {"model": MODEL, "text": PREFIX})["id"]
        node = post(f"/{tree}/nodes", {"parent": 0, "sample": sample})["data"][0]
        fork = post(f"/{tree}/fork", {"node": node["id"], "position": 3})["data"][0]
        again = post(f"/{tree}/nodes", {"parent": fork["id"], "sample": {**sample, "max_tokens": 5}})["data"][0]
        if fork["tokens"] + again["tokens"] != node["tokens"]:
            self.fault(f"tree: {fork['tokens']} + {again['tokens']} instead of {node['tokens']}")
        post(f"/{tree}/regress", {"node": again["id"], "position": random_.randrange(5)})
        if random_.random() < 0.8:
            self.server.request("DELETE", f"/v1/trees/{tree}")
        self.count("trees")

    def leave(self, random_):
        with open_socket(self.server.port) as client:
            client.sendall(post_bytes(COMPLETIONS, completion(PREFIX * random_.randrange(1, 8), max_tokens=1000,
                                                              stream=random_.random() < 0.5, n=random_.choice([1, 4]))))
            if random_.random() < 0.5:
                client.settimeout(1)  # a whole answer of a large model takes longer, and then it leaves before that
                with contextlib.suppress(TimeoutError):
                    client.recv(1000)
            time.sleep(random_.random() / 20)
        self.count("clients that left")

    # --- hostile traffic ---

    def expect(self, name, status, *wanted):
        self.count("hostile requests")
        if status not in wanted and status != 429:
            self.fault(f"{name}: status {status}, expected {wanted}")

    def post_status(self, path, body):
        return self.server.request("POST", path, body)[0]

    def raw_status(self, *pieces):
        return status_of(exchange(self.server.port, *pieces))

    def hostile(self, random_):
        kind = random_.randrange(11)
        if kind == 0:
            name, body = random_.choice(list(attacks.NOT_JSON.items()))
            self.expect(name, self.post_status(random_.choice(attacks.POSTS), body), 400)
        elif kind == 1:
            field, value = random_.choice(attacks.BAD_FIELDS)
            key = field.split("[")[0].split(".")[0]
            if key != "logit_bias":  # ids that are none in a small vocabulary may be some in a large one
                self.expect(field, self.post_status(COMPLETIONS, {"prompt": "x", "max_tokens": 1, **{key: value}}), 400)
        elif kind == 2:
            name, source = random_.choice(list(attacks.GRAMMARS.items()))
            self.expect(name, self.post_status(COMPLETIONS, completion("x", grammar=source)), 400)
        elif kind == 3 and self.can_chat:
            name, schema = random_.choice(list(attacks.SCHEMAS.items()))
            self.expect(name, self.post_status(CHAT, attacks.with_schema(schema)), 400)
        elif kind == 4:
            path = random_.choice(attacks.CLIMBING)
            self.expect(path, self.raw_status(b"GET " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 404)
        elif kind == 5:
            self.expect("1 GB", self.raw_status(HEAD + b"Content-Length: 1073741824\r\n\r\n"), 413)
            self.expect("chunks", self.raw_status(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", (b"10000\r\n" + b" " * 65536 + b"\r\n" for _ in range(600))), 413, *([408] if self.sanitized else []))  # 408: a sanitizer makes it too slow to read so much
        elif kind == 6:
            self.expect("headers", self.raw_status(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 5000), 431)
            self.expect("target", self.raw_status(b"GET /" + b"u" * 65536 + b" HTTP/1.1\r\n"), 414)
        elif kind == 7:
            self.expect("too long", self.post_status(COMPLETIONS, completion([97] * (10 * self.context))), 400)
            self.expect("one letter", self.post_status(COMPLETIONS, completion(random_.choice("a \n") * 1_000_000)), 400)
        elif kind == 8:
            with contextlib.ExitStack() as stack:
                slow = [stack.enter_context(open_socket(self.server.port)) for _ in range(20)]
                for client in slow:
                    client.sendall(b"GET /health HTTP/1.1\r\nX: ")
                self.expect("slow", status_of(attacks.read_answer(slow[0])), 408)
        elif kind == 9:
            with open_socket(self.server.port, 4096) as deaf:
                deaf.sendall(post_bytes(COMPLETIONS, completion("x", max_tokens=1500, n=4, logprobs=20, stream=True)))
                time.sleep(random_.random() * 4)
            self.count("hostile requests")
        else:
            garbage = bytes(random_.randrange(256) for _ in range(random_.randrange(1, 3000))) + b"\r\n\r\n"
            self.expect("garbage", self.raw_status(garbage), 400, 431, 414, 404, 405, 505, 501)

    # --- running ---

    def run_thread(self, number, acts):
        random_ = random.Random(self.seed * 1000 + number)
        while not self.over():
            act = random_.choice(acts)
            try:
                act(random_)
            except Exception as error:
                if not self.over() or self.server.process.poll() is None:
                    self.fault(f"{act.__name__}: {error!r} at {traceback.extract_tb(error.__traceback__)[-1]}")
                if self.server.process.poll() is not None:
                    return

    def watch(self, prober, pause):
        """Memory samples; a line now and then."""
        samples, worst, said = [], 0.0, time.monotonic()
        while not self.over():
            time.sleep(min(pause, max(0.05, self.ends - time.monotonic())))
            if self.server.process.poll() is not None:
                self.fault(f"the server has ended with {self.server.process.returncode}: {self.server.errors()[-3000:]}")
                self.ends = 0
                break
            samples.append(memory_kb(self.server.process.pid))
            seen = prober.take()
            worst = max(worst, seen["worst"])
            for text in seen["faults"]:
                self.fault("/health: " + text)
            if time.monotonic() - said >= 30:
                said = time.monotonic()
                with self.lock:
                    counts = ", ".join(f"{n} {k}" for k, n in sorted(self.counts.items()))
                say(f"{max(0, self.ends - time.monotonic()):.0f} s left: {counts}; memory {samples[-1]} kB, /health worst {worst * 1000:.0f} ms, "
                    f"{len(self.faults)} faults")
        return samples, worst

    def run(self, normal, hostile, pause):
        self.learn()
        self.ends = time.monotonic() + self.seconds
        normal_acts = [self.ask, self.ask, self.ask, self.stream, self.tree, self.leave]
        threads = [threading.Thread(target=self.run_thread, args=(i, normal_acts if i < normal else [self.hostile]))
                   for i in range(normal + hostile)]
        prober = Prober(self.server.port)
        for thread in threads:
            thread.start()
        samples, worst = self.watch(prober, pause)
        heap = [int(line) // 1024 for line in pathlib.Path(self.heap_file).read_text(encoding="ascii").split()] if self.heap_file else []
        for thread in threads:
            thread.join()
        if self.server.process.poll() is None:
            prober.take()
            self.judge_the_end()
        prober.process.kill()
        return self.summary(samples, heap, worst)

    def judge_the_end(self):
        """Everything comes to rest, and each known answer is still what it was."""
        for _ in range(1500):
            model = self.server.request("GET", "/health")[2]["models"][0]
            if model["running"] == 0 and model["waiting"] == 0:
                break
            time.sleep(0.02)
        else:
            self.fault(f"does not come to rest: {model}")
        for name, (path, body, wanted) in self.known.items():
            status, _, reply = self.server.request("POST", path, body)
            if status != 200 or essence(reply) != wanted:
                self.fault(f"in the end, {name}: {status} {json.dumps(essence(reply))[:600]}")

    def summary(self, samples, heap, worst):
        third = len(samples) // 3
        middle = last = heap_middle = heap_last = None
        long_enough = self.seconds >= MEMORY_SECONDS
        if third >= 2:
            middle, last = statistics.median(samples[third:2 * third]), statistics.median(samples[2 * third:])
            if long_enough and self.judges_memory and last > middle * (1 + MEMORY_SHARE):
                self.fault(f"memory grows: {middle:.0f} kB in the middle third, {last:.0f} kB in the last")
        third = len(heap) // 3
        if third >= 2:  # the lowest: what is left while no large request is in flight
            heap_middle, heap_last = min(heap[third:2 * third]), min(heap[2 * third:])
            if long_enough and heap_last > heap_middle * (1 + MEMORY_SHARE) + HEAP_FLOOR_KB:
                self.fault(f"the heap grows: {heap_middle} kB in the middle third, {heap_last} kB in the last")
        if worst > HEALTH_SECONDS * SLACK * (3 if self.sanitized else 1):
            self.fault(f"/health took {worst:.2f} s")
        return {"counts": self.counts, "memory_samples": len(samples), "memory_middle_kb": middle, "memory_last_kb": last,
                "heap_middle_kb": heap_middle, "heap_last_kb": heap_last, "health_worst_ms": round(worst * 1000, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--model", help="a GGUF file; without it, a tiny random model")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--normal", type=int, default=4, help="threads of normal traffic")
    parser.add_argument("--hostile", type=int, default=2, help="threads of hostile traffic")
    parser.add_argument("--kv-memory", type=int, help="MB; filled before memory is watched")
    parser.add_argument("--keep-freed", type=int, default=KEPT_FREED_MB,
                        help="MB that AddressSanitizer keeps of what was freed; with more than 1 the memory is not judged")
    parser.add_argument("--json", action="store_true", help="the summary as JSON on standard output")
    given = parser.parse_args()
    os.environ["HEARTH_BINARY"] = str(pathlib.Path(given.binary).resolve())
    os.environ["HEARTH_SOURCE"] = str(pathlib.Path(__file__).resolve().parents[2])
    from serving import Server, write_model  # needs both of these
    binary = pathlib.Path(given.binary).read_bytes()
    threads_watched = b"__tsan_init" in binary
    sanitized = threads_watched or b"__asan_init" in binary
    kept = sanitized and given.keep_freed > KEPT_FREED_MB
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + \
        f":quarantine_size_mb={given.keep_freed}:thread_local_quarantine_size_kb={min(64 * given.keep_freed, 1024)}" \
        ":allocator_release_to_os_interval_ms=1000"
    seconds = given.minutes * 60
    with tempfile.TemporaryDirectory(prefix="hearth_soak_") as folder:
        path = given.model or write_model(folder + "/tiny.gguf")
        env = watch_heap(folder) if sanitized else {}
        server = Server(folder, "--kv-memory", given.kv_memory or (256 if given.model else 4), "--ctx", 2048, "--header-timeout", 2,
                        "--client-timeout", 3, models=[f"{MODEL}={path}"], env=env)
        soak = Soak(server, given.seed, seconds, env.get("HEARTH_LIVE_HEAP"),
                    judges_memory=not threads_watched and not kept)
        say(f"soaking {server.url} for {seconds:.0f} s, seed {given.seed}" + (", with a sanitizer" if sanitized else ""))
        summary = soak.run(given.normal, given.hostile, max(0.5, min(10, seconds / 12)))
        code = server.stop()
        errors = server.errors()
        if code != 0:
            soak.fault(f"exit code {code}: {errors[-3000:]}")
        for word in REPORTS:
            if word in errors:
                soak.fault(f"{word} in the log: {errors[:3000]}")
    summary["faults"] = soak.faults
    if given.json:
        print(json.dumps(summary))
    say(f"{'FAILED' if soak.faults else 'passed'}: {json.dumps({k: v for k, v in summary.items() if k != 'faults'})}")
    return 1 if soak.faults else 0


if __name__ == "__main__":
    sys.exit(main())
