#!/bin/bash
# SPDX-License-Identifier: MIT
# Shell completion in zsh itself, which asks its functions only in a terminal.
# verifies face-27.6da5
. "$(dirname "$0")/completion_cases.sh"
shell_is_here zsh
run completion zsh
check $code "completion zsh" "$err"
asker=$PWD/tests/cli/app/complete.zsh
# shellcheck disable=SC2317
offered() {
    mkdir "$work/functions" && cp "$work/script" "$work/functions/_bedplate"
    timeout 600 zsh -f "$asker" "$work/functions" "$@"
}
shell_cases
finish
