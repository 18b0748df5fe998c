#!/bin/bash
# SPDX-License-Identifier: MIT
# One grammar of records: variants of records of many kinds of run, each with a chain that holds, and for each the
# answer that docs/record.md asks for, which `bedplate verify` and tools/record_check.py both give.
. "$(dirname "$0")/../lib.sh"

# Runs of many kinds, shortly.
awk 'BEGIN { for (i = 0; i < 200; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
for ((i = 0; i < 12; i++)); do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"say $i\"}, {\"role\": \"assistant\", \"content\": \"it is $i\"}]}" >>"$work/chat.jsonl"
    echo "{\"prompt\": \"q$i: \", \"answer\": $i}" >>"$work/prompts.jsonl"
    echo "{\"prompt\": \"q$i: \", \"chosen\": \"good\", \"rejected\": \"bad\"}" >>"$work/pairs.jsonl"
done
echo '{% for m in messages %}{{ m.role[0] + ":" + m.content + ";" }}{% endfor %}' >"$work/short"
python3 - "$work/spikes" <<'P'
import random, sys
random.seed(5)
text = b"all the same over and over again\n" * 200
for at in (3000, 5000):
    text = text[:at] + bytes(random.randrange(128, 256) for _ in range(200)) + text[at + 200:]
open(sys.argv[1], "wb").write(text)
P
# begins NAME OPTIONS: a run whose record is one of those that are changed.
begins() {
    local name=$1
    shift
    expect 0 '' train --max-seq-length 32 --per-device-train-batch-size 2 --max-steps 3 --save-steps 2 --threads 1 --quiet "$@" \
        --output-dir "$work/runs/$name"
}
text=(--model tiny --data "$work/text")
mkdir "$work/runs"
begins resumed "${text[@]}" --validation-split 0.1 --eval-steps 2 --replay-every 1 --stop-at-step 1
begins resumed "${text[@]}" --validation-split 0.1 --eval-steps 2 --replay-every 1 --resume
begins ranks "${text[@]}" --gradient-accumulation-steps 2 --virtual-ranks 2 --fabric threads:2
begins chat --model tiny --data "$work/chat.jsonl" --chat-template "$work/short"
expect 0 '' distill --model "$work/runs/resumed" --data "$work/text" --max-seq-length 32 --distill-top-k 4 --output "$work/said"
begins distill "${text[@]}" --distill "$work/said"
begins preference --model tiny --data "$work/pairs.jsonl" --task dpo
begins rewards --model tiny --data "$work/prompts.jsonl" --task grpo --reward contains:a --num-generations 2 --max-completion-length 4
begins images --model tests/golden/vit --data tests/golden/vit/images.csv --max-seq-length 192
begins adapters --model "$work/runs/resumed" --data "$work/text" --lora-r 2
begins rolled --model tiny --data "$work/spikes" --data-format bytes --max-steps 160 --save-steps 40 --logging-steps 1000 \
    --learning-rate 3e-3 --lr-scheduler-type constant --on-spike rollback --spike-budget 15
begins late "${text[@]}" --stop-at-step 2
rm "$work/runs/late/record.jsonl"
begins late "${text[@]}" --resume
# A checkpoint that says nothing of these records: verify asks for one.
begins witness "${text[@]}" --max-steps 200 --save-steps 200

# verifies record-3.52dc record-16.1d6e
python3 - "$program" "$work" <<'P'
import copy, hashlib, json, os, re, shutil, struct, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
sys.dont_write_bytecode = True
sys.path.insert(0, "tools")
import record_check

program, work = sys.argv[1:]
page = open("docs/record.md", encoding="utf-8").read()
block = re.search(r"```record\n(.*?)```", page, re.S).group(1)
RULES = {kind: [rule.split() for rule in rest.replace("\n", " ").split(",")]
         for kind, rest in re.findall(r"^(\w+): (.*?)(?=^\w|\Z)", block, re.S | re.M)}
