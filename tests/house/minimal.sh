# SPDX-License-Identifier: MIT
# Sourced by what is tried in a minimal Debian (bare.sh, jobs.sh, dist.sh): makes one in $root and runs lines of shell there.
# build/bare keeps the systems and the packages that apt fetched there for the next time; BARE_MIRROR is another mirror of
# Debian. Mounts and processes belong to namespaces that end with their first process: what is left is files alone.
keep=$PWD/build/bare
. tests/assurance/missing.sh

# minimal_lacks COMMAND..: says what of root, namespaces and commands is not here; 1 where nothing is missing.
minimal_lacks() {
    local command
    [[ $(id -u) -eq 0 ]] || { echo 'needs root' && return; }
    for command in unshare chroot "$@"; do
        command -v "$command" >/dev/null || { echo "needs $command" && return; }
    done
    ! unshare --mount --pid --fork --kill-child --mount-proc true 2>/dev/null && echo 'no namespaces of mounts and processes here'
}

# minimal_begin NAME COMMAND..: a root for NAME that goes with the script. Where something is missing the script ends here
# with `missing: NAME (REASON)` and a failure, or with `skipped: NAME (REASON)` where OPTIONAL is 1.
minimal_begin() {
    if why=$(minimal_lacks "${@:2}"); then
        missing_tool "$1 ($why)"
    fi
    mkdir -p "$keep"
    root=$(mktemp -d "$keep/root.XXXXXX")
    inside_pid=''
    passed=0
    failed=0
    trap '[[ -z $inside_pid ]] || kill -KILL "$inside_pid" 2>/dev/null; wait 2>/dev/null; rm -rf --one-file-system "$root"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

# minimal_system RELEASE PACKAGES: fills $root with that Debian's minbase and these; 1: there is none ($keep/system.log).
minimal_system() {
    local kept=$keep/$1-${2//,/-}.tar
    if [[ ! -s $kept ]]; then
        { command -v debootstrap && debootstrap --variant=minbase --include="$2" "$1" "$root/new" ${BARE_MIRROR:-} &&
            tar -cf "$kept.part" --exclude='./var/cache/apt/archives/*.deb' --one-file-system -C "$root/new" . &&
            mv "$kept.part" "$kept"; } >"$keep/system.log" 2>&1 || return 1
        rm -rf "$root/new"
    fi
    tar -xf "$kept" -C "$root" && mkdir -p "$keep/archives/partial" "$root/var/cache/apt/archives" && cp -L /etc/resolv.conf "$root/etc"
}

# inside FOLDER LINE: a line of shell in a folder of $root as root's login there would run it.
inside() {
    unshare --mount --pid --fork --kill-child bash -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
        mount -t tmpfs -o mode=1777 shm "$0/dev/shm" && mount --rbind /sys "$0/sys" &&
        mount --bind "$3/archives" "$0/var/cache/apt/archives" && exec chroot "$0" /usr/bin/env -i HOME=/root TERM=dumb \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -c "cd $1 && $2"' "$root" "$1" "$2" "$keep" </dev/null &
    inside_pid=$!
    wait "$inside_pid"
    local code=$?
    inside_pid=''
    return $code
}

# count_log LOG RC WORDS: adds up what a log's last counting line says. What counts nothing, as `make demo`, is one check,
# and one that fails at least one failure.
count_log() {
    local p f
    read -r p f < <(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$1" | tail -1 | sed 's/[a-z,]//g')
    [[ $2 -ne 0 || $((${p:-0} + ${f:-0})) -ne 0 ]] || p=1
    [[ $2 -eq 0 || ${f:-0} -ne 0 ]] || f=1
    passed=$((passed + ${p:-0}))
    failed=$((failed + ${f:-0}))
    echo "$3: ${p:-0} passed, ${f:-0} failed (exit $2)"
}
counted() {
    echo "$passed passed, $failed failed"
    [[ $failed -eq 0 && $passed -gt 0 ]]
    exit $?
}
