#!/bin/bash
# SPDX-License-Identifier: MIT
# sysroot.sh: what `make dist` links for aarch64, in build/dist/sysroot: Debian's arm64 packages of utf8proc, zlib, zstd
# and musl, of this machine's release. apt-get fetches and verifies them with lists of its own, in build/dist/apt;
# nothing is installed and the system's list of architectures stays as it is. Does nothing where they are there.
set -euo pipefail
cd "$(dirname "$0")/../.."
packages=(libutf8proc-dev zlib1g-dev libzstd-dev musl-dev)
root=build/dist/sysroot
[[ ! -s $root/musl-gcc.specs ]] || exit 0
specs=/usr/lib/x86_64-linux-musl/musl-gcc.specs
[[ -s $specs ]] || { echo "$specs is missing: on Debian, as root: apt-get install musl-tools" >&2; exit 1; }
apt=$PWD/build/dist/apt
rm -rf "$root" "$apt"
mkdir -p "$root" "$apt"/{state/lists/partial,cache/archives/partial,debs}
: >"$apt/state/status"
cat >"$apt/apt.conf" <<CONF
Dir::State "$apt/state";
Dir::State::status "$apt/state/status";
Dir::Cache "$apt/cache";
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "root";
CONF
export APT_CONFIG=$apt/apt.conf
# A source that has no arm64 fails alone: what counts is that the four are there.
apt-get update -q >"$apt/log" 2>&1 || true
(cd "$apt/debs" && apt-get download -q "${packages[@]}") >>"$apt/log" 2>&1 || {
    tail -20 "$apt/log" >&2
    echo "apt-get could not fetch ${packages[*]} for arm64 ($apt/log)" >&2
    exit 1
}
for file in "$apt"/debs/*.deb; do
    dpkg-deb -x "$file" "$root"
    # For the bill of materials.
    dpkg-deb -f "$file" Package Version | sed 's/^[A-Za-z]*: //' | paste -sd ' ' >>"$root/packages"
done
sed -e "s#/usr/\(include\|lib\)/x86_64-linux-musl#$root/usr/\1/aarch64-linux-musl#g" -e 's#ld-musl-x86_64#ld-musl-aarch64#' \
    "$specs" >"$root/musl-gcc.specs.part"
mv "$root/musl-gcc.specs.part" "$root/musl-gcc.specs"
rm -rf "$apt"/{state,cache}