OLD = {"norm": "grad_norm", "rate": "lr"}
OUTCOMES = re.search(r"Outcomes are (.*?)\. ", page, re.S).group(1)
OUTCOMES = re.findall(r"`([a-z-]+)`", re.sub(r"\(.*?\)", "", OUTCOMES))

# Values that a type takes, and those that it does not.
HEX = "0123456789abcdef"
NUMBERS = ["-1", "01", "1.0", "1e0", "18446744073709551616", '"1"', "true", "null", "[]", "+1", ""]
TEXTS = ["1", "null", "[]", r'"\/"', r'"\u0041"', r'"\u000a"', r'"\u001F"', r'"\ud800"', r'"\u0000"', '"\0"', '"\t"', '"a', "'a'"]
NAMES = [(r'"\u0001\"\\é"', 0), ('"' + "é" * 127 + 'a"', 0), ('"' + "é" * 128 + '"', 4), ('""', 4), ('"a\0"', 4)]
ITEM = '[{"name":%s,"bytes":%s,"sha256":%s}]'
HEX64 = f'"{HEX * 4}"'
FILES = [ITEM % (name, "1", HEX64) for name, right in NAMES if right] + [
    ITEM % ('"a"', bytes_, HEX64) for bytes_ in NUMBERS] + [
    ITEM % ('"a"', "1", digest) for digest in (HEX64.upper(), '""', "1", f'"{HEX}"')] + [
    "[{}]", "{}", "null", "[[]]", "[1]", '[{"name":"a","bytes":1}]', '[{"bytes":1,"name":"a","sha256":%s}]' % HEX64,
    '[{"name":"a","name":"a","bytes":1,"sha256":%s}]' % HEX64, "[,]", (ITEM % ('"a"', "1", HEX64))[:-1] + ",]"]
WRONG = {
    "format": NUMBERS + ["0", "3"], "count": NUMBERS, "text": TEXTS, "outcome": TEXTS + ['"Applied"', '""'],
    "hex16": ["1", "null", '""', f'"{HEX}0"', f'"{HEX[1:]}"', f'"{HEX.upper()}"', f'"{HEX[1:]}g"', f'"0x{HEX[2:]}"'],
    "hex64": ["1", f'"{HEX}"', HEX64.upper(), HEX64[:-2] + 'g"'],
    "texts": ["[]", "null", '{"a":1}', '{"a":"1","a":"2"}', '{"":"1"}', '{"a":"1",}', '{"a": "1"}', '{"a":{}}'] +
             ['{"a":%s}' % text for text in TEXTS],
    "files": FILES, "exports": FILES + ["[%s]" % (ITEM % (name, "1", HEX64))[1:-1] for name in ('"a/b"', '".."', '"."')] +
             [ITEM % ('"a"', "1", "null")],
    "real": ["01", "1.0", '"1"', "NaN", "1e999", "1E5", "", "true"],
}
RIGHT = {
    "text": ['""', r'"\u0001\u001f\b\f\n\r\t\"\\é/'"\x7f\U0001F600" '"'],
    "outcome": [f'"{word}"' for word in OUTCOMES if word != "rolled-back"],
    "texts": ["{}", '{"b":"1","a":"1"}', "{%s}" % ",".join('"k%d":""' % i for i in range(3000))],
    "files": ["[]", ITEM % ('"a/b"', "0", "null")] + [ITEM % (name, "18446744073709551615", HEX64) for name, no in NAMES if not no],
    "exports": ["[]"] + [ITEM % (name, "18446744073709551615", HEX64) for name, no in NAMES if not no],
    "hex64": [HEX64],
}
FREE = ("first", "samples", "valid", "targets", "windows", "steps_per_epoch", "total_steps", "seed", "data_seed")


def members(line):
    """A line's members as they are written, without its chain."""
    found, at, decode = [], 1, json.JSONDecoder().raw_decode
    while line[at - 1] != "}":
        key, at = decode(line, at)
        _, end = decode(line, at + 1)
        found.append([key, line[at + 1:end]])
        at = end + 1
    return found[:-1]


def text_of(line):
    return line if isinstance(line, str) else "{" + ",".join(f'"{key}":{value}' for key, value in line)


