#!/bin/bash
# SPDX-License-Identifier: MIT
# Compiles every program here to PTX with the flags it was chosen for. Needs nvcc; the results are
# committed, so that tests need none.
set -e
cd "$(dirname "$0")"
make_one() {
    nvcc -ptx "${@:2}" "$1.cu" -o "$1.ptx"
    # Debugging sections and absolute names say where this machine keeps things, nothing else.
    sed -i "s|\"$PWD/|\"|g" "$1.ptx"
}
make_one saxpy -arch=sm_75
make_one reduce -arch=sm_80 -lineinfo
make_one transpose -arch=sm_80 -G
make_one softmax -arch=sm_86
make_one gelu -arch=sm_89 -use_fast_math
make_one histogram -arch=sm_90
make_one scan -arch=sm_100
make_one bf16 -arch=sm_90
make_one half -arch=sm_80
make_one mma -arch=sm_80 -lineinfo
make_one wide -arch=sm_80
make_one call -arch=sm_80 -G
make_one select -arch=sm_80
make_one local -arch=sm_75
make_one tables -arch=sm_80 -O1
make_one double -arch=sm_80
make_one layernorm -arch=sm_120
make_one vote -arch=sm_80
make_one philox -arch=sm_80
make_one matmul -arch=sm_80 -fmad=false
make_one lastblock -arch=sm_80
make_one adam -arch=sm_80 -lineinfo
make_one trig -arch=sm_80
make_one rounding -arch=sm_80
make_one recursion -arch=sm_80
make_one print -arch=sm_80
make_one wmma -arch=sm_80
make_one clock -arch=sm_80
make_one pointer -arch=sm_80
make_one math -arch=sm_80
make_one lanes -arch=sm_90 -std=c++17
make_one noreturn -arch=sm_80
