#!/usr/bin/env python3
"""Renders real chat templates with our engine and with jinja2 and compares them byte for byte.

usage: compare_templates.py DRIVER TEMPLATE_FOLDER
"""
import json
import pathlib
import re
import subprocess
import sys

try:
    import reference
except ImportError as error:
    print(f"jinja2 is not installed in {sys.executable} ({error})")
    sys.exit(1)

NOW = 1_723_456_789.25
PREFIX = re.compile(r"^chat template, line \d+: ")


def user(content, **more):
    return {"role": "user", "content": content, **more}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def call(name, arguments, identifier="abcdef123"):
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(content, identifier="abcdef123", **more):
    return {"role": "tool", "tool_call_id": identifier, "content": content, **more}


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Wetter für einen Ort — \"jetzt\" ☀️",
            "parameters": {
                "type": "object",
                "properties": {
                    "location": {"type": "string", "description": "City, e.g. Zürich or 東京"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius", "description": "Unit"},
                    "days": {"type": "integer", "description": "Days <= 14 & >= 1", "default": 3, "nullable": True},
                },
                "required": ["location"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "book",
            "description": "Books a trip",
            "parameters": {
                "type": "object",
                "properties": {
                    "stops": {
                        "type": "array",
                        "description": "The stops",
                        "items": {
                            "type": "object",
                            "properties": {"city": {"type": "string"}, "nights": {"type": "number"}},
                            "required": ["city"],
                        },
                    },
                    "tags": {"type": "array", "items": {"type": "string"}, "description": "Tags"},
                    "options": {
                        "type": "object",
                        "description": "Options",
                        "properties": {"fast": {"type": "boolean"}, "limit": {"type": "number", "default": 1.5}},
                    },
                    "who": {"type": ["string", "null"], "description": "Who"},
                    "either": {"oneOf": [{"type": "string", "description": "s"}, {"type": "number"}], "description": "Either"},
                    "many": {"type": "array", "description": "Untyped"},
                },
                "required": ["stops", "either"],
            },
            "return": {"type": "object", "description": "The booking", "additionalProperties": {"type": "integer"}},
        },
    },
]

UGLY = "Grüße 👩‍👩‍👧‍👦 \"quoted\" 'single' \\ back\n\n  indented\ttab <|im_end|> {{ not a tag }} {% nor this %} 日本語 \u2028 end \u00a0"

CONVERSATIONS = {
    "single user": [user("Hello")],
    "system and user": [system("You are terse."), user("Hello")],
    "several turns": [user("One"), assistant("Two"), user("Three"), assistant("Four"), user("Five")],
    "system and several turns": [system("Be kind."), user("One"), assistant("Two"), user("Three")],
    "ends with assistant": [user("One"), assistant("Two")],
    "unicode, quotes, newlines": [system(UGLY), user(UGLY), assistant(UGLY), user("\n" + UGLY + "\n")],
    "empty contents": [system(""), user(""), assistant(""), user("")],
    "tool call and result": [
        user("Weather?"),
        assistant("", tool_calls=[call("get_weather", {"location": "Zürich", "days": 2, "x": [1.5, None, True, "é\"\n"]})]),
        tool("{\"temperature\": 21.5}"),
        assistant("It is warm."),
        user("Thanks"),
    ],
    "tool call as last turn": [
        user("Weather?"),
        assistant("", tool_calls=[call("get_weather", {"location": "Bern"})]),
        tool("sunny ☀️"),
    ],
    "two tool calls and two results": [
        system("Tools are there."),
        user("Both"),
        assistant(
            "Let me look.",
            tool_calls=[call("get_weather", {"location": "A"}), call("book", {"stops": [{"city": "B"}]}, "123456789")],
        ),
        tool("one"),
        tool("two", "123456789"),
        assistant("Done."),
    ],
    "tool call with arguments as text": [
        user("Weather?"),
        assistant(None, tool_calls=[call("get_weather", "{\"location\": \"Bern\"}")]),
        tool("rain"),
    ],
    "tool call without content": [user("W?"), {"role": "assistant", "tool_calls": [call("book", {})]}, tool("ok"), user("k")],
    "thinking in the content": [
        user("Think"),
        assistant("<think>\nI should\nthink.\n</think>\n\nAnswer."),
        user("Again"),
        assistant("<think>\nmore\n</think>\n\nFinal."),
    ],
    "reasoning_content": [user("Think"), assistant("Answer.", reasoning_content="Because\n"), user("More")],
    "reasoning in the last turn": [user("Q"), assistant("A.", reasoning_content="\nWhy\n", thinking="Why")],
    "think switches": [system("Be short. /no_think"), user("Hi /think"), assistant("Yo"), user("Bye")],
    "wrong order: two users": [user("One"), user("Two")],
    "wrong order: assistant first": [assistant("One"), user("Two")],
    "system in the middle": [user("One"), system("Now"), user("Two")],
    "unknown role": [user("One"), {"role": "narrator", "content": "Meanwhile"}],
    "tool result without a call": [user("One"), tool("orphan")],
    "bad tool call id": [user("W"), assistant("", tool_calls=[call("book", {}, "x")]), tool("ok", "x")],
    "content parts": [user([{"type": "text", "text": "Hello"}])],
    "no messages": [],
    "no content": [{"role": "user"}],
    "developer": [{"role": "developer", "content": "Obey"}, user("Hi")],
}

