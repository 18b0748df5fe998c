#!/bin/bash
# SPDX-License-Identifier: MIT
# Ranks that no MPI joins: processes that were told where rank 0 is, as torchrun tells them, on the
# host and on GPUs (of tools/ptxvm, joined by a stand-in for NCCL). The files of one process, and one
# message with the right exit code for what goes wrong. BP_TORCHRUN=FILE: torchrun itself, too.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 300; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
cat >"$work/config.json" <<'END'
{"model_type": "gpt2", "vocab_size": 256, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
END
train=(train --model "$work" --data "$work/text" --max-seq-length 4 --per-device-train-batch-size 1
    --gradient-accumulation-steps 4 --virtual-ranks 4 --threads 1 --json --output-dir "$work/run")
# Below what the system gives away by itself, and each start has ports of its own.
port=$((10000 + $$ % 400 * 40))
export TORCHELASTIC_RUN_ID=$$.$RANDOM # others who test beside this one may come to the same port

# one RANK SIZE COMMAND..: one of these processes; its streams are in $work/.out.RANK and .err.RANK.
one() {
    local rank=$1 size=$2
    shift 2
    MASTER_ADDR=${address-127.0.0.1} MASTER_PORT=$port RANK=$rank WORLD_SIZE=$size LOCAL_RANK=$rank \
        timeout -k 5 1200 "$@" >"$work/.out.$rank" 2>"$work/.err.$rank" </dev/null
}

# ranks SIZE COMMAND..: all of them; exit codes in $codes, what was said in $said, rank 0's in $out.
ranks() {
    local size=$1 rank pids=()
    shift
    port=$((port + 20))
    for ((rank = 0; rank < size; rank++)); do
        one $rank $size "$@" &
        pids+=($!)
    done
    gathered
}

gathered() {
    local pid
    codes=
    for pid in "${pids[@]}"; do
        wait "$pid"
        codes+="$? "
    done
    out=$(tr -d '\0' <"$work/.out.0")
    said=$(cat "$work"/.err.* | messages | grep -v 'a save takes')
    err=$(cat "$work"/.err.*)
}

# verifies ranks-9.39f4
like_one() {
    diff -r -x events.jsonl "$work/one" "$work/run" >/dev/null && [[ $codes == "$1" ]]
    check $? "$2" "$codes $err $(diff -rq "$work/one" "$work/run")"
    rm -rf "$work/run"
}

# ends CODE WORDS NAME: the first rank's exit code, and one message.
ends() {
    [[ ${codes%% *} -eq $1 && $said == *"$2"* && $(wc -l <<<"$said") -eq 1 ]]
    check $? "$3: exit codes $codes, wanted $1 and once: $2" "$err"
}

# What differs between two ranks is named, also where it changes no result: when they save, evaluate, replay and stop.
while read -r option value; do
    rm -rf "$work/run"
    port=$((port + 20))
    pids=()
    one 0 2 "$program" "${train[@]}" --eval-data "$work/text" --max-steps 2 --quiet &
    pids+=($!)
    one 1 2 "$program" "${train[@]}" --eval-data "$work/text" --max-steps 2 --quiet "$option" "$value" &
    pids+=($!)
    gathered
    [[ $codes == "2 2 " && $said == *"rank 1 is not as rank 0: $option:"* ]]
    check $? "$option $value on one of two ranks" "$codes $err"
done <<'END'
--save-steps 1
--eval-steps 1
--eval-strategy epoch
--replay-every 1
--stop-at-step 1
--per-device-eval-batch-size 2
--seed 9
END
rm -rf "$work/run"

run "${train[@]}" --max-steps 2
mv "$work/run" "$work/one"
for size in 2 4; do
    ranks $size "$program" "${train[@]}" --max-steps 2 --shard gradients
    like_one "$(printf '0 %.0s' $(seq $size))" "$size processes: the files of one"
done
TORCHELASTIC_USE_AGENT_STORE=True ranks 2 "$program" "${train[@]}" --max-steps 2
like_one "0 0 " "the port is torchrun's own: the next one is taken"
if getent hosts localhost >/dev/null; then
    address=localhost ranks 2 "$program" "${train[@]}" --max-steps 2
    like_one "0 0 " "rank 0 by name"
else
    echo "skipped: rank 0 by name (no name is known here, not even localhost: no /etc/hosts)"
fi
if [[ -n ${BP_TORCHRUN:-} ]]; then
    "$BP_TORCHRUN" --nproc-per-node 2 --no-python "$program" "${train[@]}" --max-steps 2 >"$work/.out.0" 2>"$work/.err.0"
    codes="$? "
    like_one "0 " "torchrun"
fi

# verifies ranks-9.39f4
# What goes wrong.
while read -r wrong value; do # a launcher's numbers are numbers, or nothing starts, neither alone nor with others
    run_with=(MASTER_ADDR=127.0.0.1 "MASTER_PORT=$port" RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 "$wrong=$value")
    said=$(env "${run_with[@]}" "$program" "${train[@]}" --max-steps 1 2>&1 </dev/null)
    [[ $? -eq 2 && $said == *"$wrong: a launcher's variable has a wrong value: found $value, expected a whole number"* ]]
    check $? "$wrong is $value" "$said"
done <<'END'
RANK -1
RANK 2
RANK 1e0
WORLD_SIZE two
WORLD_SIZE 99999999999999
LOCAL_RANK 0x0
MASTER_PORT 29500x
END
rm -rf "$work/run"
env MASTER_ADDR=127.0.0.1 RANK=zero WORLD_SIZE=2 "$program" "${train[@]}" --max-steps 1 --fabric none >/dev/null 2>&1 </dev/null
check $? "--fabric none asks no launcher"
rm -rf "$work/run"
address=no.such.host.invalid ranks 2 "$program" "${train[@]}" --max-steps 2
ends 2 "MASTER_ADDR is not known" "an address that nobody knows"
ranks 2 "$program" "${train[@]}" --data "$work/none" --max-steps 2
[[ $codes == "4 4 " ]]
check $? "no data anywhere: $codes" "$err"
rm -f "$work"/.err.* "$work"/.out.*
port=$((port + 20))
one 0 2 "$program" "${train[@]}" --max-steps 2 --step-limit 2 & pids=($!) # limit: nobody comes
gathered
ends 10 "rank 1 by 127.0.0.1 port $port: a rank did not come in time" "a rank that does not come"
port=$((port + 20))
one 0 2 "$program" "${train[@]}" --max-steps 100000 --silence-limit 60 & pids=($!)
one 1 2 "$program" "${train[@]}" --max-steps 100000 --silence-limit 60 & other=$!
wait_for 120 "grep -qs '\"step\":2' $work/run/record.jsonl" $other
kill -9 "$(pgrep -P "$(pgrep -P $other timeout)")"
gathered
ends 10 "rank 1 on " "a rank that is killed"
wait $other
rm -rf "$work/run"

# A secret: with the same one ranks meet, with another one or none they do not, whoever has it.
head -c 32 /dev/urandom >"$work/secret"
head -c 32 /dev/urandom >"$work/another"
ranks 2 "$program" "${train[@]}" --max-steps 2 --fabric-secret "$work/secret"
like_one "0 0 " "ranks that know a secret"
for form in "$work/another" ""; do
    rm -f "$work"/.err.* "$work"/.out.*
    port=$((port + 20))
    one 0 2 "$program" "${train[@]}" --max-steps 2 --step-limit 10 --fabric-secret "$work/secret" & pids=($!) # limit: a hundred times what it takes to meet
    one 1 2 "$program" "${train[@]}" --max-steps 2 --step-limit 10 ${form:+--fabric-secret "$form"} & pids+=($!) # limit: likewise
    gathered
    [[ $codes == "10 10 " && $said == *"rank 1 by 127.0.0.1 port $port: a rank did not come in time, and one that came has another secret (--fabric-secret)"* ]]
    check $? "a rank with ${form:-no} secret of another kind: $codes" "$err"
done
echo short >"$work/another"
ranks 2 "$program" "${train[@]}" --max-steps 2 --fabric-secret "$work/another"
ends 2 "the secret is too short: found 5, expected at least 16" "a short secret"
ranks 2 "$program" "${train[@]}" --max-steps 2 --fabric-secret "$work/none"
ends 6 "the secret cannot be read" "no secret"
# Forty that connect and say nothing keep nobody off: one after the other they take 200 s.
rm -f "$work"/.err.* "$work"/.out.*
port=$((port + 20))
one 0 2 "$program" "${train[@]}" --max-steps 2 & pids=($!)
for i in {1..40}; do
    wait_for 120 'exec {fd}<>"/dev/tcp/127.0.0.1/$port"' 2>/dev/null
    silent[i]=$fd
done
began=$SECONDS
one 1 2 "$program" "${train[@]}" --max-steps 2 & pids+=($!)
gathered
[[ $((SECONDS - began)) -lt 150 ]] # limit: what is wrong takes 200
check $? "40 silent connections take $((SECONDS - began)) s"
for fd in "${silent[@]}"; do exec {fd}>&-; done
like_one "0 0 " "among 40 silent connections"

# GPUs.
export LD_LIBRARY_PATH=$PWD/$BUILD/ptxvm:$PWD/$BUILD/ptxvm/nccl PTXVM_DEVICES=2
[[ -e $BUILD/ptxvm/nccl/libnccl.so.2 ]] || { echo "no $BUILD/ptxvm/nccl/libnccl.so.2"; exit 1; }
run "${train[@]}" --max-steps 2 --device cuda
rm -rf "$work/one"
mv "$work/run" "$work/one"
ranks 2 "$program" "${train[@]}" --max-steps 2 --device cuda --shard gradients
[[ $(json fabric_bytes) -gt 0 && $err != *"nccl stand-in"* ]]
check $? "GPUs: NCCL joins them" "$out $err"
like_one "0 0 " "GPUs: the files of one"
ranks 2 "$program" "${train[@]}" --max-steps 2 --device cuda --fabric mpi
[[ $out != *fabric_bytes* ]]
check $? "GPUs without NCCL" "$out"
like_one "0 0 " "GPUs without NCCL: the files of one"
ranks 2 "$program" "${train[@]}" --max-steps 2 --device cuda:0
ends 2 "ranks 0 and 1: two ranks have one GPU between them" "two processes on one GPU"
finish
