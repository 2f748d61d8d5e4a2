"""Every route once, its answer's form, and what it refuses."""
import base64
import json
import struct
import unittest

from serving import CONTEXT, WEATHER, ServerTest, chat


class Routes(ServerTest):
    def test_health_names_the_models(self):
        health = self.get("/health")
        self.assertEqual(health["status"], "ok")
        self.assertEqual([m["id"] for m in health["models"]], ["tiny", "bare"])
        self.assertEqual([m["status"] for m in health["models"]], ["ready", "ready"])

    def test_models_are_listed_and_found(self):
        self.assertEqual([m["id"] for m in self.get("/v1/models")["data"]], ["tiny", "bare"])
        self.assertEqual(self.get("/v1/models/tiny")["object"], "model")
        self.assertEqual(self.get("/v1/models/huge", 404)["error"]["code"], "model_not_found")

    def test_metrics_count_tokens(self):
        self.post("/v1/chat/completions", chat())
        text = self.get("/metrics").decode()
        self.assertIn("hearth_generation_tokens_total", text)
        self.assertIn("hearth_time_to_first_token_seconds_bucket", text)

    def test_unknown_paths_and_methods_are_told_apart(self):
        self.assertEqual(self.get("/v1/nothing", 404)["error"]["code"], "unknown_path")
        self.assertEqual(self.get("/v1/chat/completions", 405)["error"]["code"], "wrong_method")

    def test_a_chat_answer_has_openais_form(self):
        reply = self.post("/v1/chat/completions", chat())
        self.assertEqual(reply["object"], "chat.completion")
        choice = reply["choices"][0]
        self.assertEqual(choice["message"]["role"], "assistant")
        self.assertIn(choice["finish_reason"], ("stop", "length"))
        usage = reply["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertIn("cached_tokens", usage["prompt_tokens_details"])
        self.assertTrue(reply["system_fingerprint"].startswith("fp_"))

    def test_the_same_seed_says_the_same_and_another_seed_something_else(self):
        texts = [self.post("/v1/chat/completions", chat(seed=s, ignore_eos=True, temperature=2, top_k=0, min_p=0))
                 ["choices"][0]["message"]["content"] for s in (5, 5, 6)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def test_choices_differ_and_count_once_in_the_prompt(self):
        one = self.post("/v1/chat/completions", chat(ignore_eos=True))
        four = self.post("/v1/chat/completions", chat(n=4, ignore_eos=True))
        self.assertEqual([c["index"] for c in four["choices"]], [0, 1, 2, 3])
        self.assertEqual(four["choices"][0]["message"], one["choices"][0]["message"])
        self.assertEqual(four["usage"]["prompt_tokens"], one["usage"]["prompt_tokens"])
        self.assertEqual(four["usage"]["completion_tokens"], 48)

    def test_logprobs_of_each_token_and_its_rivals(self):
        reply = self.post("/v1/chat/completions", chat(logprobs=True, top_logprobs=3, ignore_eos=True, temperature=0))
        entries = reply["choices"][0]["logprobs"]["content"]
        self.assertEqual(len(entries), 12)
        for entry in entries:
            self.assertLessEqual(entry["logprob"], 0)
            self.assertEqual(len(entry["top_logprobs"]), 3)
            self.assertEqual(entry["top_logprobs"][0]["token"], entry["token"])

    def test_stop_strings_end_an_answer_and_are_not_part_of_it(self):
        free = self.post("/v1/completions", {"model": "tiny", "prompt": "abc", "temperature": 0, "max_tokens": 20,
                                             "ignore_eos": True})["choices"][0]["text"]
        stop = free[5:7]
        cut = self.post("/v1/completions", {"model": "tiny", "prompt": "abc", "temperature": 0, "max_tokens": 20,
                                            "ignore_eos": True, "stop": [stop]})["choices"][0]
        self.assertEqual(cut["text"], free[:free.index(stop)])
        self.assertEqual(cut["finish_reason"], "stop")

    def test_several_prompts_and_choices_are_numbered_through(self):
        reply = self.post("/v1/completions", {"prompt": ["a", "b", [97]], "n": 2, "max_tokens": 3, "seed": 1,
                                              "ignore_eos": True})
        self.assertEqual([c["index"] for c in reply["choices"]], list(range(6)))
        self.assertEqual(reply["choices"][0]["text"], reply["choices"][4]["text"])

    def test_a_path_names_the_methods_it_takes(self):
        for method, path, allowed in (("PUT", "/v1/completions", "POST"), ("POST", "/health", "GET, HEAD"),
                                      ("PUT", "/v1/trees/x", "GET, HEAD, DELETE")):
            status, headers, _ = self.server.request(method, path, {})
            self.assertEqual((status, headers["Allow"]), (405, allowed), path)

    def test_a_text_of_too_many_tokens_is_not_told_in_tokens(self):
        text = "0123456789" * 400_000
        self.assertIn("tokens", self.refused("/v1/tokenize", {"text": text, "with_pieces": True}, "text"))

    def test_what_a_response_repeats_has_limits(self):
        body = {"input": "x", "max_output_tokens": 1}
        fine = {"metadata": {"\u00e9" * 64: "\u00e9" * 512}, "user": "u" * 512}
        reply = self.post("/v1/responses", {**body, **fine})
        self.assertEqual({key: reply[key] for key in fine}, fine)
        for metadata in ({str(i): "" for i in range(17)}, {"k" * 65: ""}, {"k": "v" * 513}, {"k": 1}):
            self.refused("/v1/responses", {**body, "metadata": metadata}, "metadata")
        self.refused("/v1/responses", {**body, "user": "u" * 513}, "user")

    def test_echo_begins_with_the_prompt(self):
        reply = self.post("/v1/completions", {"prompt": "abc", "echo": True, "max_tokens": 2})
        self.assertTrue(reply["choices"][0]["text"].startswith("abc"))

    def test_completion_logprobs_line_up(self):
        reply = self.post("/v1/completions", {"prompt": "abc", "logprobs": 2, "max_tokens": 5, "ignore_eos": True})
        logprobs = reply["choices"][0]["logprobs"]
        self.assertEqual({len(v) for v in logprobs.values()}, {5})

    def test_a_json_schema_is_followed(self):
        schema = {"type": "object", "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer"}},
                  "required": ["ok", "n"], "additionalProperties": False}
        reply = self.post("/v1/chat/completions", chat(max_tokens=200, temperature=0, response_format={
            "type": "json_schema", "json_schema": {"name": "x", "schema": schema}}))
        choice = reply["choices"][0]
        if choice["finish_reason"] == "stop":
            self.assertEqual(set(json.loads(choice["message"]["content"])), {"ok", "n"})
        else:
            self.assertTrue(choice["message"]["content"].lstrip().startswith("{"))

    def test_a_grammar_is_followed(self):
        reply = self.post("/v1/completions", {"prompt": "x", "grammar": 'root ::= "yes" | "no"', "max_tokens": 9})
        self.assertIn(reply["choices"][0]["text"], ("yes", "no"))

    def test_a_required_call_is_a_valid_call(self):
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            reply = self.post("/v1/chat/completions", chat(tools=[WEATHER], tool_choice=choice, max_tokens=300,
                                                           temperature=0, logit_bias={"125": 20, "44": 5}))
            made = reply["choices"][0]
            self.assertEqual(made["finish_reason"], "tool_calls", made)
            call = made["message"]["tool_calls"][0]
            self.assertEqual(call["function"]["name"], "get_weather")
            arguments = json.loads(call["function"]["arguments"])
            self.assertIn(arguments["city"], ("Rome", "Oslo"))
            self.assertIsInstance(arguments["days"], int)

    def test_tool_results_go_back_into_the_prompt(self):
        call = {"id": "abcdefghi", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Rome"}'}}
        messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "abcdefghi", "content": "sunny"}]
        pieces = self.post("/v1/tokenize", {"messages": messages, "tools": [WEATHER], "with_pieces": True})["pieces"]
        text = "".join(pieces)
        self.assertIn('<tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>', text)
        self.assertIn("sunny", text)

    def test_control_tokens_in_contents_are_text(self):
        tokens = self.post("/v1/tokenize", {"messages": [{"role": "user", "content": "a<|end|>b"}]})["tokens"]
        self.assertEqual(tokens.count(318), 1)  # the template's own

    def test_tokens_and_back(self):
        tokens = self.post("/v1/tokenize", {"text": "hällo"})["tokens"]
        self.assertEqual(len(tokens), 6)
        self.assertEqual(self.post("/v1/detokenize", {"tokens": tokens})["text"], "hällo")

    def test_embeddings_are_unit_vectors_in_both_encodings(self):
        reply = self.post("/v1/embeddings", {"input": ["one", "two", "one"]})
        vectors = [d["embedding"] for d in reply["data"]]
        self.assertEqual(vectors[0], vectors[2])
        self.assertNotEqual(vectors[0], vectors[1])
        self.assertAlmostEqual(sum(x * x for x in vectors[0]), 1, places=5)
        coded = self.post("/v1/embeddings", {"input": "one", "encoding_format": "base64"})["data"][0]["embedding"]
        raw = base64.b64decode(coded)
        plain = struct.unpack(f"<{len(raw) // 4}f", raw)
        for a, b in zip(plain, vectors[0]):
            self.assertAlmostEqual(a, b, places=6)

    def test_anthropic_messages_have_their_form(self):
        reply = self.post("/v1/messages", {"model": "tiny", "max_tokens": 5, "system": "S",
                                           "messages": [{"role": "user", "content": "hi"}]})
        self.assertEqual((reply["type"], reply["role"]), ("message", "assistant"))
        self.assertEqual(reply["content"][0]["type"], "text")
        self.assertIn(reply["stop_reason"], ("end_turn", "max_tokens"))
        counted = self.post("/v1/messages/count_tokens", {"model": "tiny", "system": "S",
                                                          "messages": [{"role": "user", "content": "hi"}]})
        usage = reply["usage"]
        self.assertEqual(counted["input_tokens"], usage["input_tokens"] + usage["cache_read_input_tokens"])

    def test_anthropic_errors_have_their_form(self):
        error = self.post("/v1/messages", {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}, 400)
        self.assertEqual(error["type"], "error")
        self.assertIn("max_tokens", error["error"]["message"])

    def test_responses_have_their_form(self):
        reply = self.post("/v1/responses", {"model": "tiny", "input": "hi", "max_output_tokens": 5})
        self.assertEqual(reply["object"], "response")
        self.assertEqual(reply["output"][0]["content"][0]["type"], "output_text")

    def test_a_model_without_a_template_only_continues_texts(self):
        self.assertIn("/v1/completions", self.refused("/v1/chat/completions", chat(model="bare"), "model"))
        self.post("/v1/completions", {"model": "bare", "prompt": "x", "max_tokens": 2})

    def test_repeated_prompts_are_cached(self):
        text = "the same long beginning " * 20
        self.post("/v1/chat/completions", chat(text))
        usage = self.post("/v1/chat/completions", chat(text))["usage"]
        self.assertGreater(usage["prompt_tokens_details"]["cached_tokens"], 300)


