#!/bin/bash
# SPDX-License-Identifier: MIT
# Steps that are judged (--replay-every, --on-spike) with virtual ranks and on several ranks: the decisions, the
# losses and the state of one rank, said once.
# verifies ranks-1.6186
. "$(dirname "$0")/../lib.sh"

python3 - "$work/text" <<'P'
import random, sys
random.seed(5)
text = b"all the same over and over again\n" * 300
for at in (3000, 7000):
    text = text[:at] + bytes(random.randrange(128, 256) for _ in range(300)) + text[at + 300:]
open(sys.argv[1], "wb").write(text)
P
train=(train --model tiny --data "$work/text" --data-format bytes --max-seq-length 32 --per-device-train-batch-size 1
    --gradient-accumulation-steps 4 --virtual-ranks 4 --max-steps 60 --save-steps 40 --logging-steps 1000 --learning-rate 3e-3
    --lr-scheduler-type constant --threads 1 --quiet --json --spike-budget 15)
lines_of() { grep -oE '"(outcome|roll|from|to)":[^,}]*' "$work/$1/record.jsonl" | cksum; }

! long_form || train+=(--max-steps 90)
count=2
for policy in "--replay-every 1 --max-steps 12" "--on-spike skip" "--on-spike rollback --shard gradients" "--on-spike clip --shard optimizer --gradient-release"; do
    # shellcheck disable=SC2086
    run "${train[@]}" --output-dir "$work/one" ${policy/--shard */}
    right=$(json state_digest) decided=$(lines_of one)
    [[ $code -eq 0 && -n $right ]]
    check $? "one rank: $policy" "$err"
    [[ $policy == --replay* || $err == *anomaly* ]]
    check $? "there are spikes: $policy" "$err"
    both="$count"
    count=$((6 - count))
    ! long_form || both='2 4'
    for ranks in $both; do
        # shellcheck disable=SC2086
        run "${train[@]}" --output-dir "$work/several" --fabric threads:$ranks --fabric-seed $ranks $policy
        [[ $code -eq 0 && $(json state_digest) == "$right" && $(lines_of several) == "$decided" ]]
        check $? "$ranks ranks decide alike: $policy" "$(json state_digest), right would be $right; $err"
        [[ $(sort <<<"$err" | uniq -d | grep -c anomaly) -eq 0 ]]
        check $? "$ranks ranks say it once: $policy" "$err"
        rm -rf "$work/several"
    done
    rm -rf "$work/one"
done
finish
