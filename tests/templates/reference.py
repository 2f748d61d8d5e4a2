"""Python's jinja2, set up as the model hubs render chat templates. The oracle of the template tests."""
import datetime
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class GenerationBlock(jinja2.ext.Extension):
    """{% generation %} marks what an assistant wrote; rendering passes it through."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return body


def environment(now: float) -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def strftime_now(format):
        return datetime.datetime.fromtimestamp(now, datetime.timezone.utc).replace(tzinfo=None).strftime(format)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, "jinja2.ext.loopcontrols"]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def render(source: str, context: dict, now: float) -> dict:
    """{"text": ...}, or {"error": ..., "raised": whether the template itself raised it}."""
    try:
        return {"text": environment(now).from_string(source).render(**context)}
    except jinja2.exceptions.TemplateError as error:
        return {"error": str(error), "raised": type(error) is jinja2.exceptions.TemplateError}
    except Exception as error:  # Python's own: TypeError, ZeroDivisionError, ...
        return {"error": str(error), "raised": False}
