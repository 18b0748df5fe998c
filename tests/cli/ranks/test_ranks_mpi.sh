#!/bin/bash
# SPDX-License-Identifier: MIT
# Ranks as processes, under mpirun of Open MPI and of MPICH: one state for any number of ranks; one
# message and the right exit code for what goes wrong; a rank that is killed or stopped ends all, and
# the same command line goes on; signals act on all ranks after the same step. A launcher that is not
# installed is skipped by name. BP_TEST_KILLS=200: so many rounds of kills, where the long form has 10 and `make test` 4.
. "$(dirname "$0")/../lib.sh"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
awk 'BEGIN { for (i = 0; i < 300; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
awk 'BEGIN { for (i = 0; i < 300; i++) print i, "other bottles" }' >"$work/other"
train=(train --model tiny --max-seq-length 16 --per-device-train-batch-size 1
    --gradient-accumulation-steps 8 --threads 1 --quiet --virtual-ranks 4)
data=(--data "$work/text")

# ranks N COMMAND..: under the launcher; streams in $out and $err, the exit code in $code.
ranks() {
    local count=$1
    shift
    timeout -k 5 6000 "${launcher[@]}" -n "$count" "$@" >"$work/.out" 2>"$work/.err" </dev/null
    code=$?
    out=$(tr -d '\0' <"$work/.out")
    err=$(tr -d '\0' <"$work/.err")
    said=$(cat "$work/.out" "$work/.err" | messages)
}

# ends CODE WORDS NAME: that exit code, and one message with these words.
ends() {
    [[ $code -eq $1 && $(wc -l <<<"$said") -eq 1 && $said == *"$2"* ]]
    check $? "${launcher[0]}: $3: exit $code, wanted $1 and once: $2" "$out$err"
}

# only RANK WITH WITHOUT: a program that runs its arguments, with one more list on one rank.
cat >"$work/only" <<'END'
#!/bin/bash
which=$1 with=$2 without=$3
shift 3
[[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} == "$which" ]] || with=$without
exec "$@" $with
END
chmod +x "$work/only"
# Another version of the program: the same, but for the text that says which it is.
version=$("$program" --version | cut -d' ' -f2)
sed "s/$version/${version%?}9/g" "$program" >"$work/newer"
cat >"$work/versions" <<END
#!/bin/bash
[[ \${OMPI_COMM_WORLD_RANK:-\$PMI_RANK} == 1 ]] && exec "$work/newer" "\$@"
exec "$program" "\$@"
END
chmod +x "$work/newer" "$work/versions"
cat >"$work/full" <<'END'
#!/bin/bash
[[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} == 1 ]] && ulimit -f 8
exec "$@"
END
# Each with a temporary folder of its own: two that are each a first rank to Open MPI's library would
# make its session folder at the same moment, and the later one dies of that.
cat >"$work/apart" <<'END'
#!/bin/bash
export TMPDIR=${TMPDIR:-/tmp}/rank-${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
mkdir -p "$TMPDIR"
exec "$@"
END
# less RANKS COMMAND..: these have less address space; smaller: a smaller GPU.
cat >"$work/less" <<'END'
#!/bin/bash
[[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} == $1 ]] && ulimit -v 600000
shift
exec "$@"
END
cat >"$work/smaller" <<END
#!/bin/bash
export LD_LIBRARY_PATH=$PWD/$BUILD/ptxvm PTXVM_DEVICES=2
[[ \${OMPI_COMM_WORLD_RANK:-\$PMI_RANK} == "\$1" ]] && export PTXVM_MEMORY=1048576
shift
exec "\$@"
END
chmod +x "$work/full" "$work/apart" "$work/less" "$work/smaller"

digest_of() { sed -nE 's/.*"state_digest": *"([0-9a-f]+)".*/\1/p' <<<"$out" | tail -1; }
files_of() { (cd "$1" && find . -type f ! -name 'events*' ! -name '*.lock' | sort | xargs cksum); }

# What one process gives, to compare with.
run "${train[@]}" "${data[@]}" --max-steps 12 --save-steps 4 --json --output-dir "$work/run"
right=$(digest_of)
mv "$work/run" "$work/one"
[[ $code -eq 0 && -n $right ]]
check $? "one process" "$err"

same_state() {
    local count counts='2 4'
    # In the short form all numbers of ranks and all refusals under one launcher, and under the other what it has a part in.
    [[ ${launcher[0]} == *openmpi ]] || long_form || counts=4
    for count in $counts; do
        rm -rf "$work/run"
        ranks $count "$program" "${train[@]}" "${data[@]}" --max-steps 12 --save-steps 4 --json --output-dir "$work/run"
        [[ $code -eq 0 && $(digest_of) == "$right" ]]
        check $? "${launcher[0]} -n $count: the state of one process" "$(digest_of), right would be $right; $err"
        diff <(files_of "$work/one") <(files_of "$work/run") >"$work/.diff"
        check $? "${launcher[0]} -n $count: the files of one process" "$(cat "$work/.diff")"
    done
}

