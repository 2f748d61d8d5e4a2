"""What must hold around every hostile case: the process lives, /health answers in time during and after, memory comes
back, and a normal request still gets its known answer.

Run with a port it is the prober: a process of its own, as a thread here would measure this interpreter's lock."""
import http.client
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

SANITIZED = bool(os.environ.get("HEARTH_SANITIZE"))
HEALTH_SECONDS = 0.1
SLACK = 50 if SANITIZED else 20  # other work on the machine's two cores; the worst value is printed
MEMORY_SHARE = 0.05
MEMORY_FLOOR_KB = 1024  # a page of stack here, an arena there
PASSES = 4  # after the first: memory must have come to rest by then

KNOWN = {"model": "tiny", "prompt": "a prompt whose answer is known", "temperature": 0, "max_tokens": 24,
         "ignore_eos": True, "logprobs": 0}
REPORTS = ("Sanitizer", "runtime error:", "CHECK failed", "Assertion")


def known_answer(server):
    status, _, reply = server.request("POST", "/v1/completions", KNOWN)
    choice = reply["choices"][0] if status == 200 else None
    return status, choice and (choice["text"], choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"])


def memory_kb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise ProcessLookupError(pid)


def computing_seconds(pid):
    """The time its threads have run: unlike a clock's it does not grow while others use the machine."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


class Prober:
    """Asks /health all the time, from another process."""

    def __init__(self, port):
        self.process = subprocess.Popen([sys.executable, __file__, str(port)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.take()

    def take(self):
        """What was seen since the last time: count, worst (seconds), faults."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


class Oracle:
    def __init__(self, server):
        self.server = server
        self.prober = Prober(server.port)
        self.known = known_answer(server)
        assert self.known[0] == 200, self.known

    def stop(self):
        self.prober.stop()

    def models(self):
        return self.server.request("GET", "/health")[2]["models"]

    def wait_until_idle(self):
        for _ in range(3000):
            if all(m["running"] == 0 and m["waiting"] == 0 for m in self.models()):
                return
            time.sleep(0.02)
        raise AssertionError(f"still at work: {self.models()}")

    def memory_at_rest(self):
        """The memory once it no longer falls: what was freed last goes back a little later."""
        lowest = [memory_kb(self.server.process.pid)]
        while len(lowest) < 4 or lowest[-1] < lowest[-4]:
            time.sleep(0.02)
            lowest.append(min(lowest[-1], memory_kb(self.server.process.pid)))
        return lowest[-1]

    def memory_below(self, limit):
        """The memory, as soon as it is below the limit; later in any case."""
        for _ in range(60):
            found = memory_kb(self.server.process.pid)
            if found <= limit:
                break
            time.sleep(0.02)
        return found

    def survive(self, test, attack):
        """Runs the attack once to warm up (arenas, caches, KV), then again between two looks at everything."""
        name = test.id().rsplit(".", 1)[1]
        attack()
        self.wait_until_idle()
        before = self.memory_at_rest()
        self.prober.take()
        for _ in range(PASSES):
            attack()
            self.wait_until_idle()
            limit = before + max(before * MEMORY_SHARE, MEMORY_FLOOR_KB)
            after = self.memory_below(limit)
            if after <= limit or SANITIZED:
                break
            before, grown = after, (before, after)
        else:
            test.fail(f"memory grows: {grown[0]} kB before, {grown[1]} kB after")
        answer = known_answer(self.server)
        seen = self.prober.take()
        print(f"{name}: /health {seen['count']} times, worst {seen['worst'] * 1000:.0f} ms; "
              f"memory {before} to {after} kB", file=sys.stderr)
        test.assertIsNone(self.server.process.poll(), self.server.errors())
        test.assertEqual(answer, self.known, "the known answer has changed")
        test.assertEqual(seen["faults"], [])
        test.assertLessEqual(seen["worst"], HEALTH_SECONDS * SLACK)
        for word in REPORTS:
            test.assertNotIn(word, self.server.errors())


def probe(port):
    """The prober's own end: a line in, a line of JSON out."""
    lock = threading.Lock()
    seen = {"count": 0, "worst": 0.0, "faults": []}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def ask():
        while True:
            begun = time.monotonic()
            fault = None
            try:
                connection.request("GET", "/health")
                response = connection.getresponse()
                response.read()
                if response.status != 200:
                    fault = f"status {response.status}"
            except Exception as error:  # whatever it is, it is to be reported
                fault = repr(error)
                connection.close()
            with lock:
                seen["count"] += 1
                seen["worst"] = max(seen["worst"], time.monotonic() - begun)
                if fault:
                    seen["faults"].append(fault)
            time.sleep(0.01)

    threading.Thread(target=ask, daemon=True).start()
    for _ in sys.stdin:
        enough = seen["count"] + 2  # the second from now was begun after the line had come
        while seen["count"] < enough:
            time.sleep(0.005)
        with lock:
            text = json.dumps({**seen, "faults": seen["faults"][:5]})
            seen.update(count=0, worst=0.0, faults=[])
        print(text, flush=True)


if __name__ == "__main__":
    probe(int(sys.argv[1]))
