#!/bin/bash
# SPDX-License-Identifier: MIT
# make compile_commands: in a small tree every source has an entry, each is JSON, and its command compiles.
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
passed=0
failed=0
check() { # NAME FOUND WANTED
    if [[ $2 == "$3" ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        printf '%s: %s, not %s\n' "$1" "$2" "$3"
    fi
}
mkdir -p "$tree"/{arena,core/base,layers,optim,device/{host,fabric,cuda},tools/{formats,bedplate}}
cp "$root/Makefile" "$tree"
cp "$root/core/base/version.h" "$tree/core/base"
cp -r "$root/tools/dev" "$tree/tools"
cd "$tree" || exit 1
unset MAKEFLAGS MAKELEVEL MFLAGS BUILD
echo 'int one(void); int one(void) { return 1; }' >arena/one.c
echo 'int two(void); int two(void) { return 2; }' >core/two.c
make -s compile_commands
check "it is made" "$?" 0
python3 - >said 2>&1 <<'P'
import json, subprocess
entries = json.load(open("compile_commands.json"))
print(" ".join(sorted({e["file"] for e in entries if e["file"].startswith(("arena", "core"))})))
for e in entries:
    if e["file"].startswith("arena"):
        subprocess.run("mkdir -p build/release/arena && " + e["command"], shell=True, check=True, cwd=e["directory"])
P
check "what is in it" "$(cat said)" "arena/one.c core/two.c"
check "a command of it compiles" "$(find build -name one.o | wc -l)" 1
out=$(printf '%s\n' 'echo no' 'gcc -DNAME="a\b" -c a.c -o b/a.o' | tools/dev/compile_commands.sh | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["command"])')
check "quotes" "$out" 'gcc -DNAME="a\b" -c a.c -o b/a.o'
out=$(tools/dev/compile_commands.sh </dev/null) && rc=0 || rc=$?
check "nothing to compile" "$rc $out" "1 []"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
