#!/bin/bash
# SPDX-License-Identifier: MIT
# Shell completion: what bash offers when its function is called as bash calls it.
# verifies face-27.6da5
. "$(dirname "$0")/../lib.sh"

run completion bash
check $code "completion bash" "$err"
cp "$work/.out" "$work/bedplate.bash"
bash -n "$work/bedplate.bash"
check $? "it is bash"
# shellcheck disable=SC1091
. "$work/bedplate.bash"
complete -p bedplate 2>/dev/null | grep -q -- '-F _bedplate'
check $? "bash knows the function"

# offers WORD.. : what is offered in the place of the last word; - stands for an empty one.
offers() {
    COMP_WORDS=(bedplate "${@/#-/-}")
    [[ ${COMP_WORDS[-1]} != - ]] || COMP_WORDS[-1]=
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _bedplate
    offered=$(printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')
}
# offered EXACTLY WORDS.. : compares with the line that the words make.
is() {
    local right=$1
    shift
    offers "$@"
    [[ $offered == "$right " ]]
    check $? "completing '$*'" "offered: $offered; right: $right"
}
# has / lacks WORD ARGUMENTS
has() {
    local word=$1
    shift
    offers "$@"
    [[ " $offered" == *" $word "* ]]
    check $? "completing '$*' offers $word" "$offered"
}
lacks() {
    local word=$1
    shift
    offers "$@"
    [[ " $offered" != *" $word "* ]]
    check $? "completing '$*' does not offer $word" "$offered"
}

is 'plan' p
is 'tokenize train' t
offers -
[[ $(wc -w <<<"$offered") -eq $("$program" --help | grep -c '^  bedplate ') ]]
check $? "every command is offered" "$offered"

is '--learning-rate' train --learn
is '--learning-rate' train --model tiny --learn
is '--lr-scheduler-type' train --lr_scheduler_t
lacks --learning-rate generate --l
for command in plan train eval generate export import tokenize verify bench devices arena completion init; do
    offers $command --
    [[ "$offered" == "$("$program" $command --help all | grep -oE '^  --[a-z0-9-]+' | tr -d ' ' | sort | tr '\n' ' ')" ]]
    check $? "all options of $command, and no others" "$offered"
done

is 'cosine cosine_with_min_lr cosine_with_restarts' train --lr-scheduler-type cos
is 'cosine cosine_with_min_lr cosine_with_restarts' train --lr_scheduler_type cos
is 'linear' train --lr-scheduler-type = li
is 'auto gguf hf llmc state' export --format -
has tiny-llama plan --model tiny
has exact train --gradient-release -
is 'false true' train --bnb-4bit-use-double-quant -
# Behind a flag, and behind a whole value, comes another option.
is '--learning-rate' train --bf16 --learn
is '--learning-rate' train --optim adamw --learn
is 'fabric gemm optim step' bench -
is 'bash fish zsh' completion -

mkdir "$work/here" && cd "$work/here" && mkdir models && touch text.txt other.csv
is 'text.txt' train --data te
is '--model' train --data text.txt --mo
is 'models' train --output-dir -
has models plan --model mo
is 'text.txt' eval --config t
cd - >/dev/null || exit 1
is '' train --max-steps 1

# The other shells: every command and option is there, and the text is whole.
for shell in zsh fish; do
    run completion $shell
    missing=$(grep -oE '^\.B [a-z]+$' docs/bedplate.1 | cut -c4- | while read -r command; do
        grep -q "$command" "$work/.out" || echo "$command"
    done)
    [[ $code -eq 0 && -z $missing ]]
    check $? "completion $shell has every command" "$missing"
    missing=$("$program" train --help all | grep -oE '^  --[a-z0-9-]+' | tr -d ' -' | while read -r name; do
        tr -d '-' <"$work/.out" | grep -q -e "$name" || echo "$name"
    done)
    [[ -z $missing ]]
    check $? "completion $shell has every option of train" "$missing"
    if command -v $shell >/dev/null; then
        $shell -n "$work/.out"
        check $? "it is $shell"
    fi
done
expect 2 'pwsh-7: unknown shell: expected bash, zsh, fish$' completion pwsh-7
expect 2 'an argument is missing' completion

# The man page names every command and option.
for word in $("$program" --help | sed -n 's/^  bedplate \([a-z]*\).*/\1/p'); do
    grep -qx "\.B bedplate $word" docs/bedplate.1
    check $? "the man page has $word"
done
finish
