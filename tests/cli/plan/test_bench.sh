#!/bin/bash
# SPDX-License-Identifier: MIT
# What `bench optim` measures: the bytes that each rule moves, in every form of state and master, and
# that what it prints in words is what it prints as JSON.
. "$(dirname "$0")/../lib.sh"

# moves BYTES OPTIONS: one update of 65,536 elements moves so many bytes: what is written is read, too,
# but for weights that a master makes an output; the gradient is read.
elements=65536
moves() {
    local want=$1
    shift
    run bench optim --elements $elements --repeat 3 --threads 2 --json "$@"
    [[ $code -eq 0 && $(json bytes_moved) -eq $want && $(json elements) -eq $elements && $(json threads) -eq 2 ]]
    check $? "bench optim $*: $(json bytes_moved) bytes, $want wanted" "$out$err"
    awk -v s="$(json seconds)" -v l="$(json loop_seconds)" -v f="$(json fraction)" -v m="$want" \
        -v g="$(json gigabytes_per_second)" 'function near(a, b) { return a > 0.99 * b && a < 1.01 * b }
        BEGIN { exit !(s > 0 && l > 0 && near(f, l / s) && near(g, m / s * 1e-9)) }'
    check $? "its rate and its share of the loop follow from its seconds" "$out"
}
# 8-bit states have a scale of 4 bytes for each 256 elements.
eighth=$((elements + elements / 256 * 4))
moves $((elements * (8 + 4))) --optim sgd
moves $((elements * (8 + 8 + 4))) --optim sgd --optim-args momentum=0.9
moves $((elements * (8 + 16 + 4))) --optim adamw
moves $((elements * (8 + 4) + 4 * eighth)) --optim adamw_8bit
moves $((elements * (8 + 8 + 4))) --optim lion
moves $((elements * (8 + 16 + 4))) --optim lamb
moves $((elements * (8 + 24 + 4))) --optim ademamix
moves $((elements * (4 + 4 + 16 + 2))) --optim adamw --bf16
moves $((elements * (2 + 8 + 16 + 4))) --optim adamw --fp16
moves $((elements * (4 + 16 + 2))) --optim adamw --bf16 --master none

expect 0 '^adamw: [0-9.]+ ms, [0-9.]+ GB/s, [0-9.]+ % of a loop over the same bytes, [0-9.]+ cycles per element$' \
    bench optim --elements 4096 --repeat 1
expect 0 '"kernels": "host portable"' bench optim --elements 4096 --repeat 1 --kernels portable --json
expect 3 'the system has less free memory than the plan needs' bench optim --elements 1000000000000
expect 2 'elements: the value is out of range' bench optim --elements 0
finish
