#!/bin/bash
# SPDX-License-Identifier: MIT
# Every option that takes a path which is written, against what must not be destroyed: the data, a file of the
# model, links to them, a file of somebody else's, a directory. The options are those of help; one that is in no row
# here fails.
. "$(dirname "$0")/../lib.sh"

for ((i = 0; i < 60; i++)); do echo "line $i of a text that is learned"; done >"$work/data.txt"
run train --model tiny --data "$work/data.txt" --max-seq-length 16 --max-steps 1 --quiet --output-dir "$work/model"
check $code "a model" "$err"
for ((i = 0; i < 8; i++)); do echo "{\"text\": \"row $i\", \"label\": $((i % 2))}"; done >"$work/rows.jsonl"
run train --model "$work/model" --data "$work/rows.jsonl" --task classification --max-seq-length 16 \
    --max-steps 1 --quiet --output-dir "$work/classes"
check $code "a classifier" "$err"
echo '{"prompt": "a"}' >"$work/prompts.jsonl"
run export --model "$work/model" --format gguf --to "$work/in.gguf"
check $code "a GGUF file" "$err"

# Paths that are written, COMMAND.OPTION; what else is written or read names no file of its own.
learn=(--data "$work/data.txt" --model "$work/model" --max-seq-length 16 --max-steps 1 --quiet)
declare -A row=(
    [tokenize.output]="tokenize --tokenizer $work/model --data $work/data.txt --output @"
    [embed.output]="embed --data $work/data.txt --model $work/model --output @"
    [distill.output]="distill --data $work/data.txt --model $work/model --max-seq-length 16 --output @"
    [rollout.output]="rollout --model $work/model --data $work/prompts.jsonl --max-completion-length 4 --output @"
    [report.output]="report $work/model --output @"
    [eval.predictions]="eval --model $work/classes --data $work/rows.jsonl --predictions @"
    [train.offload]="train ${learn[*]} --output-dir $work/run --offload-buffered --offload file:@:64MB"
    [train.metrics]="train ${learn[*]} --output-dir $work/run --metrics @"
    [train.reward-log]="train ${learn[*]} --output-dir $work/run --reward-command cat --reward-log @"
    [rollout.reward-log]="rollout --model $work/model --data $work/prompts.jsonl --max-completion-length 4 --output $work/o.jsonl --reward-command cat --reward-log @"
    [train.output-dir]="train ${learn[*]} --output-dir @"
    [train.logging-dir]="train ${learn[*]} --output-dir $work/run --report-to tensorboard --logging-dir @"
    [plan.html]="plan --model $work/model --html @"
    [plan.emit-c]="plan --model $work/model --emit-c @"
    [export.to]="export --model $work/model --to @"
    [export.card]="export --model $work/model --card @"
    [import.to]="import --from $work/in.gguf --to @"
)
# plan takes what train takes and writes none of it; replay's are steps.
other=" plan.offload plan.metrics plan.reward-log plan.output-dir plan.logging-dir replay.to "
reads=" model data eval-data contributions audio chat-template tokenizer adapter adapters ref-model reward-model distill mpi fabric-secret resume-from-checkpoint continue-from stop-when config from "
for command in $("$program" --help | sed -nE 's/^  bedplate ([a-z]+).*/\1/p'); do
    for name in $("$program" "$command" --help all | sed -nE 's/^  --([a-z0-9-]+) .*(FILE|DIR|PATH).*/\1/p'); do
        [[ $reads == *" $name "* || $other == *" $command.$name "* || -n ${row[$command.$name]:-} ]]
        check $? "--$name of $command is in this table"
    done
done

