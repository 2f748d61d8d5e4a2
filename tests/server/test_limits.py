"""Keys and their scopes, full queues, names of models, the access log."""
import json
import tempfile
import unittest

from serving import Server, ServerTest, chat, write_model


class Keys(ServerTest):
    OPTIONS = ("--key", "first", "--key", "second")

    def as_key(self, key, method, path, body=None):
        return self.server.request(method, path, body, {"Authorization": f"Bearer {key}"})

    def test_health_needs_no_key_and_the_rest_does(self):
        self.assertEqual(self.server.request("GET", "/health")[0], 200)
        self.assertEqual(self.server.request("POST", "/v1/chat/completions", chat())[0], 401)
        self.assertEqual(self.as_key("third", "POST", "/v1/chat/completions", chat())[0], 401)
        self.assertEqual(self.as_key("first", "POST", "/v1/chat/completions", chat())[0], 200)
        self.assertEqual(self.server.request("POST", "/v1/messages", {
            "model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "x"}]},
            {"x-api-key": "second"})[0], 200)

    def test_trees_belong_to_a_key(self):
        status, _, tree = self.as_key("first", "POST", "/v1/trees", {"text": "x"})
        self.assertEqual(status, 200)
        self.assertEqual(self.as_key("first", "GET", "/v1/trees/" + tree["id"])[0], 200)
        self.assertEqual(self.as_key("second", "GET", "/v1/trees/" + tree["id"])[0], 404)
        self.assertEqual(self.as_key("second", "GET", "/v1/trees")[2]["data"], [])


class Queue(ServerTest):
    OPTIONS = ("--parallel", "1", "--queue", "1")

    def test_beyond_the_queue_requests_are_refused_for_a_second(self):
        before = self.rejected()
        long = {"prompt": "x", "max_tokens": 1500, "ignore_eos": True, "stream": True}
        connections = [self.server.connect() for _ in range(8)]

        def send(connection):
            connection.request("POST", "/v1/completions", json.dumps(long), {"Content-Type": "application/json"})

        send(connections[0])
        responses = [connections[0].getresponse()]
        responses[0].readline()  # its first token is here: it waits no longer
        for connection in connections[1:]:
            send(connection)
        responses += [connection.getresponse() for connection in connections[1:]]
        refused = [response for response in responses if response.status != 200]
        self.assertGreaterEqual(len(responses) - len(refused), 2)  # one is answered, one waits
        self.assertGreater(len(refused), 0)
        for response in refused:
            self.assertEqual(response.status, 429)
            self.assertEqual(response.headers["Retry-After"], "1")
            self.assertEqual(json.loads(response.read())["error"]["type"], "rate_limit_error")
        self.assertEqual(self.rejected(), before + len(refused))
        for connection in connections:
            connection.close()

    def test_embeddings_beyond_the_queue_are_refused_together(self):
        before = self.rejected()
        self.assertEqual(self.post("/v1/embeddings", {"input": ["x" * 1000] * 200}, 429)["error"]["code"], "queue_full")
        self.assertEqual(self.rejected(), before + 1)

    def rejected(self):
        lines = self.get("/metrics").decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("hearth_request_rejected_total{"))


class Names(unittest.TestCase):
    def test_models_have_the_names_and_the_kv_they_were_given(self):
        with tempfile.TemporaryDirectory(prefix="hearth_server_") as folder:
            path = write_model(folder + "/some.gguf")
            server = Server(folder, "--kv", "q8", models=["mine=" + path, path])
            _, _, models = server.request("GET", "/v1/models")
            self.assertEqual([(m["id"], m["kv_type"]) for m in models["data"]], [("mine", "q8"), ("some", "q8")])
            self.assertEqual(server.stop(), 0)

    def test_a_model_that_cannot_be_loaded_ends_the_server_with_its_reason(self):
        with tempfile.TemporaryDirectory(prefix="hearth_server_") as folder:
            path = folder + "/broken.gguf"
            with open(path, "wb") as file:
                file.write(b"GGUF and nothing more")
            with self.assertRaises(RuntimeError) as raised:
                Server(folder, models=[path])
            self.assertIn("broken.gguf", str(raised.exception))


class Log(ServerTest):
    OPTIONS = ("--log",)

    def test_a_request_is_one_line_whatever_its_path_holds(self):
        _, headers, _ = self.server.request("GET", "/a%0ab%22%c3%a9%1b?x=1")
        line = next(line for line in self.server.lines() if " 404 " in line)
        self.assertTrue(line.startswith(headers["x-request-id"]), line)
        self.assertIn(' 127.0.0.1 - "GET /a\\x0ab\\x22\\xc3\\xa9\\x1b" 404 ', line)


if __name__ == "__main__":
    unittest.main()
