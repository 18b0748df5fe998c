#!/bin/bash
# SPDX-License-Identifier: MIT
# A reward model in the policy's arena: its rewards are the outputs that `eval` has for the same texts; what slots, threads,
# resuming and replaying may not change; its bytes; models that are none.
. "$(dirname "$0")/../lib.sh"

for ((i = 0; i < 64; i++)); do printf '{"prompt": "%02d=", "answer": "55"}\n' "$i"; done >"$work/five.jsonl"
for ((i = 0; i < 100; i++)); do printf '{"text": "%02d=%02d", "label": 0.%d}\n' "$i" $((i * 7 % 100)) $((i % 10)); done >"$work/rm.jsonl"
# A tokenizer of the printable bytes, digits in pairs.
python3 - "$work/tk" <<'P'
import json, os, sys
os.mkdir(sys.argv[1])
vocab = {chr(c): c - 33 for c in range(33, 127)}
merges = [f"{a} {b}" for a in "0123456789" for b in "0123456789"]
for m in merges:
    vocab[m.replace(" ", "")] = len(vocab)
json.dump({"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False,
           "trim_offsets": True, "use_regex": True}, "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": True,
           "trim_offsets": True, "use_regex": True}, "model": {"type": "BPE", "dropout": None, "unk_token": None, "vocab": vocab,
           "merges": merges}}, open(sys.argv[1] + "/tokenizer.json", "w"))
json.dump({"tokenizer_class": "GPT2Tokenizer"}, open(sys.argv[1] + "/tokenizer_config.json", "w"))
P
judge=(train --model tiny --task regression --data "$work/rm.jsonl" --max-steps 20 --per-device-train-batch-size 16 --max-seq-length 16
    --learning-rate 1e-3 --quiet)
run "${judge[@]}" --output-dir "$work/rm"
check $code "a reward model" "$err"
run "${judge[@]}" --tokenizer "$work/tk" --seed 5 --output-dir "$work/other"
check $code "one with another tokenizer" "$err"
# A policy that writes digits, so that its completions are texts for both.
awk 'BEGIN { for (i = 0; i < 400; i++) printf "{\"prompt\": \"%02d=\", \"completion\": \"%d\"}\n", i % 100, (i * 37) % 1000 }' >"$work/digits.jsonl"
run train --model tiny --data "$work/digits.jsonl" --max-steps 250 --per-device-train-batch-size 32 --max-seq-length 12 --learning-rate 3e-3 \
    --quiet --output-dir "$work/policy"
check $code "a policy" "$err"

# verifies reward-8.0c8b
sample=(rollout --model "$work/policy" --data "$work/five.jsonl" --num-generations 4 --max-completion-length 4 --temperature 0.7)
for model in rm other; do
    run "${sample[@]}" --reward-model "$work/$model" --output "$work/s.jsonl"
    check $code "rollout with $model" "$err"
    ! grep -q 'its tokenizer is another one' <<<"$err"
    [[ $? -eq $([[ $model == other ]] && echo 1 || echo 0) ]]
    check $? "another tokenizer is reported: $model" "$err"
    python3 - "$work" <<'P'
import json, sys
w = sys.argv[1]
rows = [json.loads(l) for l in open(w + "/s.jsonl")]
rows = [r for r in rows if all(33 <= ord(c) < 127 for c in r["completion"])]
assert len(rows) > 100, len(rows)
open(w + "/t.jsonl", "w").writelines(json.dumps({"text": r["prompt"] + r["completion"]}) + "\n" for r in rows)
open(w + "/r.txt", "w").writelines(repr(r["reward"]) + "\n" for r in rows)
P
    check $? "completions are texts"
    run eval --model "$work/$model" --data "$work/t.jsonl" --predictions "$work/p.jsonl" --max-seq-length 16 --quiet
    python3 - "$work" <<'P'
