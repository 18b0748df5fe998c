#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the record of a training run with nothing but Python's standard library: a second reader of
docs/record.md that shares no code with `bedplate verify`.

    record_check.py OUTPUT|RECORD.jsonl [--statement]

prints what the record says and ends with 0, or says which line is wrong and ends with 4. With
--statement it prints an in-toto statement with a SLSA provenance of the exported weights instead."""
import array
import hashlib
import json
import math
import os
import re
import struct
import sys

MARK = b',"chain":"'
LONGEST = 1 << 20  # bytes of a line with its newline
MOST = (1 << 64) - 1
OUTCOMES = ("applied", "empty", "nonfinite", "skipped-overflow", "skipped-anomaly", "rolled-back", "clipped")
# The members of each kind of line, in their order: MEMBER TYPE, with "may" for one that not every line has.
LINES = {
    "run": """run format, from count, preset text may, options texts, config texts, model files, tokenizer files,
        adapter files, data files, eval_data files, tokens text, windows count, steps_per_epoch count,
        total_steps count, seed count, data_seed count, state_digest hex16, program text, version text,
        source hex64, plan hex16 may""",
    "step": """step count, first count, samples count, batch hex64, valid count, loss real, grad_norm real, lr real,
        scale real, outcome outcome""",
    "eval": "eval count, loss real, targets count, metric text, value real",
    "state": "state count, state_digest hex16, verified count may",
    "roll": "roll count, from count, to count, batches count, state_digest hex16",
    "rollout": "rollout count, prompts text, tokens text, ended text, ids text, batch hex64, rewards text, advantages text",
    "end": "end count, state_digest hex16, files exports",
}
LINES = {kind: [rule.split() for rule in rules.split(",")] for kind, rules in LINES.items()}
# Steps in records of programs before 0.2.
OLD_STEP = [[{"grad_norm": "norm", "lr": "rate"}.get(rule[0], rule[0]), *rule[1:]] for rule in LINES["step"]]


class Wrong(Exception):
    pass


def unique(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a key stands twice")
    return dict(pairs)


def text(value):
    if not isinstance(value, str) or "\0" in value:
        raise Wrong(f"a text was expected, not {value!r}")
    return json.dumps(value, ensure_ascii=False)


def texts(value):
    if not isinstance(value, dict) or "" in value:
        raise Wrong(f"an object of texts was expected, not {value!r}")
    return "{" + ",".join(f"{text(key)}:{text(one)}" for key, one in value.items()) + "}"


def count(value, least=0, most=MOST):
    if type(value) is not int or not least <= value <= most:
        raise Wrong(f"a number from {least} to {most} was expected, not {value!r}")
    return str(value)


def digits(value, number):
    if not (isinstance(value, str) and re.fullmatch(f"[0-9a-f]{{{number}}}", value)):
        raise Wrong(f"{number} hexadecimal digits were expected, not {value!r}")
    return f'"{value}"'


def files(value, exported):
    if not isinstance(value, list):
        raise Wrong(f"a list of files was expected, not {value!r}")
    items = []
    for item in value:
        name, digest = item["name"], item["sha256"]
        quoted = text(name)
        if not 0 < len(name.encode()) < 256 or (exported and ("/" in name or name in (".", ".."))):
            raise Wrong(f"a file of that name: {name!r}")
        told = "null" if digest is None and not exported else digits(digest, 64)
        items.append(f'{{"name":{quoted},"bytes":{count(item["bytes"])},"sha256":{told}}}')
    return "[" + ",".join(items) + "]"


def outcome(value):
    if value not in OUTCOMES:
        raise Wrong(f"an outcome that is not known: {value!r}")
    return text(value)


def real(line, key):
    """The decimal of the IEEE bits, and the bits."""
    bits = digits(line[key + "_bits"], 16)
    value = struct.unpack(">d", bytes.fromhex(line[key + "_bits"]))[0]
    told = "%.9g" % value if value - value == 0 else "null"
    return f'{told},"{key}_bits":{bits}'


WRITE = {"format": lambda value: count(value, 1, 2), "count": count, "text": text, "texts": texts, "outcome": outcome,
         "hex16": lambda value: digits(value, 16), "hex64": lambda value: digits(value, 64),
         "files": lambda value: files(value, False), "exports": lambda value: files(value, True)}


def written(line, rules):
    """The line as the program writes what it says, up to its chain: all that differs is not a record's."""
    members = []
    for key, kind, *may in rules:
        if not may or key in line:
            try:
                members.append(f'"{key}":' + (real(line, key) if kind == "real" else WRITE[kind](line[key])))
            except Wrong as error:
                raise Wrong(f"{key}: {error}") from error
            except KeyError as error:
                raise Wrong(f"there is no member {error}") from error
    return ("{" + ",".join(members)).encode()


