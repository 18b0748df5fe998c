#!/bin/bash
# SPDX-License-Identifier: MIT
# The meter of issue slots (tools/ptx/slots.py) counts what it is shown, and its check is able to fail: a ptxas and an
# nvdisasm that say what this script wants stand in for the real ones.
# verifies device-14.1cf2
root=$(cd "$(dirname "$0")/../.." && pwd)
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
passed=0
failed=0
mkdir -p "$tree"/{device,tools,bin}
cp -r "$root/core" "$tree"
cp -r "$root/device/cuda" "$tree/device"
cp -r "$root/tools/ptx" "$tree/tools"
cd "$tree" || exit 1

expect() { # NAME WORDS OUTPUT
    if [[ $3 == *"$2"* ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$1: should have said \"$2\": $3"
    fi
}

# What the compiler says: registers, bytes of stack and of spills, one more line.
compiler() {
    cat >bin/ptxas <<END
#!/bin/bash
[[ \$1 == --version ]] && { echo "release 13.9, V13.9.7"; exit 0; }
echo "ptxas info    : Compiling entry function 'bp_end' for 'sm_80'"
echo "    $2 bytes stack frame, $3 bytes spill stores, $3 bytes spill loads"
echo "ptxas info    : Used $1 registers"
echo "$4"
END
    chmod +x bin/ptxas
}

# A loop of six instructions that takes four sums, or seven with their bias, and waits 5 + 2 + 2 + 1 + 1 + 6 clocks.
line() { printf '        /*%04x*/  %s ;  /* 0x0000000000000000 */\n  /* 0x%016x */\n' "$1" "$2" $(($3 << 41)); }
{
    echo 'cat <<"END"'
    echo '.text.bp_end:'
    line 0 'MOV R1, R2' 1
    echo '.L_x_1:'
    line 16 'LDS.128 R4, [R0]' 5
    line 32 '@!P0 BRA `(.L_x_2)' 2
    line 48 'FADD R4, R4, R8' 4
    echo '.L_x_2:'
    line 64 'F2FP.BF16.F32.PACK_AB R6, R5, R4' 2
    line 80 'STG.E.64 desc[UR4][R2.64], R6' 1
    line 96 'ISETP.NE.AND P1, PT, R9, RZ, PT' 1
    line 112 '@P1 BRA `(.L_x_1)' 6
    line 128 'EXIT' 5
    echo 'END'
} >bin/text
printf '#!/bin/bash\n[[ $1 == --version ]] && { echo "V13.9.7"; exit 0; }\n. %s/bin/text\n' "$tree" >bin/nvdisasm
chmod +x bin/nvdisasm

meter() { PATH=$tree/bin:$PATH python3 -B tools/ptx/slots.py "$@" 2>&1; }
bound() { printf 'words\tbp_end\t%s\t%s\n' "$1" "$2" >tools/ptx/bounds; }

compiler 40 0 0
bound plain 6.0
expect "a loop" "plain: 6.0, 0.0 around and 0.0 once a tile for four sums" "$(meter words)"
expect "its longest way" "plain with bias: 7.0, 0.0 around" "$(meter words)"
expect "its counts" "7 instructions, LDS 1, STG 1, FADD 1" "$(meter words)"
expect "what is within bounds" "1 kernels by ptxas 13.9.7: no spills" "$(meter --check words)"
meter --write page words
expect "the page" "| words | bp_end | plain | 6.0 | - | 6.0 | - | 17 |" "$(cat page)"
bound plain 5.9
expect "a bound" "bp_end, plain: found 6.0 instructions, at most 5.9 are expected" "$(meter --check words)"
bound gelu 100
expect "a bound of nothing" "bp_end has no loop that is gelu" "$(meter --check words)"
bound plain 6.0
compiler 40 16 8
expect "a spill" "bp_end spills 8 bytes, and has 16 of stack" "$(meter --check words)"
compiler 40 0 0 "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized"
expect "a serialised product" "(C7510)" "$(meter --check words)"
compiler 255 0 0
sed -i 's/^THREADS_OTHERS.*/THREADS_OTHERS = 512/' tools/ptx/check.py
expect "registers" "bp_end has 255 registers in 512 threads" "$(meter --check words)"
meter --check words >/dev/null
expect "the exit code" 1 $?
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