# Every rank writes its ranges of the files; where one cannot, the first does it alone; where its
# medium is full, all end.
together() {
    local form run=("$program" "${train[@]}" "${data[@]}" --max-steps 12 --save-steps 4)
    for form in none gradients; do
        rm -rf "$work/run" "$work/elsewhere"
        ranks 2 "$work/only" 1 "--output-dir $work/elsewhere" "--output-dir $work/run" "${run[@]}" --shard $form
        diff <(files_of "$work/one") <(files_of "$work/run") >"$work/.diff"
        [[ $? -eq 0 && $code -eq 0 && ! -e $work/elsewhere/checkpoint-12 ]]
        check $? "${launcher[0]}: a rank with a directory of its own, $form" "$(cat "$work/.diff")$err"
        rm -rf "$work/run"
        # What MPICH shares between processes are files that grow as well.
        [[ ${launcher[0]} == *openmpi ]] || continue
        ranks 2 "$work/full" "${run[@]}" --shard $form --output-dir "$work/run"
        # Which rank ends last is the launcher's matter, and it kills one that is slow to say its last words (a sanitizer's
        # build): what could not be written, and why, was said before.
        [[ $code -eq 6 && $said == *"could not be written: rank 1: file too large"* ]]
        check $? "${launcher[0]}: a rank whose medium is full, $form (exit $code)" "$out$err"
        [[ ! -e $work/run/checkpoint-4 ]]
        check $? "${launcher[0]}: nothing is published then, $form" "$(ls "$work/run")"
    done
}

# verifies ranks-17.c932
# Memory that one rank lacks is that rank's, by number and bytes; what all lack is said once.
unequal() {
    local begin=("$program" "${train[@]}" --output-dir "$work/run" "${data[@]}" --max-steps 4) words
    for words in "--arena 1M" "--arena 1M --shard parameters"; do
        ranks 4 "$work/only" 3 "$words" "${words#--arena 1M}" "${begin[@]}"
        ends 2 "arena: this rank has too little memory where others have enough: found 1048576, expected at least" \
            "less memory for one rank, $words"
        [[ $said == *"rank 3 on "* ]]
        check $? "${launcher[0]}: the rank that has less" "$said"
    done
    ranks 4 "${begin[@]}" --arena 1M
    [[ $code -eq 3 && $(grep -c "the plan does not fit" <<<"$said") -eq 1 && $(grep -c "largest buffer" <<<"$said") -eq 1 ]]
    check $? "${launcher[0]}: too little memory for all ranks (exit $code)" "$out$err"
    # Of GPT-2's two gigabytes one address space takes a part; and so do both. A sanitizer's shadow takes terabytes.
    if [[ $BUILD != *sanitize* && $BUILD != *tsan* ]]; then
        begin=("$program" train --model gpt2 "${train[@]:3}" --output-dir "$work/run" "${data[@]}" --max-steps 4)
        ranks 2 "$work/less" 1 "${begin[@]}"
        ends 2 "rank 1 on $(hostname), arena: this rank has too little memory where others have enough: found " \
            "less address space for one rank"
        ranks 2 "$work/less" "[01]" "${begin[@]}"
        ends 3 "arena: the system refused the memory that the plan needs" "too little address space for all"
    fi
    [[ -e $BUILD/ptxvm/libcuda.so.1 ]] || return 0
    begin=("$program" "${train[@]}" --output-dir "$work/run" "${data[@]}" --max-steps 4 --device cuda)
    ranks 2 "$work/smaller" 1 "${begin[@]}"
    ends 2 "rank 1 on $(hostname), GPU: this rank has too little memory where others have enough: found 1048576, expected" \
        "a GPU that has less memory"
}