class Record:
    def __init__(self, path):
        self.path = path
        self.chain = bytes(32)
        self.offset = 0
        self.lines = 0
        self.step = 0
        self.kind = None
        self.run = None
        self.end = None
        self.seen = set()  # kinds of line since the last step
        self.old = False  # steps may be told by older names
        self.rolls = False  # the next line must be that of a way back
        self.states = {}
        self.evaluated = 0  # step of the last evaluation
        self.verified = 0
        self.watermarks = {}  # by step
        self.chains = {}  # by length of the file in bytes
        with open(path, "rb") as file:
            for raw in file:
                try:
                    if not raw.endswith(b"\n") and self.kind != "end":
                        break  # a run that was killed left it
                    self.lines += 1
                    self.take(raw)
                except (Wrong, ValueError, KeyError, TypeError, RecursionError) as error:
                    raise Wrong(f"{path}:{self.lines}: {error}") from error

    def take(self, raw):
        body, mark, tail = raw.rpartition(MARK)
        if self.kind == "end":
            raise Wrong("nothing follows the line of a run's end")
        if not mark or not tail.endswith(b'"}\n'):
            raise Wrong("the line has no chain at its end")
        chain = hashlib.sha256(self.chain + body).digest()
        if tail[:-3] != chain.hex().encode():
            raise Wrong("the chain is not that of the lines up to here")
        line = json.loads(raw, object_pairs_hook=unique)
        kind = next(iter(line), None) if isinstance(line, dict) else None
        if kind not in LINES or len(raw) > LONGEST:
            raise Wrong(f"no line of a record begins with {kind!r}, or is longer than {LONGEST} bytes")
        if kind == "run":
            self.old = line["run"] == 1
        old = self.old and kind == "step" and "norm" in line
        self.old = self.old and (old or kind != "step")
        if written(line, OLD_STEP if old else LINES[kind]) != body:
            raise Wrong("the line has members beside its own, in another order, or not as they are written")
        self.follow(kind, line)
        self.chain = chain
        self.offset += len(raw)
        self.chains[self.offset] = chain.hex()
        self.kind = kind

    def follow(self, kind, line):
        number = line[kind]
        if (self.kind is None) != (kind == "run") or kind in self.seen or self.rolls != (kind == "roll"):
            raise Wrong("the line does not follow the one before it")
        if kind == "run":
            self.run = line
            self.step = line["from"]
            self.states[self.step] = line["state_digest"]
            return
        if number != self.step + (kind == "step"):
            raise Wrong(f"step {number} does not follow {self.step}")
        self.step = number
        self.seen = set() if kind == "step" else self.seen | {kind}
        self.rolls = kind == "step" and line["outcome"] == "rolled-back"
        if kind == "roll":
            self.back(line)
        self.evaluated = number if kind == "eval" else self.evaluated
        if kind in ("state", "end") and self.states.setdefault(number, line["state_digest"]) != line["state_digest"]:
            raise Wrong(f"an earlier line tells another state of step {number}")
        if kind == "state" and "verified" in line:
            if not self.verified <= line["verified"] <= number:
                raise Wrong("the verified step fell, or is one that is to come")
            self.watermarks[number] = self.verified = line["verified"]
        if kind == "end":
            self.end = line

    def back(self, line):
        passed = line["from"] - line["to"]
        if line["from"] != line["roll"] or line["batches"] != passed or passed < 1:
            raise Wrong("a way back that leads nowhere")
        if line["to"] >= self.run["from"] and line["state_digest"] != self.states.get(line["to"]):
            raise Wrong(f"the state of step {line['to']} that it goes back to is another")


