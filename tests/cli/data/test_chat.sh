#!/bin/bash
# SPDX-License-Identifier: MIT
# Conversations: rows of every form, templates, what is learned, bad rows, and talking with a model.
# verifies formats-16.301b
. "$(dirname "$0")/../lib.sh"

for ((i = 0; i < 12; i++)); do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"say $i\"}, {\"role\": \"assistant\", \"content\": \"it is $i\"}]}"
done >"$work/chat.jsonl"
sed 's/"messages"/"conversations"/; s/"role": "user", "content"/"from": "human", "value"/; s/"role": "assistant", "content"/"from": "gpt", "value"/' \
    "$work/chat.jsonl" >"$work/share.jsonl"
for ((i = 0; i < 12; i++)); do
    echo "{\"instruction\": \"say $i\", \"input\": \"\", \"output\": \"it is $i\"}"
done >"$work/alpaca.jsonl"
{ echo "["; paste -sd, "$work/chat.jsonl"; echo "]"; } >"$work/chat.json"
echo '{% for m in messages %}{{ m.role[0] + ":" + m.content + ";" }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}' >"$work/short"
common=(--model tiny --max-seq-length 64 --per-device-train-batch-size 4 --learning-rate 3e-3 --threads 2)

expect 4 'has no chat template; give --chat-template' train "${common[@]}" --data "$work/chat.jsonl" \
    --output-dir "$work/x" --max-steps 1
[[ ! -e $work/x ]]
check $? "and no directory is made"
run train "${common[@]}" --data "$work/chat.jsonl" --chat-template "$work/short" --output-dir "$work/a" --max-steps 150 --json
check $((code != 0)) "train on conversations" "$out$err"
digest=$(json state_digest)
# u:say N;a:it is N; in bytes
grep -q "chat.jsonl: 12 conversations of $((10 * 18 + 2 * 20)) tokens, of which $((10 * 8 + 2 * 9)) are learned" <<<"$err"
check $? "what assistants say and the ends of their turns are learned" "$err"
for form in share.jsonl alpaca.jsonl chat.json; do
    run train "${common[@]}" --data "$work/$form" --chat-template "$work/short" --output-dir "$work/$form.out" --max-steps 150 --json
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
    check $? "$form: the same conversations, the same training" "$out$err"
done
run train "${common[@]}" --data "$work/chat.jsonl" --chat-template "$work/short" --output-dir "$work/b" --max-steps 150 --stop-at-step 20
run train "${common[@]}" --data "$work/chat.jsonl" --chat-template "$work/short" --output-dir "$work/b" --max-steps 150 --resume --json
[[ $code -eq 0 && $(json state_digest) == "$digest" ]]
check $? "stopped and resumed: the same bits" "$out$err"
run eval --model "$work/a" --data "$work/chat.jsonl" --max-seq-length 64 --json
[[ $code -eq 0 && $(json tokens) -eq $((10 * 8 + 2 * 9)) ]]
check $? "the template is saved with the model; evaluation counts what is learned" "$out$err"
run train "${common[@]}" --data "$work/chat.jsonl" --chat-template "$work/short" --loss-on all --output-dir "$work/all" --max-steps 1
grep -q "of which $((10 * 18 + 2 * 20)) are learned" <<<"$err"
check $? "--loss-on all" "$err"

# Bad rows.
echo '{"messages": [{"role": "robot", "content": "x"}]}' | cat "$work/chat.jsonl" - >"$work/robot.jsonl"
expect 4 'robot.jsonl:13: the role of a message is unknown.*robot' train "${common[@]}" --data "$work/robot.jsonl" \
    --chat-template chatml --output-dir "$work/x" --max-steps 1
echo '{"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "x"}]}' | cat "$work/chat.jsonl" - >"$work/system.jsonl"
expect 4 'system.jsonl:13.*System role not supported' train "${common[@]}" --data "$work/system.jsonl" \
    --chat-template gemma --output-dir "$work/x" --max-steps 1
