# SPDX-License-Identifier: MIT
# How tests wait: for a state, never for a time (tests/house/test_commands.sh). Sourced.

# wait_for SECONDS CONDITION [PROCESS]: until a line of shell holds; says that it did not in that time, ten times and more what
# it takes on a quiet machine, and is 1; so it is, but says nothing, where the process has ended without it.
wait_for() {
    local given_up=$((SECONDS + $1))
    until eval "$2"; do
        ((SECONDS < given_up)) || { echo "waited $1 s in vain for: $2" && return 1; }
        [[ -z ${3:-} ]] || kill -0 "$3" 2>/dev/null || { eval "$2" && return; return 1; }
        wait_moment
    done
}

# A moment between two looks, without a process for it: reading what nobody writes ends by its limit.
wait_moment() {
    if [[ -d ${work:-} ]] && { [[ -p $work/.moment ]] || mkfifo "$work/.moment"; } 2>/dev/null; then
        read -rt 0.02 <>"$work/.moment" || :
    else
        sleep 0.02
    fi
}
