#!/bin/bash
# SPDX-License-Identifier: MIT
# Bytes of the offload file that something else changes while a run has it: the run ends by the file's name and keeps nothing
# of the step, whatever is offloaded, and resuming gives the bits of the run that nobody disturbed.
. "$(dirname "$0")/../lib.sh"

data=$work/data.txt
for ((i = 0; i < 300; i++)); do echo "line $i: the quick brown fox jumps over $((i * i % 97)) dogs"; done >"$data"
disk=$(mktemp -d "$BUILD/offload.XXXXXX")
trap 'rm -rf "$work" "$disk"' EXIT
file=$disk/offload
offload=(--offload "file:$file:64MiB")
# Where the build folder itself is in memory, all of this goes through the page cache.
dd if=/dev/zero of="$file" bs=4096 count=1 oflag=direct status=none 2>/dev/null &&
    [[ $(stat -f -c %T "$disk") != tmpfs ]] || offload+=(--offload-buffered)
rm -f "$file"

# overwritten PROCESS PAGES: random bytes in these pages of the file while the process stands still; 1 where it has ended.
overwritten() {
    kill -STOP "$1" 2>/dev/null || return
    dd if=/dev/urandom of="$file" bs=4096 count="$2" conv=notrunc status=none
    kill -CONT "$1"
}

# verifies run-41.18ee
# damaged OPTIONS: the run is stopped behind its first checkpoints, and again and again all pages of the file but the last, which
# says whose it is, are overwritten, until it ends: a page that it writes before it reads it does it no harm.
damaged() {
    local pid code step plain count bare
    local options=(train "${shape[@]}" "$@" --data "$data" --max-steps 100000 --json --threads 2)
    rm -rf "$work/out" "$file"
    "$program" "${options[@]}" "${offload[@]}" --save-steps 2 --save-total-limit 2 --output-dir "$work/out" \
        >"$work/.out" 2>"$work/.err" </dev/null &
    pid=$!
    wait_for 120 '[[ $(compgen -G "$work/out/checkpoint-*" | wc -l) -ge 2 ]]' "$pid"
    check $? "$* is saved" "$(tail -3 "$work/.err")"
    count=$(($(stat -c %s "$file") / 4096 - 1))
    wait_for 120 "! overwritten $pid $count" "$pid"
    kill "$pid" 2>/dev/null
    wait "$pid"
    code=$?
    [[ $code -eq 6 ]] && grep -q "^bedplate: $file: a page of the offload file has changed since it was written: found other bytes from [0-9]* on, expected what was written there" "$work/.err"
    check $? "$*: changed bytes end the run by the file's name (exit $code)" "$(tail -3 "$work/.err")"
    run verify "$work/out"
    [[ $code -eq 0 ]]
    check $? "and its checkpoints are whole" "$out$err"
    step=$(find "$work/out" -maxdepth 1 -name 'checkpoint-*' | sed 's/.*-//' | sort -n | tail -1)
    ! grep -q 'is saved' "$work/.err"
    check $? "and the step that was disturbed is not saved"
    read -ra bare <<<"$(sed 's/ --offload-what [a-z,]*//' <<<"${options[*]}")" # which nothing has without a tier
    run "${bare[@]}" --output-dir "$work/plain" --stop-at-step $((step + 3))
    plain=$(json state_digest)
    run "${options[@]}" "${offload[@]}" --output-dir "$work/out" --resume --stop-at-step $((step + 3))
    [[ -n $plain && $(json state_digest) == "$plain" ]]
    check $? "resumed from step $step: the bits of the run that was not disturbed" "$plain $out$err"
    rm -rf "$work/plain"
}
shape=(--model tiny-llama --max-seq-length 32 --device host --per-device-train-batch-size 1 --gradient-accumulation-steps 2
    --gradient-checkpointing full --optim adamw_8bit --bf16)
damaged --lora-r 3 --target-modules all-linear --load-in-4bit --offload-what bases
damaged --offload-what states
damaged --offload-what checkpoints
damaged --offload-what weights,gradients
finish
