#!/bin/bash
# SPDX-License-Identifier: MIT
# Shell completion in fish itself.
# verifies face-27.6da5
. "$(dirname "$0")/completion_cases.sh"
shell_is_here fish
run completion fish
check $code "completion fish" "$err"
# shellcheck disable=SC2317
offered() {
    HOME=$work fish -N -c 'source $argv[1]
        for line in $argv[2..-1]
            string join -- " " (complete -C $line | string replace -r "\t.*" "" | sort)
        end' "$work/script" "$@"
}
shell_cases
finish
