"""The bytes and bodies of hostile requests, for the suites and for the soak. Each gives what must come back."""
import json
import socket

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
POSTS = (CHAT, COMPLETIONS, "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/tokenize", "/v1/trees")
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

NOT_JSON = {
    "empty": b"", "words": b"hello", "byte order mark": b"\xef\xbb\xbf{}", "utf-16": '{"prompt": "x"}'.encode("utf-16"),
    "NUL": b'{"prompt": "a\x00b"}', "NUL after": b'{"prompt": "x"}\x00', "a million brackets": b"[" * 1_000_000,
    "a million objects": b'{"a":' * 1_000_000, "invalid UTF-8": b'{"prompt": "\xff\xfe"}', "overlong": b'{"prompt": "\xc0\xaf"}',
    "encoded surrogate": b'{"prompt": "\xed\xa0\x80"}', "lone surrogate": b'{"prompt": "\\ud800"}',
    "swapped surrogates": b'{"prompt": "\\udc00\\ud800"}', "NaN": b'{"prompt": "x", "temperature": NaN}',
    "Infinity": b'{"prompt": "x", "temperature": Infinity}', "two values": b"{} {}", "half": b'{"prompt": "x',
    "a number beyond doubles": b'{"prompt": "x", "temperature": 1e999}',
}

# Field, value: each a 400 that names the field.
BAD_FIELDS = [
    ("max_tokens", -1), ("max_tokens", 2**31), ("max_tokens", "10"), ("max_tokens", 0), ("max_tokens", 1.5), ("n", 10**6),
    ("n", 0), ("n", -1), ("n", 2**64), ("temperature", -0.1), ("temperature", 1e300), ("temperature", "0"),
    ("temperature", "nan"), ("top_k", -5), ("top_k", 2**32 - 5), ("top_p", -1), ("top_p", 1.0001), ("min_p", 2), ("seed", -1),
    ("seed", 2**63), ("seed", 1e30), ("logit_bias", {"320": 1}), ("logit_bias", {"-1": 1}), ("logit_bias", {"x": 1}),
    ("logit_bias", {str(2**40): 1}), ("logit_bias.5", {"5": "1"}), ("logit_bias.5", {"5": 1e9}),
    ("logit_bias", {str(i): 0 for i in range(2000)}), ("stop", ["x"] * 10_000), ("stop", "x" * 5000), ("stop", [""]),
    ("frequency_penalty", 9), ("repetition_penalty", -1), ("penalty_last", -1), ("stream", 1), ("prompt", []), ("prompt", 7),
    ("prompt[1]", [0, 320]), ("prompt[0]", [-1]), ("nonsense", 1),
]

# Each a 400.
GRAMMARS = {
    "60,000 parens": "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000,
    "60,000 open parens": "root ::= " + "(" * 60_000,
    "left recursion": 'root ::= root "a" | "b"',
    "hidden left recursion": 'root ::= e root "a" | "b"\ne ::= "x"?',
    "left recursion through rules": 'root ::= a\na ::= b\nb ::= c "x"\nc ::= a | "y"',
    "no root": 'top ::= "a"',
    "an unknown rule": "root ::= other",
    "optional parts": "root ::= " + '("a"|"b"|"c")? ' * 5000,
    "optional rules": "root ::= " + " ".join(f"r{i}?" for i in range(5000)) + "\n" +
                      "\n".join(f'r{i} ::= "a" r{i * 7 % 5000}? "b"{{50}}' for i in range(5000)),
    "rules that call each other": "root ::= " + " ".join(f"r{i}?" for i in range(1500)) + "\n" +
                                  "\n".join(f'r{i} ::= "a" root? "b"' for i in range(1500)),
    "20,000 words": "root ::= " + " | ".join(f'"{i:06x}"' for i in range(20_000)),
    "300 kB": 'root ::= "' + "a" * 300_000 + '"',
}
# These are fine and must be followed: the text may be nothing but letters a.
LOOPS = ['root ::= ("a"*)*', 'root ::= (("a"*)*)+', 'root ::= (("a"?){1000000}){1000000}']

SCHEMAS = {
    "itself": {"$ref": "#"},
    "a cycle": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "a cycle within anyOf": {"anyOf": [{"$ref": "#"}, {"type": "integer"}]},
    "a cycle within allOf": {"allOf": [{"$ref": "#"}, {"type": "integer"}]},
    "nowhere": {"$ref": "#/$defs/none"},
    "20,000 values": {"enum": [f"v{i:06d}" for i in range(20_000)]},
    "a long pattern": {"type": "string", "pattern": "^" + "(a|b|c)?" * 3000 + "$"},
    "3,000 definitions": {"$ref": "#/$defs/d0", "$defs": {f"d{i}": {"anyOf": [
        {"type": "array", "items": {"$ref": f"#/$defs/d{(i + 1) % 3000}"}},
        {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{i * 7 % 3000}"}}}]} for i in range(3000)}},
    "much to merge": {"allOf": [{"type": "object", "properties": {f"a{i}_{j}": {"type": "string"} for i in range(100)}}
                                for j in range(60)]},
}
# 60 tools of 100 properties: each is fine alone.
TOOLS = [{"type": "function", "function": {"name": f"f{i}", "parameters": {
    "type": "object", "properties": {f"p{j}": {"type": "string"} for j in range(100)}}}} for i in range(60)]

CLIMBING = ["/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/../etc/passwd", "/v1/trees/..%2fx", "/v1/trees/..%2f..%2fx/nodes",
            "/v1/models/..%2f..%2fetc%2fpasswd", "/v1/models/%2e%2e", "/v1/trees/%2e%2e%5c", "/..\\..\\x", "/v1/trees/a%00b", "/%", "/%zz"]


def with_schema(schema):
    return {"messages": [{"role": "user", "content": "x"}], "max_tokens": 5,
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}


def post_bytes(path, body, more=b""):
    data = json.dumps(body).encode()
    return (b"POST " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + more +
            b"Content-Length: %d\r\n\r\n" % len(data) + data)


def open_socket(port, receive_bytes=None):
    client = socket.socket()
    if receive_bytes:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    client.settimeout(60)
    client.connect(("127.0.0.1", port))
    return client


def read_answer(client):
    """All there is until the end, also when the end is a reset."""
    got = b""
    try:
        while piece := client.recv(1 << 16):
            got += piece
    except (ConnectionResetError, BrokenPipeError):
        pass
    return got


def exchange(port, *pieces, finish=False):
    """Sends pieces (bytes, or iterables of bytes) for as long as they are taken; gives the bytes that come back."""
    with open_socket(port) as client:
        try:
            for piece in pieces:
                for part in [piece] if isinstance(piece, bytes) else piece:
                    client.sendall(part)
            if finish:
                client.shutdown(socket.SHUT_WR)
        except (ConnectionResetError, BrokenPipeError):
            pass
        return read_answer(client)


def status_of(answer):
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else None
