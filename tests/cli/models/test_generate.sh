#!/bin/bash
# SPDX-License-Identifier: MIT
# Generating: sampling, several sequences, streaming, stop strings, and what ends a text.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 400; i++) print i % 50, "green bottles, \xc3\xa9t\xc3\xa9." }' >"$work/text"
run train --model tiny --data "$work/text" --max-seq-length 32 --per-device-train-batch-size 8 --max-steps 150 \
    --learning-rate 3e-3 --quiet --output-dir "$work/m"
check $((code != 0)) "a model to begin with" "$err"
say=(generate --model "$work/m" --prompt '7 green' --max-new-tokens 40)

# verifies face-18.cca4
# Streams: the text is the same whole or in pieces, as text and in JSON.
run "${say[@]}" --seed 5
streamed=$out
run "${say[@]}" --seed 5 --no-stream
[[ -n $streamed && $out == "$streamed" ]]
check $? "streamed or not, the text is the same" "$out | $streamed"
run "${say[@]}" --seed 5 --json
[[ $(wc -l <<<"$out") -eq 1 && $(json finish_reason) == length && $(json tokens) -eq 40 ]]
check $? "JSON is one object" "$out"

# Several sequences: each has a stream of its own, the first is the one of before.
run "${say[@]}" --seed 5 --json
one=$(grep -o '"ids": .*' <<<"$out")
run "${say[@]}" --seed 5 --json --num-return-sequences 3
[[ $(wc -l <<<"$out") -eq 3 && $(sort -u <<<"$(grep -o '"ids": .*' <<<"$out")" | wc -l) -eq 3 ]]
check $? "three sequences differ" "$out"
[[ $(head -1 <<<"$out" | grep -o '"ids": .*') == "$one" && $(json sequence) -eq 2 ]]
check $? "and the first is that of a run for one" "$out"
three=$(grep -o '"ids": .*' <<<"$out")
run "${say[@]}" --seed 5 --json --num-return-sequences 3 --threads 1
[[ $(grep -o '"ids": .*' <<<"$out") == "$three" ]]
check $? "the same again, with other threads" "$out"
# Many are written at once, as many as --arena has room for, and have the tokens that they have one by one.
for model in tiny tiny-llama "tiny-phi3 --bf16" tiny-gemma tiny-gemma2 tiny-neox; do
    # shellcheck disable=SC2086
    run generate --model $model --prompt-ids 7,8,9 --max-new-tokens 12 --threads 2 --json
    least=$(json arena_bytes)
    # shellcheck disable=SC2086
    run generate --model $model --prompt-ids 7,8,9 --max-new-tokens 12 --num-return-sequences 19 --json --threads 2
    [[ $code -eq 0 && $(json sequences_at_once) -eq 10 && $(json arena_bytes) -gt $least ]]
    check $? "$model: ten at once" "$out$err"
    many=$(grep -o '"ids": .*' <<<"$out")
    # shellcheck disable=SC2086
    run generate --model $model --prompt-ids 7,8,9 --max-new-tokens 12 --num-return-sequences 19 --json --threads 2 --arena "$least"
    [[ $(json sequences_at_once) -eq 1 && $(json arena_bytes) -eq $least && $(grep -o '"ids": .*' <<<"$out") == "$many" ]]
    check $? "$model: one by one, in $least bytes, the same tokens" "$out$err"
done
run "${say[@]}" --seed 5 --json
few=$(json arena_bytes)
run "${say[@]}" --seed 5 --num-return-sequences 7 --stop 3 --stop '5 '
many=$out
for how in --no-stream "--arena $few"; do
    # shellcheck disable=SC2086
    run "${say[@]}" --seed 5 --num-return-sequences 7 --stop 3 --stop '5 ' $how
    [[ $code -eq 0 && -n $out && $(sed '/===/d' <<<"$out" | awk '{ print length($0) }' | sort -u | wc -l) -gt 1 && $out == "$many" ]]
    check $? "texts of several lengths, $how" "$out | $many$err"
done

run "${say[@]}" --num-return-sequences 2
grep -qx '=== sequence 2 of 2 ===' <<<"$out"
check $? "texts have headings" "$out"
run "${say[@]}" --num-return-sequences 2 --output-ids
[[ $(wc -l <<<"$out") -eq 2 ]]
check $? "ids are a line each" "$out"

# What is kept of the prompt is what reading it again gives; a recurrent model keeps nothing and reads it again.
for model in tiny tiny-llama tiny-qwen3 tiny-gru tiny-lstm; do
    run generate --model "$model" --prompt-ids 7,8,9,10,11 --max-new-tokens 20 --temperature 0 --num-return-sequences 3 --json
    [[ $code -eq 0 && $(wc -l <<<"$out") -eq 3 && $(grep -o '"ids": [^]]*' <<<"$out" | sort -u | wc -l) -eq 1 ]]
    check $? "$model: each likeliest continuation is the same" "$out$err"
done

