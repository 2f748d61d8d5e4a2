"""Trees: append, sample, fork, regress, and that they are deterministic."""
import json
import unittest

from serving import ServerTest

SAMPLE = {"max_tokens": 8, "temperature": 0, "ignore_eos": True, "logprobs": True}


class Trees(ServerTest):
    def grow(self, **more):
        return self.post("/v1/trees", {"model": "tiny", **more})

    def add(self, tree, **more):
        return self.post(f"/v1/trees/{tree}/nodes", more)["data"]

    def test_a_sample_equals_the_completion_of_its_text(self):
        tree = self.grow(text="once ")["id"]
        appended = self.add(tree, parent=0, text="upon")[0]
        self.assertEqual((appended["id"], appended["parent"], appended["text"]), (1, 0, "upon"))
        sampled = self.add(tree, parent=1, sample=SAMPLE)[0]
        whole = self.post("/v1/completions", {"prompt": "once upon", "max_tokens": 8, "temperature": 0,
                                              "ignore_eos": True})["choices"][0]["text"]
        self.assertEqual(sampled["text"], whole)
        self.assertEqual(len(sampled["tokens"]), 8)
        self.assertEqual(len(sampled["logprobs"]), 8)
        self.assertEqual(sampled["finish_reason"], "length")

    def test_siblings_are_sampled_together_and_again_the_same(self):
        tree = self.grow(text="abc")["id"]
        options = {"n": 3, "max_tokens": 6, "seed": 4, "temperature": 2, "top_k": 0, "min_p": 0, "ignore_eos": True}
        first = self.add(tree, parent=0, sample=options)
        second = self.add(tree, parent=0, sample=options)
        self.assertEqual([n["tokens"] for n in first], [n["tokens"] for n in second])
        self.assertEqual(len({tuple(n["tokens"]) for n in first}), 3)

    def test_going_back_and_on_equals_never_having_gone(self):
        tree = self.grow(text="abc")["id"]
        node = self.add(tree, parent=0, sample=SAMPLE)[0]
        back = self.post(f"/v1/trees/{tree}/regress", {"node": node["id"], "position": 3})["data"][0]
        self.assertEqual(back["tokens"], node["tokens"][:3])
        again = self.add(tree, parent=node["id"], sample={**SAMPLE, "max_tokens": 5})[0]
        self.assertEqual(back["tokens"] + again["tokens"], node["tokens"])

    def test_a_fork_is_a_sibling_of_its_own(self):
        tree = self.grow(text="abc")["id"]
        node = self.add(tree, parent=0, sample=SAMPLE)[0]
        fork = self.post(f"/v1/trees/{tree}/fork", {"node": node["id"], "position": 2})["data"][0]
        self.assertEqual((fork["parent"], fork["tokens"]), (0, node["tokens"][:2]))
        shown = self.get(f"/v1/trees/{tree}")
        self.assertEqual([n["id"] for n in shown["nodes"]], [0, 1, 2])

    def test_trees_are_listed_and_deleted(self):
        tree = self.grow()["id"]
        self.assertIn(tree, [t["id"] for t in self.get("/v1/trees")["data"]])
        status, _, reply = self.server.request("DELETE", f"/v1/trees/{tree}")
        self.assertEqual((status, reply["deleted"]), (200, True))
        self.assertEqual(self.get(f"/v1/trees/{tree}", 404)["error"]["code"], "tree_not_found")

    def test_messages_begin_a_tree(self):
        tree = self.grow(messages=[{"role": "user", "content": "hi"}])
        self.assertEqual(tree["nodes"][0]["tokens"][0], 317)

    def test_faults_name_their_field(self):
        tree = self.grow(text="abc")["id"]
        path = f"/v1/trees/{tree}/nodes"
        self.refused(path, {"parent": 9, "text": "x"}, "parent")
        self.refused(path, {"parent": 0}, "text")
        self.refused(path, {"parent": 0, "sample": {"n": 0}}, "sample.n")
        self.refused(f"/v1/trees/{tree}/regress", {"node": 0, "position": 4}, "position")
        self.refused("/v1/trees/tree_no/nodes", {"parent": 0, "text": "x"}, "tree", 404)
        self.add(tree, parent=0, text="x")
        self.refused(f"/v1/trees/{tree}/regress", {"node": 0, "position": 1}, "node")

    def test_a_full_tree_refuses_to_grow_and_may_shrink(self):
        tree = self.grow(tokens=[97] * 2040)["id"]
        connection = self.server.connect()
        for forks in range(1, 600):
            connection.request("POST", f"/v1/trees/{tree}/fork", '{"node": 0}')
            response = connection.getresponse()
            reply = json.loads(response.read())
            if response.status != 200:
                break
        connection.close()
        self.assertEqual((response.status, reply["error"]["code"]), (400, "tree_full"), reply)
        self.assertEqual(forks, (1 << 20) // 2040)
        self.post(f"/v1/trees/{tree}/regress", {"node": 1, "position": 1000})
        self.post(f"/v1/trees/{tree}/fork", {"node": 1})
        self.server.request("DELETE", f"/v1/trees/{tree}")

    def metric(self, name):
        """The sum of its series."""
        lines = self.get("/metrics").decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{"))

    def test_a_sample_is_counted_as_a_request_that_succeeded(self):
        tree = self.grow(text="abc")["id"]
        before = self.metric("hearth_request_success_total")
        self.add(tree, parent=0, sample={**SAMPLE, "n": 2})
        self.assertEqual(self.metric("hearth_request_success_total"), before + 2)

    def wait_for(self, holds):
        for _ in range(100_000):
            if holds(self.get("/health")["models"][0]["running"]):
                return
        self.fail("it never came to that")

    def test_what_a_client_did_not_wait_for_is_no_node(self):
        tree = self.grow(text="abc")["id"]
        connection = self.server.connect()
        connection.request("POST", f"/v1/trees/{tree}/nodes", json.dumps(
            {"parent": 0, "sample": {**SAMPLE, "n": 16, "max_tokens": 2000}}))
        self.wait_for(lambda running: running > 0)
        connection.close()
        self.wait_for(lambda running: running == 0)
        self.assertEqual(len(self.get(f"/v1/trees/{tree}")["nodes"]), 1)


if __name__ == "__main__":
    unittest.main()
