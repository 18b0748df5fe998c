# SPDX-License-Identifier: MIT
"""Chat templates as transformers renders them, and TRL's masks of what assistants say.

    python3 tools/golden/formats/chat.py

needs tokenizers 0.23, transformers 5.23, jinja2 3.1, trl 1.16 (its published templates, of which
only the outputs are written). Writes tests/golden/chat: jinja.jsonl (a template, its variables, its
text; null where it raises), named.jsonl (the same of templates by name), and a tokenizer with
conversations, their tokens and masks."""
import datetime
import glob
import json
import os
import random

import trl
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils


class Fixed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


chat_template_utils.datetime = Fixed
OUT = "tests/golden/chat"
PUBLISHED = os.path.join(os.path.dirname(trl.__file__), "chat_templates")


def render(template, variables):
    try:
        return chat_template_utils._compile_jinja_template(template).render(**variables)
    except Exception:
        return None


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


TOOLS = [{"type": "function", "function": {"name": "get", "description": "d \u00e9 \"q\"", "parameters": {
    "type": "object", "properties": {"x": {"type": "string"}, "n": {"enum": [1, 2.5, -0.0, 1e20, 1e-7, True, None]}}}}}]
CONVERSATIONS = [
    [user("Hi"), assistant("Hello")],
    [system("Sys  "), user("  Hi\n"), assistant(" H\u00e9 llo \U0001f600\n\n")],
    [user("1"), assistant("<think>\nhm\n</think>\n\nx"), user("2"), assistant("y")],
    [system(""), user(""), assistant("")],
    [user("a"), user("b")],
    [user("only")],
    [assistant("first"), user("q")],
]
# What templates are made of, one construct or corner each.
TEMPLATES = [
    "{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 % 3 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 1 / 4 }} {{ 2.50 }} {{ 1e3 if false else 10 }}",
    "{{ 'a' 'b' ~ 1 ~ none ~ true }} {{ \"x\\n\\t\\\\\\u00e9\\x41\" }} {{ 'it\\'s' }}",
    "{{ [1, 'a', none, 2.0, {'k': (1, )}] }} {{ (1, 2) }} {{ {} }} {{ [] }} {{ \"it's\" | list }}",
    "{% for a in [1, 2, 3] %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.previtem }},{% else %}none{% endfor %}",
    "{% for a in [] %}x{% else %}none{% endfor %}|{% for a in x %}x{% else %}none{% endfor %}",
    "{% for a in range(5) if a % 2 == 0 %}{{ a }}/{{ loop.length }} {% endfor %}{{ range(3, 0, -1) | list }}",
    "{% for k, v in {'a': 1, 'b': [2]}.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for a in range(9) %}{% if a == 2 %}{% continue %}{% endif %}{% if a == 5 %}{% break %}{% endif %}{{ a }}{% endfor %}",
    "{% set x = 1 %}{% for a in [1, 2] %}{% set x = a + 5 %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(n=0, s='') %}{% for a in 'xyz' %}{% set ns.n = ns.n + 1 %}{% set ns.s = ns.s + a %}{% endfor %}{{ ns.n }}{{ ns.s }}",
    "{% set a, b = 1, 'z' %}{{ a }}{{ b }}{% set c %} cap {{ a }} {% endset %}[{{ c }}]{{ c | length }}",
    "{% macro m(a, b='d', c=a) %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ m(1) }}{{ m(2, c='q') }}{{ m(b='y', a='x') | upper }}",
    "{% macro even(n) %}{{ 'e' if n == 0 else odd(n - 1) }}{% endmacro %}{% macro odd(n) %}{{ 'o' if n == 0 else even(n - 1) }}{% endmacro %}{{ even(6) }}{{ even(5) }}",
    "{{ 'a' if x is defined else 'b' }}{{ 'c' if not x }}{{ ('d' if false) }}|{{ x }}|{{ 1 if 0 else 2 if 0 else 3 }}",
    "{{ x is defined and x.y }}{{ x is undefined or x.y }}{{ not none }}{{ '' or 'z' }}{{ 'a' and 'b' }}{{ 0 or [] }}",
    "{{ x.y }}", "{{ x + 1 }}", "{{ none.y }}|{{ 'a'.b }}|{{ {'a': 1}.b }}|{{ [1][5] }}|{{ {'a': 1}['a'] }}", "{{ 'a' + 1 }}", "{{ raise_exception('no') }}",
    "{{ 'abcdef'[1:3] }}{{ 'abc'[-1] }}{{ 'abc'[:-1] }}{{ [1, 2, 3][::-1] }}{{ [1, 2, 3][1:] }}{{ [1, 2, 3][:-5] }}{{ '\u00e9\U0001f600z'[1:] }}{{ [1, 2, 3][2:0:-1] }}",
    "{{ ' a b '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'aXbXc'.split('X') }}|{{ ' a  b '.split() }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'a'.split('a') }}|{{ ''.split(',') }}",
    "{{ '\\n x\\n'.lstrip('\\n') }}|{{ '\u3000x\\u00a0 '.strip() }}|{{ 'x\\n\\n'.rstrip() }}|{{ 'abab'.replace('a', 'X') }}|{{ 'aaa'.replace('a', '', 2) }}",
    "{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'b' in 'abc' }}{{ 4 not in [1, 2] }}{{ 'k' in {'k': 1} }}{{ 'abc'.find('c') }}",
    "{{ 'hello World'.upper() }}{{ 'HI'.lower() }}{{ 'hello World'.capitalize() }}{{ 'hello world-x'.title() }}{{ ','.join(['a', 'b']) }}",
    "{{ x | default('d') }}{{ '' | default('e') }}{{ '' | default('f', true) }}{{ [1, 2] | join('-') }}{{ [{'a': 1}, {'a': 2}] | join(',', attribute='a') }}",
    "{{ [3, 1, 3] | unique | list }}{{ [1, 2] | first }}{{ [1, 2] | last }}{{ [1, 2, 3] | length }}{{ 'h\u00e9' | length }}{{ '5' | int + 1 }}{{ 'z' | int }}{{ 3 | float }}{{ -4 | abs }}",
    "{{ [{'r': 'a', 'n': 1}, {'r': 'b'}] | selectattr('r', 'equalto', 'a') | list }}{{ [{'n': 1}, {'n': 0}] | rejectattr('n') | list }}{{ [0, 1, 2] | select | list }}{{ [0, 1, 2] | reject('odd') | list }}",
    "{{ [{'r': 'a'}, {'r': 'b'}] | map(attribute='r') | list }}{{ [' a ', 'b'] | map('trim') | join('+') }}{{ {'b': 1, 'a': 2} | dictsort }}",
    "{{ 'a\\nb\\n\\nc' | indent(2) }}{{ 'x' | string }}{{ [1, 2] | string }}{{ none | string }}{{ [1, 2] | reverse | list }}",
    "{{ {'a': [1, 2.5, 'x\\n\"\u00e9<', none, true], 'b': {}} | tojson }}{{ {'a': [1, {'b': []}], 'c': 'd'} | tojson(indent=2) }}",
    "{{ 3 is odd }}{{ 4 is even }}{{ 9 is divisibleby 3 }}{{ 'a' is string }}{{ 1 is number }}{{ {} is mapping }}{{ [] is iterable }}{{ 'a' is sequence }}{{ none is none }}{{ true is true }}{{ 1 is boolean }}{{ 2 is not string }}",
    "{{ 1 is integer and 1.0 is float }}{{ 'a' is in ['a'] }}{{ 'a' is eq 'a' }}{{ x is not defined }}{{ 1 < 2 }}{{ 'a' >= 'b' }}{{ [1] == [1] }}{{ {'a': 1} == {'a': 1.0} }}{{ 1 != true }}",
    "a\n  {% if true %}\n    b\n  {% endif %}\nc\n", "a  {%- if true -%}  b  {%- endif %}\n\n c", "  {%+ if true %} x{% endif +%}\ny", "{# c #}\n  {#- d -#}  e\n{{ 1 }}\nf\n\n",
    "{% raw %}{{ not }} {% this %}{% endraw %}z", "{% with a=1, b=2 %}{{ a + b }}{% endwith %}{{ a }}", "{{ strftime_now('%d %b %Y %A %B %m %y %H:%M:%S %-d') }}", "{{ '-' * 5 }}{{ [1] + [2] }}",
    "{{ messages[0]['role'] }}{{ messages[-1].content }}{{ messages | length }}{{ tools is none }}{{ add_generation_prompt }}",
    "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}", "{% if a.b is defined %}1{% elif true %}2{% else %}3{% endif %}", "{{ a[0] }}",
    "{% for m in messages %}{{ m.role }}{% if not loop.last %}{{ loop.nextitem.role }}{% endif %}{% endfor %}", "{{ {'a': {'b': 1}}.a.b }}{{ {'x y': 2}['x y'] }}{{ ({'get': 3}).get('get') }}{{ {'a': 1}.get('z', 9) }}",
    "{{ 1 if 0 if 1 else 7 }}|{{ 1 if 1 if 1 else 7 }}|{{ 1 if 0 else 2 if 0 else 3 }}|{{ (1 if 1) if 0 else 'n' }}|{{ 1e3 }}{{ 1_000 }}",
    "{{ 'abc'.removeprefix('a') }}{{ 'abc'.removeprefix('x') }}{{ 'abc'.removesuffix('c') }}{{ 'abc'.removesuffix('z') }}{{ 'abc'.find('z') }}{{ '\u00e9a'.find('a') }}{{ ' a '.lstrip() }}|{{ 'xay'.strip('xy') }}|{{ 'a b'.split(none) }}{{ '   '.split() }}",
    "{{ {'a': 1, 'b': 2}.keys() | list }}{{ {'a': 1, 'b': 2}.values() | list }}{{ {'a': 1}.get('a') }}{{ {'a': 1}.get('b') }}{{ '-'.join('abc') }}{{ 'a'.startswith(('b', 'a')) }}{{ 'abc'.endswith('z') }}{{ ''.startswith('') }}",
    "{{ 'x' | safe }}{{ 5 | trim }}{{ 'xxa' | trim('x') }}{{ [1, 'b'] | join }}{{ {'a': 1} | join(',') }}{{ none | default('n') }}{{ {} | items | list }}{{ x | items | list }}{{ 'abc' | reverse | list }}{{ x | length }}{{ {'a': 1} | length }}{{ {'a': 1} | list }}",
    "{{ 2.7 | int }}{{ true | int }}{{ '2.5' | int }}{{ '3' | float }}{{ 'q' | float }}{{ 2.5 | abs }}{{ -2.5 | abs }}{{ [] | first is undefined }}{{ '\u00e9' | length }}{{ 'a' | upper | lower | title }}{{ 'ab' | replace('a', 'b') }}{{ 'aa' | replace('a', 'b', 1) }}",
    "{{ [{'a': {'b': 1}}, {'a': {'b': 2}}] | map(attribute='a.b') | list }}{{ [{}, {'a': 1}] | map(attribute='a', default=9) | list }}{{ [1, 2, 3] | select('gt', 1) | list }}{{ [1, 2] | reject('eq', 1) | list }}{{ [{'a': 1}, {'a': 0}] | selectattr('a') | list }}{{ [{'a': 1}] | rejectattr('a', 'in', [1]) | list }}",
    "{{ 'a\nb' | indent(1, true) }}{{ 'a\nb' | indent }}{{ {'k': [(1,), 'it\\'s \"q\"', 'tab\t\x07']} }}{{ 'a\x01\x7f\\' | tojson }}{{ [] | tojson(indent=2) }}{{ {'a': []} | tojson(indent=1) }}{{ 1e16 }} {{ 1.5e-5 }} {{ 123456.789 }} {{ -0.5 }}",
    "{{ 1.5 + 1 }}{{ 2.5 - 1 }}{{ 1.5 * 2 }}{{ 3 / 2 }}{{ true + 1 }}{{ 'a' < 'ab' }}{{ 2 > 1.5 }}{{ 'b' > 'a' }}{{ 1 <= 1 }}{{ [1, [2, {'a': 3}]] == [1, [2, {'a': 3}]] }}{{ [1, [2]] == [1, [3]] }}{{ {'a': 1} == {'b': 1} }}{{ none == none }}{{ 'a' == 1 }}{{ 'a' not in 'b' }}{{ 'x' in x }}",
    "{{ 'abc'[5] }}{{ 'abc'[-2:] }}{{ 'abc'[2:1] }}{{ [1, 2, 3][-2:] }}{{ [1, 2][0:9] }}{{ [1, 2, 3][::-1][0] }}{{ [][::-1] }}{{ 'ab' * 0 }}|{{ (1, 2)[0] }}{{ {'a': 1}[1] }}{{ 5[0] }}",
    "{{ range(2, 8, 3) | list }}{{ range(0) | list }}{{ dict(a=1, b='x') }}{{ dict({'a': 1}, c=2) }}{% set n = namespace({'q': 1}, r=2) %}{{ n.q }}{{ n.r }}{{ n.z }}{{ strftime_now('%a %b %-m %%') }}{{ range is defined }}{{ nothing is defined }}",
    "{{ 1 is odd }}{{ 1 is even }}{{ 5 is ge 5 }}{{ 5 is le 4 }}{{ 5 is lt 6 }}{{ 5 is ne 5 }}{{ 1 is sameas 1 }}{{ x is none }}{{ none is defined }}{{ false is false }}{{ 1.5 is float }}{{ 'a' is number }}{{ [] is mapping }}{{ 3 is iterable }}{{ range is callable }}{{ 4 is divisibleby(2) }}{{ 5 is not divisibleby(2) }}",
    "{% for a in {'x': 1} %}{{ a }}{% endfor %}{% for a in 'ab' %}{{ a }}{{ loop.revindex0 }}{% endfor %}{% for a, b in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}{% for (a, b) in [[1, 2]] %}{{ b }}{% endfor %}{% for a in [1, 2] %}{% for b in [3] %}{{ a }}{{ b }}{{ loop.index }}{% endfor %}{{ loop.index0 }}{% else %}z{% endfor %}",
]
NAMED = {"llama3": "llama3", "qwen2.5": "qwen2_5", "gemma": "gemma", "gemma3": "gemma3", "phi3": "phi3", "llama3.1": "llama3_1", "chatml": "qwen3_instruct_2507"}


