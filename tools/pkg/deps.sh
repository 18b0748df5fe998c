#!/bin/bash
# SPDX-License-Identifier: MIT
# Installs the Debian packages that building (`build`), building and proving (`all`), proving runs of several processes
# (`ranks`), `make boards` (`boards`: 32-bit RISC-V), `make derivatives` or `make dist` (`dist`) needs, if something is
# missing. On another system it says which commands and headers are missing.
set -u
what=${1:-all}

# A package follows the command or file that shows it is there.
build_needs=(gcc gcc ar binutils /usr/include/stdio.h libc6-dev /usr/include/xxhash.h libxxhash-dev
    /usr/include/utf8proc.h libutf8proc-dev /usr/include/zlib.h zlib1g-dev /usr/include/zstd.h libzstd-dev)
proof_needs=(g++ g++ clang clang clang-format-14 clang-format-14 lcov lcov
    /usr/lib/llvm-14/bin/llvm-cov llvm-14 ld.lld lld pkg-config pkgconf
    /usr/include/cmocka.h libcmocka-dev /usr/include/jansson.h libjansson-dev
    '/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*' libclang-rt-14-dev
    python3 python3 script bsdutils pgrep procps zstd zstd qemu-aarch64 qemu-user aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    /usr/aarch64-linux-gnu/lib/libc.a libc6-dev-arm64-cross riscv64-linux-gnu-gcc gcc-riscv64-linux-gnu
    /usr/riscv64-linux-gnu/lib/libc.a libc6-dev-riscv64-cross arm-none-eabi-gcc gcc-arm-none-eabi
    /usr/lib/arm-none-eabi/newlib/libc_nano.a libnewlib-arm-none-eabi qemu-system-arm qemu-system-arm
    espeak-ng espeak-ng '/usr/lib/*/libpng16.so.16' libpng16-16 '/usr/lib/*/libturbojpeg.so.0' libturbojpeg0
    '/usr/lib/*/libFLAC.so.*' libflac12)

needs=("${build_needs[@]}")
[[ $what == build ]] || needs+=("${proof_needs[@]}")
[[ $what != dist ]] || needs=("${build_needs[@]}" aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    /usr/aarch64-linux-gnu/lib/libc.a libc6-dev-arm64-cross musl-gcc musl-tools python3 python3 xz xz-utils)
[[ $what != derivatives ]] || needs=(python3 python3 /usr/lib/python3/dist-packages/sympy/__init__.py python3-sympy)
[[ $what != boards ]] || needs=(riscv64-unknown-elf-gcc gcc-riscv64-unknown-elf
    /usr/lib/picolibc/riscv64-unknown-elf/picolibc.specs picolibc-riscv64-unknown-elf qemu-system-riscv32 qemu-system-misc)
[[ $what != ranks ]] || needs=(mpirun.openmpi openmpi-bin mpirun.mpich mpich)

list_missing() {
    local i probe
    for ((i = 0; i < ${#needs[@]}; i += 2)); do
        probe=${needs[i]}
        case $probe in
        /*) compgen -G "$probe" >/dev/null || echo "${needs[i + 1]}" ;;
        *) command -v "$probe" >/dev/null || echo "${needs[i + 1]}" ;;
        esac
    done
}

mapfile -t missing < <(list_missing)
if [[ ${#missing[@]} -eq 0 ]]; then exit 0; fi
if ! command -v apt-get >/dev/null || [[ $(id -u) -ne 0 ]]; then
    echo "missing: ${missing[*]}; on Debian, as root: apt-get install ${missing[*]}" >&2
    # The tools of the proof are only needed by some tests, which say so; the compiler always is.
    [[ $what != build ]]
    exit
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# Package lists are only fetched when those at hand do not do.
install() { apt-get install -y -q --no-install-recommends "${missing[@]}" </dev/null; }
install >/tmp/bedplate-deps.log 2>&1 || { apt-get update -q && install; } >/tmp/bedplate-deps.log 2>&1
status=$?
mapfile -t missing < <(list_missing)
# Another release of Debian may lack what only the proof needs (13 has no clang-format-14): the rest is installed,
# for make test. Without lists of packages nobody knows what a release lacks.
lacking=()
if [[ $what != build ]] && apt-cache show libc6 >/dev/null 2>&1; then
    for package in "${missing[@]}"; do
        [[ " ${build_needs[*]} " == *" $package "* ]] || apt-cache show "$package" >/dev/null 2>&1 || lacking+=("$package")
    done
fi
if [[ ${#lacking[@]} -ne 0 ]]; then
    rest() { grep -vxF "$(printf '%s\n' "${lacking[@]}")"; }
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | rest)
    [[ ${#missing[@]} -eq 0 ]] || install >/tmp/bedplate-deps.log 2>&1
    status=$?
    mapfile -t missing < <(list_missing | rest)
    echo "not in this release, left out: ${lacking[*]}"
fi
if [[ $status -ne 0 || ${#missing[@]} -ne 0 ]]; then
    tail -20 /tmp/bedplate-deps.log >&2
    echo "apt-get could not install: ${missing[*]}" >&2
    exit 1
fi
