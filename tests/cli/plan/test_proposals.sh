#!/bin/bash
# SPDX-License-Identifier: MIT
# A plan that does not fit proposes up to three ways that do, as options to type and the arena that they give: each
# of them fits when it is typed.
. "$(dirname "$0")/../lib.sh"

# mended ARGUMENTS: the whole command that stderr of a plan proposes, as a shell takes it, fits.
mended() {
    [[ $(grep -c '^try: bedplate plan --' <<<"$said") -eq 1 ]]
    check $? "$*: one command to try" "$said"
    eval "set -- $(sed -n 's/^try: bedplate plan //p' <<<"$said")"
    run plan "${@//PATH/$work/tier}" --json
    [[ $code -eq 0 && $(json fits) == true && $(json arena_bytes) -le $limit ]]
    check $? "$*: the command fits when it is typed" "$code $err"
}
# proposals ARGUMENTS: a plan that does not fit, and what it proposes, each tried.
proposals() {
    local line options bytes tried=0
    run plan "$@"
    [[ $code -eq 3 && $(grep -c 'too large' <<<"$out") -eq 0 && $(grep -c '^least' <<<"$out") -le 1 ]]
    check $? "$*: the table has one line, not one for all that was tried" "$out"
    mapfile -t lines < <(sed -n 's/^bedplate: it would fit with //p' <<<"$err")
    said=$err
    [[ ${#lines[@]} -ge 1 && ${#lines[@]} -le 3 ]]
    check $? "$*: there are one to three ways" "$err"
    for line in "${lines[@]}"; do
        options=${line%: *}
        bytes=${line##*: }
        [[ $bytes =~ ^[0-9]{1,3}(,[0-9]{3})*\ bytes$ ]]
        check $? "$*: bytes have separators and a unit" "$line"
        bytes=${bytes% bytes}
        ((${bytes//,/} <= limit))
        check $? "$*: $line is below the limit" "$limit"
        # shellcheck disable=SC2086
        run plan "$@" ${options//PATH/$work/tier} --json
        [[ $code -eq 0 && $(json fits) == true && $(json arena_bytes) -le $limit ]]
        check $? "$*: $options fits when it is typed" "$code $(json arena_bytes) $err"
        tried=$((tried + 1))
    done
    mended "$@"
    run plan "$@" --json
    [[ $code -eq 3 && $(grep -o '"options": ' <<<"$out" | wc -l) -eq $tried && $out == *"\"proposals\": [{\"options\": \"${lines[0]%: *}\""* ]]
    check $? "$*: JSON has the same" "$out"
}
# Nothing fits any more: only what loses some quality, the least first.
limit=1500000
proposals --model tiny --max-seq-length 64 --arena $limit
grep -q 'would fit with --optim adamw_8bit\|would fit with --gradient-release' <<<"$said"
check $? "first an option of full training" "$said"
limit=1100000
proposals --model tiny --max-seq-length 64 --arena $limit
limit=700000
proposals --model tiny-llama --max-seq-length 64 --arena $limit
# What changes no result goes before all else, and is enough.
limit=2600000
proposals --model tiny --max-seq-length 64 --arena $limit --gradient-checkpointing none --per-device-train-batch-size 8 --loss-chunk-rows 512
[[ $(grep -c 'would fit' <<<"$said") -eq 1 && $said != *--optim* && $said != *--lora* ]]
check $? "the same bits with less memory" "$said"
# A base of fewer bits under adapters: 8 before 4.
if long_form; then
    limit=450000000
    proposals --model gpt2 --arena $limit
    grep -q 'would fit with .*--lora-r 8' <<<"$said"
    check $? "adapters" "$said"
fi
limit=300000000
proposals --model gpt2 --arena $limit --max-seq-length 128
grep -q 'would fit with .*--load-in-8bit' <<<"$said"
check $? "over a base in 8 bits" "$said"
limit=250000000
proposals --model gpt2 --arena $limit --max-seq-length 128
grep -q 'would fit with .*--load-in-4bit' <<<"$said"
check $? "over a base in 4 bits" "$said"
limit=260000000
! long_form || proposals --model gpt2 --arena $limit --lora-r 8 --load-in-8bit --optim adamw_8bit
# Adapters over a base in 4 bits are not enough: the base is offloaded as well.
mkdir "$work/small"
echo '{"model_type": "llama", "vocab_size": 32000, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64}' >"$work/small/config.json"
limit=25000000
proposals --model "$work/small" --arena $limit
grep -q 'would fit with .*--load-in-4bit --offload file:PATH:' <<<"$said"
check $? "over an offloaded base in 4 bits" "$said"
# Pairs and rows of several texts stay whole, and a step has as many of them as before.
for task in 'tiny-llama dpo 1500000' 'tiny-llama kto 1600000' 'tiny-bert embedding 1900000'; do
    read -r model task limit <<<"$task"
    proposals --model "$model" --task "$task" --max-seq-length 64 --per-device-train-batch-size 12 --arena "$limit"
    steps=$(sed -nE 's/.*would fit with .*--per-device-train-batch-size ([0-9]+) --gradient-accumulation-steps ([0-9]+).*/\1*\2/p' <<<"$said")
    wrong=$(for step in $steps; do [[ $((step)) -eq 12 ]] || echo "$step"; done)
    [[ -n $steps && -z $wrong ]]
    check $? "$task: a step of 12 examples in smaller micro-batches" "$wrong$said"
    most=(plan --model "$model" --task "$task" --max-seq-length 64 --arena 20MB)
    run "${most[@]}" --max-batch --json
    batch=$(json max_batch)
    [[ $code -eq 0 && $batch -gt 8 ]]
    check $? "$task: the largest batch ($batch)" "$err"
    expect 0 '.' "${most[@]}" --per-device-train-batch-size "$batch"
    expect 3 'does not fit' "${most[@]}" --per-device-train-batch-size $((batch + 1))
done
# The batch that the fit chose is one of examples, in text and in JSON: when it is typed the run is the same.
for ((i = 0; i < 24; i++)); do printf '{"prompt": "%d", "chosen": "yes", "rejected": "no"}\n' $i; done >"$work/pairs.jsonl"
for ((i = 0; i < 24; i++)); do printf '{"prompt": "%d", "completion": "%d", "label": %s}\n' $i $((i * 7)) "$([[ $((i % 2)) -eq 0 ]] && echo true || echo false)"; done >"$work/kto.jsonl"
for ((i = 0; i < 24; i++)); do printf '{"anchor": "q%d", "positive": "p%d", "negative": "n%d"}\n' $i $i $i; done >"$work/texts.jsonl"
for given in 'tiny dpo pairs 1 3MiB' 'tiny kto kto 2 6MiB' 'tiny-bert embedding texts 4 8MiB'; do
    read -r model task file batch arena <<<"$given"
    one=(--model "$model" --data "$work/$file.jsonl" --task "$task" --max-seq-length 32 --arena "$arena" --optim adamw_8bit
        --per-device-train-batch-size "$batch" --gradient-accumulation-steps 2)
    run plan "${one[@]}"
    [[ $code -eq 0 && $(sed -nE 's/^chosen .* ([0-9]+) x +([0-9]+) .*/\1*\2/p' <<<"$out") == "$batch*2" ]]
    check $? "$task: micro-batches of the table are of examples" "$out$err"
    run plan "${one[@]}" --json
    [[ $code -eq 0 && $(sed -nE 's/.*"choice": \{[^}]*"per_device_train_batch_size": ([0-9]+).*/\1/p' <<<"$out") == "$batch" ]]
    check $? "$task: and so is that of JSON" "$out$err"
    run train "${one[@]}" --max-steps 1 --output-dir "$work/fit-$task"
    [[ $code -eq 0 && $out$err == *"fit: "*" --per-device-train-batch-size $batch --gradient-accumulation-steps 2 "* ]]
    check $? "$task: and the line of train" "$out$err"
done
# What was typed under other names, in other units, quoted or in a file is replaced and not given twice.
limit=300000000
quoted="--output-dir '$work/a '\\''b'\\'''"
printf 'batch_size = 8\nmodel = gpt2\n' >"$work/a.conf"
for typed in "--model gpt2 --arena 300MB --max-length 128 --batch-size 8 --fp32 --optimizer adamw_torch" "--config $work/a.conf --vram 300MB --seq-len 128"; do
    # shellcheck disable=SC2086
    run plan $typed --output-dir "$work/a 'b'"
    said=$err
    mended "$typed"
    [[ $said == *"$quoted"* && $said != *--config* && $said != *--fp32*--bf16* ]]
    check $? "words are quoted" "$quoted$said"
done
grep -q '^bedplate: these bytes are the arena of a plan that fits' <<<"$said"
check $? "what the bytes are is stated once" "$said"
expect 3 '^try: bedplate train --model tiny --data .* --arena 1100000 --lora-r 8 --target-modules all-linear --load-in-8bit$' train --model tiny \
    --max-seq-length 64 --arena 1100000 --output-dir "$work/x" --data "$0"
run plan --model tiny --arena 10000
[[ $code -eq 3 && $err != *try:* ]]
check $? "nothing to try" "$err"
expect 3 'no option that was tried makes it fit; without others the least is [0-9,]+ bytes' plan --model tiny --arena 10000
finish