def xxh64(data):
    """XXH64 with seed 0, as 16 hexadecimal digits."""
    one, two, three = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    four, five, most = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5, (1 << 64) - 1
    turn = lambda x, by: ((x << by) | (x >> (64 - by))) & most
    whole = len(data) // 32 * 32
    if whole:
        # The four lanes as one number, 128 bits apart, so that no product of 64 bits reaches the next one.
        apart, all_lanes = bytearray(2 * whole), sum(most << 128 * i for i in range(4))
        memoryview(apart).cast("Q")[::2] = memoryview(data)[:whole].cast("Q")
        sums = sum(lane << 128 * i for i, lane in enumerate(((one + two) & most, two, 0, -one & most)))
        for at in range(0, 2 * whole, 64):
            sums = (sums + int.from_bytes(apart[at:at + 64], "little") * two) & all_lanes
            sums = ((sums << 31 | sums >> 33) & all_lanes) * one & all_lanes
        lanes = [sums >> 128 * i & most for i in range(4)]
        h = sum(turn(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & most
        for lane in lanes:
            h = ((h ^ turn(lane * two & most, 31) * one & most) * one + four) & most
    else:
        h = five
    h, at = (h + len(data)) & most, whole
    while at + 8 <= len(data):
        lane = turn(struct.unpack_from("<Q", data, at)[0] * two & most, 31) * one & most
        h, at = (turn(h ^ lane, 27) * one + four) & most, at + 8
    if at + 4 <= len(data):
        h, at = (turn(h ^ struct.unpack_from("<I", data, at)[0] * one & most, 23) * two + three) & most, at + 4
    for byte in data[at:]:
        h = turn(h ^ byte * five & most, 11) * one & most
    h = (h ^ h >> 33) * two & most
    h = (h ^ h >> 29) * three & most
    return f"{h ^ h >> 32:016x}"


def check_digests(path):
    """Every tensor of a checkpoint's file has the digest that its header tells, and so has every further
    file."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        keys = header.pop("__metadata__")
        told = sum(int(xxh64(f"{key}\0{value}".encode()), 16) for key, value in keys.items()
                   if not key.startswith("xxh64.") and key not in ("state_digest", "metadata_digest"))
        if keys.get("metadata_digest") != f"{told & (1 << 64) - 1:016x}":
            raise Wrong(f"{path}: damaged: the metadata digest is not that of the metadata")
        end = 0
        for name, one in header.items():
            begin, end_here = one["data_offsets"]
            file.seek(8 + size + begin)
            if xxh64(file.read(end_here - begin)) != keys.get("xxh64." + name):
                raise Wrong(f"{path}: damaged: {name} has not the digest it was saved with")
            end = max(end, end_here)
        if os.fstat(file.fileno()).st_size != 8 + size + end:
            raise Wrong(f"{path}: damaged: the file has another length than its header tells")
    for key, digest in keys.items():
        if key.startswith("file."):
            further = os.path.join(os.path.dirname(path), key[5:])
            with open(further, "rb") as file:
                if xxh64(file.read()) != digest:
                    raise Wrong(f"{further}: damaged: not the file that was saved")
    return keys


def metadata(path):
    check_digests(os.path.join(os.path.dirname(path), "model.safetensors"))
    return check_digests(path)


def check_checkpoints(record, directory):
    """Each checkpoint names the record's length and chain when it was saved, and the state."""
    count = 0
    for name in sorted(os.listdir(directory)):
        state = os.path.join(directory, name, "state.safetensors")
        if not re.fullmatch(r"checkpoint-\d+", name):
            continue
        for path in (state, os.path.join(directory, name, "model.safetensors")):
            if not os.path.exists(path):
                raise Wrong(f"{path}: damaged: the file is missing")
        keys = metadata(state)
        told = record.states.get(int(name[11:]))
        apart = keys.get("key.run.state-offload", "-").strip("-")  # of all, where a part is in the offload file
        if told is not None and told != (apart or keys["state_digest"]):
            raise Wrong(f"{state}: another state than the record's {told}")
        verified = keys.get("key.run.verified")
        if None not in (verified, record.watermarks.get(int(name[11:]))):
            if int(verified) != record.watermarks[int(name[11:])]:
                raise Wrong(f"{state}: another verified step than the record's")
        word = keys.get("key.run.record", "-").split(" ")
        begun = record.run["from"]  # a record that begins at a checkpoint says nothing of it
        if len(word) == 3 and (begun == 0 or int(name[11:]) > begun):
            if record.chains.get(int(word[0])) != word[1]:
                raise Wrong(f"{state}: the checkpoint was saved with another record")
            count += 1
    return count


def check_exports(record, directory):
    count = gone = 0
    for item in record.end["files"] if record.end else []:
        path = os.path.join(directory, item["name"])
        gone += not os.path.exists(path)
        if os.path.exists(path):
            with open(path, "rb") as file:
                digest = hashlib.sha256()
                while piece := file.read(1 << 20):
                    digest.update(piece)
            if digest.hexdigest() != item["sha256"]:
                raise Wrong(f"{path}: not the file that the run exported")
            if os.path.getsize(path) != item["bytes"]:
                raise Wrong(f"{path}: the record has another number of bytes of the exported file")
            count += 1
    return count, gone


def tensors(path):
    """Type, shape and place of each tensor of a file, by name."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    return {name: (one["dtype"], one["shape"], 8 + size + one["data_offsets"][0],
                   one["data_offsets"][1] - one["data_offsets"][0]) for name, one in header.items()}


def best_step(record, directory):
    """The step of the best evaluation, as the newest checkpoint knows it where it has seen the last
    one; None: nobody says."""
    steps = [int(name[11:]) for name in os.listdir(directory) if re.fullmatch(r"checkpoint-\d+", name)]
    if not steps:
        return None
    state = os.path.join(directory, f"checkpoint-{max(steps)}", "state.safetensors")
    words = metadata(state).get("key.run.evaluations", "").split(" ")
    if len(words) != 4 or int(words[0], 16) != record.evaluated:
        return None
    return int(words[1], 16) or record.step


def expert_pieces(theirs):
    """The tensors of single experts, of those of all: gates before ups of each expert, then what goes
    down."""
    names = {"gate_up_proj": (("gate_proj", "up_proj"), ("w1", "w3")), "down_proj": (("down_proj",), ("w2",))}
    found = {}
    for key, (dtype, shape, begin, size) in theirs.items():
        stem, _, kind = key.rpartition(".")
        if not stem.endswith(".mlp.experts") or kind not in names or len(shape) != 3:
            continue
        for sides in names[kind]:
            piece = size // shape[0] // len(sides)
            for i in range(shape[0] * len(sides)):
                name = f"{stem}.{i // len(sides)}.{sides[i % len(sides)]}.weight"
                found[name] = dtype, None, begin + i * piece, piece
    return found


def turned(key, shape, data):
    """An exported tensor as the checkpoint has it: adapters of a table and of experts have a matrix
    that is transposed in PEFT's files."""
    if not key.endswith(".lora_embedding_A") and not re.search(r"experts(\.base_layer)?\.lora_B\.weight$", key):
        return data
    columns = shape[0]  # of (shape[1], shape[0]), and of (out * r, experts)
    values = array.array("I" if len(data) == 4 * math.prod(shape) else "H", data)
    return b"".join(values[i::columns].tobytes() for i in range(columns))


def check_tensors(record, directory):
    """Exported tensors are those of the last checkpoint, or with --load-best-model-at-end of the best
    one, while it is there; with schedule-free rules they are an average that no checkpoint holds."""
    options = record.run["options"]
    averaged = options.get("optim", "").startswith("schedule_free")
    if record.end is None or averaged:
        return 0
    best = options.get("load-best-model-at-end") == "true"
    step = best_step(record, directory) if best else record.step
    saved = os.path.join(directory, f"checkpoint-{step}", "model.safetensors")
    count = 0
    for name in ("model.safetensors", "adapter_model.safetensors"):
        path = os.path.join(directory, name)
        if not (os.path.exists(saved) and os.path.exists(path)):
            continue
        theirs = tensors(saved)
        stacks = expert_pieces(theirs)
        # Of vectors PEFT's names lack what stands before a family's modules (bert, model).
        bare = {re.sub(r"^(base_model\.model\.)\w+\.", r"\1", key): its for key, its in theirs.items()}
        with open(path, "rb") as one, open(saved, "rb") as two:
            for key, (dtype, shape, begin, size) in tensors(path).items():
                other = key.replace("block_sparse_moe", "mlp")  # Mixtral's name for it
                its = theirs.get(key) or stacks.get(other) or theirs.get(other) or bare.get(key)
                if its is None or its[0] != dtype:
                    continue
                one.seek(begin)
                two.seek(its[2])
                if turned(key, its[1], one.read(size)) != two.read(its[3]):
                    raise Wrong(f"{path}: {key} is not that of the {'best' if best else 'last'} checkpoint")
                count += 1
    return count


def statement(record):
    """in-toto Statement v1 with SLSA provenance v1: what was made, of what, by which options."""
    if record.end is None:
        raise Wrong(f"{record.path}: the run has not ended: nothing was exported")
    run = record.run
    inputs = [item for name in ("model", "tokenizer", "adapter", "data", "eval_data")
              for item in run[name] if item["sha256"] is not None]
    described = lambda item: {"name": item["name"], "digest": {"sha256": item["sha256"]}}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [described(item) for item in record.end["files"]],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://bedplate.dev/record/v1",
                "externalParameters": run["options"],
                "internalParameters": {"plan": run.get("plan"), "state_digest": run["state_digest"],
                                       "record_chain": record.chain.hex()},
                "resolvedDependencies": [described(item) for item in inputs],
            },
            "runDetails": {"builder": {
                "id": "https://bedplate.dev/bedplate",
                "version": {"bedplate": run["version"], "source": run["source"]}}},
        },
    }