mkdir "$work/folder"
echo kept >"$work/folder/kept"
echo "somebody's own" >"$work/foreign"
links() {
    rm -rf "$work/soft" "$work/hard" "$work/weights" "$work/run"
    ln -s data.txt "$work/soft"
    ln "$work/data.txt" "$work/hard"
    ln -s model/model.safetensors "$work/weights"
}
digest() {
    (cd "$work" && sha256sum data.txt rows.jsonl in.gguf model/* classes/model.safetensors folder/kept 2>/dev/null)
}
before=$(digest)
for name in "${!row[@]}"; do
    for case in data.txt rows.jsonl classes/model.safetensors model/model.safetensors folder/../data.txt soft hard weights folder model/config.json; do
        links
        # A row reads the model, or the data, or both.
        case $case in
            classes/*) reads=classes ;; *model* | weights) reads=model ;; rows*) reads=rows.jsonl ;; folder) reads='' ;; *) reads=data.txt ;;
        esac
        [[ ${row[$name]} == *"$work/$reads"* ]] || continue
        read -ra words <<<"${row[$name]//@/$work/$case}"
        run "${words[@]}"
        [[ $name == *logging-dir || ($case == folder && $name == *@(output-dir|.to|emit-c)) || $code -ne 0 ]]
        check $? "$name on $case is refused (exit $code)" "$out$err"
        now=$(digest)
        [[ $now == "$before" ]]
        check $? "$name on $case destroys nothing" "$(diff <(echo "$before") <(echo "$now"))"
        [[ $now == "$before" ]] || break 2 # nothing is what it was
    done
done
links
read -ra words <<<"${row[train.offload]//@/$work/foreign}"
run "${words[@]}"
[[ $code -eq 2 && $(cat "$work/foreign") == "somebody's own" ]]
check $? "a file without the mark is refused as a tier" "$err"
read -ra words <<<"${row[train.offload]//@/$work/tier}"
rm -rf "$work/run"
run "${words[@]}"
[[ $code -eq 0 && $(stat -c %a "$work/tier") == 600 ]]
check $? "a new tier is its owner's alone" "$err"
rm -rf "$work/run"
run "${words[@]}"
check $code "and is known again" "$err"
# What an earlier run left in its directory may be a link to somebody else's, or have another name as well.
own=(train "${learn[@]}" --output-dir "$work/run" --overwrite-output-dir)
for link in -s ''; do
    rm -rf "$work/run"
    run "${own[@]}"
    mv "$work/run/record.jsonl" "$work/kept.jsonl"
    mv "$work/run/checkpoint-1" "$work/moved"
    ln $link "$work/kept.jsonl" "$work/run/record.jsonl"
    ln -s "$work/moved" "$work/run/checkpoint-1"
    kept=$(sha256sum "$work/kept.jsonl" "$work/moved"/*)
    run "${own[@]}" --seed 9 # or its record would be the same bytes
    check $code "a run whose checkpoint and record ${link:+"(a link) "}are kept elsewhere is overwritten" "$err"
    [[ $(sha256sum "$work/kept.jsonl" "$work/moved"/*) == "$kept" && ! -L $work/run/checkpoint-1 ]]
    check $? "and both stay there" "$(ls -l "$work/moved" "$work/kept.jsonl")"
    rm -rf "$work/moved" "$work/kept.jsonl"
done
# Data that have the name of a file which a run writes into its directory, of whatever kind.
/bin/cp -r "$work/model" "$work/wordy"
printf '%s\n' '[PAD]' '[UNK]' >"$work/wordy/vocab.txt"
for name in vocab.txt data.tokens data.12.tokens reference.logps modules.json; do
    rm -rf "$work/run" && mkdir "$work/run"
    cp "$work/data.txt" "$work/run/$name"
    expect 2 "--output-dir: .*run/$name: the file is read.*found --data" train --data "$work/run/$name" --model "$work/wordy" --max-seq-length 16 --max-steps 1 --quiet --output-dir "$work/run"
    cmp -s "$work/data.txt" "$work/run/$name"
    check $? "data in the name of a run's $name stay"
    expect 2 'metrics.*another path' train "${learn[@]}" --output-dir "$work/run" --metrics "$work/run/${name/.12/}"
done
# What is no file is written into where it lies, or left as it is: a rename would put a file in its place. As root, on a
# node like /dev/null; for everybody, on a pipe, a link to it and the link to standard output.
lying=" eval.predictions rollout.output plan.html train.reward-log rollout.reward-log "
nodes=(pipe to-pipe stream)
mknod "$work/null" c 1 3 2>"$work/said" && nodes+=(null to-null)
for name in "${!row[@]}"; do
    [[ $lying == *" $name "* ]] && continue
    for case in "${nodes[@]}"; do
        rm -rf "$work/run" "$work/pipe" "$work/to-pipe" "$work/to-null" "$work/stream"
        mkfifo "$work/pipe"
        ln -s pipe "$work/to-pipe"
        ln -s null "$work/to-null"
        ln -s /proc/self/fd/1 "$work/stream"
        kind=$(stat -c %F "$work/$case")$(stat -Lc %F "$work/${case#to-}")
        read -ra words <<<"${row[$name]//@/$work/$case}"
        timeout 600 "$program" "${words[@]}" >"$work/out" 2>"$work/said"
        code=$?
        [[ ($code -ne 0 && $code -ne 124) || $name == *logging-dir ]]
        check $? "$name on $case is refused (exit $code)" "$(cat "$work/said")"
        [[ $(stat -c %F "$work/$case")$(stat -Lc %F "$work/${case#to-}") == "$kind" ]]
        check $? "$name leaves $case what it is" "$(ls -l "$work/$case")"
    done
done
expect 2 'found a pipe, expected a file' tokenize --tokenizer "$work/model" --data "$work/data.txt" --output "$work/pipe"
if [[ -c $work/null ]]; then
    run eval --model "$work/classes" --data "$work/rows.jsonl" --predictions "$work/null"
    [[ $code -eq 0 && -c $work/null ]]
    check $? "what is written where it lies goes into a device" "$err"
fi
# Written twice, however it is spelled; and what is written first and renamed.
expect 2 'metrics.*other|metrics.*another path' train "${learn[@]}" --output-dir "$work/run" --metrics "$work/run/../two" \
    --offload-buffered --offload "file:$work/two:64MB"
expect 2 'metrics.*other|offload.*another path' train "${learn[@]}" --output-dir "$work/run" --metrics "$work/two.reward" \
    --offload-buffered --offload "file:$work/two:64MB" --task grpo --reward-model "$work/model"
cp "$work/data.txt" "$work/x.tmp"
expect 2 'another path' tokenize --tokenizer "$work/model" --data "$work/x.tmp" --output "$work/x"
expect 2 'another path' tokenize --tokenizer "$work/model" --data "$work/d*.txt" --output "$work/data.txt"
# Names of our own are made anew: a link there is not followed.
ln -s data.txt "$work/page.tmp"
run report "$work/model" --output "$work/page"
[[ $code -eq 0 && $(digest) == "$before" && ! -L $work/page ]]
check $? "a link in the place of a temporary file is not followed" "$err"
ln -s "$work/data.txt" "$work/out.bin.tmp"
run tokenize --tokenizer "$work/model" --data "$work/rows.jsonl" --output "$work/out.bin"
[[ $code -eq 0 && $(digest) == "$before" ]]
check $? "nor by a token file" "$err"
# Checkpoints of a run: of the one that writes, by another option; of one that begins anew and removes what it reads; of
# another run, as the directory that is written. A model beside the trained one is not written over.
all() { (cd "$work" && sha256sum model/model.safetensors run/checkpoint-1/* beside/* 2>/dev/null); }
rm -rf "$work/run"
run train "${learn[@]}" --output-dir "$work/run"
check $code "a run with a checkpoint" "$err"
mkdir "$work/beside"
cp "$work/classes"/{config.json,model.safetensors,tokenizer.json,tokenizer_config.json} "$work/beside"
ln -s run "$work/way"
for ((i = 0; i < 8; i++)); do echo "{\"prompt\": \"p$i\", \"chosen\": \"a\", \"rejected\": \"b\"}"; done >"$work/pairs.jsonl"
before=$(all)
point=$work/run/checkpoint-1
for dir in run way; do
    for file in model.safetensors state.safetensors config.json another; do
        expect 2 'another path' train "${learn[@]}" --max-steps 2 --resume --output-dir "$work/run" --metrics "$work/$dir/checkpoint-1/$file"
    done
    anew=(--quiet --max-seq-length 16 --max-steps 1 --overwrite-output-dir --output-dir "$work/$dir")
    expect 2 'checkpoint-1: .*found --model, expected another path' train --model "$point" --data "$work/data.txt" "${anew[@]}"
    expect 2 'found --tokenizer' train --model "$work/model" --tokenizer "$point" --data "$work/data.txt" "${anew[@]}"
    expect 2 'found --data' train --model "$work/model" --data "$point/tokenizer.json" "${anew[@]}"
    expect 2 'found --data' train --model "$work/model" --data "$point/tok*.json" "${anew[@]}"
    expect 2 'found --continue-from' train "${learn[@]}" --continue-from "$point" "${anew[@]}"
    expect 2 'found --ref-model' train --model "$work/model" --task dpo --ref-model "$point" --data "$work/pairs.jsonl" "${anew[@]}"
done
for command in "train ${learn[*]} --output-dir" "train ${learn[*]} --overwrite-output-dir --output-dir" "train --model $point --data $work/data.txt --max-seq-length 16 --output-dir" \
    "export --model $work/model --to" "import --from $work/in.gguf --to"; do
    read -ra words <<<"$command"
    expect 2 'the directory is a checkpoint of a run' "${words[@]}" "$point"
done
expect 2 'found --ref-model' train --model "$work/model" --task dpo --ref-model "$work/beside" --data "$work/pairs.jsonl" --max-seq-length 16 --output-dir "$work/beside"
expect 2 'found --reward-model' train --model "$work/model" --task grpo --reward-model "$work/beside" --data "$work/prompts.jsonl" --output-dir "$work/beside"
[[ $(all) == "$before" ]]
check $? "no checkpoint and no model beside is changed" "$(diff <(echo "$before") <(all))"
finish
