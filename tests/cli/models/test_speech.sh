#!/bin/bash
# SPDX-License-Identifier: MIT
# Whisper as a directory: the loss and the likeliest tokens of transformers (tools/golden/speech/folder.py), the same bits by any policy,
# a word error rate that falls, also of what espeak-ng says, what is saved is read back, adapters, forms of data, what is refused.
# Losses, gradients and steps: tests/golden/test_families_golden.c; spectra: tests/unit/tools/formats/audio.
# verifies run-1.e4fa formats-76.dd33 formats-77.5e5a
. "$(dirname "$0")/../lib.sh"
golden=tests/golden/speech
speaks=(--language en --task-token transcribe)

run eval --model $golden --data $golden/rows.jsonl "${speaks[@]}" --max-seq-length 16 --json
read -r loss targets <$golden/loss
awk -v a="$(json loss)" -v b="$loss" 'BEGIN { d = a - b; exit !(a != "" && d * d < 1e-12 * b * b) }'
check $? "the loss is that of transformers ($loss)" "$out$err"
[[ $(json tokens) -eq $targets && $(json words) -eq 25 ]]
check $? "of as many targets ($targets)" "$out$err"
grep -q 'task: causal-lm, texts of speech' <<<"$err"
check $? "the task is said" "$err"
untrained=$(json wer)
same=0
row=0
while IFS= read -r line; do
    run generate --model $golden --audio $golden/sounds/$row.wav "${speaks[@]}" --max-new-tokens 12 --output-ids
    [[ $code -eq 0 && ${out##*$'\n'} == "$line" ]] && same=$((same + 1))
    row=$((row + 1))
done <$golden/greedy
[[ $same -eq 12 && $row -eq 12 ]]
check $? "the likeliest tokens are those of transformers" "$same of $row: $out$err"

# What generation_config.json says of texts (tools/golden/speech/generate.py): tokens that are never written, or not at the
# beginning, the language that is heard, and what a text begins with.
# verifies formats-78.a326
mkdir "$work/rules"
cp $golden/{config.json,model.safetensors,preprocessor_config.json} $golden/tokenizer*.json "$work/rules"
cat >"$work/rules.py" <<'PY'
import json, sys
golden, folder, line = sys.argv[1:]
case = json.loads(open(golden + "/generate.jsonl").read().split("\n")[int(line)])
json.dump({**json.load(open(golden + "/generation_config.json")), **case["config"]}, open(folder + "/generation_config.json", "w"))
print(" ".join(case["options"]))
for ids in case["ids"]:
    print(" ".join(map(str, ids)))
PY
for ((line = 0; line < $(wc -l <$golden/generate.jsonl); line++)); do
    { read -ra options; mapfile -t texts; } < <(python3 "$work/rules.py" $golden "$work/rules" $line)
    same=0
    for row in 0 1 2; do
        run generate --model "$work/rules" --audio $golden/sounds/$row.wav "${options[@]}" --output-ids
        found=${out##*$'\n'}
        [[ $code -eq 0 && ${found% 268} == "${texts[row]}" ]] && same=$((same + 1))
    done
    [[ $same -eq 3 ]]
    check $? "texts under rules, number $line: those of transformers" "$same of 3: $found, ${texts[2]}; $err"
    run eval --model "$work/rules" --data $golden/rows.jsonl "${options[@]}" --max-seq-length 16 --predictions "$work/p.jsonl" --json
    same=$(python3 - $golden "$work/p.jsonl" $line <<'PY'
import json, sys
from pathlib import Path
golden, found, line = sys.argv[1:]
case = json.loads(open(golden + "/generate.jsonl").read().split("\n")[int(line)])
vocabulary = {v: k for k, v in json.load(open(golden + "/tokenizer.json"))["model"]["vocab"].items()}
letters = [*range(33, 127), *range(161, 173), *range(174, 256)]
letters = {chr(b): b for b in letters} | {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in letters)}
rows = [json.loads(r)["prediction"] for r in open(found)]
text = lambda ids: bytes(letters[c] for i in ids if i in vocabulary for c in vocabulary[i]).decode(errors="replace").lstrip(" ")
print(sum(rows[i] == text(case["ids"][i]) for i in range(3)))
PY
)
    [[ $same -eq 3 ]]
    check $? "eval writes the same, number $line" "$same of 3"
done
for bad in '"suppress_tokens": 3' '"suppress_tokens": ["a"]' '"lang_to_id": [1]' '"forced_decoder_ids": [[2, 270]]' '"forced_decoder_ids": [[1, null], [2, null]]' \
    '"forced_decoder_ids": [[1, 9], [2, 9], [3, 9], [4, 9]]' '"forced_decoder_ids": [[1]]' '"forced_decoder_ids": [7]' '"task_to_id": {"transcribe": null}' \
    "\"suppress_tokens\": [$(seq -s , 0 300)]"; do
    echo "{$bad}" >"$work/rules/generation_config.json"
    expect 4 "$work/rules/generation_config.json: .*(suppress_tokens and|longer)" generate --model "$work/rules" --audio $golden/sounds/0.wav
done

learn=(train --model $golden --data $golden/rows.jsonl "${speaks[@]}" --max-seq-length 16 --max-steps 6 --quiet --json --learning-rate 3e-3)
# What --gradient-release adds up in another order is the table that two stages share: one micro-batch.
digest=
for more in "" "--gradient-checkpointing full" "--gradient-checkpointing sqrt" "--gradient-checkpointing every:2 --threads 1" \
    "--gradient-checkpointing memory-poor --kernels $other_kernels" "--poison"; do
    rm -rf "$work/b"
    # shellcheck disable=SC2086
    run "${learn[@]}" --per-device-train-batch-size 2 --gradient-accumulation-steps 2 --output-dir "$work/b" $more
    [[ $code -eq 0 && -n $(json state_digest) && $(json state_digest) == "${digest:-$(json state_digest)}" ]]
    check $? "the same bits: $more" "$out$err"
    digest=$(json state_digest)
done
rm -rf "$work/r"
run "${learn[@]}" --per-device-train-batch-size 2 --gradient-accumulation-steps 2 --output-dir "$work/r" --stop-at-step 3
run "${learn[@]}" --per-device-train-batch-size 2 --gradient-accumulation-steps 2 --output-dir "$work/r" --resume-from-checkpoint true
[[ $code -eq 0 && $(json state_digest) == "$digest" ]]
check $? "resumed: the same bits" "$out$err"

# Evaluations of a run report what eval does of the model that it saves, wherever other metrics go, and leave the run as it is.
# verifies formats-77.5e5a
judge=(--eval-data $golden/rows.jsonl --eval-steps 3 --per-device-train-batch-size 4)
run "${learn[@]}" "${judge[@]}" --output-dir "$work/j" --metrics "$work/j.prom" --report-to tensorboard
wer=$(sed -n 's/.*"step": 6,.*"eval_wer": \([0-9.e-]*\),.*/\1/p' <<<"$out")
digest=$(json state_digest)
[[ $code -eq 0 && -n $wer && $(grep -c '"eval_wer": [0-9]' <<<"$out") -eq 3 ]]
check $? "evaluations report the word error rate" "$out$err"
grep -q "metric=\"wer\"} ${wer:0:5}" "$work/j.prom" && grep -q '"event":"eval".*"step":6,.*"wer":'"$wer" "$work/j/events.jsonl" &&
    grep -raq 'eval/wer' "$work/j/runs"
check $? "in the metrics file, events and TensorBoard" "$wer $(grep 'wer"' "$work/j.prom"; find "$work/j")"
run watch --once "$work/j"
[[ $out$err == *"wer $(printf %.4f "$wer")"* ]]
check $? "watch" "$out$err"
run report "$work/j"
[[ $code -eq 0 ]] && grep -q 'wer' "$work/j/report.html"
check $? "and report" "$out$err"
run eval --model "$work/j" --data $golden/rows.jsonl "${speaks[@]}" --max-seq-length 16 --json
[[ -n $wer && $(json wer) == "$wer" ]]
check $? "it is that of eval ($wer)" "$out$err"
# The options that texts begin with are the run's.
# verifies record-6.d577
run replay "$work/j"
[[ $code -eq 0 && $out$err == *'exported files: 4 of 4'* ]]
check $? "a replay proves the run" "$out$err"
expect 2 "language differs from the checkpoint.s: found .de., expected .en." "${learn[@]}" "${judge[@]}" --output-dir "$work/j" --resume --max-steps 8 --language de
arena=0
for kind in true false; do
    run "${learn[@]}" "${judge[@]}" --output-dir "$work/j$kind" --predict-with-generate $kind
    [[ $code -eq 0 && $(json state_digest) == "$digest" && $(json arena_bytes) == "$(json device_bytes_in_use)" ]]
    check $? "--predict-with-generate $kind: the same bits, within the plan" "$out$err"
    [[ $kind == true ]] && { arena=$(json arena_bytes); continue; }
    ! grep -q '"eval_wer"' <<<"$out"
    check $? "without it there is no word error rate" "$out"
done
sed 's/"text": "\([a-z]\)/"text": "\u\1/' $golden/rows.jsonl | sed "s#sounds/#$PWD/$golden/sounds/#" >"$work/capital.jsonl"
run train --model "$work/j" --data $golden/rows.jsonl --eval-data "$work/capital.jsonl" "${speaks[@]}" --max-seq-length 16 --max-steps 150 \
    --learning-rate 3e-3 --per-device-train-batch-size 4 --quiet --json --output-dir "$work/jn" --normalizer basic
awk -v a="$(json eval_wer)" 'BEGIN { exit !(a != "" && a < 0.2) }'
check $? "--normalizer counts for evaluations of a run" "$out$err"
run plan --model $golden --data $golden/rows.jsonl --max-seq-length 16 "${judge[@]}" --json
[[ $(json arena_bytes) == "$arena" ]]
check $? "plan has its bytes ($arena)" "$out$err"
run "${learn[@]}" "${judge[@]}" --output-dir "$work/jb" --metric-for-best-model wer --load-best-model-at-end
[[ $code -eq 0 ]] && grep -q '"metric":"wer"\|"metric": "wer"' "$work/jb/events.jsonl" "$work/jb/record.jsonl" 2>/dev/null
check $? "it names the best model" "$out$err"
run "${learn[@]}" "${judge[@]}" --output-dir "$work/jl" --lora-r 2
grep -q '"eval_wer": [0-9]' <<<"$out"
check $? "of adapters too" "$out$err"
expect 2 'metric-for-best-model: --predict-with-generate is false' "${learn[@]}" "${judge[@]}" --output-dir "$work/no" --metric-for-best-model wer --predict-with-generate false
expect 2 'metric-for-best-model.*"?wer' train --model gpt2 --data $golden/rows.jsonl --eval-data $golden/rows.jsonl --max-steps 1 --output-dir "$work/no" --metric-for-best-model wer

run "${learn[@]}" --max-steps 150 --per-device-train-batch-size 4 --output-dir "$work/a"
check $code "it learns" "$err"
run eval --model "$work/a" --data $golden/rows.jsonl "${speaks[@]}" --max-seq-length 16 --json --predictions "$work/p.jsonl"
awk -v a="$(json wer)" -v b="$untrained" 'BEGIN { exit !(a != "" && a < 0.2 && b > 0.9) }'
check $? "the word error rate falls from $untrained" "$out$err"
[[ $(wc -l <"$work/p.jsonl") -eq 12 ]] && grep -q '"audio": "tests/golden/speech/sounds/0.wav", "text": "fall fall long", "prediction": "fall' "$work/p.jsonl"
check $? "predictions" "$(cat "$work/p.jsonl")"
grep -q '"WhisperForConditionalGeneration"' "$work/a/config.json" && cmp -s $golden/preprocessor_config.json "$work/a/preprocessor_config.json"
check $? "its class, and what it hears with" "$(cat "$work/a/config.json")"
run generate --model "$work/a" --audio $golden/sounds/0.wav "${speaks[@]}"
[[ $code -eq 0 && $out == "fall fall long" ]]
check $? "generate writes it down" "$out$err"
run export --model "$work/a" --to "$work/x"
cmp -s "$work/a/model.safetensors" "$work/x/model.safetensors"
check $? "export writes the same bytes" "$err"
run "${learn[@]}" --output-dir "$work/l" --lora-r 2
[[ $code -eq 0 ]] && grep -aq 'base_model.model.model.decoder.layers.1.encoder_attn.q_proj.lora_B' "$work/l/adapter_model.safetensors" &&
    grep -q '"target_modules": \["q_proj", "v_proj"\]' "$work/l/adapter_config.json" && grep -q '"task_type": null' "$work/l/adapter_config.json"
check $? "adapters" "$out$err"
run generate --model $golden --adapter "$work/l" --audio $golden/sounds/0.wav "${speaks[@]}" --max-new-tokens 3
check $code "which write down" "$err"

# A table, a directory, other names and another order are the same rows.
digest=
sed 's/{"audio": \("[^"]*"\), "text": \("[^"]*"\)}/{"sentence": \2, "id": 1, "path": \1}/' $golden/rows.jsonl >"$work/rows.jsonl"
ln -s "$PWD/$golden/sounds" "$work/sounds"
for data in $golden/rows.jsonl $golden $golden/metadata.csv "$work/rows.jsonl"; do
    run eval --model $golden --data "$data" "${speaks[@]}" --max-seq-length 16 --json
    [[ $code -eq 0 && -n $(json loss) && $(json loss) == "${digest:-$(json loss)}" ]]
    check $? "$data" "$out$err"
    digest=$(json loss)
done

# Sounds of other forms: the same wave as 8, 24 and 32 bits, as floats, of two channels, and at other rates.
cat >"$work/make.py" <<'PY'
import math, struct, sys
def wav(name, frames, rate=16000, bits=16, channels=1, tag=1, said=None):
    width = bits // 8
    each = {8: lambda v: struct.pack("<B", round(v * 127) + 128), 16: lambda v: struct.pack("<h", round(v * 32767)),
            24: lambda v: struct.pack("<i", round(v * 8388607))[:3],
            32: lambda v: struct.pack("<f", v) if tag == 3 else struct.pack("<i", round(v * 2147483647))}[bits]
    data = b"".join(each(v) * channels for v in frames)
    head = b"fmt " + struct.pack("<IHHIIHH", 16, tag, channels, rate, rate * channels * width, channels * width, bits)
    said = len(data) if said is None else said
    with open(f"{sys.argv[1]}/{name}.wav", "wb") as file:
        file.write(b"RIFF" + struct.pack("<I", 36 + said) + b"WAVE" + head + b"data" + struct.pack("<I", said) + data)
    with open(f"{sys.argv[1]}/{name}.jsonl", "w") as file:
        file.write('{"audio": "%s.wav", "text": "low"}\n' % name)
def tone(rate, seconds=0.5):
    return [0.4 * math.sin(2 * math.pi * 440 * t / rate) for t in range(int(rate * seconds))]
wav("plain", tone(16000))
wav("b8", tone(16000), bits=8)
wav("b24", tone(16000), bits=24)
wav("b32", tone(16000), bits=32)
wav("f32", tone(16000), bits=32, tag=3)
wav("stereo", tone(16000), channels=2)
for rate in (8000, 22050, 44100, 48000):
    wav(f"r{rate}", tone(rate), rate=rate)
wav("odd", tone(44099), rate=44099)
wav("cut", tone(16000), said=20000)
wav("none", [])
wav("long", tone(16000, 1.1))
wav("alaw", tone(16000), bits=8, tag=6)
bad = tone(16000)
bad[77] = float("nan")
wav("nan", bad, bits=32, tag=3)
PY
python3 "$work/make.py" "$work"
printf 'fLaC%08d' 0 >"$work/x.flac"
printf 'ID3%064d' 0 >"$work/x.mp3"
run eval --model "$work/a" --data "$work/plain.jsonl" "${speaks[@]}" --max-seq-length 16 --json
plain=$(json loss)
for name in b24 b32 f32 stereo r8000 r22050 r44100 r48000; do
    run eval --model "$work/a" --data "$work/$name.jsonl" "${speaks[@]}" --max-seq-length 16 --json
    awk -v a="$(json loss)" -v b="$plain" 'BEGIN { d = a - b; exit !(a != "" && d * d < 0.01 * b * b) }'
    check $? "$name is heard as it is" "$plain: $out$err"
done
run eval --model "$work/a" --data "$work/b8.jsonl" "${speaks[@]}" --max-seq-length 16
check $code "b8 is heard, with its noise" "$out$err"
run eval --model "$work/a" --data "$work/stereo.jsonl" "${speaks[@]}" --max-seq-length 16
grep -q '1 files have several channels: their mean is read' <<<"$err"
check $? "channels are said" "$err"
run eval --model "$work/a" --data "$work/r48000.jsonl" "${speaks[@]}" --max-seq-length 16
grep -q '1 files are of another rate' <<<"$err"
check $? "rates are said" "$err"

# FLAC is the same sound (its samples: tests/unit/tools/bedplate/sources/test_flac_library.c).
if ls /usr/lib/*/libFLAC.so.* /lib/*/libFLAC.so.* >/dev/null 2>&1; then
    for name in mono16 stereo16 mono24 stereo24; do
        for kind in wav flac; do
            cp $golden/flac/$name.$kind "$work"
            echo "{\"audio\": \"$name.$kind\", \"text\": \"low\"}" >"$work/$kind.jsonl"
            run eval --model $golden --data "$work/$kind.jsonl" "${speaks[@]}" --max-seq-length 16 --json
            [[ $kind == flac ]] || digest=$(json loss)
        done
        [[ $code -eq 0 && -n $digest && $(json loss) == "$digest" ]]
        check $? "$name of FLAC is that of WAV" "$out$err, $digest"
    done
    grep -q '1 files have several channels' <<<"$err" && grep -q '1 files are of another rate' <<<"$err"
    check $? "channels and rate of FLAC are said" "$err"
    run generate --model $golden --audio $golden/flac/mono16.flac "${speaks[@]}" --max-new-tokens 3
    check $code "generate hears FLAC" "$err"
    { head -c 1000 $golden/flac/mono16.flac; printf X; tail -c +1002 $golden/flac/mono16.flac; } >"$work/bad.flac"
    echo '{"audio": "bad.flac", "text": "low"}' >"$work/flac.jsonl"
    expect 4 "$work/bad.flac: the FLAC file is damaged in the block that begins at byte: found" eval --model $golden --max-seq-length 16 --data "$work/flac.jsonl"
    mkdir "$work/none"
    for file in 8 12 14; do : >"$work/none/libFLAC.so.$file"; done
    LD_LIBRARY_PATH=$work/none run generate --model $golden --audio $golden/flac/mono16.flac
    [[ $code -eq 4 && $err == *mono16.flac:*'this machine has no libFLAC'*'apt install'* ]]
    check $? "a machine without libFLAC says so" "$code $err"
else
    echo "skipped: FLAC: libFLAC is not installed"
fi

hear=(eval --model $golden --max-seq-length 16 --data)
expect 4 "$work/cut.wav: the file ends before the samples" "${hear[@]}" "$work/cut.jsonl"
expect 4 "$work/none.wav: the sound has no sample" "${hear[@]}" "$work/none.jsonl"
expect 4 "$work/nan.wav: a sample is not finite: found 77" "${hear[@]}" "$work/nan.jsonl"
expect 4 "$work/long.wav: the speech is longer.*found 17600, expected at most 16000" "${hear[@]}" "$work/long.jsonl"
expect 4 "$work/odd.wav: sound of this rate.*try: ffmpeg" "${hear[@]}" "$work/odd.jsonl"
expect 4 "$work/alaw.wav: .*another format tag, or so many bits: found 6" "${hear[@]}" "$work/alaw.jsonl"
echo '{"audio": "x.mp3", "text": "low"}' >"$work/bad.jsonl"
expect 4 "$work/x.mp3: this is .*try: ffmpeg" "${hear[@]}" "$work/bad.jsonl"
echo '{"audio": "x.flac", "text": "low"}' >"$work/bad.jsonl"
expect 4 "$work/x.flac: the FLAC file ends inside its head: bytes: found 12, expected at least 42" "${hear[@]}" "$work/bad.jsonl"
echo '{"audio": "gone.wav", "text": "low"}' >"$work/bad.jsonl"
expect 4 "$work/gone.wav: there is no such file" "${hear[@]}" "$work/bad.jsonl"
printf '{"audio": "plain.wav", "text": "%s"}\n' "$(printf 'low %.0s' {1..60})" >"$work/bad.jsonl"
expect 4 'bad.jsonl:1: the text has more tokens than the model' "${hear[@]}" "$work/bad.jsonl"
echo '{"audio": "plain.wav"}' >"$work/bad.jsonl"
expect 4 'lacks speech or its text' "${hear[@]}" "$work/bad.jsonl"
echo '{"audio": "plain.wav", "text": ""}' >"$work/bad.jsonl"
expect 4 'there is nothing to learn' "${hear[@]}" "$work/bad.jsonl"
printf 'name,words\nplain.wav,low\n' >"$work/bad.csv"
expect 4 'the first row names no column of files' "${hear[@]}" "$work/bad.csv"
printf 'file_name,text\nplain.wav\n' >"$work/bad.csv"
expect 4 'another number of fields' "${hear[@]}" "$work/bad.csv"
echo low >"$work/bad.txt"
expect 4 'the model makes a text of speech' "${hear[@]}" "$work/bad.txt"
expect 4 "there is no such file" generate --model $golden --audio "$work/gone.wav"
expect 2 'give --audio alone' generate --model $golden --prompt low
expect 2 'reads text, not speech' generate --model tests/golden/seq2seq --audio "$work/plain.wav"
expect 2 'no language of Whisper.*"klingon"' generate --model $golden --audio "$work/plain.wav" --language klingon
expect 4 'no such token.*<|fr|>' generate --model $golden --audio "$work/plain.wav" --language french
expect 2 'speech is read in fp32' train --model $golden --data $golden --bf16 --max-steps 1 --output-dir "$work/no"
expect 2 'texts of speech are not packed' train --model $golden --data $golden --packing --max-steps 1 --output-dir "$work/no"

run bench step --model $golden --max-seq-length 16 --per-device-train-batch-size 2 --repeat 2
check $code "a step is timed over made-up spectra" "$out$err"

# The whole path with words that a synthesiser says, at its own rate.
if command -v espeak-ng >/dev/null; then
    mkdir "$work/said"
    echo 'file_name,transcription' >"$work/said/metadata.csv"
    i=0
    for words in "high" "low" "rise" "fall" "long" "high low" "low rise" "fall long"; do
        for pitch in 30 60; do
            espeak-ng -p $pitch -s 260 -w "$work/said/$i.wav" "$words" 2>/dev/null
            echo "$i.wav,$words" >>"$work/said/metadata.csv"
            i=$((i + 1))
        done
    done
    sed 's/"max_source_positions": 50/"max_source_positions": 75/' $golden/config.json >"$work/config.json"
    mkdir "$work/hears" && cp "$work/config.json" $golden/tokenizer*.json "$work/hears"
    sets=(--data "$work/said" "${speaks[@]}" --max-seq-length 16)
    run train --model "$work/hears" "${sets[@]}" --max-steps 200 --per-device-train-batch-size 8 --learning-rate 3e-3 --output-dir "$work/speaks" --quiet
    check $code "it learns what is said" "$err"
    run eval --model "$work/speaks" "${sets[@]}" --json
    awk -v a="$(json wer)" 'BEGIN { exit !(a != "" && a < 0.2) }'
    check $? "the word error rate of synthetic speech" "$out$err"
else
    echo "skipped: synthetic speech: espeak-ng is not installed"
fi
finish