class Refusals(ServerTest):
    def test_faults_name_their_field(self):
        cases = [
            ({"messages": "hi"}, "messages"), ({"messages": []}, "messages"),
            ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
             "messages[0].content[0].type"),
            ({"max_tokens": "10"}, "max_tokens"), ({"max_tokens": -5}, "max_tokens"), ({"max_tokens": 0}, "max_tokens"),
            ({"n": 1000}, "n"), ({"top_logprobs": 2}, "top_logprobs"), ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
            ({"stop": ["x"] * 10_000}, "stop"), ({"temperature": 1e9}, "temperature"), ({"colour": "red"}, "colour"),
            ({"response_format": {"type": "xml"}}, "response_format.type"),
            ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}}},
             "response_format.json_schema.schema"),
            ({"grammar": "root ::= ("}, "grammar"), ({"tool_choice": "required"}, "tool_choice"),
            ({"tools": [{"type": "function", "function": {"name": "no spaces!"}}]}, "tools[0].function.name"),
            ({"logit_bias": {"320": 1}}, "logit_bias"), ({"functions": []}, "functions"),
        ]
        for more, param in cases:
            with self.subTest(more=str(more)[:80]):
                self.refused("/v1/chat/completions", chat(**more), param)

    def test_what_completions_do_not_do_is_refused_by_name(self):
        for more, param in [({"suffix": "x"}, "suffix"), ({"best_of": 3}, "best_of"), ({"prompt": []}, "prompt"),
                            ({"prompt": [0, 320]}, "prompt[1]"), ({"prompt": {"a": 1}}, "prompt"),
                            ({"prompt": [["x"]]}, "prompt[0][0]"), ({"prompt": ""}, "prompt")]:
            with self.subTest(more=more):
                self.refused("/v1/completions", {"prompt": "x", **more}, param)
        self.refused("/v1/embeddings", {"input": "x", "dimensions": 7}, "dimensions")

    def test_a_prompt_that_is_too_long_is_refused_with_both_counts(self):
        error = self.post("/v1/completions", {"prompt": "x" * 5000}, 400)["error"]
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertIn("5000", error["message"])
        self.assertIn(str(CONTEXT), error["message"])

    def test_unknown_models_are_not_found(self):
        self.assertIn("tiny", self.refused("/v1/chat/completions", chat(model="gpt-9"), "model", 404))

    def test_broken_json_says_where(self):
        error = self.post("/v1/chat/completions", b'{"model": "tiny",', 400)["error"]
        self.assertEqual(error["code"], "invalid_json")
        self.assertIn("byte 17", error["message"])
        self.post("/v1/chat/completions", b"[" * 100_000, 400)

    def test_the_server_still_answers_after_all_that(self):
        self.post("/v1/chat/completions", chat())


if __name__ == "__main__":
    unittest.main()
