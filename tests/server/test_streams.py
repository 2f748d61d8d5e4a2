"""Streams: what they add up to, clients that leave, many at once, the end of the server."""
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from serving import BINARY, WEATHER, Server, ServerTest, chat, write_model


class Streams(ServerTest):
    def test_chat_chunks_add_up_to_the_whole_answer(self):
        body = chat(ignore_eos=True, temperature=0)
        whole = self.post("/v1/chat/completions", body)
        events = self.server.events("/v1/chat/completions",
                                    {**body, "stream": True, "stream_options": {"include_usage": True}})
        self.assertEqual(events[-1], (None, "[DONE]"))
        chunks = [json.loads(data) for _, data in events[:-1]]
        self.assertEqual({c["object"] for c in chunks}, {"chat.completion.chunk"})
        self.assertEqual(len({c["id"] for c in chunks}), 1)
        self.assertEqual(chunks[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        text = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks[:-1])
        self.assertEqual(text, whole["choices"][0]["message"]["content"])
        self.assertEqual(chunks[-2]["choices"][0]["finish_reason"], "length")
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertEqual(chunks[-1]["usage"]["completion_tokens"], 12)

    def test_completion_chunks_add_up(self):
        body = {"prompt": "abc", "max_tokens": 9, "temperature": 0, "ignore_eos": True}
        whole = self.post("/v1/completions", body)["choices"][0]["text"]
        events = self.server.events("/v1/completions", {**body, "stream": True})
        text = "".join(json.loads(data)["choices"][0]["text"] for _, data in events[:-1])
        self.assertEqual(text, whole)

    def test_without_parallel_calls_only_the_first_is_given(self):
        call = '<tool_call>{"name": "get_weather", "arguments": {"days": %d}}</tool_call>'
        both = json.dumps(call % 1 + call % 2)
        body = chat(tools=[WEATHER], grammar="root ::= " + both, max_tokens=300, temperature=0)
        for parallel, days in ((True, [1, 2]), (False, [1])):
            whole = self.post("/v1/chat/completions", {**body, "parallel_tool_calls": parallel})["choices"][0]
            given = [json.loads(c["function"]["arguments"])["days"] for c in whole["message"]["tool_calls"]]
            self.assertEqual((given, whole["finish_reason"]), (days, "tool_calls"))
            events = self.server.events("/v1/chat/completions", {**body, "parallel_tool_calls": parallel, "stream": True})
            deltas = [json.loads(data)["choices"][0]["delta"] for _, data in events[:-1]]
            self.assertEqual(max(d["tool_calls"][0]["index"] for d in deltas if "tool_calls" in d), len(days) - 1)

    def test_tool_call_deltas_add_up_to_valid_arguments(self):
        events = self.server.events("/v1/chat/completions", chat(
            tools=[WEATHER], tool_choice="required", stream=True, temperature=0, max_tokens=300,
            logit_bias={"125": 20, "44": 5}))
        deltas = [json.loads(data)["choices"][0]["delta"] for _, data in events[:-1]]
        calls = [d["tool_calls"][0] for d in deltas if "tool_calls" in d]
        self.assertEqual(calls[0]["function"]["name"], "get_weather")
        self.assertEqual(len(calls[0]["id"]), 9)
        arguments = json.loads("".join(c["function"]["arguments"] for c in calls))
        self.assertEqual(set(arguments), {"city", "days"})
        last = json.loads(events[-2][1])["choices"][0]
        self.assertEqual(last["finish_reason"], "tool_calls")

    def test_anthropic_events_come_in_order(self):
        events = self.server.events("/v1/messages", {
            "model": "tiny", "max_tokens": 4, "stream": True, "temperature": 0, "ignore_eos": True,
            "messages": [{"role": "user", "content": "hi"}]})
        names = [name for name, _ in events]
        self.assertEqual(names[0], "message_start")
        self.assertEqual(names[-2:], ["message_delta", "message_stop"])
        for name, data in events:
            self.assertEqual(json.loads(data)["type"], name)
        self.assertEqual(json.loads(events[-2][1])["delta"]["stop_reason"], "max_tokens")
        self.assertEqual(json.loads(events[-2][1])["usage"]["output_tokens"], 4)

    def test_response_events_come_in_order(self):
        events = self.server.events("/v1/responses", {
            "model": "tiny", "input": "hi", "max_output_tokens": 6, "stream": True, "temperature": 0, "ignore_eos": True})
        names = [name for name, _ in events]
        self.assertEqual(names[:4], ["response.created", "response.in_progress", "response.output_item.added",
                                     "response.content_part.added"])
        self.assertEqual(names[-4:], ["response.output_text.done", "response.content_part.done",
                                      "response.output_item.done", "response.incomplete"])
        self.assertEqual([json.loads(d)["sequence_number"] for _, d in events], list(range(len(events))))
        text = "".join(json.loads(d)["delta"] for n, d in events if n == "response.output_text.delta")
        done = json.loads(events[-1][1])["response"]
        self.assertEqual(done["output"][0]["content"][0]["text"], text)

    def test_sixteen_ragged_clients_get_what_each_would_get_alone(self):
        bodies = [{"prompt": "prompt %d " % i * (1 + 7 * (i % 5)), "max_tokens": 5 + 9 * (i % 4), "seed": i,
                   "temperature": 1.5, "top_k": 0, "ignore_eos": True} for i in range(16)]
        alone = [self.post("/v1/completions", body)["choices"][0]["text"] for body in bodies]
        together = [None] * 16

        def ask(i):
            events = self.server.events("/v1/completions", {**bodies[i], "stream": True})
            together[i] = "".join(json.loads(data)["choices"][0]["text"] for _, data in events[:-1])

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)

    def test_an_answer_nobody_reads_is_cancelled(self):
        before = self.cancellations()
        body = json.dumps({"prompt": "x", "max_tokens": 2000, "ignore_eos": True, "stream": True}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port)) as client:
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self.assertTrue(client.recv(4096).startswith(b"HTTP/1.1 200"))
        for _ in range(10_000):
            health = self.get("/health")["models"][0]
            if health["running"] == 0 and self.cancellations() > before:
                return
        self.fail("the answer went on")

    def cancellations(self):
        for line in self.get("/metrics").decode().splitlines():
            if line.startswith("hearth_request_cancelled_total{"):
                return float(line.split()[-1])
        self.fail("no such metric")