import json, sys
w = sys.argv[1]
right = [json.loads(l)["prediction"] for l in open(w + "/p.jsonl")]
got = [float(l) for l in open(w + "/r.txt")]
assert len(got) == len(right) and len(set(got)) > 10
assert all(abs(a - b) <= 2e-6 * (1 + abs(b)) for a, b in zip(got, right)), max(abs(a - b) for a, b in zip(got, right))
P
    check $? "rewards are the model's outputs: $model" "$out$err"
    cp "$work/s.jsonl" "$work/first"
    run "${sample[@]}" --reward-model "$work/$model" --slots 3 --threads 2 --kernels $other_kernels --output "$work/s.jsonl"
    cmp -s "$work/s.jsonl" "$work/first"
    check $? "the same file with other slots, threads and kernels: $model" "$err"
done
# Messages that are tokenised again keep the end of the turn, as the text of the policy's end token.
python3 - "$work" <<'P'
import json, os, sys
template = "{% for m in messages %}[{{ m.role }}]{{ m.content }}<e>{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
for name, first in (("tc", 0), ("tr", 1)):
    d = sys.argv[1] + "/" + name
    os.mkdir(d)
    vocab = {chr(c): c - 33 + first for c in range(33, 127)}
    vocab.update({"<e>": 0} if first else {"<e>": 94})
    json.dump({"version": "1.0", "added_tokens": [{"id": vocab["<e>"], "content": "<e>", "special": True, "single_word": False, "lstrip": False,
               "rstrip": False, "normalized": False}], "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False,
               "trim_offsets": True, "use_regex": True}, "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": True,
               "trim_offsets": True, "use_regex": True}, "model": {"type": "BPE", "dropout": None, "unk_token": None, "vocab": vocab,
               "merges": []}}, open(d + "/tokenizer.json", "w"))
    json.dump({"tokenizer_class": "GPT2Tokenizer", "eos_token": "<e>", "chat_template": template}, open(d + "/tokenizer_config.json", "w"))
w = sys.argv[1]
turn = lambda r, c: {"role": r, "content": c}
open(w + "/talk.jsonl", "w").writelines(json.dumps({"messages": [turn("user", "%02d" % (i % 50)), turn("assistant", str(i * 37 % 1000))]}) + "\n"
                                        for i in range(400))
open(w + "/asks.jsonl", "w").writelines(json.dumps({"prompt": [turn("user", "%02d" % i)]}) + "\n" for i in range(50))
P
run train --model tiny --tokenizer "$work/tc" --data "$work/talk.jsonl" --max-steps 60 --per-device-train-batch-size 32 --max-seq-length 32 \
    --learning-rate 3e-3 --quiet --output-dir "$work/talks"
check $code "a policy of conversations" "$err"
run "${judge[@]}" --tokenizer "$work/tr" --seed 6 --output-dir "$work/again"
check $code "a reward model with another tokenizer" "$err"
run rollout --model "$work/talks" --data "$work/asks.jsonl" --num-generations 4 --max-completion-length 4 --reward-model "$work/again" \
    --output "$work/s.jsonl"
check $code "completions of messages" "$err"
python3 - "$work" <<'P'
import json, sys
w = sys.argv[1]
rows = [json.loads(l) for l in open(w + "/s.jsonl")]
said = lambda r: r["completion"][0]["content"]
rows = [r for r in rows if all(33 <= ord(c) < 127 for c in said(r))]
ended = [r["finish"] == "stop" for r in rows]
assert sum(ended) > 20 and sum(ended) < len(rows), (sum(ended), len(rows))
text = lambda r: "[user]%s<e>[assistant]%s%s" % (r["prompt"][0]["content"], said(r), "<e>" if r["finish"] == "stop" else "")
open(w + "/t.jsonl", "w").writelines(json.dumps({"text": text(r)}) + "\n" for r in rows)
open(w + "/r.txt", "w").writelines(repr(r["reward"]) + "\n" for r in rows)
P
check $? "some have ended"
run eval --model "$work/again" --data "$work/t.jsonl" --predictions "$work/p.jsonl" --max-seq-length 40 --quiet
python3 - "$work" <<'P'
import json, sys
w = sys.argv[1]
right = [json.loads(l)["prediction"] for l in open(w + "/p.jsonl")]
got = [float(l) for l in open(w + "/r.txt")]
assert len(got) == len(right) and len(set(got)) > 10
assert all(abs(a - b) <= 2e-6 * (1 + abs(b)) for a, b in zip(got, right)), [x for x in zip(got, right)][:5]
P
check $? "rewards of conversations have the end of the turn" "$out$err"