def written(lines):
    chain, out = bytes(32), b""
    for line in lines:
        body = text_of(line).encode("utf-8", "surrogatepass")
        chain = hashlib.sha256(chain + body).digest()
        out += body + b',"chain":"' + chain.hex().encode() + b'"}\n'
    return out


def ordered(lines):
    """Whether lines that are right each may follow each other so."""
    last = start = rolls = verified = None
    seen, states, old, ended = set(), {}, False, False
    for at, line in enumerate(lines):
        kind, get = line[0][0], {key: json.loads(value) for key, value in line}
        number = get[kind]
        if (at == 0) != (kind == "run") or ended or bool(rolls) != (kind == "roll"):
            return False
        rolls = False
        if kind == "run":
            last, old, start = get["from"], number == 1, get["from"]
            number = last
        elif kind == "step":
            names = "norm" in get
            if number != last + 1 or names and not old:
                return False
            last, old, seen, rolls = number, names, set(), get["outcome"] == "rolled-back"
        elif number != last or kind in seen:
            return False
        seen.add(kind) if kind not in ("run", "step") else None
        if kind == "roll" and (get["from"] != number or not 0 <= get["to"] < number or get["batches"] != number - get["to"] or
                               get["to"] >= start and states.get(get["to"]) != get["state_digest"]):
            return False
        if kind in ("run", "state", "end") and states.setdefault(number, get["state_digest"]) != get["state_digest"]:
            return False
        if "verified" in get and not (verified or 0) <= get["verified"] <= number:
            return False
        verified, ended = get.get("verified", verified), kind == "end"
    return bool(lines)


def rule_of(kind, key):
    for name, type_, *may in RULES[kind]:
        if OLD.get(key, key) == name or type_ == "real" and OLD.get(key[:-5], key[:-5]) + "_bits" == name + "_bits":
            return type_, bool(may)
    raise SystemExit(f"docs/record.md has no member {key} of {kind}")


def reals(value):
    bits = struct.pack(">d", value).hex()
    return "%.9g" % value if value - value == 0 else "null", f'"{bits}"'


def of_members(lines, at, values):
    """Variants of a line, each with the answer that is right."""
    kind = lines[at][0][0]

    def told(name, right, change):
        line = copy.deepcopy(lines[at])
        line = change(line) or line
        yield f"{kind}.{name}", lines[:at] + [line] + lines[at + 1:], right

    for i, (key, value) in enumerate(lines[at]):
        type_, may = rule_of(kind, key)
        yield from told(f"{key} is gone", not (may and i), lambda line: line.pop(i) and None)
        yield from told(f"{key} stands twice", 1, lambda line: line.insert(i, line[i]))
        yield from told(f"another behind {key}", 1, lambda line: line.insert(i + 1, ["x", "1"]))
        yield from told(f"{key} has another name", 1, lambda line: line.__setitem__(i, [key + "x", value]))
        if i + 1 < len(lines[at]):
            yield from told(f"{key} comes later", 1, lambda line: line.insert(i + 1, line.pop(i)))
        if not values:
            continue
        yield from told(f"{key} and a blank", 1, lambda line: line.__setitem__(i, [key, " " + value]))
        yield from told(f"{key} by a number", 1, lambda line: line.__setitem__(i, ["\\u%04x" % ord(key[0]) + key[1:], value]))
        bits = type_ == "real" and key.endswith("_bits")
        for wrong in WRONG["hex16" if bits else type_]:
            yield from told(f"{key} {wrong[:40]!r}", 1, lambda line: line.__setitem__(i, [key, wrong]))
        for right in RIGHT.get(type_, []):
            yield from told(f"{key} {right[:40]!r}", 0, lambda line: line.__setitem__(i, [key, right]))
        for right in ("0", "18446744073709551615") if key in FREE else ():
            yield from told(f"{key} {right}", 0, lambda line: line.__setitem__(i, [key, right]))
        for real in (-0.0, 5e-324, 1e300, 1 / 3, 1e9, 123456789.5, float("nan"), -float("inf")) if type_ == "real" and not bits else ():
            decimal, binary = reals(real)
            yield from told(f"{key} {decimal}", 0, lambda line: line.__setitem__(slice(i, i + 2), [[key, decimal], [key + "_bits", binary]]))
            yield from told(f"{key} {decimal} of others", 1, lambda line: line.__setitem__(i, [key, decimal])) if decimal != value else ()