class Echoes(ServerTest):
    OPTIONS = ("--parallel", "16")

    def test_a_thousand_of_them_wait_for_a_client_that_reads_late(self):
        prompt = "\x01" * 1200  # six bytes each in JSON
        common = {"max_tokens": 1, "temperature": 0, "ignore_eos": True, "echo": True}
        whole = self.post("/v1/completions", {**common, "prompt": prompt})["choices"][0]["text"]
        body = json.dumps({**common, "prompt": [prompt] * 64, "n": 16, "stream": True}).encode()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", self.server.port))
            client.sendall(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            client.recv(1, socket.MSG_PEEK)
            for _ in range(100):
                self.get("/health")
            reply = b"".join(iter(lambda: client.recv(1 << 16), b""))
        texts = [""] * 1024
        *chunks, done = reply.decode().partition("\r\n\r\n")[2].removesuffix("\n\n").split("\n\n")
        self.assertEqual(done, "data: [DONE]")
        for chunk in chunks:
            choice = json.loads(chunk.removeprefix("data: "))["choices"][0]
            texts[choice["index"]] += choice["text"]
        self.assertEqual(set(texts), {whole})


class Ending(unittest.TestCase):
    def stream_during(self, count):
        """Exit code, and what a stream had that was running when the signals came."""
        with tempfile.TemporaryDirectory(prefix="hearth_server_") as folder:
            server = Server(folder)
            connection = server.connect()
            connection.request("POST", "/v1/completions", json.dumps(
                {"prompt": "x", "max_tokens": 400, "ignore_eos": True, "stream": True}),
                {"Content-Type": "application/json"})
            response = connection.getresponse()
            first = response.readline()
            self.assertTrue(first.startswith(b"data: "), first)
            server.process.send_signal(signal.SIGTERM)
            for line in server.lines():
                if line.startswith("ending: "):
                    break
            if count > 1:
                server.process.send_signal(signal.SIGINT)
            try:
                rest = response.read()
            except Exception:  # the connection was cut
                rest = b""
            connection.close()
            return server.stop(), rest

    def test_a_running_answer_may_end(self):
        code, rest = self.stream_during(1)
        self.assertEqual(code, 0)
        self.assertTrue(rest.endswith(b"data: [DONE]\n\n"), rest[-200:])

    def test_a_second_signal_ends_at_once(self):
        self.assertEqual(self.stream_during(2)[0], 0)

    def test_a_signal_while_models_are_being_loaded_is_an_orderly_end(self):
        with tempfile.TemporaryDirectory(prefix="hearth_server_") as folder:
            model = write_model(folder + "/tiny.gguf")
            process = subprocess.Popen([BINARY, "serve", *[f"m{i}={model}" for i in range(64)], "--port", "0"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env={**os.environ, "HEARTH_HOME": folder + "/home"})
            process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, errors)
            self.assertIn(b"ending: ", errors)
            self.assertNotIn(b"ready: ", errors)


if __name__ == "__main__":
    unittest.main()