run "${sample[@]}" --reward-model "$work/rm" --reward places --reward-weights 2,-1 --output "$work/s.jsonl"
[[ $code -eq 0 ]] && python3 - "$work/s.jsonl" <<'P'
import json, sys
for l in open(sys.argv[1]):
    r = json.loads(l)
    assert abs(r["reward"] - (2 * r["rewards"]["places"] - r["rewards"]["model"])) < 1e-12
P
check $? "weights: functions, then the model" "$out$err"

how=(train --task grpo --model "$work/policy" --data "$work/five.jsonl" --reward-model "$work/rm" --num-generations 8
    --per-device-train-batch-size 32 --max-completion-length 3 --learning-rate 1e-3 --quiet)
state() { grep -o 'state digest *[0-9a-f]*' <<<"$out" | grep -o '[0-9a-f]*$'; }
run "${how[@]}" --max-steps 6 --save-steps 3 --output-dir "$work/a"
first=$(state)
[[ $code -eq 0 && -n $first ]]
check $? "a run" "$out$err"
run "${how[@]}" --max-steps 6 --save-steps 3 --slots 2 --threads 1 --kernels $other_kernels --offload "file:$work/off:64MiB" --output-dir "$work/b"
[[ $code -eq 0 && $(state) == "$first" ]]
check $? "the same state with other slots, threads and kernels, offloaded" "$out$err"
run "${how[@]}" --max-steps 6 --save-steps 3 --stop-at-step 3 --output-dir "$work/c"
run "${how[@]}" --max-steps 6 --save-steps 3 --resume --output-dir "$work/c"
[[ $code -eq 0 && $(state) == "$first" ]] && cmp -s "$work/a/record.jsonl" "$work/c/record.jsonl"
check $? "resumed: the same record" "$out$err"
run replay "$work/a" --ask-rewards
[[ $code -eq 0 ]] && grep -q '^6 of 6 steps proven' <<<"$out"
check $? "replayed, scored by the model again" "$out$err"
mv "$work/rm" "$work/gone"
run replay "$work/a"
[[ $code -eq 0 ]] && grep -q '^6 of 6 steps proven' <<<"$out"
check $? "replayed with the recorded rewards, without the model" "$out$err"
mv "$work/gone" "$work/rm"
# Another model under the same path is another run: resuming and a replay that asks it say so, a run ends when its file is replaced.
cp -r "$work/rm" "$work/gone"
run "${judge[@]}" --seed 9 --output-dir "$work/rm2"
run "${how[@]}" --max-steps 6 --save-steps 3 --stop-at-step 3 --output-dir "$work/c" --overwrite-output-dir
cp "$work/rm2/model.safetensors" "$work/rm/model.safetensors"
expect 2 '--resume: data .* reward-model ' "${how[@]}" --max-steps 6 --save-steps 3 --resume --output-dir "$work/c"
expect 4 'rm: the file that is here is not the one that the run read: found reward-model [0-9a-f]*, expected reward-model [0-9a-f]' \
    replay "$work/a" --ask-rewards