def of_lines(lines):
    """Other orders, and numbers that must agree with each other's."""
    for i in range(len(lines)):
        yield f"line {i + 1} is gone", lines[:i] + lines[i + 1:]
        yield f"line {i + 1} stands twice", lines[:i + 1] + lines[i:]
        yield f"ends with line {i + 1}", lines[:i + 1]
        yield f"lines {i + 1} and the next change places", lines[:i] + lines[i + 1:i + 2] + [lines[i]] + lines[i + 2:]
        for j, (key, value) in enumerate(lines[i]):
            kind = lines[i][0][0]
            type_ = rule_of(kind, key)[0]
            if type_ in ("count", "format") and key not in FREE and value.isdigit():
                for other in {int(value) + 1, max(int(value) - 1, 0), 0 if type_ == "count" else 1, 2} - {int(value)}:
                    if type_ != "format" or other < 3:
                        yield f"line {i + 1}: {key} {other}", lines[:i] + [lines[i][:j] + [[key, str(other)]] + lines[i][j + 1:]] + lines[i + 1:]
            if key == "state_digest":
                yield f"line {i + 1}: another state", lines[:i] + [lines[i][:j] + [[key, f'"{HEX}"']] + lines[i][j + 1:]] + lines[i + 1:]
            if key == "outcome":
                for word in ('"rolled-back"', '"applied"'):
                    yield f"line {i + 1}: {word}", lines[:i] + [lines[i][:j] + [[key, word]] + lines[i][j + 1:]] + lines[i + 1:]
        if lines[i][0][0] == "step":
            turn = {**OLD, **{new: old for old, new in OLD.items()}}
            turn.update({f"{key}_bits": f"{value}_bits" for key, value in turn.items()})
            yield f"line {i + 1}: the other names", lines[:i] + [[[turn.get(key, key), value] for key, value in lines[i]]] + lines[i + 1:]


def of_bytes(lines):
    whole, ended = written(lines), lines[-1][0][0] == "end"
    yield "as it is", whole, 0
    for torn in (b"{", b"\0", whole[-50:-1], b" "):
        yield f"torn {torn[:9]!r}", whole + torn, ended
    for more in (b"\n", b" \n", b"{}\n", b"\0\n"):
        yield f"another line {more!r}", whole + more, 1
    for name, change in {"blank": lambda body: body + " ", "mark": lambda body: "\ufeff" + body, "deep": lambda body: body + "," + "[" * 5000,
                         "NUL": lambda body: body + "\0", "list": lambda body: "[" + body[1:], "nothing": lambda body: "",
                         "long": lambda body: '{"run":2' + " " * (1 << 20)}.items():
        for at in (0, len(lines) - 1):
            yield f"line {at + 1}: {name}", written(lines[:at] + [change(text_of(lines[at]))] + lines[at + 1:]), 1
    yield "carriage returns", whole.replace(b"\n", b"\r\n"), 1
    yield "nothing", b"", 1
    yield "part of a line", whole[:99], 1
    many = [["options", "{%s}" % ",".join(f'"k{i}":"{"x" * 30}"' for i in range(30000))]]
    longest = lines[0][:2] + [one if one[0] != "options" else many[0] for one in lines[0][2:]]
    yield "a line that is too long", written([longest] + lines[1:]), 1


seen = set()


