# SPDX-License-Identifier: MIT
# How tests wait: for a state, never for a time (tests/house/test_commands.sh). Sourced.

# wait_for SECONDS CONDITION [PROCESS]: until a line of shell holds; says that it did not in that time, ten times and more what
# it takes on a quiet machine, and is 1; so it is, but says nothing, where the process has ended without it.
wait_for() {
    local given_up=$((SECONDS + $1))
    until eval "$2"; do
        ((SECONDS < given_up)) || { echo "waited $1 s in vain for: $2" && return 1; }
        [[ -z ${3:-} ]] || kill -0 "$3" 2>/dev/null || { eval "$2" && return; return 1; }
        sleep 0.02
    done
}
