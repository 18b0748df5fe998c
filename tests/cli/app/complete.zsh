# SPDX-License-Identifier: MIT
# complete.zsh DIRECTORY LINE..: what an interactive zsh whose completions lie in the directory offers at the
# end of each line, as one line of words in order.
zmodload zsh/zpty

# Keeps the words in angle brackets that come before a line with the word.
typeset -a found
await() {
    local line
    found=()
    while zpty -r shell line; do
        line=${${line//$'\r'/}%$'\n'}
        [[ $line != "<$1>" ]] || return 0
        [[ $line != '<'*'>' ]] || found+=("${${line#<}%>}")
    done
    exit 1
}

# compadd is what completion functions hand their words to; calls that only ask it pass through.
cat >$1/.zshrc <<'END'
PS1= RPROMPT= fpath=($ZDOTDIR $fpath)
unsetopt beep
autoload -U compinit && compinit -D -u
compadd() {
    local -a words
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
        builtin compadd "$@"
        return
    fi
    builtin compadd -A words "$@"
    (( $#words == 0 )) || print -rl -- '' "<"$^words">"
    builtin compadd "$@"
}
shown() { print -rl -- '' '<end of words>'; }
zle -N shown
bindkey '^Xs' shown
bindkey '^U' kill-whole-line
# What is typed before the editor works may be lost.
zle-line-init() { print -rl -- '' '<set up>'; }
zle -N zle-line-init
END
zpty shell env TERM=dumb ZDOTDIR=$1 zsh -d -i
await 'set up'
for line in "${@[2,-1]}"; do
    zpty -w -n shell "$line"$'\t\x18s\x15'
    await 'end of words'
    print -r -- "${(@ou)found}"
done
zpty -d shell