def write_lines(name, rows):
    with open(os.path.join(OUT, name), "w") as to:
        for row in rows:
            to.write(json.dumps(row, ensure_ascii=False) + "\n")


def make_templates():
    variables = {"messages": CONVERSATIONS[1], "tools": None, "add_generation_prompt": False, "bos_token": "<s>", "eos_token": "</s>"}
    rows = [{"template": t, "variables": variables, "text": render(t, variables)} for t in TEMPLATES]
    write_lines("jinja.jsonl", rows)
    rows = []
    for name, file in NAMED.items():
        template = open(os.path.join(PUBLISHED, file + ".jinja")).read()
        for messages in CONVERSATIONS:
            for opens in (False, True):
                variables = {"messages": messages, "tools": None, "add_generation_prompt": opens, "bos_token": "<s>", "eos_token": "</s>"}
                rows.append({"named": name, "variables": variables, "text": render(template, variables)})
    write_lines("named.jsonl", rows)
    return len(TEMPLATES), len(rows)


def make_tokenizer():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    text = [c for m in CONVERSATIONS for c in (x["content"] for x in m)] + ["the quick brown fox jumps over the lazy dog. The end of the turn, the answer"] * 4
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in ("<|im_start|>", "<|im_end|>", "<|eot_id|>", "<s>", "<end_of_turn>")])
    t.add_special_tokens([AddedToken("<|end|>", special=True, normalized=False, rstrip=True)])
    tok = PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", bos_token="<s>")
    tok.save_pretrained(OUT)
    for extra in glob.glob(os.path.join(OUT, "*.jinja")):
        os.remove(extra)
    return tok


