#!/bin/bash
# SPDX-License-Identifier: MIT
# Every external command that a script or a Makefile calls is there on a minimal Debian after tools/pkg/deps.sh, or its
# script asks for it and says `skipped: ` (tests/house/commands.py, commands.txt). Where this is Debian, the packages of
# the table have these commands, and those that are said to be everywhere are.
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
check() { # RC NAME [TEXT]
    if [[ $1 -eq 0 ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        printf 'FAILED: %s\n%s\n' "$2" "${3:-}" | head -40
    fi
}
table=tests/house/commands.txt
reader=tests/house/commands.py
mapfile -t files < <(find tests tools .ci Makefile -type f \( -name '*.sh' -o -name '*.mk' -o -name Makefile -o -name '*.py' -o -path '.ci/*' \) | LC_ALL=C sort)
# A command that is nowhere stands in the last line of each: the reader comes to its end.
mkdir "$work/tree" && cp --parents "${files[@]}" "$work/tree" && cd "$work/tree" || exit 1
for file in "${files[@]}"; do
    case $file in
    *.py) echo 'subprocess.run(["missing-command"])' ;;
    *.mk | *Makefile) printf 'end-of-it:\n\t@missing-command $(BUILD)\n' ;;
    *) echo 'missing-command "$@" >/dev/null' ;;
    esac >>"$file"
done
out=$("$OLDPWD/$reader" "$OLDPWD/$table" tools/pkg/deps.sh "${files[@]}")
cd "$OLDPWD" || exit 1
lost=$(grep -v ': missing-command$' <<<"$out")
[[ -z $lost ]]
check $? "commands of ${#files[@]} files are installed, or asked for" "$lost"
# Those that are run by hand may call anything.
lost=$(printf '%s\n' "${files[@]}" | grep -vxF "$(sed -n 's/:[0-9]*: missing-command$//p' <<<"$out")" |
    grep -v "$(sed -n '/^\[by hand\]/,$s/^t.*/^&/p' $table)")
[[ -z $lost ]]
check $? "each is read to its end" "$lost"

# Where a command can stand, one a case; and where the same word is none.
# cases WANTED: one a line of the input, ;;n is the end of a line; the command that no table has is WANTED.
cases() {
    local wanted=$1 case list=() i=0
    rm -f "$work"/case.*
    while IFS= read -r case; do
        list+=("$case")
        printf '%s\n' "${case//;;n/$'\n'}" >"$work/case.$((i++)).sh"
    done
    out=$($reader "$work/table" "$work/deps" "$work"/case.*.sh | sed -n "s|^$work/case\.\([0-9]*\)\.sh:[0-9]*: |\1 |p")
    for i in "${!list[@]}"; do
        [[ $(sed -n "s/^$i //p" <<<"$out") == "$wanted" ]]
        check $? "${wanted:-nothing} is found: ${list[i]}" "$(grep "^$i " <<<"$out")"
    done
}
echo '[base]
x: bash cat env find ip nice timeout xargs' >"$work/table"
: >"$work/deps"
cases gone <<'END'
gone a b
: && gone
: | gone
: || ! gone a
( gone )
{ gone; }
if gone; then :; fi
if :; then gone; elif :; then :; fi
while ! gone; do :; done
for i in 1 2; do gone "$i"; done
case $1 in a | b) gone ;; esac
x=$(gone a)
x="a $(gone a) b"
x=`gone a`
x=${y:-$(gone)}
x=(1 "$(gone)")
: $((1 + $(gone)))
[[ $(gone) == 1 ]]
A=1 B="2 3" gone
timeout -k 5 30 gone a
env -u A B=1 gone
echo | xargs -r -n 1 gone
nice -n 5 gone
bash -c 'gone a'
trap 'gone; :' EXIT
eval 'gone a'
f() { gone; }; f
f() { "$@"; }; f gone a
f() { shift; "$@"; }; f 1 gone a
find . -name x -exec gone {} +
run=(gone -n 2);;n"${run[@]}" a
run=(timeout 5 gone);;n"${run[@]}" 9
: <(gone a)
: >/dev/null & gone
cat <<A;;n$(gone);;nA
: a \;;n| gone
cat >x.sh <<'A';;ngone;;nA
cat >"$w/x" <<A;;n#!/bin/bash;;ngone \$1;;nA
time gone
exec gone
ip netns exec a gone
command -v gone && gone
END
cases '' <<'END'
: gone
# gone
echo "gone" 'a; gone'
gone() { :; }; gone
gone=1
x=(gone a)
case gone in gone) : ;; esac
[[ gone == gone ]]
for gone in gone gone; do :; done
: >gone
"$work/gone" a
build/release/gone
cat <<A;;ngone;;nA
((gone > 1))
: $((gone + 1))
command -v gone >/dev/null || echo "skipped: no gone here"; gone a
for x in a gone; do command -v "$x" || echo "skipped: $x"; done; gone
END
printf '[installed]\ngcc: gcc\n' >"$work/table"
[[ $(echo gcc >"$work/case.sh"; $reader "$work/table" "$work/deps" "$work/case.sh") == *'does not install gcc'* ]]
check $? 'a package that nothing installs'
printf '[base]\nx: unused\n' >"$work/table"
[[ $(echo : >"$work/case.sh"; $reader "$work/table" "$work/deps" "$work/case.sh") == *'nothing calls unused of x' ]]
check $? 'a command that nothing calls'