VARIANTS = {
    "plain": {"add_generation_prompt": False},
    "prompt": {"add_generation_prompt": True},
    "tools": {"add_generation_prompt": True, "tools": TOOLS},
    "tools, no prompt": {"add_generation_prompt": False, "tools": TOOLS},
    "no thinking": {"add_generation_prompt": True, "enable_thinking": False},
    "extras": {
        "add_generation_prompt": True,
        "enable_thinking": True,
        "tools": TOOLS[1:],
        "documents": [{"doc_id": 1, "title": "t", "text": "Facts: ü"}],
        "controls": {"citations": True, "hallucinations": "x"},
        "thinking": True,
        "builtin_tools": ["browser", "python"],
        "model_identity": "You are a test.",
        "reasoning_effort": "high",
        "tools_in_user_message": False,
        "date_string": "01 Jan 2025",
    },
}


def cases(folder):
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for conversation, messages in CONVERSATIONS.items():
            for variant, extra in VARIANTS.items():
                # As the hubs call it: tools and documents are there, none when not given.
                context = {"messages": messages, "tools": None, "documents": None, "bos_token": "<s>", "eos_token": "</s>"}
                context.update(extra)
                yield f"{path.name} / {conversation} / {variant}", source, context
                if variant == "prompt":
                    bare = {key: value for key, value in context.items() if key not in ("tools", "documents")}
                    yield f"{path.name} / {conversation} / without tools", source, bare


def main() -> int:
    driver, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    todo = list(cases(folder))
    if not todo:
        print(f"no templates in {folder}")
        return 1
    lines = [json.dumps({"template": source, "context": context, "now": NOW}) for _, source, context in todo]
    replies = subprocess.run([driver], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    replies = replies.stdout.rstrip("\n").split("\n")
    if len(replies) != len(todo):
        print(f"{len(replies)} replies to {len(todo)} cases")
        return 1
    rendered = refused = raised = faults = 0
    per_template = {}
    for (name, source, context), reply in zip(todo, replies):
        ours, theirs = json.loads(reply), reference.render(source, context, NOW)
        fault = None
        if ("text" in ours) != ("text" in theirs):
            fault = f"ours {ours}\n  reference {theirs}"
        elif "text" in theirs:
            rendered += 1
            if ours["text"] != theirs["text"]:
                fault = f"ours      {ours['text']!r}\n  reference {theirs['text']!r}"
        else:
            refused += 1
            raised += theirs["raised"]
            if theirs["raised"] and PREFIX.sub("", ours["error"]) != theirs["error"]:
                fault = f"ours      {ours['error']!r}\n  reference {theirs['error']!r}"
        template = name.split(" / ")[0]
        good, total = per_template.get(template, (0, 0))
        per_template[template] = (good + (fault is None), total + 1)
        if fault:
            faults += 1
            if faults <= 20:
                print(f"DIFFERENT {name}\n  {fault}")
    for template, (good, total) in per_template.items():
        print(f"{good:4d} of {total:4d} equal  {template}")
    print(f"{len(todo)} cases: {rendered} rendered, {refused} refused by both ({raised} by raise_exception), {faults} different")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