run replay "$work/a"
[[ $code -eq 0 ]] && grep -q '^6 of 6 steps proven' <<<"$out"
check $? "the recorded rewards need no model" "$out$err"
rm -r "$work/rm"
mv "$work/gone" "$work/rm"
cat >"$work/swap.sh" <<END
echo '{"name": "swap", "version": "1"}'
while read -r l; do
    id=\${l#*:}
    id=\${id%%,*}
    [[ \$id -ne 40 ]] || { cp "$work/rm/model.safetensors" "$work/rm/new" && mv "$work/rm/new" "$work/rm/model.safetensors"; }
    echo "{\\"id\\": \$id, \\"reward\\": 0}"
done
END
expect 6 'rm: the model.s files were replaced while the run reads them' "${how[@]}" --max-steps 6 --reward-command "bash $work/swap.sh" \
    --output-dir "$work/c" --overwrite-output-dir
# The reward is learned.
run "${how[@]}" --max-steps 40 --lr-scheduler-type constant --json --logging-steps 10 --logging-first-step --output-dir "$work/d"
began=$(grep -o '"rewards/model/mean": *[0-9.e+-]*' <<<"$out" | head -1 | grep -o '[0-9.e+-]*$')
ended=$(grep -o '"rewards/model/mean": *[0-9.e+-]*' <<<"$out" | tail -1 | grep -o '[0-9.e+-]*$')
[[ $code -eq 0 ]] && awk -v a="$began" -v b="$ended" 'BEGIN { exit !(b > a + 0.05) }'
check $? "the model's reward grows: $began to $ended" "$err"

# Texts that are longer than the model's positions have no reward, which the program reports.
run train --model tiny-llama --task regression --data "$work/rm.jsonl" --max-steps 2 --per-device-train-batch-size 16 --max-seq-length 16 \
    --quiet --output-dir "$work/short"
sed -i 's/"max_position_embeddings": [0-9]*/"max_position_embeddings": 5/' "$work/short/config.json"
run "${sample[@]}" --reward-model "$work/short" --output "$work/s.jsonl"
[[ $code -eq 0 ]] && grep -q 'completions have no reward: with their prompts they are no text, or one longer than 5 tokens' <<<"$err" &&
    python3 - "$work/s.jsonl" <<'P'
import json, sys
rows = [json.loads(l) for l in open(sys.argv[1])]
none = [r for r in rows if r["reward"] is None]
assert 0 < len(none) < len(rows)
assert all((r["reward"] is None) == (r["tokens"] - (r["finish"] == "stop") > 2) for r in rows)
P
check $? "texts that are too long" "$out$err"

# verifies reward-9.de5d
# Phases share bytes: a model that needs no more than training does adds none, another one what is missing.
run plan "${how[@]:1}" --json
with=$(json arena_bytes)
[[ $code -eq 0 && $(json scoring_bytes) -le $with ]]
check $? "plan: the phase of scoring" "$out$err"
run plan "${how[@]:1:6}" --reward places "${how[@]:9}" --json
[[ $code -eq 0 && $(json arena_bytes) -eq $with ]]
check $? "the model adds no bytes to the arena" "$out$err"
small=(--lora-r 1 --per-device-train-batch-size 2 --num-generations 2 --max-completion-length 1 --slots 1)
run plan "${how[@]:1}" "${small[@]}" --json
planned=$(json arena_bytes)
scoring=$(json scoring_bytes)
[[ $code -eq 0 && $scoring -gt $(json training_bytes) && $planned -ge $scoring && $planned -lt $((scoring + 4096)) ]]
check $? "the arena is as large as its largest phase" "$out$err"
run "${how[@]}" "${small[@]}" --max-steps 2 --json --output-dir "$work/e"
[[ $code -eq 0 && $(json arena_bytes) -eq $planned ]]
check $? "and so is that of the run" "$out$err"

# A model that is larger than the arena is offloaded while it scores: the same run in fewer bytes.
large=("${how[@]}" --lora-r 1 --per-device-train-batch-size 4 --num-generations 4 --max-completion-length 1 --slots 1 --max-steps 3)
run "${large[@]}" --json --output-dir "$work/e" --overwrite-output-dir
planned=$(json arena_bytes)
limit=$((planned * 3 / 4))
run "${large[@]}" --arena $limit --output-dir "$work/f"
[[ $code -eq 3 ]]
check $? "too large for an arena of three quarters" "$code $out$err"
run "${large[@]}" --arena $limit --offload "file:$work/off:64MiB" --json --output-dir "$work/f" --overwrite-output-dir
[[ $code -eq 0 && $(json arena_bytes) -le $limit ]] && cmp -s <(grep '^{"rollout"' "$work/e/record.jsonl" | sed 's/,"chain":.*//') \
    <(grep '^{"rollout"' "$work/f/record.jsonl" | sed 's/,"chain":.*//')
check $? "offloaded: the same rewards in $limit bytes instead of $planned" "$code $out$err"
[[ $(grep -c '^{"rollout"' "$work/f/record.jsonl") -eq 3 ]]
check $? "of three steps"
run plan "${large[@]:1}" --arena $limit --offload "file:$work/off:64MiB" --json
[[ $code -eq 0 && $(json scoring_bytes) -le $limit ]]
check $? "and planned" "$code $out$err"
expect 3 '--offload: what is offloaded does not fit there' "${large[@]}" --arena $limit --offload "file:$work/off:64KiB" --output-dir "$work/f" \
    --overwrite-output-dir
# One that would have room alone, and has none beside the policy's frozen weights, which stay, is offloaded too.
beside=$((planned - (planned - limit) / 5))
run plan "${large[@]:1}" --arena $beside --json
[[ $code -eq 3 && $(json scoring_bytes) -gt $beside ]]
check $? "too large beside the policy" "$code $out$err"
for command in plan train; do
    run $command "${large[@]:1}" --arena $beside --offload "file:$work/off:64MiB" --offload-what states --json \
        $([[ $command == train ]] && echo --output-dir "$work/f" --overwrite-output-dir)
    [[ $code -eq 0 && $(json arena_bytes) -le $beside ]]
    check $? "$command: offloaded, as both have no room in $beside bytes" "$code $out$err"
done
cmp -s <(grep '^{"rollout"' "$work/e/record.jsonl" | sed 's/,"chain":.*//') <(grep '^{"rollout"' "$work/f/record.jsonl" | sed 's/,"chain":.*//')
check $? "with the same rewards"

# Its file, PATH.reward: what is wrong with it has a cause, and a name that is too long is refused before anything is planned.
ln -s "$work/nowhere/file" "$work/link.reward"
expect 6 'link.reward: a link is there that leads to no file' "${large[@]}" --arena 635000 --offload "file:$work/link:64MiB" --output-dir "$work/f" \
    --overwrite-output-dir
long=$(printf 'n%.0s' {1..249})
for command in "plan" "train --output-dir $work/g"; do
    # shellcheck disable=SC2086
    expect 2 '--offload: the bytes of the file.s name, which PATH.reward lengthens: found 249, expected at most 248' $command "${large[@]:1}" \
        --arena $limit --offload "file:$work/$long:64MiB"
done
expect 0 '.' plan "${large[@]:1}" --arena $limit --offload "file:$work/${long:1}:64MiB"
expect 2 '--offload: the bytes of the file.s name: found 256, expected at most 255' plan --model tiny --max-seq-length 16 --arena 16MiB \
    --offload "file:$work/${long}1234567:64MiB"
long=$(printf 'd/%.0s' {1..510})
expect 2 '--offload: the bytes of the path, which PATH.reward lengthens: found 1020, expected at most 1016' plan "${large[@]:1}" --arena $limit --offload "file:${long}:64MiB"

# What is no reward model.
no() {
    rm -rf "$work/n"
    expect "$1" "$2" "${how[@]:0:7}" "${how[@]:9}" --max-steps 1 --output-dir "$work/n" --reward-model "$3"
}
no 4 '--reward-model: a reward model is a directory with weights and config.json: found ".*missing"' "$work/missing"
no 4 '--reward-model: a reward model is a directory' tiny
no 2 '--reward-model: a reward model judges texts with a head of one label; labels: found 0, expected 1' "$work/policy"
for ((i = 0; i < 8; i++)); do printf '{"text": "a%d", "label": %d}\n' "$i" $((i % 3)); done >"$work/classes.jsonl"
run train --model tiny --task classification --data "$work/classes.jsonl" --max-seq-length 8 --per-device-train-batch-size 4 --max-steps 1 --output-dir "$work/three" --quiet
no 2 '--reward-model: .* one label; labels: found 3, expected 1' "$work/three"
mkdir "$work/bare"
cp "$work/rm/config.json" "$work/bare"
no 4 '--reward-model: a reward model is a directory with weights' "$work/bare"
cp -r "$work/rm" "$work/cut" && head -c 1000 "$work/rm/model.safetensors" >"$work/cut/model.safetensors"
no 4 'cut/model.safetensors' "$work/cut"
[[ ! -e $work/n/record.jsonl ]] || ! grep -q '"rollout"' "$work/n/record.jsonl"
check $? "and nothing was generated"
rm -rf "$work/n"
expect 2 '--reward-model: the option is for --task grpo' train --model tiny --data "$work/five.jsonl" --reward-model "$work/rm" --output-dir "$work/n"
finish
