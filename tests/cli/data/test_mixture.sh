#!/bin/bash
# SPDX-License-Identifier: MIT
# --data-weights: shares of an epoch (tests/unit/core/run/test_mixture.c), here the files, resuming and refusals;
# and data larger than memory: a sparse file of tokens, with memory for a quarter (`long`: a hundredth) of it.
# verifies run-22.761f
. "$(dirname "$0")/../lib.sh"

for ((i = 0; i < 30; i++)); do printf '{"text": "%d bottles of ale"}\n' "$i"; done >"$work/ale.jsonl"
for ((i = 0; i < 90; i++)); do printf '{"text": "%d glasses of stout"}\n' "$i"; done >"$work/stout.jsonl"
common=(train --model tiny --max-seq-length 16 --per-device-train-batch-size 4 --max-steps 40 --threads 1 --quiet --json)
sets=("${common[@]}" --data "$work/ale.jsonl" "$work/stout.jsonl")

run "${sets[@]}" --output-dir "$work/a" --data-weights 3,1
mixed=$(json state_digest)
[[ $code -eq 0 && -s $work/a/data.tokens && -s $work/a/data.2.tokens ]]
check $? "two data sets, two token files" "$out$err"
run "${sets[@]}" --output-dir "$work/b" --data-weights 6,2 --stop-at-step 17
run "${sets[@]}" --output-dir "$work/b" --data-weights 6,2 --resume
[[ $(json state_digest) == "$mixed" ]]
check $? "what counts is the ratio; a resumed run sees the same rows" "$out$err"
run "${sets[@]}" --output-dir "$work/c" --data-weights 1,1
[[ $code -eq 0 && $(json state_digest) != "$mixed" ]]
check $? "other weights, other rows" "$out$err"
run "${sets[@]}" --output-dir "$work/d" --data-weights 0,1
alone=$(json state_digest)
sed 's/bottles/barrels/' "$work/ale.jsonl" >"$work/other.jsonl"
run "${common[@]}" --data "$work/other.jsonl" "$work/stout.jsonl" --output-dir "$work/e" --data-weights 0,1
[[ -n $alone && $(json state_digest) == "$alone" ]]
check $? "a set of weight 0 is not read" "$out$err"

expect 2 'weight for each argument' "${sets[@]}" --output-dir "$work/f" --data-weights 1
expect 2 'numbers from 0' "${sets[@]}" --output-dir "$work/f" --data-weights 1,-2
expect 2 'above 0' "${sets[@]}" --output-dir "$work/f" --data-weights 0,0
expect 2 '--packing' "${sets[@]}" --output-dir "$work/f" --data-weights 1,1 --packing
expect 2 '--group-by-length' "${sets[@]}" --output-dir "$work/f" --data-weights 1,1 --group-by-length
expect 2 'data-weights' "${sets[@]}" --output-dir "$work/a" --data-weights 1,3 --resume
printf '{"prompt": "%s+1=", "completion": "two"}\n' 1 2 3 >"$work/sums.jsonl"
head -c 4000 /dev/zero >"$work/zeros.bin"
expect 4 'all streams of tokens' "${common[@]}" --data "$work/sums.jsonl" "$work/zeros.bin" --output-dir "$work/f" \
    --data-weights 1,1
run "${common[@]}" --data "$work/zeros.bin" "$work/zeros.bin" --output-dir "$work/f" --data-weights 1,5
check $code "streams are mixed too" "$err"

# 400 million tokens of two bytes (`long`: 10 billion); the address space that the run may have is 200 MB. The last
# token of the file is read as well: it is beyond the vocabulary. Most of the time is the record's SHA-256.
bytes=800000000
[[ ${1:-} != long ]] || bytes=20000000000
truncate -s $bytes "$work/large.bin"
(
    # a sanitizer's shadow takes terabytes of addresses
    [[ $BUILD == *sanitize* || $BUILD == *tsan* ]] || ulimit -v 200000
    exec "$program" "${common[@]}" --data "$work/large.bin" --output-dir "$work/g" --max-steps 20
) >"$work/.out" 2>"$work/.err" </dev/null
code=$?
out=$(cat "$work/.out") err=$(cat "$work/.err")
[[ $code -eq 0 && $(json steps) -eq 20 ]]
check $? "$bytes bytes of tokens in 200 MB" "$out$err"
printf '\377\377' | dd of="$work/large.bin" bs=1 seek=$((bytes - 2)) conv=notrunc status=none
expect 4 'a token id is not below' "${common[@]}" --data "$work/large.bin" --output-dir "$work/h"
finish