# The table tells the truth.
if ! command -v dpkg-query >/dev/null; then
    echo "skipped: what packages have (this is no Debian)"
    echo "$passed passed, $failed failed"
    [[ $failed -eq 0 ]]
    exit
fi
# owns PACKAGE COMMAND: it is a file of the package, or of one that it depends on; so may be what it points to.
declare -A lists # programs of a package and of those
owns() {
    local path=$2 packages list=${lists[$1]:-}
    if [[ -z $list ]]; then
        packages="$1 $(dpkg-query -W -f '${Pre-Depends},${Depends}' "$1" | sed 's/([^)]*)//g; s/[,|]/ /g')"
        # shellcheck disable=SC2086
        lists[$1]=$(dpkg-query -L $packages 2>/dev/null | grep -E '^(/usr)?/s?bin/[^/]+$')
        list=${lists[$1]}
    fi
    while [[ -n $path ]]; do
        [[ $'\n'$list$'\n' =~ $'\n'(/usr)?/s?bin/"${path##*/}"$'\n' ]] && return
        path=$(readlink "$(command -v "$path")")
    done
    return 1
}
part=''
while IFS= read -r row; do
    case $row in
    '#'* | '') ;;
    '['*) part=$row ;;
    *:*)
        package=${row%%:*}
        if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
            [[ $part != '[base]' ]]
            check $? "$package is on this Debian"
            continue
        fi
        [[ $part != '[base]' || $(dpkg-query -W -f '${Essential} ${Priority}' "$package") =~ ^yes|required$ ]]
        check $? "$package is on every Debian"
        for command in ${row#*:}; do
            owns "$package" "$command"
            check $? "$package has $command"
        done
        ;;
    esac
done <$table
# Tests wait for a state, by one function (tests/cli/wait.sh), which says so where it did not come; a busy machine is no
# failure. What depends on a time has its reason beside it, or in a comment on the line above: `no wait: ` where nothing is decided by how
# long something takes, `limit: ` where it is: what is compared takes ten times as long where something is wrong.
hasty() {
    (cd "${1:-.}" && find tests -type f \( -name '*.sh' -o -name '*.py' -o -name '*.[ch]' \) ! -path 'tests/gpu/*' \
        ! -path tests/cli/wait.sh ! -path tests/house/test_commands.sh | LC_ALL=C sort | xargs awk '
        FNR == 1 { before = "" }
        # Waits of a length, and times that are compared.
        function waits(line) {
            if (FILENAME ~ /\.[ch]$/) return line ~ /(^|[^a-z_])(nanosleep|usleep|sleep|nap|alarm|setitimer|sched_yield)\(/ &&
                line !~ /^static/ || line ~ /tv_n?sec - .*</
            return line ~ /(^|[^A-Za-z_-])sleep([^A-Za-z_=-]|$)/ || line ~ /SECONDS - [a-z]+(\)+ -l[te]| <)|date \+%s|EPOCH(REALTIME|SECONDS)/ ||
                line ~ /total_seconds.*[<>] [0-9]/
        }
        # An end that comes soon: of a command after less than ten minutes, by an option after less than one.
        function ends(line) {
            if (FILENAME ~ /\.[ch]$/) return line ~ /timeout -s [A-Z]+ ([0-9]*\.[0-9]+|[0-9]|[1-9][0-9]|[1-5][0-9][0-9]) /
            return line ~ /timeout (-[a-z] [A-Z0-9]+ |--[a-z-]+ |-s "[^"]*" )*([0-9]*\.[0-9]+|[0-9]|[1-9][0-9]|[1-5][0-9][0-9])[s ]/ && line !~ /-timeout/ ||
                line ~ /--(time-limit|storage-patience|silence-limit|step-limit|reward-timeout)[ =]([1-9]|[1-5][0-9]|0?\.[0-9]+)s?([^0-9hm.]|$)/
        }
        # A state that goes by: old checkpoints are removed while a script has no turn.
        function passes(line) { return line ~ /wait_for .* -[defs] [^ ]*checkpoint-[$0-9]/ }
        (waits($0) || ends($0) || passes($0)) && $0 !~ /(no wait|limit): / && before !~ /^ *(#|\/\*).*(no wait|limit): / {
            print FILENAME ":" FNR ":" $0
        }
        { before = $0 }')
}
found=$(hasty)
[[ -z $found ]]
check $? "tests wait for states" "$found"
mkdir -p "$work/sleeps/tests/part"
# seen FILE WANTED: one line of the input each; those that are seen are the WANTED, by number.
seen() {
    cat >"$work/sleeps/tests/part/$1"
    out=$(hasty "$work/sleeps" | cut -d: -f2 | paste -sd ' ')
    [[ $out == "$2" ]]
    check $? "$1: what depends on a time is seen" "found $out, expected $2"
    rm "$work/sleeps/tests/part/$1"
}
seen test_a.sh '1 4 6 8 9 11 14 16 17 23' <<'END'
sleep 1
sleep "0.$RANDOM" # no wait: a moment
asleep 1
[[ $((SECONDS - began)) -lt 20 ]]
[[ $((SECONDS - began)) -lt 20 ]] # limit: a fault takes 200
((SECONDS - began < 5))
check "$((SECONDS - began)) s"
now=$(date +%s%N)
took=$((${EPOCHREALTIME/./} - began))

timeout -k 5 30 "$program" train
timeout -k 5 1200 "$program" train
timeout 600 "$program" train
timeout --preserve-status -s INT 0.3 "$program"
run train --time-limit 11h30m --storage-patience 60s --step-limit 600
run train --storage-patience 2s
run train --silence-limit 4 "$@"
# limit: it ends by it
run train --reward-timeout 5s --quiet
run train --reward-timeout 5s --quiet # limit: it ends by it
# limit: it ends by it
run train --step-limit 3
wait_for 120 '[[ -e $work/out/checkpoint-4 ]]' "$pid"
wait_for 120 'compgen -G "$work/out/checkpoint-*" >/dev/null' "$pid"
END
seen b.py '1' <<'END'
    time.sleep(0.1)
    time.sleep(0.1)  # no wait: a moment
END
seen test_a.c '1 2 6 7' <<'END'
    assert_true(ended.tv_sec - began.tv_sec < 5);
    nanosleep(&span, NULL);
    nanosleep(&span, NULL); /* no wait: between two looks */
static void nap(long ms)
    catnap(10);
    nap(10);
    setitimer(ITIMER_REAL, &soon, NULL);
END
waited() { (. tests/cli/wait.sh; wait_for "$@"; echo $?); }
n=0
at=$(waited 600 '((++n > 2))') && gone=$(wait; true & ended=$!; wait; waited 600 false $ended) && late=$(waited 1 'false')
[[ "$at;$gone;$late" == "0;1;waited 1 s in vain for: false"$'\n1' ]]
check $? "wait_for: what holds, a process that has ended, what does not hold" "$at;$gone;$late"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
