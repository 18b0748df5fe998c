# SPDX-License-Identifier: MIT
"""Corners of chat templates as transformers renders them: what decides alone in a condition of the reader.

    python3 tools/golden/formats/chat_corners.py

needs transformers 5.24 and jinja2 3.1. Writes tests/golden/chat/corners.jsonl: a template and its text;
null where jinja2 raises. tools/golden/formats/chat.py has the constructs themselves."""
import json

from transformers.utils import chat_template_utils

TEMPLATES = [
    "{% if 1 +%}\n x{% endif %}", "a \0{{- 1 }}", "\t{% if 1 %}x{% endif %}", "x\n\t {% if 1 %}\ty{% endif %}", "{{ 1 -}}", "{{ 1 -}} \n ", "{{ 1 +}}",
    "{% raw %}a {%- endraw %}b", "{% raw %}a {%+ endraw %}b", "{% raw -%} a{% endraw -%} b", "a\r\nb\rc{{ 1 }}\r\n", "a\r", "\r\n{% if 1 %}\r\nx{% endif %}\r",
    "{% for a in [1] %}{% elif 1 %}{% endfor %}", "{% for a in [] %}{% else %}{% else %}{% endfor %}", "{% if 1 %}{% else %}{% elif 1 %}{% endif %}",
    "{% if 1 %}{% else %}{% else %}{% endif %}", "{% set a %}{% else %}{% endset %}", "{% if 1 %}{% endif x %}",
    "{% for a in [1, 2] %}{% with %}{% if a == 1 %}{% continue %}{% endif %}{% endwith %}{{ a }}{% endfor %}",
    "{% for a in [1, 2, 3] %}{% with b=a %}{% if b == 2 %}{% break %}{% endif %}{% endwith %}{{ a }}{% endfor %}", "{% set a, b %}", "{% set a.b %}",
    "{{ dict(a", "{{ dict(a=", "{{ dict(a\n=1)['a'] }}", "{{ dict(a =1).a }}", "{{ [1, 2][0:1:1:1] }}", "{{ {:1} }}", "{{ {'a' 1} }}", "{{ [1 2] }}", "{{ {'a': 1, } }}",
    "{{ 'a' | default('b', true) }}{{ '' | default('b', false) }}{{ 0 | default(5, 1) }}", "{{ 'a\nb' | indent(2, false) }}|{{ 'a\n\nb' | indent(0) }}|{{ '\na' | indent(3, true) }}",
    "{{ -3.5 | int }}{{ '-7' | int }}{{ 1.5 | abs }}{{ '-2.5' | int }}{{ false | int }}{{ '1e3' | int }}",
    "{{ raise_exception() }}", "{{ raise_exception(namespace()) }}", "{{ raise_exception('x' * 300) }}", "{{ raise_exception(3) }}", "{{ strftime_now() }}", "{{ range(1, 2, 3, 4) | list }}",
    "{{ range(5, 0, -2) | list }}{{ range(-2, 2) | list }}{{ range(3, 1) | list }}", "{{ '\\xAF\\x0f\\U0010FFFF\\ue000\\ud7ff\\u00Ff\\v\\a\\b\\f\\r\\0' }}",
    "{{ 1E3 }}{{ 1e+2 }}{{ 1E-2 }}{{ 1_0.5 }}{{ 12e0 }}", "{{ 1e }}", "{{ 1.x }}", "{% for a in [] if a %}x{% else %}n{% endfor %}", "{% for a in [0] if a %}x{% else %}n{% endfor %}",
    "{{ 'a'.startswith() }}", "{{ 'ab'.startswith(('a', 'b')) }}{{ 'ab'.startswith(('c', 'b')) }}{{ 'ab'.endswith(('b', 'a')) }}", "{{ 'abc'.find('') }}{{ ''.find('a') }}{{ ''.find('') }}",
    "{{ 'a,b,c'.split(',', -1) }}{{ 'a,b,c'.split(',', 0) }}{{ 'a,b,c'.split(',', 2) }}{{ 'a,b,c'.split(',', 3) }}", "{{ ' a '.strip(none) }}|", "{{ ' \u00e9 x\u20ac'.split() }}{{ '\u00e9'.split() }}{{ 'a\u3000b'.split() }}",
    "{% set n = namespace(a=1) %}{{ n['a'] }}{{ n['b'] }}", "{{ 'abc'[-5] }}|{{ [1][-2] }}|{{ [1][-1] }}", "{{ 1 + x }}", "{{ x - 1 }}", "{{ [1] + 1 }}", "{{ 'a' * 'b' }}", "{{ 'a' * 1.5 }}", "{{ 1 - [] }}", "{{ [] * [] }}", "{{ 'a' * -1 }}|{{ 'ab' * 2 }}",
    "{{ '' in 'abc' }}{{ 'abc' in 'ab' }}{{ 1 in {'a': 1} }}{{ 'a' in {} }}{{ 1 in [1, 2] }}{{ 2 in [1, 2] }}{{ 1 in x }}", "{{ 1 / -4 }}{{ -1 / 4 }}{{ 1.5 / 0.5 }}", "{{ 7 // -2 }}{{ -7 // -2 }}{{ 7 % -3 }}{{ 6 // 3 }}{{ -6 % 3 }}", "{{ 1.0 / 0.0 }}",
    "{% with a=1 %}{% set b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}{{ b }}", "{% with %}{% for a in [1] %}{% set x = 1 %}{{ x }}{% endfor %}{{ x }}{% endwith %}",
    "{% set x = 1 %}{% set x.y = 2 %}", "{% set x.y = 2 %}", "{{ 1 is sameas 2 }}{{ true is sameas true }}{{ 1 is sameas true }}", "{{ 1 is true }}{{ false is true }}{{ true is false }}{{ 0 is false }}{{ none is false }}",
    "{{ 'ab1c AbC x-y' | title }}|{{ 'A1b' | title }}|{{ 'aB cD' | capitalize }}", "{{ 'aa' | replace('a', 'b', none) }}{{ 'aa' | replace('a', 'b', 0) }}", "{{ 'a\\x1c\\x1f'.strip() }}|{{ '\\x01a '.strip() }}|",
    "{{ 1 < 'a' }}", "{{ 'a' < 1 }}", "{{ none < 1 }}", "{{ 'a' > 'B' }}{{ '' < 'a' }}{{ '' <= '' }}{{ 'b' <= 'abc' }}", "{{ 'y' if 0.0 else 'n' }}{{ 'y' if -1.5 else 'n' }}{{ 'y' if 1.5 else 'n' }}{{ 'y' if [] else 'n' }}{{ 'y' if {'a': 1} else 'n' }}{{ 'y' if '' else 'n' }}",
    "{{ 1 == 'a' }}{{ '' == '' }}{{ 'a' == '' }}{{ [[1]] == [[1, 2]] }}{{ [1, [2]] == [1, [2]] }}{{ {'a': [1]} == {'a': [2]} }}{{ none == false }}{{ 1 == 1.0 }}{{ true == 1 }}{{ [{'a': 1}] == [{'b': 1}] }}",
    "{{ ['a\\r\\n\\t\\x7f\\x01\\\\', 'q\\'\"', 'p\\''] }}{{ {'it\\'s': 1} }}", "{{ (1, 2) | tojson }}{{ (1, ) | string }}{{ [(1, ()), []] }}{{ {'a': (1, )} | tojson(indent=2) }}", "{{ '\\x08\\x0c\\x00z' | tojson }}",
    "{% set range = 1 %}{{ range(2) }}", "{% set x = 1 %}{{ x() }}", "{{ x() }}", "{% macro m() %}{% endmacro %}{% set m = 1 %}{{ m() }}", "{% macro m() %}w{% endmacro %}{% set k = m %}{{ k() }}",
    "{{ 1 is odd and 2 is even or x }}{{ 1 if 1 is odd else 2 }}{{ [1 is odd, 2] }}{{ not 1 is odd }}{{ (1 is odd) == true }}", "{{ 1 is divisibleby 1 }}{{ 3 is in [1, 3] }}{{ 4 is not in [1] }}",
    "{{ loop }}", "{{ _a }}{% set _B9z = 4 %}{{ _B9z }}{{ Z }}", "{{ `a` }}", "{{ a@b }}", "{{ (1, )[0] }}{{ ()|length }}{{ [[], {}]|length }}", "{{ 1 ~ 2 ~ x ~ none }}", "{{ -x }}", "{{ -'a' }}", "{{ +1 }}{{ - 1 }}{{ 2 - -1 }}{{ not not 1 }}",
    "{{ {'a': 1}.items() | list }}{{ {}.get('a', 2) }}{{ {'b': 2}.pop }}", "{{ [].b }}|", "{{ 'a'.b.c }}", "{{ {'a': none}['a'] }}{{ {}['a'] }}",
    "{% for a in [1, 2] %}{% if a == 1 %}{% break %}{% endif %}x{% else %}none{% endfor %}|{% for a in [1, 2] %}{% if a == 2 %}{% break %}{% endif %}x{% else %}none{% endfor %}",
    "{% for a in [1, 2] %}{% continue %}x{% else %}none{% endfor %}|{% for a in [1, 2] if a > 1 %}x{% else %}none{% endfor %}|{% for a in [1, 2] %}{% for b in [] %}{% else %}e{% endfor %}{% else %}none{% endfor %}",
    "{% for a in [1] %}{% for b in [1] %}x{% endfor %}{% break %}{% else %}none{% endfor %}", "{{ [1, [2, 'a']].1.0 }}{{ 'ab'.1 }}|{{ {'a': [7]}.a.0 }}|{{ [1].5 }}", "{{ [1].0() }}", "{{ x.0 }}", "{{ [1].'a' }}",
    "{% for a in [1] %}{{ loop.depth }}{{ loop.depth0 }}{% for b in [1] %}{{ loop.depth }}{% endfor %}{% endfor %}", "{% set x = 1 %}{% set y %}{% set x = 2 %}{{ x }}{% endset %}{{ x }}{{ y }}",
    "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% set z %}q{% endset %}{{ z }}{% endgeneration %}{{ x }}{{ z }}", "{{ [x, {'a': x}] }}|{{ x }}|{{ x ~ 1 }}", "{{ x is callable }}{{ 1 is callable }}",
]


def render(template):
    try:
        return chat_template_utils._compile_jinja_template(template).render()
    except Exception:
        return None


with open("tests/golden/chat/corners.jsonl", "w", encoding="utf-8") as out:
    for template in TEMPLATES:
        out.write(json.dumps({"template": template, "variables": {}, "text": render(template)}, ensure_ascii=False) + "\n")
