#!/bin/bash
# SPDX-License-Identifier: MIT
# Proves what README.md promises on a bare machine: a fresh clone of HEAD in a minimal Debian 12 that has nothing but
# git and make, where, as root, `make demo` and `make test` install what they need and pass. Ends with
# `N passed, N failed`; without root, debootstrap or namespaces it says `skipped: REASON` and counts nothing.
#
#   tests/house/bare.sh [GOAL..]     these goals instead of `demo test`, one after the other
#
# build/bare keeps the minimal system and the packages that it fetched for the next time, and GOAL.log.
# BARE_MIRROR is another mirror of Debian. Needs 12 GB of storage, and as long as both goals and a full build take.
cd "$(dirname "$0")/../.." || exit 1
goals=("$@")
[[ $# -gt 0 ]] || goals=(demo test)
skip() {
    echo "skipped: the bare machine ($1)"
    echo '0 passed, 0 failed'
    exit 0
}
[[ $(id -u) -eq 0 ]] || skip 'needs root'
for command in debootstrap unshare git chroot; do
    command -v "$command" >/dev/null || skip "needs $command"
done
unshare --mount --pid --fork --kill-child --mount-proc true 2>/dev/null || skip 'no namespaces of mounts and processes here'

keep=$PWD/build/bare
mkdir -p "$keep/archives/partial"
root=$(mktemp -d "$keep/root.XXXXXX")
inside_pid=''
# Mounts and processes belong to namespaces that end with their first process: what is removed here is files alone.
end() {
    [[ -z $inside_pid ]] || kill -KILL "$inside_pid" 2>/dev/null
    wait 2>/dev/null
    rm -rf --one-file-system "$root"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# system: the minimal system with git and make, in $root.
system() {
    mkdir -p "$root/var/cache/apt/archives" && mount --bind "$keep/archives" "$root/var/cache/apt/archives" || return 1
    if [[ -s $keep/bookworm.tar ]]; then
        tar -xf "$keep/bookworm.tar" -C "$root"
        return
    fi
    debootstrap --variant=minbase --include=git,make,ca-certificates bookworm "$root" ${BARE_MIRROR:-} || return 1
    tar -cf "$keep/bookworm.tar.part" --exclude='./var/cache/apt/archives/*' --one-file-system -C "$root" . &&
        mv "$keep/bookworm.tar.part" "$keep/bookworm.tar"
}
# goal NAME: runs it in the clone as root's login would.
goal() {
    chroot "$root" /usr/bin/env -i HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        bash -c 'cd /root/bedplate && make "$0"' "$1" </dev/null
}
inside() {
    local name rc counts p f passed=0 failed=0
    system >"$keep/system.log" 2>&1 || { tail -20 "$keep/system.log"; echo "there is no minimal system ($keep/system.log)"; return 1; }
    mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount -t tmpfs -o mode=1777 shm "$root/dev/shm" &&
        mount --rbind /sys "$root/sys" || return 1
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    git clone -q --no-hardlinks "$PWD" "$root/root/bedplate" || return 1
    for name in "${goals[@]}"; do
        goal "$name" 2>&1 | tee "$keep/$name.log"
        rc=${PIPESTATUS[0]}
        # A goal that counts nothing, as demo does, is one check; one that fails is at least one failure.
        read -r p f < <(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$keep/$name.log" | tail -1 | sed 's/[a-z,]//g')
        counts=$((${p:-0} + ${f:-0}))
        [[ $rc -ne 0 || $counts -ne 0 ]] || p=1
        [[ $rc -eq 0 || ${f:-0} -ne 0 ]] || f=1
        passed=$((passed + ${p:-0}))
        failed=$((failed + ${f:-0}))
        echo "bare: make $name: ${p:-0} passed, ${f:-0} failed (exit $rc)"
    done
    echo "$passed passed, $failed failed"
    [[ $failed -eq 0 && $passed -gt 0 ]]
}
export -f system goal inside
export root keep
export goal_names="${goals[*]}"
unshare --mount --pid --fork --kill-child --mount-proc bash -c 'read -ra goals <<<"$goal_names"; inside' &
inside_pid=$!
wait "$inside_pid"
rc=$?
inside_pid=''
exit $rc
