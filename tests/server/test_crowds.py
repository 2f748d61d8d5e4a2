"""Hostile clients: slow ones, deaf ones, those that leave, and too many of them. Each between two looks of the oracle."""
import contextlib
import json
import random
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest

from attacks import COMPLETIONS, open_socket, post_bytes, read_answer, status_of
from hostile import HostileTest, stop_servers
from oracle import Oracle
from serving import Server

# Several megabytes: more than the sockets and the server's own buffer hold.
WIDE = {"prompt": "x", "n": 4, "max_tokens": 1500, "ignore_eos": True, "temperature": 0, "logprobs": 20, "stream": True}
SLOW_CLIENTS = 2000
CROWD = 5000


tearDownModule = stop_servers


def allow_descriptors(count):
    """How many of them this process may have open."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = count + 200 if most == resource.RLIM_INFINITY else min(count + 200, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    return allowed - 200


class CrowdTest(HostileTest):
    def metric(self, name):
        for line in self.get("/metrics").decode().splitlines():
            if line.startswith(f"hearth_{name}{{") and '"tiny"' in line:
                return float(line.split()[-1])
        self.fail(f"no metric {name}")

    def cancelled(self):
        return self.metric("request_cancelled_total")

    def tiny(self):
        return self.get("/health")["models"][0]

    def wait_for(self, what, condition):
        for _ in range(1500):
            if condition():
                return
            time.sleep(0.02)
        self.fail(f"waited for: {what}; {self.tiny()}")

    def wait_until_paused(self, running):
        """Answers are there, and none of them gets a token any more."""
        self.wait_for("the answers to begin", lambda: self.tiny()["running"] >= running)
        seen = [0] * 5
        for _ in range(600):
            seen = seen[1:] + [self.tiny()["generated_tokens"]]
            if len(set(seen)) == 1:
                self.assertGreaterEqual(self.tiny()["running"], running)
                return
            time.sleep(0.1)
        self.fail("the answers go on though nobody reads them")


class Readers(CrowdTest):
    def texts(self, events):
        """What each choice said."""
        said = [""] * WIDE["n"]
        for event in events:
            if event != "[DONE]":
                choice = json.loads(event)["choices"][0]
                said[choice["index"]] += choice["text"]
        return said

    def test_readers_that_never_read_are_paused_then_cancelled_and_others_go_on(self):
        def attack():
            before = self.cancelled()
            with contextlib.ExitStack() as stack:
                for _ in range(4):
                    client = stack.enter_context(open_socket(self.server.port, 4096))
                    client.sendall(post_bytes(COMPLETIONS, WIDE))
                self.wait_until_paused(16)
                events = self.server.events(COMPLETIONS, {**WIDE, "n": 1, "max_tokens": 50})
                self.assertEqual(len(events), 52)  # 50 tokens, the end of the choice, [DONE]
                self.wait_for("their cancellation", lambda: self.cancelled() == before + 4)
                self.assertEqual(self.tiny()["running"], 0)
        self.survive(attack)

    def test_a_reader_that_pauses_and_goes_on_gets_everything(self):
        whole = self.texts(data for _, data in self.server.events(COMPLETIONS, WIDE))

        def attack():
            with open_socket(self.server.port, 4096) as client:
                client.sendall(post_bytes(COMPLETIONS, WIDE, b"Connection: close\r\n"))
                self.wait_until_paused(4)
                paused_at = self.tiny()["generated_tokens"]
                answer = read_answer(client)
                self.assertGreater(self.tiny()["generated_tokens"], paused_at)
            self.assertEqual(status_of(answer), 200)
            self.assertTrue(answer.endswith(b"0\r\n\r\n"), answer[-80:])
            # Chunks may cut lines anywhere: count in what is left without their frames.
            body, rest = b"", answer.split(b"\r\n\r\n", 1)[1]
            while rest:
                size, rest = rest.split(b"\r\n", 1)
                body, rest = body + rest[:int(size, 16)], rest[int(size, 16) + 2:]
            got = self.texts(block.removeprefix("data: ") for block in body.decode().split("\n\n") if block)
            self.assertEqual(got, whole)
        self.survive(attack)


class Leavers(CrowdTest):
    OPTIONS = ("--kv-memory", "4", "--parallel", "1")

    def leave(self, body, ready):
        """Sends the request, waits until it is where it shall be, and leaves."""
        client = open_socket(self.server.port)
        client.sendall(post_bytes(COMPLETIONS, body))
        self.wait_for("the request", ready)
        client.close()

    def test_leaving_while_queued(self):
        def attack():
            with open_socket(self.server.port, 4096) as first:  # not read: it is paused and keeps its place
                first.sendall(post_bytes(COMPLETIONS, {**WIDE, "n": 1, "max_tokens": 2000}))
                self.wait_for("the first to run", lambda: self.tiny()["running"] == 1)
                self.leave({"prompt": "queued", "max_tokens": 1000, "ignore_eos": True}, lambda: self.tiny()["waiting"] == 1)
                self.wait_for("its place in the queue", lambda: self.tiny()["waiting"] == 0)
                self.assertEqual(self.tiny()["running"], 1)
            self.wait_for("the first to end", lambda: self.tiny()["running"] == 0)
        self.survive(attack)

    def test_leaving_in_prefill(self):
        ids = random.Random(2)

        def attack():
            before = self.cancelled()
            seen = self.tiny()["prompt_tokens"]
            prompts = [[ids.randrange(33, 300) for _ in range(2000)] for _ in range(32)]
            self.leave({"prompt": prompts, "max_tokens": 1000, "ignore_eos": True}, lambda: self.tiny()["prompt_tokens"] > seen)
            self.wait_for("the end", lambda: self.tiny()["running"] == 0 and self.tiny()["waiting"] == 0)
            self.wait_for("its count", lambda: self.cancelled() == before + 1)
            self.assertLess(self.tiny()["prompt_tokens"] - seen, 32 * 2000)
        self.survive(attack)

    def test_leaving_within_a_stream(self):
        def attack():
            before, seen = self.cancelled(), self.tiny()["generated_tokens"]
            for _ in range(8):
                self.leave({"prompt": "x", "n": 1, "max_tokens": 2000, "ignore_eos": True, "stream": True},
                           lambda: self.tiny()["running"] == 1)
                self.wait_for("the end", lambda: self.tiny()["running"] == 0 and self.tiny()["waiting"] == 0)
            self.wait_for("their count", lambda: self.cancelled() == before + 8)
            self.assertLess(self.tiny()["generated_tokens"] - seen, 8 * 2000)
        self.survive(attack)


class Slow(CrowdTest):
    def test_two_thousand_headers_that_never_end_are_closed_while_others_are_served(self):
        count = allow_descriptors(SLOW_CLIENTS)
        print(f"{count} clients", file=sys.stderr)

        def attack():
            clients = []
            for i in range(count):
                client = open_socket(self.server.port)
                client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-%d: " % i)
                clients.append(client)
            for _ in range(4):  # more bytes do not move the deadline
                self.post(COMPLETIONS, {"prompt": "x", "max_tokens": 2})
                for client in clients:
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        client.send(b"y")
                time.sleep(0.3)
            statuses = [status_of(read_answer(client)) for client in clients]
            for client in clients:
                client.close()
            self.assertEqual(set(statuses), {408})
        self.survive(attack)


class Crowd(unittest.TestCase):
    def test_five_thousand_clients_and_256_descriptors(self):
        count = allow_descriptors(CROWD)
        print(f"{count} clients", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="hearth_server_") as folder:
            server = Server(folder, "--kv-memory", "4", descriptors=256)
            oracle = Oracle(server)

            def attack():
                clients, told, refused, reset = [], 0, 0, 0
                for _ in range(count):
                    client = open_socket(server.port)
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    clients.append(client)
                for client in clients:
                    try:
                        answer = client.recv(4096)
                    except ConnectionResetError:
                        answer = b""
                    told += answer.startswith(b"HTTP/1.1 200")
                    refused += answer.startswith(b"HTTP/1.1 429") and b"retry-after: 1" in answer.lower()
                    reset += answer == b""
                for client in clients:
                    client.close()
                print(f"200: {told}, 429: {refused}, closed: {reset}", file=sys.stderr)
                self.assertGreater(told, 100)
                self.assertGreater(refused, 1000)
                self.assertEqual(told + refused + reset, count)
                self.assertLess(reset, count // 10)

            try:
                oracle.survive(self, attack)
            finally:
                oracle.stop()
                self.assertEqual(server.stop(), 0)


class Draining(unittest.TestCase):
    def test_a_request_that_was_on_its_way_at_the_end_is_a_503(self):
        with tempfile.TemporaryDirectory(prefix="hearth_server_") as folder:
            server = Server(folder)
            request = post_bytes(COMPLETIONS, {"prompt": "x"})
            with open_socket(server.port) as late, open_socket(server.port, 4096) as running:
                running.sendall(post_bytes(COMPLETIONS, WIDE))  # keeps the server from ending
                self.assertTrue(running.recv(12).startswith(b"HTTP/1.1 200"))
                late.sendall(request[:40])
                server.process.send_signal(signal.SIGTERM)
                for line in server.lines():
                    if line.startswith("ending: "):
                        break
                late.sendall(request[40:])
                answer = read_answer(late)
            self.assertEqual(status_of(answer), 503, answer)
            self.assertIn(b"draining", answer)
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