def main(arguments):
    words = [word for word in arguments if not word.startswith("--")]
    if len(words) != 1 or set(arguments) - set(words) - {"--statement"}:
        print(__doc__, file=sys.stderr)
        return 2
    directory = words[0] if os.path.isdir(words[0]) else os.path.dirname(words[0]) or "."
    path = os.path.join(words[0], "record.jsonl") if os.path.isdir(words[0]) else words[0]
    try:
        record = Record(path)
        if record.lines == 0:
            raise Wrong(f"{path}: there is no line in it")
        checkpoints = check_checkpoints(record, directory)
        exports, gone = check_exports(record, directory)
        compared = check_tensors(record, directory)
        if "--statement" in arguments:
            print(json.dumps(statement(record), indent=1))
            return 0
    except (Wrong, OSError, ValueError, KeyError, TypeError, struct.error) as error:
        print(f"record_check: {error}", file=sys.stderr)
        return 4
    ended = "ended at" if record.end else "up to"
    absent = f" (not here: {gone})" if gone else ""
    verified = f", verified up to step {record.verified}" if record.verified else ""
    print(f"{path}: {record.lines} lines, {ended} step {record.step}, agrees with {checkpoints} "
          f"checkpoints and {exports} exported files{absent}{verified}, chain {record.chain.hex()}")
    print(f"{compared} exported tensors are those of the last checkpoint, or of the best one")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