# verifies ranks-4.e03f
refusals() {
    rm -rf "$work/run"
    local begin=("$program" "${train[@]}" --output-dir "$work/run" --max-steps 4)
    ranks 4 "${begin[@]}" "${data[@]}" --nonsense
    ends 2 "unknown option" "an unknown option"
    ranks 4 "$work/apart" "${begin[@]}" "${data[@]}" --mpi "$other_library"
    [[ $code -eq 2 && $said == *"launcher started other ranks"* ]] || [[ $code -eq 7 ]]
    check $? "${launcher[0]}: a library of another MPI (exit $code)" "$out$err"
    [[ ${launcher[0]} == *openmpi ]] || long_form || return 0
    ranks 4 "${begin[@]}" --data "$work/none"
    ends 4 "no such file" "no data anywhere"
    ranks 4 "$work/only" 2 "--data $work/none" "--data $work/text" "${begin[@]}"
    ends 4 "no such file" "a host without the data"
    ranks 4 "$work/only" 2 "--data $work/other" "--data $work/text" "${begin[@]}"
    ends 2 "the data differ between the ranks" "other data on one host"
    ranks 2 "$work/only" 1 "--learning-rate 0.5" "" "${begin[@]}" "${data[@]}"
    ends 2 "an option differs between the ranks" "another option on one rank"
    for other in "--gradient-checkpointing full" "--threads 2" "--shard optimizer"; do
        ranks 4 "$work/only" 2 "$other" "" "${begin[@]}" "${data[@]}"
        ends 2 "rank 2 is not as rank 0: ${other% *}: the ranks have made different plans" "another plan on one rank"
    done
    unequal
    ranks 4 "${begin[@]}" "${data[@]}" --virtual-ranks 2
    ends 2 "there are more ranks than virtual ranks: found 2, expected at least 4" "more ranks than virtual ranks"
    ranks 3 "${begin[@]}" "${data[@]}"
    ends 2 "the number of ranks has to divide theirs" "three ranks"
    ranks 2 "${begin[@]}" "${data[@]}" --virtual-ranks 16
    ends 2 "which is by default the number of ranks: found 8, expected 16" "a group that is no multiple of the virtual ranks"
    ranks 2 "$work/versions" "${train[@]}" --output-dir "$work/run" "${data[@]}"
    ends 2 "different versions of the program" "another version on one rank"
    ranks 2 "${begin[@]}" "${data[@]}" --mpi libno-such-mpi.so
    ends 7 "the MPI library cannot be loaded" "no MPI library"
    [[ ! -e $work/run/checkpoint-4 ]]
    check $? "${launcher[0]}: nothing was trained" "$(ls "$work/run" 2>&1)"
}