echo '{% for a in range(65536) %}{% for b in messages %}{% for c in range(65536) %}{% endfor %}{% endfor %}{% endfor %}' >"$work/endless"
expect 4 'chat.jsonl:1.*(does not end|more memory)' train "${common[@]}" --data "$work/chat.jsonl" \
    --chat-template "$work/endless" --output-dir "$work/x" --max-steps 1
echo '{% include "x" %}' >"$work/include"
expect 4 'line 1: a statement that is not there' train "${common[@]}" --data "$work/chat.jsonl" \
    --chat-template "$work/include" --output-dir "$work/x" --max-steps 1
expect 4 'no chat template of this name, nor a file' train "${common[@]}" --data "$work/chat.jsonl" \
    --chat-template nothing --output-dir "$work/x" --max-steps 1
expect 2 'the date of chat templates is none' train "${common[@]}" --data "$work/chat.jsonl" \
    --chat-template chatml --chat-date 2024-13-01 --output-dir "$work/x" --max-steps 1

# Talking: with the template of the trained model, a line after the other.
printf 'say 3\nsay 4\n' >"$work/lines"
talk() { "$program" generate --model "$work/a" --chat --temperature 0 --max-new-tokens 12 --stop ';' --threads 1 "$@"; }
talk <"$work/lines" >"$work/said" 2>"$work/err"
check $? "two lines, two answers" "$(cat "$work/err")"
[[ $(grep -c . "$work/said") -ge 2 ]]
check $? "both are there" "$(cat "$work/said")"
[[ $(talk --prompt 'say 3') == "$(head -1 "$work/said")" ]]
check $? "one answer to --prompt is the first" "$(cat "$work/said")"
printf 'x\n/reset\nsay 3\n/exit\nsay 4\n' | talk >"$work/again" 2>&1
[[ $(tail -1 "$work/again") == "$(head -1 "$work/said")" ]]
check $? "/reset begins anew, /exit ends" "$(cat "$work/again")"

# With --json a line per answer: the message, and what other forms of generate say of their tokens.
talk --json <"$work/lines" >"$work/json" 2>"$work/err"
check $? "two lines as JSON" "$(cat "$work/err")"
awk -v said="$work/said" '{ getline want <said; gsub(/["\\]/, "\\&", want)
    start = "{\"role\": \"assistant\", \"content\": \"" want "\", \"finish_reason\": \"" } index($0, start) != 1 { exit 1 }
    !/"tokens": [0-9]+, .*"prompt_tokens": [0-9]+, .*"ids": \[[0-9]+.*\]}$/ { exit 1 } END { exit NR != 2 }' "$work/json"
check $? "each line is the answer of the same number" "$(cat "$work/json" "$work/said")"
talk --json --prompt 'say 3' --stop '' >"$work/one" 2>&1
[[ $? -eq 2 && ! -s $work/one ]] || grep -q 'stop string is empty' "$work/one"
check $? "an error writes no line" "$(cat "$work/one")"
"$program" generate --model "$work/a" --chat --temperature 0 --max-new-tokens 3 --ignore-eos --prompt 'say 3' --json >"$work/one"
grep -qE '"finish_reason": "length", "tokens": 3, .*"ids": \[[0-9]+, [0-9]+, [0-9]+\]}$' "$work/one"
check $? "as many tokens as asked, as many ids" "$(cat "$work/one")"
expect 2 'outgrow the context' generate --model "$work/a" --chat --prompt "a question that is long" --context 8
head -c 200000 /dev/zero | tr '\0' a >"$work/large.jinja"
printf '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}\n' >"$work/small.jsonl"
expect 4 'large.jinja: the file is larger than one of its kind may be: found 200000, expected at most 131072' \
    train --model tiny --data "$work/small.jsonl" --chat-template "$work/large.jinja" --max-seq-length 16 --max-steps 1 \
    --output-dir "$work/large"
finish
