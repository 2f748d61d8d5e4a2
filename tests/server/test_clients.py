"""The official clients of OpenAI and Anthropic, unmodified, and the command-line tool `llm`, against a real server."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import anthropic
import openai

from serving import WEATHER, ServerTest

SURE = {"logit_bias": {"125": 20, "44": 5}}  # a random model ends its JSON sooner
LIKELIEST = {**SURE, "temperature": 0}


class OpenAiClient(ServerTest):
    def setUp(self):
        self.client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0)
        self.addCleanup(self.client.close)
        self.messages = [{"role": "user", "content": "hello"}]

    def ask(self, **more):
        return self.client.chat.completions.create(
            **{"model": "tiny", "messages": self.messages, "max_tokens": 10, "seed": 1, **more})

    def test_chat(self):
        reply = self.ask()
        self.assertEqual(reply.choices[0].message.role, "assistant")
        self.assertLessEqual(reply.usage.completion_tokens, 10)

    def test_streaming(self):
        whole = self.ask(extra_body={"ignore_eos": True}).choices[0].message.content
        chunks = list(self.ask(stream=True, stream_options={"include_usage": True}, extra_body={"ignore_eos": True}))
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), whole)
        self.assertEqual(chunks[-1].usage.completion_tokens, 10)

    def test_n_and_logprobs(self):
        reply = self.ask(n=4, logprobs=True, top_logprobs=2, extra_body={"ignore_eos": True})
        self.assertEqual(len(reply.choices), 4)
        for choice in reply.choices:
            self.assertEqual(len(choice.logprobs.content), 10)
            self.assertEqual(len(choice.logprobs.content[0].top_logprobs), 2)

    def test_tools_round_trip(self):
        reply = self.ask(tools=[WEATHER], tool_choice="required", max_tokens=300, temperature=0, **SURE)
        message = reply.choices[0].message
        call = message.tool_calls[0]
        self.assertEqual(call.function.name, "get_weather")
        json.loads(call.function.arguments)
        self.messages += [message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        self.assertIsNotNone(self.ask(tools=[WEATHER]).choices[0].message)

    def test_streamed_tool_calls(self):
        with self.client.chat.completions.stream(model="tiny", messages=self.messages, tools=[WEATHER],
                                                 tool_choice="required", max_tokens=300, temperature=0,
                                                 **SURE) as stream:
            final = stream.get_final_completion()
        call = final.choices[0].message.tool_calls[0]
        self.assertIn(json.loads(call.function.arguments)["city"], ("Rome", "Oslo"))

    def test_json_schema(self):
        schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"],
                  "additionalProperties": False}
        reply = self.ask(response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
                         max_tokens=200)
        self.assertIsInstance(json.loads(reply.choices[0].message.content)["yes"], bool)

    def test_completions_embeddings_models(self):
        self.assertTrue(self.client.completions.create(model="tiny", prompt=["a", "b"], max_tokens=3).choices[1])
        vectors = self.client.embeddings.create(model="tiny", input=["a", "b"]).data  # asks for base64
        self.assertAlmostEqual(sum(x * x for x in vectors[0].embedding), 1, places=4)
        self.assertEqual([m.id for m in self.client.models.list()], ["tiny", "bare"])

    def test_responses(self):
        reply = self.client.responses.create(model="tiny", input="hello", max_output_tokens=8,
                                             extra_body={"ignore_eos": True, "seed": 1})
        self.assertEqual(reply.status, "incomplete")
        with self.client.responses.stream(model="tiny", input="hello", max_output_tokens=8,
                                          extra_body={"ignore_eos": True, "seed": 1}) as stream:
            deltas = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        self.assertEqual(deltas, reply.output_text)

    def test_response_tools(self):
        tool = {"type": "function", **WEATHER["function"], "strict": True}
        reply = self.client.responses.create(model="tiny", input="hello", tools=[tool], tool_choice="required",
                                             max_output_tokens=300, temperature=0, extra_body=SURE)
        call = next(item for item in reply.output if item.type == "function_call")
        json.loads(call.arguments)
        self.client.responses.create(model="tiny", max_output_tokens=4, tools=[tool], input=[
            {"role": "user", "content": "hello"}, call,
            {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}])

    def test_errors_are_the_clients_own_kinds(self):
        with self.assertRaises(openai.NotFoundError) as raised:
            self.ask(model="gpt-9")
        self.assertEqual(raised.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as raised:
            self.ask(temperature=-1)
        self.assertEqual(raised.exception.param, "temperature")

    def test_leaving_a_stream_leaves_the_server_working(self):
        stream = self.ask(stream=True, max_tokens=1500, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        self.assertTrue(self.ask())


class AnthropicClient(ServerTest):
    def setUp(self):
        self.client = anthropic.Anthropic(base_url=self.server.url, api_key="none", max_retries=0)
        self.addCleanup(self.client.close)
        self.messages = [{"role": "user", "content": "hello"}]
        self.tool = {"name": "get_weather", "description": "d", "input_schema": WEATHER["function"]["parameters"]}

    def test_messages(self):
        reply = self.client.messages.create(model="tiny", max_tokens=8, messages=self.messages, system="S",
                                            stop_sequences=["zzz"])
        self.assertEqual(reply.content[0].type, "text")

    def test_streaming(self):
        body = {"model": "tiny", "max_tokens": 8, "messages": self.messages,
                "extra_body": {"seed": 1, "ignore_eos": True}}
        whole = self.client.messages.create(**body).content[0].text
        with self.client.messages.stream(**body) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole)
        self.assertEqual((final.stop_reason, final.usage.output_tokens), ("max_tokens", 8))

    def test_tools_round_trip(self):
        body = {"model": "tiny", "max_tokens": 300, "tools": [self.tool]}
        reply = self.client.messages.create(messages=self.messages, tool_choice={"type": "any"}, extra_body=LIKELIEST,
                                            **body)
        self.assertEqual(reply.stop_reason, "tool_use")
        use = reply.content[-1]
        self.assertIn(use.input["city"], ("Rome", "Oslo"))
        with self.client.messages.stream(messages=self.messages, tool_choice={"type": "tool", "name": "get_weather"},
                                         extra_body=LIKELIEST, **body) as stream:
            self.assertIn(stream.get_final_message().content[-1].input["city"], ("Rome", "Oslo"))
        result = {"type": "tool_result", "tool_use_id": use.id, "content": "sunny"}
        self.client.messages.create(messages=self.messages + [
            {"role": "assistant", "content": reply.content}, {"role": "user", "content": [result]}],
            **{**body, "max_tokens": 4})

    def test_counting_and_errors(self):
        count = self.client.messages.count_tokens(model="tiny", messages=self.messages)
        self.assertGreater(count.input_tokens, 5)
        with self.assertRaises(anthropic.NotFoundError):
            self.client.messages.create(model="other", max_tokens=1, messages=self.messages)
        with self.assertRaises(anthropic.BadRequestError):
            self.client.messages.create(model="tiny", max_tokens=0, messages=self.messages)


class LlmTool(ServerTest):
    def test_a_prompt_on_the_command_line(self):
        home = pathlib.Path(self.folder.name) / "llm"
        home.mkdir()
        (home / "extra-openai-models.yaml").write_text(
            f"- model_id: hearth\n  model_name: tiny\n  api_base: {self.server.url}/v1\n  api_key_name: hearth\n")
        done = subprocess.run([sys.executable, "-m", "llm", "-m", "hearth", "--key", "none", "-o", "max_tokens", "8",
                               "-o", "seed", "1", "hello"], capture_output=True, timeout=120, check=False,
                              env={**os.environ, "LLM_USER_PATH": str(home)})
        self.assertEqual(done.returncode, 0, done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