# The step of the newest checkpoint at a multiple of five.
newest() {
    local path step most=
    for path in "$work"/run/checkpoint-*[05]; do
        step=${path##*/checkpoint-}
        [[ ! $step =~ ^[0-9]+$ || $step -le ${most:--1} ]] || most=$step
    done
    [[ -z $most ]] || echo "$most"
}

# at STEP: waits until the run has saved that step or a later one (old ones go), or has ended.
at() {
    wait_for 1200 "[[ \$(newest) -ge $1 ]]" "$started"
}

# Process of a rank of the run under way.
process_of() {
    local p
    for p in $(pgrep -x bedplate); do
        { tr '\0' '\n' <"/proc/$p/environ" | grep -qxE "(OMPI_COMM_WORLD_RANK|PMI_RANK)=$1" &&
            tr '\0' ' ' <"/proc/$p/cmdline" | grep -qF "$work/run"; } 2>/dev/null && echo "$p" && return
    done
}

nobody_left() {
    wait_for 120 '! pgrep -f "train .*$work/run" >/dev/null'
}

long=("$program" "${train[@]}" "${data[@]}" --save-steps 5 --save-total-limit 3 --output-dir "$work/run" --resume)
steps=200 rounds=4
! long_form || steps=600 rounds=10
short=("${long[@]}" --max-steps $steps --json)

# Starts the run in the background; its exit code comes by finish_ranks.
start_ranks() {
    local count=$1
    shift
    timeout -k 5 6000 "${launcher[@]}" -n "$count" "${short[@]}" "$@" >"$work/.out" 2>"$work/.err" </dev/null &
    started=$!
}
finish_ranks() {
    wait "$started"
    code=$?
    out=$(tr -d '\0' <"$work/.out")
    err=$(tr -d '\0' <"$work/.err")
    said=$(grep -h '^bedplate: ' "$work/.out" "$work/.err" | grep -v 'no checkpoint')
}

# disturbed WHAT: begins anew, where this script had no turn before a run was over; then WHAT is 1.
disturbed() {
    local tries
    for ((tries = 0; tries < 20; tries++)); do
        rm -rf "$work/run"
        "$1" && return
    done
    check 1 "${launcher[0]}: $1: each of $tries runs was over before it was disturbed" "$out$err"
}
over() { [[ $code -eq 0 && $out == *state_digest* ]]; }

lost() {
    start_ranks 4
    at 20
    kill -STOP "$(process_of 1)"
    finish_ranks
    over && return 1
    local words='rank 1 on [^ ]+, (all_gather|exchange|broadcast) of [0-9]+ bytes, step [0-9]+: a rank is lost'
    [[ $code -eq 10 && $(wc -l <<<"$said") -eq 1 && $said =~ $words ]]
    check $? "${launcher[0]}: a rank that hangs (exit $code)" "$out$err"
    nobody_left
    check $? "${launcher[0]}: nothing is left running" "$(pgrep -af "$work/run")"
}

# verifies ranks-7.8516
signals() {
    start_ranks 2
    at 10
    kill -USR1 "$(process_of 1)"
    at $(($(newest) + 5))
    kill -TERM "$(process_of 1)"
    finish_ranks
    over && return 1
    [[ $code -eq 143 && $said == *"stopped by a signal"* ]]
    check $? "${launcher[0]}: TERM to one rank ends all after a step (exit $code)" "$out$err"
    nobody_left
    check $? "${launcher[0]}: nothing is left running" "$(pgrep -af "$work/run")"
    local before=$(newest)
    start_ranks 2
    at $((before + 10))
    kill -INT "$(process_of 0)"
    finish_ranks
    over && return 1
    [[ $code -eq 130 && $said == *"stopped by a signal"* ]]
    check $? "${launcher[0]}: INT to one rank ends all after a step (exit $code)" "$out$err"
    before=$(newest)
    start_ranks 2 --on-usr1 stop
    at $((before + 10))
    kill -USR1 "$(pgrep -f "${launcher[0]}.*$work/run" | tail -1)" 2>/dev/null
    finish_ranks
    over && [[ $said != *"stopped by a signal"* ]] && return 1
    # MPICH's mpirun returns 0 now and then once it has passed a signal on, whatever its ranks returned.
    [[ $code -eq 138 || ($code -eq 0 && $name == *mpich) ]] && [[ $said == *"stopped by a signal"* ]]
    check $? "${launcher[0]}: USR1 to the launcher, --on-usr1 stop (exit $code)" "$out$err"
    ranks 2 "${short[@]}"
    [[ $code -eq 0 && $(digest_of) == "$undisturbed" ]]
    check $? "${launcher[0]}: the same command line goes on to the same state" "$(digest_of) $undisturbed $err"
}

# after_save PROCESS STEP: waits for a checkpoint of a later step, as long as the process lives.
after_save() {
    wait_for 1200 "[[ \$(newest) -gt $2 ]]" "$1"
}

# verifies ranks-5.1fd2
# Each rank in turn is killed at a random moment, of starting, training or saving; in every second round
# after one more checkpoint, however slow the machine. The run that goes on every time ends in the state
# of the one that nobody disturbed, and then begins anew.
kills() {
    local round=0 rounds=$1 rank ended=0 saved=0 before
    rm -rf "$work/run"
    for ((round = 0; round < rounds; round++)); do
        before=$(newest)
        start_ranks 4
        wait_for 120 'rank=$(process_of $((round % 4))) && [[ -n $rank ]]' "$started"
        ((round % 2 == 0)) || [[ -z $rank ]] || after_save "$rank" "${before:-0}"
        sleep "$(awk -v r=$RANDOM 'BEGIN { printf "%.3f", r / 32768 * 1.5 }')" # no wait: a moment
        [[ -z $rank ]] || kill -KILL "$rank" 2>/dev/null
        finish_ranks
        [[ -n $rank && ($code -ne 0 || $out == *state_digest*) ]]
        check $? "${launcher[0]}: round $round: the exit code" "$code $out$err"
        ((saved += $(compgen -G "$work/run/checkpoint-*" | wc -l) > 0))
        if [[ $code -eq 0 ]]; then
            [[ $(digest_of) == "$undisturbed" ]]
            check $? "${launcher[0]}: round $round: the state is that of the undisturbed run" "$(digest_of) $undisturbed"
            rm -rf "$work/run"
            ((ended++))
        fi
        nobody_left
        check $? "${launcher[0]}: round $round: nothing is left running" "$(pgrep -af "$work/run")"
        if compgen -G "$work/run/checkpoint-*" >/dev/null; then
            run verify "$work/run"
            check $code "${launcher[0]}: round $round: the checkpoints are valid" "$out$err"
        fi
    done
    [[ $saved -gt 0 ]]
    check $? "${launcher[0]}: checkpoints were met: after $saved of $rounds kills, $ended runs ended between"
    [[ $rounds -lt 50 ]] || echo "${launcher[0]}: $rounds kills, after $saved of them checkpoints; $ended runs ended between"
    ranks 2 "${short[@]}"
    [[ $code -eq 0 && $(digest_of) == "$undisturbed" ]]
    check $? "${launcher[0]}: after $rounds kills the state is that of the undisturbed run" \
        "$(digest_of), right would be $undisturbed; $err"
}

run "${short[@]:1}"
undisturbed=$(digest_of)

for name in mpirun.openmpi mpirun.mpich; do
    if ! command -v $name >/dev/null; then
        echo "skipped: $name is not installed"
        continue
    fi
    launcher=($name)
    other_library=libmpi.so.40
    [[ $name != *openmpi ]] || { launcher+=(--oversubscribe) && other_library=libmpich.so.12; }
    same_state
    together
    refusals
    disturbed lost
    disturbed signals
    kills $((${BP_TEST_KILLS:-$rounds} / 2))
done
finish
