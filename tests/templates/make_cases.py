#!/usr/bin/env python3
"""Writes cases.json: small templates with the output jinja2 gives for each, for the unit test that needs no Python.

usage: make_cases.py [cases.json]
"""
import json
import pathlib
import sys

import reference

NOW = 1_709_215_384.5  # 29 February 2024, 14:03:04 UTC, a Thursday

CONTEXT = {
    "n": 7, "x": 2.5, "yes": True, "no": False, "nothing": None, "empty": "", "word": "Hello", "uni": "Grüße 👍 日本",
    "text": "  padded text \n", "lines": "one\ntwo\n\nthree", "numbers": [3, 1, 2, 1], "words": ["pear", "Apple", "fig"],
    "pairs": [["a", 1], ["b", 2]], "d": {"b": 2, "a": 1, "C": 3}, "nested": {"list": [1, {"k": "v"}], "items": 5},
    "people": [{"name": "Ann", "age": 31, "job": {"t": "x"}}, {"name": "bob", "age": 25}, {"name": "Cy", "age": 31}],
    "html": "<a href=\"x\">'&'</a>", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}],
}

CASES = """
plain text
{{ word }}
{{ missing }}|
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }}
{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ 1 / 3 }} {{ 1e20 }} {{ 1e16 }} {{ 123456789012345.0 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1.0 }} {{ 100.0 }} {{ -0.0 }} {{ 1.5e-7 }}
{{ 0x1f }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 1_0.5 }}
{{ 'a' ~ 1 ~ none ~ 2.0 ~ missing ~ [1] }}
{{ 'a' + 'b' * 3 }} {{ 3 * 'ab' }} {{ [1] * 3 }} {{ [1] + [2] }} {{ (1,) + (2,) }}
{{ 'a' 'b' "c" }}
{{ "esc \\\\n \\\\t \\\\x41 \\\\u00e9 \\\\U0001F600 \\\\q \\\\101 \\\\' \\\\\\" end" }}
{{ true }} {{ True }} {{ none }} {{ None }} {{ false }}
{{ [1, 2.0, 'x', none, true, (1,), (), {'k': [1]}] }}
{{ ['it\\'s', "q\\"", "both'\\"", 'tab\\t\\n\\\\', 'é\\x00\\x7f'] }}
{{ {} }} {{ [] }} {{ () }} {{ {'a': 1, 2: 'b', none: 3, 1.5: 2, true: 1} }}
{{ {1: 'a', 1.0: 'b', true: 'c'} }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 != 2 }} {{ 3 >= 3 }} {{ 3 <= 2 }}
{{ 'ell' in word }} {{ 1 in numbers }} {{ 9 not in numbers }} {{ 'a' in d }} {{ 'z' in d }} {{ 'x' in missing }} {{ '' in '' }}
{{ not yes }} {{ not not yes }} {{ not missing }} {{ yes and n }} {{ no or 'alt' }} {{ '' and 1 }} {{ 0 or none }}
{{ not 1 == 2 }} {{ not 1 in [1] }} {{ 1 if yes else 2 }} {{ 1 if no else 2 }} {{ 1 if no }}| {{ 1 if no else 2 if no else 3 }}
{{ numbers[0] }} {{ numbers[-1] }} {{ numbers[9] }}| {{ d['a'] }} {{ d.a }} {{ d.zz }}| {{ d['zz'] }}| {{ nested.list[1].k }} {{ nested.list.0 }}
{{ numbers[1:] }} {{ numbers[:-1] }} {{ numbers[::-1] }} {{ numbers[::2] }} {{ numbers[5:] }} {{ numbers[-2:] }} {{ numbers[3:0:-1] }} {{ (1,2,3)[1:] }}
{{ uni[0] }} {{ uni[2] }} {{ uni[6] }} {{ uni[-1] }} {{ uni[:6] }} {{ uni[::-1] }} {{ uni|length }} {{ uni[7:] }} {{ uni[-2:] }} {{ uni[1:6:2] }}
{{ word[1:3] }} {{ word[-3:] }} {{ word[10:] }}| {{ word[4:1:-1] }}
{{ nested['items'] }} {{ d['items'] is callable }} {{ nested.items is callable }} {{ 'y' if d['keys'] else 'n' }} {{ d['items']['type'] }}|
{{ d.items()|list }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.get('a') }} {{ d.get('q') }} {{ d.get('q', 9) }}
{{ d.items() }} {{ d.keys() }}
{{ word.upper() }} {{ word.lower() }} {{ 'hello world-foo bar2baz'.title() }} {{ 'hELLO'.capitalize() }} {{ word.swapcase() }}
[{{ text.strip() }}] [{{ text.lstrip() }}] [{{ text.rstrip() }}] [{{ 'xxaxx'.strip('x') }}] [{{ 'xyaxy'.lstrip('yx') }}] [{{ 'abc'.rstrip('cb') }}]
{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b '.split() }} {{ ''.split(',') }} {{ ''.split() }} {{ 'a b c'.split(none, 1) }} {{ 'a b c'.rsplit(none, 1) }}
{{ 'a</think>b</think>c'.split('</think>')[-1] }} {{ lines.splitlines() }} {{ 'a\\r\\nb\\n'.splitlines() }} {{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('-') }}
{{ word.startswith('He') }} {{ word.endswith('lo') }} {{ word.startswith(('x', 'H')) }} {{ word.find('l') }} {{ word.rfind('l') }} {{ word.find('z') }} {{ word.index('e') }} {{ word.count('l') }} {{ uni.find('日') }}
{{ word.replace('l', 'L') }} {{ word.replace('l', 'L', 1) }} {{ 'abc'.replace('', '-') }} {{ 'aaa'.replace('aa', 'b') }}
{{ '-'.join(['a', 'b']) }} {{ ', '.join(words) }} {{ ''.join([]) }}
{{ '12'.isdigit() }} {{ 'a2'.isdigit() }} {{ ''.isdigit() }} {{ 'ab'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }} {{ 'ab1'.islower() }} {{ '1'.isupper() }}
{{ 'pre-x'.removeprefix('pre-') }} {{ 'x.txt'.removesuffix('.txt') }} {{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} [{{ 'a'.ljust(3) }}] [{{ 'a'.rjust(3, '.') }}] [{{ 'ab'.center(5) }}] [{{ 'a'.center(4) }}] [{{ 'abc'.center(6,'*') }}]
{{ '{} and {}'.format(1, 'x') }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{k}'.format(k=3) }} {{ '{{}}'.format() }}
{{ '%s-%d-%05.2f|%5s|%-5s|%x|%%' % ('a', 42, 3.14159, 'r', 'l', 255) }} {{ '%s' % word }} {{ '%r' % 'q' }} {{ '%+d %03d' % (5, 7) }} {{ '%.2s' % 'abc' }} {{ '%e %g' % (12345.678, 0.0001) }}
{{ '%s, %s!'|format('Hi', word) }}
{{ numbers.index(2) }} {{ numbers.count(1) }} {{ (1, 2, 1).count(1) }}
{{ word|upper }} {{ word|lower }} {{ 'hello WORLD-foo (bar)'|title }} {{ 'hELLO wORLD'|capitalize }} {{ uni|upper }} {{ 'ÀÉÎ ЖЯ ΑΩ'|lower }}
[{{ text|trim }}] [{{ 'xxaxx'|trim('x') }}] {{ word|replace('l', 'L') }} {{ word|replace('l', 'L', 1) }} {{ 5|replace('5', 'x') }}
{{ word|length }} {{ numbers|count }} {{ d|length }} {{ missing|length }} {{ ''|length }}
{{ missing|default('x') }} {{ missing|d }}| {{ empty|default('x') }}| {{ empty|default('x', true) }} {{ none|default('x') }} {{ none|default('x', boolean=true) }} {{ missing.foo|default('y') if missing else 'no' }}
{{ numbers|join(',') }} {{ words|join }} {{ people|join(', ', attribute='name') }} {{ d|join('-') }} {{ 'abc'|join('.') }}
{{ numbers|first }} {{ numbers|last }} {{ ''|first }}| {{ 'abc'|first }} {{ 'abc'|last }} {{ []|last }}|
{{ numbers|sort }} {{ numbers|sort(reverse=true) }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ people|sort(attribute='age')|map(attribute='name')|list }}
{{ people|sort(attribute='age', reverse=true)|map(attribute='name')|join(' ') }}
{{ numbers|unique|list }} {{ ['a', 'A', 'b']|unique|list }} {{ numbers|sum }} {{ people|sum(attribute='age') }} {{ [0.5, 1]|sum }} {{ numbers|sum(start=10) }}
{{ numbers|min }} {{ numbers|max }} {{ words|min }} {{ words|max }} {{ people|max(attribute='age') }} {{ []|min }}|
{{ numbers|reverse|list }} {{ word|reverse }} {{ numbers|list }} {{ word|list }} {{ d|list }}
{{ people|map(attribute='name')|list }} {{ words|map('upper')|list }} {{ people|map(attribute='job.t', default='-')|list }} {{ words|map('replace', 'p', 'P')|list }} {{ pairs|map('first')|list }} {{ pairs|map(attribute=1)|list }}
{{ numbers|select('odd')|list }} {{ numbers|reject('odd')|list }} {{ numbers|select('gt', 1)|list }} {{ [0, 1, '', 'a']|select|list }} {{ [0, 1]|reject|list }}
{{ people|selectattr('age', 'equalto', 31)|map(attribute='name')|list }} {{ people|rejectattr('age', 'eq', 31)|map(attribute='name')|list }} {{ people|selectattr('job')|list }} {{ people|selectattr('job', 'defined')|list|length }}
{{ (messages|selectattr('role', 'equalto', 'user')|list)[-1].content }} {{ messages|selectattr('role', 'in', ['user', 'tool'])|list|length }}
{{ 'yes' if messages|selectattr('role', 'equalto', 'nobody') else 'no' }}
{{ d|dictsort }} {{ d|dictsort(true) }} {{ d|dictsort(by='value') }} {{ d|dictsort(reverse=true) }} {{ d|items|list }}
{{ '42'|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ '42.9'|int }} {{ 3.9|int }} {{ -3.9|int }} {{ 'ff'|int(base=16) }} {{ ' 7 '|int }} {{ true|int }} {{ none|int }}
{{ '1.5'|float }} {{ 'x'|float }} {{ 3|float }} {{ '1e3'|float }} {{ 'x'|float(2.5) }}
{{ 42.55|round }} {{ 42.55|round(1) }} {{ 42.55|round(1, 'floor') }} {{ 42.11|round(1, 'ceil') }} {{ 2.5|round }} {{ 3.5|round }} {{ 7|round }} {{ 2.675|round(2) }}
{{ -5|abs }} {{ (-5)|abs }} {{ -2.5|abs }} {{ word|string }} {{ 5|string + 'x' }} {{ [1]|string }}
{{ lines|indent }} | {{ lines|indent(2, true) }} | {{ lines|indent(width=1, blank=true) }} | {{ lines|indent('> ') }}
{{ html|e }} {{ html|escape }}
{{ 'one two  three'|wordcount }} [{{ 'ab'|center(6) }}] {{ numbers|batch(3)|list }} {{ numbers|batch(3, 'x')|list }}
{% for g, items in people|groupby('age') %}{{ g }}:{{ items|map(attribute='name')|join(',') }};{% endfor %}
{{ d|tojson }} {{ numbers|tojson }} {{ 'é"\\n\\t\\\\/<>&\\x7f'|tojson }} {{ none|tojson }} {{ true|tojson }} {{ 1.0|tojson }} {{ [1, {'a': none}]|tojson }}
{{ nested|tojson(indent=2) }}
{{ [[], {}, [[]], {'a': {}}]|tojson(indent=4) }}
{{ d|tojson(sort_keys=true) }} {{ uni|tojson(ensure_ascii=true) }} {{ d|tojson(separators=(',', ':')) }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }}
{{ 1e100|tojson }} {{ (1, 2)|tojson }} {{ '\\x01\\x1f'|tojson }} {{ d|tojson(indent='\\t') }}
{{ word is defined }} {{ missing is defined }} {{ missing is undefined }} {{ nothing is none }} {{ missing is none }} {{ d.zz is defined }}
{{ word is string }} {{ n is string }} {{ d is mapping }} {{ numbers is mapping }} {{ word is iterable }} {{ n is iterable }} {{ numbers is sequence }} {{ d is sequence }} {{ none is iterable }} {{ missing is iterable }}
{{ n is number }} {{ yes is number }} {{ n is integer }} {{ yes is integer }} {{ x is float }} {{ yes is boolean }} {{ yes is true }} {{ 1 is true }} {{ no is false }}
{{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ n is eq 7 }} {{ n is equalto(7) }} {{ n is ne 7 }} {{ n is lt 8 }} {{ n is gt 8 }} {{ n is ge 7 }} {{ n is le(6) }}
{{ 'a' is in d }} {{ n is in [7] }} {{ n is not in [7] }} {{ word is not string }} {{ not word is string }} {{ 'ab' is lower }} {{ 'AB' is upper }} {{ none is sameas none }} {{ range is callable }} {{ word is callable }} {{ 'trim' is filter }} {{ 'odd' is test }}
{{ x is defined and n is number or no }} {{ 'y' if word is defined and word is string else 'n' }}
{% if n > 5 %}big{% elif n > 2 %}mid{% else %}small{% endif %}
{% if missing %}a{% elif empty %}b{% elif d %}c{% endif %}
{% for i in numbers %}{{ i }}{% if not loop.last %},{% endif %}{% endfor %}
{% for i in [] %}x{% else %}none{% endfor %}{% for i in [1] %}x{% else %}none{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in d|items %}{{ loop.index }}{{ k }}{% endfor %}{% for k in d %}{{ k }}{% endfor %}
{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for i in numbers if i > 1 %}{{ i }}:{{ loop.index }}/{{ loop.length }} {% else %}none{% endfor %}
{% for i in 'ab' %}{{ loop.index }} {{ loop.index0 }} {{ loop.revindex }} {{ loop.revindex0 }} {{ loop.first }} {{ loop.last }} {{ loop.length }} {{ loop.depth }} {{ loop.previtem }} {{ loop.nextitem }};{% endfor %}
{% for i in numbers %}{{ loop.cycle('odd', 'even') }} {{ loop.changed(i) }};{% endfor %}
{% for i in range(3) %}{% for j in range(2) %}{{ i }}{{ j }}{{ loop.index }} {% endfor %}{{ loop.index }}|{% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for x in [1, [2, [3]]] recursive %}{% if x is number %}{{ x }}@{{ loop.depth }}{% else %}({{ loop(x) }}){% endif %}{% endfor %}
{% for m in messages[::-1] %}{{ m.role }}{{ loop.index0 }} {% endfor %}{{ messages[loop.index0 - 1].role if loop is defined else 'out' }}
{% set a = 1 %}{% for i in [1, 2] %}{% set a = a + i %}{{ a }} {% endfor %}{{ a }}
{% set ns = namespace(count=0, name='x') %}{% for i in numbers %}{% set ns.count = ns.count + i %}{% endfor %}{{ ns.count }} {{ ns.name }} {{ ns.other }}| {{ ns.other is defined }}
{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.b = ns %}{{ ns.b.b.a }}
{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set t = 1, 2 %}{{ t }} {% set (p, q) = [3, 4] %}{{ p + q }}
{% set block %}  inner {{ n }} {% endset %}[{{ block }}] {% set up | upper | trim %} abc {% endset %}[{{ up }}]
{% if yes %}{% set v = 'in if' %}{% endif %}{{ v }} {% with w = 5, z = n %}{{ w + z }}{% set v = 2 %}{% endwith %}{{ v }} {{ w }}|
{% macro greet(name, greeting='Hi') %}{{ greeting }} {{ name }}!{% endmacro %}{{ greet('Ann') }} {{ greet('Bob', 'Yo') }} {{ greet(name='Cy', greeting=greet('D')) }} {{ greet() }}
{% macro m(a, b=a ~ 'x') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 2) }} {{ m|string|length > 0 }} {{ m.name }}
{% macro v() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, k=3) }} {% set args = [1, 2] %}{{ v(*args, **{'z': 1}) }}
{% macro box(t) %}[{{ t }}:{{ caller() }}]{% endmacro %}{% call box('T') %}body {{ n }}{% endcall %}
{% macro each(items) %}{% for i in items %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(v) each([1, 2]) %}<{{ v }}>{% endcall %}
{% macro fact(k) %}{{ 1 if k < 2 else k * (fact(k - 1)|int) }}{% endmacro %}{{ fact(10) }}
{% macro outer() %}{{ late }}{% endmacro %}{% set late = 'set later' %}{{ outer() }}
{% filter upper %}shout {{ word }}{% endfilter %} {% filter replace('a', 'b') | upper %}banana{% endfilter %}
{% generation %}made {{ word }}{% endgeneration %} after
{% raw %}{{ not }} {% this %}{% endraw %} after {%- raw -%}  x  {%- endraw -%}  y
{# a comment #}x{#- stripped -#}  y {# {{ no }} {% tags %} #}z
a  {%- if yes -%}  b  {%- endif -%}  c
a\\n  {% if yes %}\\n  b\\n  {% endif %}\\nc
a\\n  {%+ if yes %}\\n  b\\n  {%+ endif +%}\\nc
a\\n  {# comment #}\\n  {{ n }}\\nb\\n
line {{ n }}\\n\\n{{- n }}\\n{{ n -}}\\n\\n x
{%- for i in [1, 2] %}\\n  {{ i }}\\n{%- endfor %}\\nend
  {% set a = 1 %}  {{ a }}
{{ '}}' }} {{ '%}' }} {{ {'a': {'b': 1}}['a'] }} {{ "{{" }}
{{-1}} {{+ 2}} {{ - 3 }} {{ 5 -3 }}
{{ range(5)|list }} {{ range(2, 8, 3)|list }} {{ range(3, 0, -1)|list }} {{ range(0)|list }} {{ range(5)[2] }} {{ range(5)|length }} {{ range(5)[1:3]|list }}
{{ dict(a=1, b=2) }} {{ dict([('k', 1)]) }} {{ dict(d, z=1) }}
{{ strftime_now('%Y-%m-%d %H:%M:%S') }} {{ strftime_now('%d %b %Y') }} {{ strftime_now('%B %d, %Y %A %a %j %I %p %y %% %f') }}
{{ word.upper is callable }} {{ x[] }}|{{ [[1, 2], [3]]|map('sum')|list }} {{ numbers|map('string')|join }}"""[1:].split("\n")

