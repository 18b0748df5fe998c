# SPDX-License-Identifier: MIT
# Shared by the tests of families of images as transformers saves them; sourced with $golden set to a directory that it
# saved, with images.csv (six images of three classes) and eval.json.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
data=(--data "$golden/images.csv")

# same_logits FILE: those of $work/said.jsonl are those of a json file of ours.
same_logits() {
    paste -d' ' <(grep -o '"logits": \[[^]]*' "$work/said.jsonl" | tr -c '0-9.e\n-' ' ' | sed 's/^ *e* *//') \
        <(sed 's/.*"logits": \[//; s/\], \[/\n/g' "$1" | tr -d '[]}' | tr ',' ' ') |
        awk '{ sub(/^[^0-9-]*/, ""); for (i = 1; i <= 3; i++) { d = $i - $(i + 3); if (d * d > 1e-10 * (1 + $i * $i)) bad++ } }
             END { exit !(NR == 6 && bad == 0) }'
}

# judged NAME FILE ARGUMENTS: `eval ARGUMENTS` gives the logits of FILE.
judged() {
    local name=$1 right=$2
    shift 2
    run eval "$@" "${data[@]}" --predictions "$work/said.jsonl" --json
    [[ $code -eq 0 ]] && same_logits "$right"
    check $? "$name" "$err$(cat "$work/said.jsonl" "$right")"
}

# The directory judges as transformers does.
judges() {
    judged "its logits are those of transformers" "$golden/eval.json" --model "$golden"
    near loss loss
}

# same_tensors A B LEAST KEY,.. [SKIP]: two directories have the same tensors, at least so many, but for those whose names
# match SKIP, and config.json says the same of these keys.
same_tensors() {
    python3 - "$@" <<'END2'
import json, re, struct, sys
a, b, least, keys, skip = sys.argv[1:5] + [sys.argv[5] if len(sys.argv) > 5 else None]
def tensors(path):
    data = open(path + "/model.safetensors", "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    return {k: (v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0] : 8 + n + v["data_offsets"][1]])
            for k, v in json.loads(data[8 : 8 + n]).items()
            if k != "__metadata__" and not (skip and re.search(skip, k))}
x, y = (json.load(open(d + "/config.json")) for d in (a, b))
same = all(x[k] == y[k] for k in keys.split(",") if k)
a, b = tensors(a), tensors(b)
sys.exit(not (len(a) >= int(least) and same and a == b))
END2
}

# comes_back LEAST KEY,.. [SKIP]: training of no step writes what it read (see same_tensors).
comes_back() {
    run train --model "$golden" "${data[@]}" --per-device-train-batch-size 3 --max-steps 0 --quiet --output-dir "$work/same"
    check $code "no step" "$err"
    if command -v python3 >/dev/null; then
        same_tensors "$golden" "$work/same" "$@"
        check $? "tensors come back to the last bit, and the configuration" "$(cat "$work/same/config.json")"
    fi
}

# exported LEAST: an export comes back whole, and with an adapter merged in it has the same tensors as said.
exported() {
    local tensors
    run export --model "$golden" --to "$work/exported" --json
    [[ $code -eq 0 ]] && tensors=$(json tensors)
    if command -v python3 >/dev/null; then
        same_tensors "$golden" "$work/exported" "$1" num_channels
        check $? "an export has all tensors, counts of batches too" "$out$err"
    fi
    [[ ${tensors:-0} -eq $1 ]]
    check $? "it says how many" "$out$err"
    run export --model "$golden" --to "$work/exported16" --dtype bf16 --json
    [[ $code -eq 0 && $(json tensors) -eq $1 && $(grep -ao '"I64"' "$work/exported16/model.safetensors" | wc -l) -gt 9 ]]
    check $? "in 16 bits counts stay whole numbers" "$out$err"
}