def make_masks():
    tok = make_tokenizer()
    random.seed(7)
    words = ["the quick", " fox", "\n", "  ", "answer. ", "\u00e9 ", "\U0001f600", "The end\n\n", "", "it's 42", "\t"]

    def say():
        return "".join(random.choice(words) for _ in range(random.randint(0, 6)))
    rows = []
    for i in range(24):
        turns = [system(say())] if i % 3 == 0 else []
        for _ in range(random.randint(1, 3)):
            turns += [user(say()), assistant(say())]
        rows.append({"messages": turns})
    write_lines("rows.jsonl", rows)
    out = []
    for name in ("llama3", "qwen3_instruct_2507", "gemma3", "phi3"):
        template = open(os.path.join(PUBLISHED, name + "_training.jinja")).read()
        own = {"qwen3_instruct_2507": "chatml"}.get(name, name)
        for i, row in enumerate(rows):
            e = tok.apply_chat_template(row["messages"], chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
            out.append(f"{own} {i} " + " ".join(str(2 * a + b) for a, b in zip(e["input_ids"], e["assistant_masks"])))
    with open(os.path.join(OUT, "masks.txt"), "w") as to:
        to.write("\n".join(out) + "\n")
    return len(out)


os.makedirs(OUT, exist_ok=True)
print(make_templates(), make_masks())