ERRORS = """
{{ raise_exception('own message: ' ~ n) }}
{{ missing.attribute }}
{{ missing['item'] }}
{{ missing + 1 }}
{{ missing() }}
{{ nothing.attribute.more }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ 1 < 'a' }}
{{ [] < {} }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1 in 5 }}
{{ 1 in 'abc' }}
{{ word() }}
{{ numbers.append(1) }}
{{ d.update({'a': 1}) }}
{{ d.pop('a') }}
{{ word.__class__.__mro__ }}
{{ n|nofilter }}
{{ n is notest }}
{{ range(1000000) }}
{{ {[]: 1} }}
{{ missing|tojson }}
{{ range|tojson }}
{{ n|length }}
{{ n|join(',') }}
{{ n|first }}
{{ missing|int }}
{{ words|sum }}
{{ [1, 'a']|sort }}
{{ d[1:2] }}
{{ numbers[::0] }}
{{ '%d' % 'a' }}
{{ '%s %s' % 'a' }}
{{ '%s' % ('a', 'b') }}
{{ ''.join([1]) }}
{{ 'a'.split('') }}
{{ word.index('zz') }}
{{ word.nosuch() }}
{% for a, b in [[1]] %}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% for i in 5 %}{% endfor %}
{% set word.x = 1 %}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}
{% if %}{% endif %}
{% if yes %}
{% endif %}
{% for x in %}{% endfor %}
{% unknown %}
{% break %}
{% macro greet(name, *, x=1) %}{% endmacro %}
{{ 1 + }}
{{ (1 }}
{{ 1) }}
{{ [1, }}
{{ 'open }}
{{ a b }}
{{ }}
{{ 1 is }}
{{ x. }}
{{ n
{% if n
{# open
{% raw %}open
{{ $ }}
{% set true = 1 %}
{% macro m(a=1, b) %}{% endmacro %}
{% call word %}{% endcall %}
{{ f(a=1, 2) }}"""[1:].split("\n")


def main() -> int:
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "cases.json"
    made = []
    for line in CASES + ERRORS:
        # Cases about white space have no string in them: there \\n is a line break of the template itself.
        source = line.replace("\\n", "\n") if "\\\\" not in line and "'" not in line else line
        result = reference.render(source, CONTEXT, NOW)
        case = {"template": source}
        if "text" in result:
            case["text"] = result["text"]
        elif result["raised"]:
            case["raises"] = result["error"]
        else:
            case["fails"] = result["error"]  # for the reader: only that it fails is compared
        made.append(case)
    document = {"now": NOW, "context": CONTEXT, "cases": made}
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    failing = sum("text" not in case for case in made)
    print(f"{len(made)} cases, {failing} of them failing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
