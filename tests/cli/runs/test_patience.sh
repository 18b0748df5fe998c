#!/bin/bash
# SPDX-License-Identifier: MIT
# Saves that fail half way are postponed, with one rank and with a state that ranks share out; a file that grows
# too large and a reader that is gone send signals that end no run.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 400; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
train=(train --model tiny --data "$work/text" --max-seq-length 16 --per-device-train-batch-size 1 --gradient-accumulation-steps 2
    --virtual-ranks 2 --save-steps 40 --threads 1 --json --quiet --logging-steps 1000 --max-steps 400)
expect 0 '' "${train[@]}" --output-dir "$work/whole"
whole=$(json state_digest)
# verifies alone-6.2d4b
# limited DIR OPTIONS..: with files of at most 400 KiB, which a checkpoint is not: XFSZ, and EFBIG from write.
limited() {
    local dir=$1
    shift
    (ulimit -f 400 && exec timeout 1200 "$program" "${train[@]}" --output-dir "$dir" "$@") >"$work/.out" 2>"$work/.err" </dev/null
    code=$?
    out=$(cat "$work/.out")
    err=$(cat "$work/.err")
}
forms=("" "--fabric threads:2 --shard parameters")
! long_form || forms+=("--fabric threads:2" "--fabric threads:2 --shard optimizer")
for form in "${forms[@]}"; do
    rm -rf "$work/run"
    # shellcheck disable=SC2086
    limited "$work/run" --storage-patience 2s $form # limit: it ends by it
    [[ $code -eq 6 && $(grep -c 'postponed; training continues' "$work/.err") -ge 1 && $(json steps) -le 400 ]]
    check $? "files that may not grow: 6 when the patience is over, and not before (exit $code) $form" "$err"
    [[ -z $(ls -d "$work"/run/tmp-* "$work"/run/checkpoint-* 2>/dev/null) ]]
    check $? "nothing half is left $form" "$(ls "$work/run")"
    # shellcheck disable=SC2086
    limited "$work/run" --storage-patience 0 --overwrite-output-dir $form
    [[ $code -eq 6 && $out != *'"steps"'* && $(grep -c 'postponed' "$work/.err") -eq 0 ]]
    check $? "no patience ends it at the first save $form" "$err"
    # The limit goes while the run goes on.
    rm -rf "$work/run"
    : >"$work/.err" # what the run before said is no word of this one
    # shellcheck disable=SC2086
    (ulimit -S -f 400 && exec timeout 1200 "$program" "${train[@]}" --output-dir "$work/run" --storage-patience 60s $form) \
        >"$work/.out" 2>"$work/.err" </dev/null &
    shell=$!
    wait_for 120 'grep -q postponed "$work/.err"' $shell
    prlimit --pid "$(pgrep -P $shell)" --fsize=unlimited
    wait $shell
    code=$?
    out=$(cat "$work/.out")
    [[ $code -eq 0 && $(json state_digest) == "$whole" && $(json save_failures) -ge 1 && $(ls -d "$work"/run/checkpoint-*) == *checkpoint-400* ]]
    check $? "and goes on when it may (exit $code) $form" "$(cat "$work/.err")"
    cmp -s <(sed 's/,"chain".*//; s/"plan":"[0-9a-f]*"//' "$work/whole/record.jsonl") <(sed 's/,"chain".*//; s/"plan":"[0-9a-f]*"//' "$work/run/record.jsonl")
    check $? "with the record of a run without trouble $form"
    expect 0 'valid, state digest' verify "$work/run"
done

# Ranks that are processes, on a disk that fills while they train, until it does not, or that stays full.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
checkpoint=$(du -sb "$work/whole/checkpoint-400" | cut -f 1)
mkdir "$work/disk"
export -f wait_for
cat >"$work/full.sh" <<'S'
# full.sh DISK BYTES COPY COMMAND..: COPY gets what is there at the end; STAYS: the disk stays full.
disk=$1 err=$3.err copy=$3
mount -t tmpfs -o size="$2" none "$disk" || exit 99
shift 3
timeout -k 5 1200 "$@" >"$copy.out" 2>"$err" </dev/null &
job=$!
wait_for 120 '[[ -s $disk/run/record.jsonl ]]' $job
cat /dev/zero >"$disk/other" 2>/dev/null
wait_for 120 'grep -q postponed "$err"' $job
[[ -n ${STAYS:-} ]] || rm "$disk/other"
wait $job
code=$?
rm -rf "$copy" && cp -r "$disk/run" "$copy"
exit $code
S
for name in mpirun.openmpi mpirun.mpich; do
    if ! command -v $name >/dev/null || ! unshare -m true 2>/dev/null; then
        echo "skipped: storage that is full for ranks of $name (not installed, or no mount namespaces here)"
        continue
    fi
    launcher=($name -n 2)
    [[ $name == *mpich ]] || launcher+=(--oversubscribe)
    forms=("--shard parameters")
    [[ $name != *mpich ]] || forms=("--shard optimizer")
    ! long_form || forms=("" "--shard optimizer" "--shard parameters")
    for form in "${forms[@]}"; do
        # shellcheck disable=SC2086
        full=(unshare -m bash "$work/full.sh" "$work/disk" $((checkpoint * 15)) "$work/copy"
            "${launcher[@]}" "$program" "${train[@]}" --save-total-limit 0 --output-dir "$work/disk/run" $form)
        "${full[@]}" --storage-patience 120s
        code=$?
        out=$(cat "$work/copy.out")
        [[ $code -eq 0 && $(json state_digest) == "$whole" && $(json save_failures) -ge 1 && -d $work/copy/checkpoint-400 ]]
        check $? "$name: rank 0 postpones, and all go on (exit $code) $form" "$(cat "$work/copy.err")"
        expect 0 'valid, state digest' verify "$work/copy"
        STAYS=1 "${full[@]}" --storage-patience 1s # limit: it ends by it
        code=$?
        [[ $code -eq 6 && $(grep -c 'postponed; training continues' "$work/copy.err") -ge 1 ]]
        check $? "$name: 6 when the patience is over (exit $code) $form" "$(cat "$work/copy.err")"
        [[ -z $(ls -d "$work"/copy/tmp-* 2>/dev/null) && -z $(pgrep -f "$work/disk/run") ]]
        check $? "$name: nothing half is left, and nobody $form" "$(ls "$work/copy"; pgrep -af "$work/disk/run")"
    done
done

# verifies alone-6.2d4b
# Nobody reads what it prints.
"$program" "${train[@]}" --output-dir "$work/pipe" --logging-steps 1 2>"$work/.err" | head -1 >/dev/null
code=${PIPESTATUS[0]}
[[ $code -eq 0 && -d $work/pipe/checkpoint-400 && $("$program" verify "$work/pipe") == *"$whole"* ]]
check $? "a closed pipe ends no run (exit $code)" "$(cat "$work/.err")"
finish