# Narrow enough, sampling is greedy.
run "${say[@]}" --temperature 0
greedy=$out
for narrow in '--top-p 0' '--min-p 1' '--top-k 1' '--top-p 0.000001 --top-k 0'; do
    # shellcheck disable=SC2086
    run "${say[@]}" --seed 3 $narrow
    [[ $out == "$greedy" ]]
    check $? "$narrow leaves the likeliest" "$out | $greedy"
done
run "${say[@]}" --temperature 0 --repetition-penalty 5
[[ $code -eq 0 && -n $out && $out != "$greedy" ]]
check $? "a penalty changes even the likeliest" "$out"
expect 2 'top-p: the value is out of range: .*expected 0 to 1$' "${say[@]}" --top-p 1.5
expect 2 'repetition-penalty: the value is out of range' "${say[@]}" --repetition-penalty 0
expect 2 'num-return-sequences: the value is out of range' "${say[@]}" --num-return-sequences 0

printf 'top-p = 0\nnum_return_sequences = 2\n' >"$work/how.conf"
run "${say[@]}" --seed 3 --config "$work/how.conf" --output-ids
[[ $code -eq 0 && $(sort -u <<<"$out" | wc -l) -eq 1 && $(wc -l <<<"$out") -eq 2 ]]
check $? "a configuration file says how" "$out$err"

# verifies face-18.cca4
# Stop strings end the text, across tokens, and nothing of them is shown.
run "${say[@]}" --temperature 0 --json
text=$(json text)
stop=bottles
[[ $text == *"$stop"* ]]
check $? "the model has learned to say it" "$text"
for how in '' --no-stream; do
    # shellcheck disable=SC2086
    run "${say[@]}" --temperature 0 --stop zzz --stop "$stop" $how
    [[ $code -eq 0 && $out == "${text%%"$stop"*}" ]]
    check $? "the text ends in front of a stop string $how" "$out"
done
run "${say[@]}" --temperature 0 --stop_strings="$stop" --json
[[ $(json finish_reason) == stop && $(json text) == "${text%%"$stop"*}" && $(json tokens) -lt 40 ]]
check $? "and in JSON" "$out"
expect 0 '' "${say[@]}" --temperature 0 --stop "$stop" --num-return-sequences 2
[[ $out != *"$stop"* ]]
check $? "no sequence shows it" "$out"
run generate --model "$work/m" --prompt-ids 55,32,103 --temperature 0 --max-new-tokens 60 --stop "$stop"
[[ $code -eq 0 && $(wc -w <<<"$out") -lt 60 ]]
check $? "it ends a list of ids as well" "$out$err"
expect 2 '--stop: a stop string is empty' "${say[@]}" --stop ''
expect 2 '--stop: a stop string is not UTF-8' "${say[@]}" --stop $'a\xff'
expect 2 '--stop: the option needs a value' "${say[@]}" --stop

"$program" generate --model tiny --prompt abc --max-new-tokens 50 --seed 1 >"$work/bytes"
iconv -f UTF-8 -t UTF-8 "$work/bytes" >/dev/null 2>&1
check $? "even an untrained model's bytes come as UTF-8"

# generation_config.json says what ends a text, a number or a list; else config.json does.
draw=(--prompt-ids 1,2 --seed 3 --output-ids --max-new-tokens 9)
cp -r "$work/m" "$work/e"
run generate --model "$work/e" "${draw[@]}" --ignore-eos
read -r -a free <<<"$out"
first=4
for ((i = 3; i >= 0; i--)); do [[ ${free[i]} != "${free[4]}" ]] || first=$i; done
for ends in "${free[4]}" "[300, ${free[4]}]"; do
    echo "{\"eos_token_id\": $ends, \"do_sample\": true}" >"$work/e/generation_config.json"
    run generate --model "$work/e" "${draw[@]}"
    [[ $code -eq 0 && $(wc -w <<<"$out") -eq $((first + 1)) ]]
    check $? "generation_config.json's $ends ends the text" "$out, freely ${free[*]} $err"
done
sed -i -E "s/\"eos_token_id\": [^,]*,/\"eos_token_id\": ${free[4]},/" "$work/e/config.json"
echo '{"eos_token_id": 300}' >"$work/e/generation_config.json"
run generate --model "$work/e" "${draw[@]}"
[[ $(wc -w <<<"$out") -eq 9 ]]
check $? "and takes the place of config.json's" "$out$err"
for nothing in '{}' '{"eos_token_id": null, "a": {"eos_token_id": 1}}'; do
    echo "$nothing" >"$work/e/generation_config.json"
    run generate --model "$work/e" "${draw[@]}"
    [[ $(wc -w <<<"$out") -eq $((first + 1)) ]]
    check $? "without one config.json's counts: $nothing" "$out$err"
done
for wrong in '{"eos_token_id": "x"}' '{"eos_token_id": [1, -2]}' '[]' '{"eos_token_id": 1'; do
    echo "$wrong" >"$work/e/generation_config.json"
    expect 4 'e/generation_config.json' generate --model "$work/e" "${draw[@]}"
done
finish
