#!/bin/bash
# SPDX-License-Identifier: MIT
# Two hosts: network and UTS namespaces with addresses and names of their own, TCP between them. The
# state is that of one process, on a slow cable too; a cable that is cut ends all ranks that can be
# reached with exit code 10 within the limits, and the run that goes on ends in the same state.
# verifies ranks-5.1fd2
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../../fixtures/mpi/hosts.sh"

command -v mpirun.openmpi >/dev/null || { echo 'skipped: mpirun.openmpi is not installed' && exit 77; }
trap 'hosts_end; rm -rf "$work"' EXIT
hosts_make "$work" || { echo "skipped: $hosts_why" && exit 77; }

awk 'BEGIN { for (i = 0; i < 300; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
train=(train --model tiny --max-seq-length 16 --per-device-train-batch-size 1 --gradient-accumulation-steps 8
    --threads 1 --quiet --virtual-ranks 4 --data "$work/text" --save-steps 5 --save-total-limit 3 --json)
path=$(realpath "$program")

# hosts ARGUMENTS..: two ranks on each host; streams in $out and $err, the launcher's exit code in $code.
# What each rank says and ends with is kept beside it too, by the rank itself: a launcher may lose both.
launch=hosts_openmpi
cat >"$work/rank" <<'END'
#!/bin/bash
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-none}}
"$@" > >(tee "$RANKS/out.$rank") && rc=0 || rc=$?
echo $rc >"$RANKS/code.$rank"
exit $rc
END
chmod +x "$work/rank"
hosts() {
    rm -rf "$work/ranks" && mkdir "$work/ranks"
    RANKS=$work/ranks $launch -n 4 env RANKS="$work/ranks" "$work/rank" \
        "$path" "${train[@]}" --output-dir "$work/run" --resume "$@" \
        >"$work/.out" 2>"$work/.err" </dev/null
    code=$?
    out=$(cat "$work/.out")
    err=$(cat "$work/.err")
}

run "${train[@]}" --max-steps 300 --stop-at-step 80 --output-dir "$work/one"
right=$(json state_digest)
run "${train[@]}" --max-steps 60 --output-dir "$work/sixty"
sixty=$(json state_digest)

# One that had gone too far, or was over, before this script had a turn to cut the cable is begun anew.
for ((tries = 0; tries < 20; tries++)); do
    rm -rf "$work/run"
    began=$SECONDS
    (
        wait_for 120 '[[ $(compgen -G "$work/run/checkpoint-*" | wc -l) -ge 2 ]]'
        hosts_cut
    ) &
    hosts --max-steps 300 --silence-limit 5 # limit: ten times a rank's interval; behind a cut cable nobody says more
    wait
    newest=$(ls -d "$work"/run/checkpoint-* 2>/dev/null | sed 's/.*-//' | sort -n | tail -1)
    [[ $code -eq 0 || ${newest:-0} -gt 80 ]] || break
    hosts_mend
done
# On a busy machine the launcher may see first that its own daemon beyond the cable is gone, and ends with a code
# of its own (205); that the ranks ended with 10 is then in what it says of their call of MPI_Abort.
[[ $code -ne 10 && $err == *'lost communication with a remote daemon'* && $err == *'with errorcode 10.'* ]] && code=10
[[ $code -eq 10 && $((SECONDS - began)) -lt 450 ]] # limit: ten times 45, an end of TCP's own takes a quarter of an hour
check $? "a cable that is cut: exit code 10 within the limits ($code, $((SECONDS - began)) s)" "$out$err"
[[ $(grep -c '^bedplate:.*a rank is lost' <<<"$err") -eq 1 ]] && grep -q "rank [0-3] on $hosts_b, .*step [0-9]" <<<"$err"
check $? "one message names a rank, its host, the call and the step" "$err"
wait_for 120 '! pgrep -f "train .*$work/run" >/dev/null'
check $? "nothing is left running on either host" "$(pgrep -af "$work/run")"
run verify "$work/run"
check $code "the checkpoints are valid" "$out$err"

hosts_mend
command -v tc >/dev/null && hosts_slow 40mbit
hosts --max-steps 300 --stop-at-step 80
[[ $code -eq 0 && $(json state_digest) == "$right" ]]
check $? "the same command line goes on, on a slow cable, to the state of one process" \
    "$code, $(json state_digest), right would be $right; $err"

# MPI_Finalize of MPICH 4.0 over UCX's TCP does not always return: one rank waits there for an answer that
# only the others could give, and they wait for it in their launcher's barrier. All is saved by then, and
# no rank ends with anything but 0; the launcher, whose pipes go first, may lose their words, kill what it
# started before that has noted its code, and end with anything.
if command -v mpirun.mpich >/dev/null; then
    launch=hosts_mpich
    hosts_slow 1000mbit
    rounds=1
    ! long_form || rounds='1 2 3'
    for round in $rounds; do
        rm -rf "$work/run"
        hosts --max-steps 60
        wait_for 900 '! pgrep -f "train .*$work/run" >/dev/null'
        gone=$?
        codes=$(cat "$work"/ranks/code.* 2>/dev/null | tr '\n' ' ')
        out=$(cat "$work/ranks/out.0")
        [[ -z ${codes//0 /} && $(json state_digest) == "$sixty" && $gone -eq 0 ]]
        check $? "MPICH across hosts, round $round (ranks $codes, launcher $code)" \
            "$(json state_digest), right would be $sixty; $err"
        run verify "$work/run"
        check $code "the checkpoints are valid" "$out$err"
    done
else
    echo 'skipped: mpirun.mpich is not installed'
fi
finish
