#!/bin/bash
# SPDX-License-Identifier: MIT
# The program that a GPU's minutes are given to (tests/gpu/visit.py) keeps to its time, writes what it has after each
# group, and says what failed: on a folder of scripts that stand in for the programs. And the page of what it wrote.
# verifies device-13.a20e
root=$(cd "$(dirname "$0")/../.." && pwd)
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
mkdir -p "$work"/{bundle/tests/unit/device/cuda,bundle/tools/bench,out}
cp "$root"/tests/gpu/{visit,report}.py "$work/bundle"
cd "$work" || exit 1

expect() { # NAME WORDS TEXT
    if [[ $3 == *"$2"* ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$1: should have said \"$2\": $3"
    fi
}

script() { # PATH LINE..
    local path=bundle/$1
    shift
    printf '%s\n' '#!/bin/bash' "$@" >"$path"
    chmod +x "$path"
}

visit() { python3 bundle/visit.py --rehearse --out out "$@"; }
member() { python3 -c "import json; print($1)" <out/gpu.json; }

script tests/unit/device/cuda/suite 'echo "[       OK ] one"; echo "differs: matmul, tile 1: c: 3 of 9 elements"; echo "[  FAILED  ] two"; exit 1'
script tools/bench/gpu_kernels 'echo kernels'
script bedplate 'case $1 in' 'devices) echo "compiled in 1.25 s";;' \
    'bench) echo "{\"tokens_per_second\": 12345, \"other\": 1}";;' 'train) echo "{\"state_digest\": \"abc1\"}";;' esac
visit --seconds 60 >text
expect "a failed test is the exit code" 1 $?
expect "groups in their order" "== environment" "$(head -2 out/gpu.txt)"
expect "what a test said" "test_driver: FAILED, 1" "$(cat out/gpu.txt)"
expect "how many" "failed 1, passed 1" "$(cat out/gpu.txt)"
expect "what differs, and where" "    differs: matmul, tile 1: c: 3 of 9" "$(cat out/gpu.txt)"
expect "on the page too" "    differs: matmul, tile 1: c: 3 of 9" "$(python3 bundle/report.py out/gpu.json)"
expect "later groups are made" "tokens_per_second 12345" "$(cat out/gpu.txt)"
expect "seconds of compiling" "jit seconds 1.25" "$(cat out/gpu.txt)"
expect "digests that agree" "and of one that was resumed: ok" "$(cat out/gpu.txt)"
expect "the json" 12345 "$(member "json.load(open('out/gpu.json'))['groups']['steps'][0]['figures']['tokens_per_second']")"
expect "what it prints" "and of one that was resumed: ok" "$(cat text)"
expect "the page" "| test_driver | failed (1) |" "$(python3 bundle/report.py out/gpu.json)"
expect "the page says what it is of" "A rehearsal on ptxvm" "$(python3 bundle/report.py out/gpu.json)"
sed 's/"version": 1/"version": 7/' out/gpu.json >other.json
expect "another version" "found version 7, expected 1" "$(python3 bundle/report.py other.json 2>&1)"

script bedplate 'echo "{\"state_digest\": \"$RANDOM$RANDOM\"}"'
visit --seconds 60 --groups digests >/dev/null
expect "digests that differ" 1 $?
expect "are named" "and of one that was resumed: FAILED" "$(cat out/gpu.txt)"

script bedplate 'tail -f /dev/null & wait'
began=$SECONDS
visit --seconds 6 --groups environment,steps,kernels >/dev/null
expect "no time is no failure" 0 $?
expect "one that hangs is ended" "took longer than" "$(cat out/gpu.txt)"
expect "what has no time is left out" "gpu_kernels shapes: no time" "$(cat out/gpu.txt)"
[[ $((SECONDS - began)) -lt 60 ]] # limit: ten times its seconds, what hangs has no end
expect "within its seconds" 0 $?
expect "a group that there is not" "found nothing, expected some of environment" "$(visit --groups nothing 2>&1)"
# The commands for a borrowed machine: 2,000 characters at most, groups that there are, seconds within the limit of each.
script bedplate 'echo "{\"state_digest\": \"abc1\"}"'
mkdir -p checkout/build
tar cf checkout/build/gpu.tar.xz --transform 's|^bundle|build/gpu-bundle|' bundle
for text in first:240 second:480; do
    command=$(<"$root/tests/gpu/${text%:*}.txt")
    expect "${text%:*}: characters" yes "$([[ ${#command} -le 2000 ]] && echo yes)"
    seconds=$(sed -nE 's/.*--seconds ([0-9]+) .*/\1/p' <<<"$command")
    expect "${text%:*}: seconds" yes "$([[ $((seconds + 10)) -le ${text#*:} ]] && echo yes)"
    (cd checkout && OUT=$work/out bash -c "${command//visit.py/visit.py --rehearse}") >text 2>&1
    expect "${text%:*}: what it writes" '"seconds": '"$seconds" "$(cat out/gpu.json)"
    expect "${text%:*}: its groups" "== environment" "$(cat out/gpu.txt)"
done
rm bundle/bedplate
expect "a program that is missing" "No such file" "$(visit --seconds 20 --groups environment)"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
