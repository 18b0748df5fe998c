#!/bin/bash
# SPDX-License-Identifier: MIT
# Products that are checked while they run (--verify-products): the bits of a run without, bytes that the plan counts,
# resumes with and without, and what it is refused for by name.
. "$(dirname "$0")/../lib.sh"

# verifies device-44.ebba
train=(train --model tiny --data README.md --max-seq-length 32 --max-steps 12 --save-steps 6 --threads 2 --quiet --json)
expect 0 '' "${train[@]}" --output-dir "$work/plain"
plain=$(json state_digest)
expect 0 '' "${train[@]}" --output-dir "$work/checked" --verify-products --metrics "$work/run.prom"
[[ $(json state_digest) == "$plain" ]] && ! grep -q '"event":"product"' "$work/checked/events.jsonl"
check $? "the bits of a run without, and nothing found" "$(json state_digest)"
grep -q '^bedplate_product_repairs_total{run=".*/checked"} 0$' "$work/run.prom"
check $? "repairs are counted" "$(grep product "$work/run.prom")"
cmp -s <(sed 's/,"chain".*//' "$work/plain/record.jsonl" | tail -n +2) <(sed 's/,"chain".*//' "$work/checked/record.jsonl" | tail -n +2)
check $? "the record says the same"
run "${train[@]}" --output-dir "$work/parts" --verify-products --stop-at-step 6
expect 0 '' "${train[@]}" --output-dir "$work/parts" --resume
[[ $(json state_digest) == "$plain" ]]
check $? "a resume may be without" "$(json state_digest)"
expect 0 '^12 of 12 steps proven' replay "$work/checked"

# Other types, adapters, bases in 4 and 8 bits, gradients that are added up.
for options in "--bf16" "--fp16" "--gradient-accumulation-steps 2 --gradient-checkpointing full" \
    "--model tiny-llama --lora-r 4 --load-in-8bit" "--model tiny-llama --lora-r 4 --load-in-4bit --bf16"; do
    both=()
    for verify in "" --verify-products; do
        rm -rf "$work/other"
        # shellcheck disable=SC2086 # several options
        run "${train[@]}" --max-steps 4 --output-dir "$work/other" $options $verify
        both+=("$(json state_digest)")
    done
    [[ -n ${both[0]} && ${both[0]} == "${both[1]}" ]]
    check $? "the same bits with $options" "${both[*]}"
done

# The workspaces of products have what the checks need.
bytes() { run plan --model tiny --data README.md --max-seq-length 32 --threads 2 --json "$@" && json arena_bytes; }
off=$(bytes)
on=$(bytes --verify-products)
((on > off))
check $? "the plan counts its bytes" "$off $on"

for form in "--kernels portable" "--kernels amx" "--device cuda:sm_80"; do
    # shellcheck disable=SC2086 # an option and its value
    expect 2 "--verify-products: products are checked by the host's fast kernels alone: found ${form##* }|--verify-products: .*found cuda" \
        plan --model tiny --data README.md --max-seq-length 32 $form --verify-products
done
finish