def variants():
    roots = [os.path.join(top, name) for top in (os.path.join(work, "runs"), "tests/golden/old") for name in sorted(os.listdir(top))]
    for root in roots:
        path = os.path.join(root, "record.jsonl")
        if not os.path.exists(path) or root.endswith("witness"):
            continue
        lines = [members(line) for line in open(path, encoding="utf-8", newline="\n").read().splitlines()]
        name = os.path.basename(root)
        if len(lines) > 40:  # steps between that say nothing new
            keep = [i for i, line in enumerate(lines) if line[0][0] != "step"]
            lines = lines[:keep[3] + 1]
        assert ordered(lines), name
        first = {}
        for i, line in enumerate(lines):
            first.setdefault(line[0][0] + ("norm" if any(key == "norm" for key, _ in line) else ""), i)
        for kind, at in first.items():
            for what, changed, wrong in of_members(lines, at, kind not in seen):
                yield f"{name}: {what}", written(changed), 4 * wrong
            seen.add(kind)
        tail = lines if len(lines) < 40 else lines[-6:]
        for what, changed in of_lines(lines) if len(lines) < 40 else of_lines(lines[:1] + tail):
            yield f"{name}: {what}", written(changed), 0 if ordered(changed) else 4
        for what, data, wrong in of_bytes(lines):
            yield f"{name}: {what}", data, 4 * wrong


def theirs(path):
    try:
        return 0 if record_check.Record(path).lines else 4
    except record_check.Wrong:
        return 4


def silence(path):
    """The checkpoint says nothing of a record any more."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, rest = json.loads(file.read(size)), file.read()
    keys = header["__metadata__"]
    keys["key.run.record"] = "-"
    told = sum(int(record_check.xxh64(f"{key}\0{value}".encode()), 16) for key, value in keys.items()
               if not key.startswith("xxh64.") and key not in ("state_digest", "metadata_digest"))
    keys["metadata_digest"] = f"{told & (1 << 64) - 1:016x}"
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + rest)


def answers(lane, share):
    directory, count, differ = os.path.join(work, f"lane{lane}"), 0, []
    path = os.path.join(directory, "record.jsonl")
    shutil.copytree(os.path.join(work, "runs/witness/checkpoint-200"), os.path.join(directory, "checkpoint-200"))
    silence(os.path.join(directory, "checkpoint-200/state.safetensors"))
    for name, data, right in share:
        with open(path, "wb") as file:
            file.write(data)
        ran = subprocess.run([program, "verify", directory], capture_output=True)
        found = ran.returncode, theirs(path)
        count += 1
        if found != (right, right):
            differ.append(f"{name}: verify {found[0]}, record_check.py {found[1]}, docs/record.md {right} {ran.stderr.decode()}")
    return count, differ


every = list(variants())
step = 1 if os.environ.get("BP_TEST_LONG") else 3 if os.environ.get("BP_TEST_WHOLE") else 7
tried = every[::step]  # all of them by make nightly
with ThreadPoolExecutor(2) as pool:
    found = list(pool.map(answers, (0, 1), (tried[::2], tried[1::2])))
differ = found[0][1] + found[1][1]
print(f"{len(tried)} of {len(every)} variants, {sum(1 for one in tried if one[2] == 0)} of them right; {len(differ)} get other answers")
print("\n".join(differ[:60]))
with open(os.path.join(work, "extra"), "wb") as file:
    file.write(next(data for name, data, _ in every if name == "resumed: step.another behind scale_bits"))
sys.exit(bool(differ) or seen < {*RULES, "stepnorm"})
P
check $? "both readers give the page's answer"

# What else reads a record asks the same grammar.
expect 0 'steps? *3' watch "$work/runs/resumed" --once
cp "$work/extra" "$work/runs/resumed/record.jsonl"
expect 4 'record.jsonl: outcome: the line is none of a record .docs.record.md.; line: found 2' replay "$work/runs/resumed"
expect 4 'outcome: the line is none of a record' replay --compare "$work/runs/resumed" "$work/runs/resumed"
expect 4 'outcome: the line is none of a record' export --model "$work/runs/resumed" --card "$work/card.json"
expect 4 'outcome: the line is none of a record' train --max-seq-length 32 --per-device-train-batch-size 2 --max-steps 3 --save-steps 2 \
    --threads 1 --quiet "${text[@]}" --validation-split 0.1 --eval-steps 2 --replay-every 1 --resume --output-dir "$work/runs/resumed"
expect 0 '' watch "$work/runs/resumed" --once
finish
