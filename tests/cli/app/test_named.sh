#!/bin/bash
# SPDX-License-Identifier: MIT
# Whatever refuses the value of an option, the option is named as it is typed: every option of every command that plans,
# trains, evaluates or writes, with words, numbers and each of its choices, beside models of several kinds. A value that
# is refused because of another option may name that one instead.
. "$(dirname "$0")/../lib.sh"
program=$PWD/$program
cd "$work" || exit 1
mkdir here && cd here || exit 1
seq 1 300 >text

tried=0 turn=0 least=1200
long_form || least=600 # every other value
wrong=''
# named COMMAND OPTION VALUE CONTEXT..
named() {
    local command=$1 option=$2 value=$3 line word
    shift 3
    turn=$((turn + 1))
    long_form || ((turn % 2)) || return
    run "$command" "$@" "$option=$value"
    tried=$((tried + 1))
    # What is needed besides is named instead, and so is a file that is damaged or missing.
    [[ $code -ne 0 && $err != *': the option is needed'* && $err != *'; give --'* ]] || return
    [[ $code -ne 4 && $code -ne 6 || $err != *"bedplate: text"* && $err != *"bedplate: $value"* ]] || return
    for word in "$option" "$@" ''; do
        [[ $word != --* || $err != *"$word"* ]] || break
    done
    # None of its messages names an option without its dashes.
    while read -r line; do
        [[ ! $line =~ ^bedplate:\ ([a-z0-9-]+):\  || -z ${known[${BASH_REMATCH[1]}]:-} || $line == 'bedplate: task: '* ||
            $line == *': a preset: the weights are random'* ]] || word=''
    done <<<"$err"
    [[ -n $word ]] || wrong+="$command $* $option=$value ($code): $err"$'\n'
}
# options COMMAND VALUES CONTEXT..: all of its options but those whose values are files that are there.
options() {
    local command=$1 values=$2 option choices value
    shift 2
    while read -r option choices; do
        case " --model --adapter --data --distill --output --to --from --html --card --metrics --help --overwrite-output-dir $* " in *" $option "*) continue ;; esac
        [[ -n $choices ]] || choices=true
        [[ $choices == *'|'* && $choices != *[A-Z]* ]] || [[ $choices == true ]] || choices=$values
        for value in ${choices//|/ }; do named "$command" "$option" "$value" "$@"; done
    done < <("$program" "$command" --help all | sed -nE 's/^  (--[a-z0-9-]+) ?(.*)/\1 \2/p' | sort -u)
}
for command in plan train eval generate embed distill export tokenize; do
    "$program" $command --help all | sed -nE 's/^  --([a-z0-9-]+).*/\1/p'
done | sort -u >options
declare -A known
while read -r name; do known[$name]=1; done <options
[[ $(wc -l <options) -ge 180 ]]
check $? "there are options" "$(wc -l <options)"
options plan 'xyzzy -1 3' --model tiny --lora-r 4 --target-modules c_attn --max-seq-length 16
options plan '0 3' --model tiny-bert --task classification --max-seq-length 16
options plan '3' --model tiny-vit
options plan '3 5' --model tiny --gradient-accumulation-steps 4 --virtual-ranks 4 --ranks 2 --max-seq-length 16
options train xyzzy --model tiny --data text --max-steps 0 --max-seq-length 16 --output-dir out --overwrite-output-dir
options generate xyzzy --model tiny --prompt a --max-new-tokens 1
for command in eval embed distill export tokenize; do
    options $command xyzzy --model tiny
done
[[ -z $wrong ]]
check $? "of $tried values each is refused by its option" "$wrong"
[[ $tried -ge $least ]]
check $? "$tried values were tried" ''
finish
