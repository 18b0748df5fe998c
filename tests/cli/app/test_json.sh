#!/bin/bash
# SPDX-License-Identifier: MIT
# What takes --json prints JSON and nothing else: an object on each line. Every command of the help is in the table below,
# with the options that choose another output.
. "$(dirname "$0")/../lib.sh"

for ((i = 0; i < 60; i++)); do echo "line $i of a text that is learned"; done >"$work/text"
for ((i = 0; i < 8; i++)); do echo "{\"text\": \"row $i\", \"label\": $((i % 2))}"; done >"$work/rows.jsonl"
echo '{"prompt": "a"}' >"$work/prompts.jsonl"
printf 'id,lower,upper,size\n0,0,2,16\n1,1,3,32\n' >"$work/buffers.csv"
echo hello >"$work/hello"
short=(--max-seq-length 16 --max-steps 1 --quiet)
run train --model tiny --data "$work/text" "${short[@]}" --output-dir "$work/run"
check $code "a run" "$err"
run train --model "$work/run" --data "$work/rows.jsonl" --task classification "${short[@]}" --output-dir "$work/classes"
check $code "a classifier" "$err"
run export --model "$work/run" --format gguf --to "$work/in.gguf"
check $code "a GGUF file" "$err"

tried=
# objects COMMAND..: with --json, standard output has objects, one a line.
objects() {
    "$program" "$@" --json >"$work/.out" 2>"$work/.err" <"$work/hello"
    code=$?
    tried+=" $1 "
    [[ $code -eq 0 ]] && python3 -c '
import json, sys
lines = open(sys.argv[1], encoding="utf-8", newline="\n").read().splitlines()
sys.exit(not lines or any(not isinstance(json.loads(line), dict) for line in lines))' "$work/.out" 2>>"$work/.err"
    check $? "bedplate $* --json (exit $code)" "$(cut -c 1-200 "$work/.out" "$work/.err" | head -5)"
}
text=(--data "$work/text" --max-seq-length 16)
learn=("${text[@]}" --output-dir "$work/unit")
objects plan --model tiny
objects plan --model tiny --frontier
objects plan --model tiny --map
objects plan --model tiny --listing
objects plan --model tiny --listing --map --html "$work/page"
objects plan --model tiny --emit-c "$work/emitted" --max-steps 2
objects plan --model tiny "${learn[@]}" --unit systemd
objects plan --model tiny "${learn[@]}" --unit slurm
objects train --model "$work/run" "${learn[@]}" --max-steps 1
objects eval --model "$work/run" "${text[@]}"
objects eval --model "$work/classes" --data "$work/rows.jsonl" --predictions "$work/predicted"
objects embed --model "$work/run" --data "$work/text" --output "$work/vectors.npy"
objects distill --model "$work/run" "${text[@]}" --output "$work/teacher"
objects generate --model "$work/run" --prompt a --max-new-tokens 2
objects generate --model "$work/run" --chat --chat-template chatml --max-new-tokens 2
objects rollout --model "$work/run" --data "$work/prompts.jsonl" --max-completion-length 4 --output "$work/rolled.jsonl"
objects export --model "$work/run" --to "$work/exported"
objects export --model "$work/run" --card "$work/card.json"
objects import --from "$work/in.gguf" --to "$work/imported"
objects tokenize --tokenizer "$work/run" --data "$work/text" --output "$work/tokens.bin"
objects init "$work/begun" --yes --model "$work/run" --data "$work/text"
for shell in bash zsh fish; do
    objects completion $shell
    python3 -c 'import json, sys; sys.stdout.write(json.load(open(sys.argv[1]))["script"])' "$work/.out" >"$work/script"
    "$program" completion $shell | cmp -s - "$work/script"
    check $? "the script of $shell is that of completion without --json"
done
objects verify "$work/run"
objects verify "$work/run" --newest
objects verify "$work/run/checkpoint-1"
objects replay "$work/run" --all
objects replay --compare "$work/run" "$work/run"
objects replay "$work/run" --documents 1
objects watch "$work/run" --once
objects report "$work/run" --output "$work/report.html"
objects devices
objects arena "$work/buffers.csv"
objects bench step --model tiny --max-seq-length 16
long_form && objects selftest
tried+=" selftest " # in a minute of its own: test_selftest.sh
for command in $("$program" --help | sed -nE 's/^  bedplate ([a-z]+).*/\1/p'); do
    [[ $tried == *" $command "* ]] || ! grep -q -- '^  --json' < <("$program" "$command" --help all)
    check $? "$command is in this table"
done
objects plan --model tiny "${learn[@]}" --unit systemd
python3 -c 'import json, sys; sys.stdout.write(json.load(open(sys.argv[1]))["text"])' "$work/.out" >"$work/service"
"$program" plan --model tiny "${learn[@]}" --unit systemd 2>"$work/.err" | cmp -s - "$work/service"
check $? "the unit is that without --json"
finish
