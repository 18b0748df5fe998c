# SPDX-License-Identifier: MIT
# Sourced by the goals that give evidence.
# lacks_tool WORDS: counts one in $failed and says which part was not shown; with OPTIONAL=1 says `skipped: WORDS` alone.
lacks_tool() {
    if [[ ${OPTIONAL:-} == 1 ]]; then
        echo "skipped: $1"
    else
        printf '%s\n' "missing: $1" 'try: OPTIONAL=1, which skips what lacks its tools'
        failed=$((${failed:-0} + 1))
    fi
}

# missing_tool WORDS: ends a goal whose tool is not installed: as a failure, since what was to be shown was not; with
# OPTIONAL=1 as `skipped: WORDS`, without one.
missing_tool() {
    failed=0
    lacks_tool "$1"
    echo "0 passed, $failed failed"
    exit $failed
}