# sixteen LEAST: the same directory in 16 bits is read, judges as its tensors say, and comes back to the last bit.
sixteen() {
    local type near
    command -v python3 >/dev/null || return 0
    while read -r type near; do
        mkdir "$work/$type"
        python3 - "$golden" "$work/$type" "$type" <<'END2'
import json, struct, sys
data = open(sys.argv[1] + "/model.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head, body, out = json.loads(data[8 : 8 + n]), data[8 + n :], b""
head.pop("__metadata__", None)
for v in head.values():
    piece = body[slice(*v["data_offsets"])]
    if v["dtype"] == "F32":
        v["dtype"] = sys.argv[3]
        count = len(piece) // 4
        piece = (b"".join(piece[4 * i + 2 : 4 * i + 4] for i in range(count)) if sys.argv[3] == "BF16"
                 else struct.pack("<%de" % count, *struct.unpack("<%df" % count, piece)))
    v["data_offsets"] = [len(out), len(out) + len(piece)]
    out += piece
text = json.dumps(head).encode()
open(sys.argv[2] + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + out)
config = json.load(open(sys.argv[1] + "/config.json"))
config["dtype"] = {"BF16": "bfloat16", "F16": "float16"}[sys.argv[3]]
json.dump(config, open(sys.argv[2] + "/config.json", "w"))
END2
        run eval --model "$work/$type" "${data[@]}" --json
        awk -v a="$(json loss)" -v b="$(sed -n 's/.*"loss": \([0-9.e-]*\).*/\1/p' "$golden/eval.json")" -v n="$near" \
            'BEGIN { d = a - b; exit !(a > 0 && b > 0 && d * d < n * n) }'
        check $? "$type: it judges nearly so" "$out$err"
        run train --model "$work/$type" "${data[@]}" --per-device-train-batch-size 3 --max-steps 0 --quiet --save-dtype source \
            --output-dir "$work/$type-same"
        [[ $code -eq 0 ]] && same_tensors "$work/$type" "$work/$type-same" "$1" num_channels
        check $? "$type: tensors come back to the last bit" "$err"
        grep -q "\"torch_dtype\": \"$([[ $type == BF16 ]] && echo bfloat16 || echo float16)\"" "$work/$type-same/config.json"
        check $? "$type: config.json says so" "$(cat "$work/$type-same/config.json")"
    done <<<"BF16 0.1
F16 0.01"
}

# same_steps NAME STEPS STOP -- PLAN_OPTIONS -- TRAIN_OPTIONS: what is planned is used, and every policy, and a run that is
# stopped and resumed, has the same bits. $digest and $work/NAME are the run's.
same_steps() {
    local name=$1 steps=$2 stop=$3 plan=() planned policy
    shift 4
    while [[ $1 != -- ]]; do
        plan+=("$1")
        shift
    done
    shift
    local micros=(--per-device-train-batch-size 2 --gradient-accumulation-steps 2)
    local train=(train "${plan[@]}" "${micros[@]}" "${data[@]}" --quiet --max-steps "$steps" "$@")
    run plan "${plan[@]}" "${micros[@]}" --json
    planned=$(json arena_bytes)
    run "${train[@]}" --output-dir "$work/$name" --json
    [[ $code -eq 0 && -n $planned && $(json arena_bytes) -eq $planned && $(json device_bytes_in_use) -eq $planned ]]
    check $? "$name: planned bytes are used" "$planned $out$err"
    digest=$(json state_digest)
    for policy in full memory-poor sqrt selective:norm; do
        run "${train[@]}" --output-dir "$work/$name-$policy" --json --gradient-checkpointing $policy
        [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
        check $? "$name: $policy: the same bits" "$out$err"
    done
    run "${train[@]}" --output-dir "$work/$name-stopped" --stop-at-step "$stop"
    run "${train[@]}" --output-dir "$work/$name-stopped" --resume --json
    [[ $(json state_digest) == "$digest" ]]
    check $? "$name: stopped and resumed: the same bits" "$out$err"
}

# on_gpu NAME STEPS OPTIONS: on the simulated GPU it trains as on the host, to a thousandth of the loss.
on_gpu() {
    local name=$1 steps=$2 losses=() device
    shift 2
    [[ -e $BUILD/ptxvm/libcuda.so.1 ]] || return 0
    for device in host cuda; do
        LD_LIBRARY_PATH=$PWD/$BUILD/ptxvm run train --model "$golden" "${data[@]}" --per-device-train-batch-size 2 \
            --max-steps "$steps" --device $device --output-dir "$work/$name-$device" "$@"
        losses+=("$code $(grep -oE "step $steps/$steps  loss [0-9.]+" <<<"$out$err")")
    done
    [[ ${losses[0]} == "0 step"* && ${losses[1]} == "0 step"* ]] &&
        awk -v a="${losses[0]##* }" -v b="${losses[1]##* }" 'BEGIN { d = a - b; exit !(a > 0 && d * d < 1e-6 * a * a) }'
    check $? "$name: the loss of a GPU" "${losses[*]} $err"
}

# five_classes: classes of one's own are a new classifier over the same layers.
five_classes() {
    run train --model "$golden" "${data[@]}" --per-device-train-batch-size 2 --quiet --max-steps 0 --output-dir "$work/five" \
        --num-labels 5
    [[ $code -eq 0 ]] && run eval --model "$work/five" "${data[@]}" --json && grep -q '"LABEL_4"' "$work/five/config.json"
    check $? "five classes" "$out$err"
    if command -v python3 >/dev/null; then
        same_tensors "$golden" "$work/five" 30 "" '^classifier|num_batches_tracked$'
        check $? "the layers are as they were"
    fi
}

# bare PREFIX CLASS: $work/bare is the directory of a model without a classifier, which gets one.
bare() {
    command -v python3 >/dev/null || return 0
    mkdir "$work/bare"
    python3 - "$golden" "$work/bare" "$@" <<'END2'
import json, struct, sys
source, target, prefix, name = sys.argv[1:]
data = open(source + "/model.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head, body, out = json.loads(data[8 : 8 + n]), data[8 + n :], b""
bare = {}
for k, v in head.items():
    if k.startswith(prefix):
        piece = body[slice(*v["data_offsets"])]
        bare[k[len(prefix) :]] = {**v, "data_offsets": [len(out), len(out) + len(piece)]}
        out += piece
if prefix == "vit.":
    bare["pooler.dense.bias"] = {"dtype": "F32", "shape": [12], "data_offsets": [len(out), len(out) + 48]}
    out += bytes(48)
text = json.dumps(bare).encode()
open(target + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + out)
config = json.load(open(source + "/config.json"))
config["architectures"] = [name]
json.dump(config, open(target + "/config.json", "w"))
END2
    run train --model "$work/bare" "${data[@]}" --per-device-train-batch-size 3 --quiet --max-steps 2 --output-dir "$work/new" \
        --num-labels 3
    check $code "a bare model gets a classifier" "$err"
    expect 4 'classifier.*missing|missing.*classifier' eval --model "$work/bare" "${data[@]}"
}

# refused <<END: what is not computed is refused by name. Lines: exit code, edit of config.json for sed, pattern.
refused() {
    local want edit key
    mkdir -p "$work/odd"
    cp "$golden/model.safetensors" "$work/odd"
    while read -r want edit key; do
        tr -d '\n' <"$golden/config.json" | sed "$edit" >"$work/odd/config.json"
        expect "$want" "$key" eval --model "$work/odd" "${data[@]}"
    done
}
