#!/bin/bash
# SPDX-License-Identifier: MIT
# A second tier on disks with faults: a file system that does not go past the page cache, one that is full, a medium that
# fails while the run is on, a file of another plan. And what a step really moves is what the plan says.
. "$(dirname "$0")/../lib.sh"

case $BUILD in
*sanitize* | *tsan* | *aarch64*)
    echo "skipped: the disk is preloaded, which this build does not allow"
    exit 77
    ;;
esac
data=$work/data.txt
for ((i = 0; i < 300; i++)); do echo "line $i: the quick brown fox jumps over $((i * i % 97)) dogs"; done >"$data"
disk=$(mktemp -d "$BUILD/offload.XXXXXX")
trap 'rm -rf "$work" "$disk"' EXIT
export DISK_FILE=$disk/offload
cc -shared -fPIC -O1 -o "$work/disk.so" tests/cli/disk.c -ldl 2>"$work/.err"
check $? "builds a disk" "$(cat "$work/.err")"
through=()
dd if=/dev/zero of="$DISK_FILE" bs=4096 count=1 oflag=direct status=none 2>/dev/null &&
    [[ $(stat -f -c %T "$disk") != tmpfs ]] || through=(--offload-buffered)
rm -f "$DISK_FILE" # it has no mark of the program's
shape=(--model tiny --max-seq-length 32 --device host --threads 1 --bf16 --optim adamw_8bit --per-device-train-batch-size 2
    --gradient-accumulation-steps 2 --json)
offload=(--offload "file:$DISK_FILE:64MiB")
train=(train "${shape[@]}" --data "$data" --quiet "${offload[@]}")
# disk FAULT CODE REGEX OPTIONS..: a run on a disk with that fault.
disk() {
    local fault=$1
    shift
    export DISK_FAULT=$fault LD_PRELOAD=$work/disk.so
    expect "$@"
    unset DISK_FAULT LD_PRELOAD
}

# verifies run-28.b98a
# Nothing is begun on a disk that cannot be used.
disk direct 2 'past the page cache .O_DIRECT.; take another, or --offload-buffered' "${train[@]}" --max-steps 2 --output-dir "$work/no"
disk full 6 'no space is left' "${train[@]}" --max-steps 2 --output-dir "$work/no" "${through[@]}"
[[ ! -e $work/no/model.safetensors ]]
check $? "and no model is left behind" "$(ls "$work/no" 2>&1)"
disk direct 0 '' "${train[@]}" --max-steps 2 --output-dir "$work/through" --offload-buffered

# A medium that fails: exit 6, and what was saved is whole and leads to the bits of the run that met no fault.
run "${train[@]}" --max-steps 8 --save-steps 2 --output-dir "$work/whole" "${through[@]}"
whole=$(json state_digest)
check "$([[ $code -eq 0 && -n $whole ]]; echo $?)" "a run without a fault" "$out$err"
run_calls() { DISK_COUNT=$work/count LD_PRELOAD=$work/disk.so "$program" "${train[@]}" --save-steps 0 "${through[@]}" "$@" >/dev/null 2>&1; }
for fault in read write; do
    rm -rf "$work/broken"
    export DISK_AFTER=$([[ $fault == read ]] && echo 500 || echo 200) # of 867 and 311 calls
    disk "$fault" 6 'input/output error' "${train[@]}" --max-steps 8 --save-steps 2 --output-dir "$work/broken" "${through[@]}"
    compgen -G "$work/broken/checkpoint-*" >/dev/null
    check $? "it failed behind the first checkpoint ($fault)" "$(ls "$work/broken")"
    expect 0 '' verify "$work/broken"
    run "${train[@]}" --max-steps 8 --save-steps 2 --output-dir "$work/broken" --resume "${through[@]}"
    [[ $code -eq 0 && $(json state_digest) == "$whole" ]]
    check $? "and on a new one the run goes on to the same bits ($fault)" "$out$err"
done
unset DISK_AFTER

# The file of another plan: the versions in it are of other buffers.
two=("${train[@]}" --offload-two-versions --save-steps 1 --max-steps 6 --output-dir "$work/two" "${through[@]}")
run "${two[@]}" --offload-what states --stop-at-step 3
check "$code" "states in two versions" "$err"
expect 6 'no version of the checkpoint' "${two[@]}" --resume
run "${two[@]}" --offload-what states --resume
[[ $code -eq 0 && -n $(json state_digest) ]]
check $? "its own plan finds it" "$out$err"

# What a step moves is what the plan says, but for the ends of pages.
# verifies run-29.a3b9
run plan "${shape[@]}" --gradient-checkpointing full "${offload[@]}"
room=$(($(json arena_bytes) + 10000)) # with which some of it stays until it is used again
for what in states states,weights weights,gradients "weights --gradient-checkpointing full --arena $room"; do
    read -ra asked <<<"$what"
    run plan "${shape[@]}" "${offload[@]}" --offload-what "${asked[@]}"
    kept=$(json resident_bytes_per_step)
    planned="$(json read_bytes_per_step) $(json written_bytes_per_step)"
    counts=()
    for steps in 2 6; do
        run_calls --max-steps "$steps" --output-dir "$work/steps" --offload-what "${asked[@]}"
        counts+=("$(cat "$work/count")")
        rm -rf "$work/steps"
    done
    awk -v p="$planned" -v a="${counts[0]}" -v b="${counts[1]}" 'BEGIN {
        split(p, plan); split(a, first); split(b, second)
        for (i = 1; i <= 2; i++) {
            each = (second[i] - first[i]) / 4
            calls = (second[i + 2] - first[i + 2]) / 4 # each of them begins and ends with a page
            if (each < plan[i] || each > plan[i] + 4096 * calls) exit 1
        }
    }'
    check $? "a step moves what is planned ($what: $planned; ${counts[*]})"
done
[[ $kept -gt 100000 ]]
check $? "which is less by what stays until it is used again ($kept)" "$out"
finish
