#!/bin/bash
# SPDX-License-Identifier: MIT
# dist.sh VERSION: makes build/dist of the builds that are there (release, musl, linux-aarch64, musl-aarch64): tarballs,
# packages of Debian, wheels, SHA256SUMS over all of them. `make dist` builds first and then runs this; what is made
# and how it is installed: README.md beside this file. The same commit gives the same bytes in any folder: every time is
# SOURCE_DATE_EPOCH, else the commit's.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$1
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH=$epoch TZ=UTC0 LC_ALL=C
umask 022
unset MAKEFLAGS MAKELEVEL MFLAGS
dist=$PWD/build/dist
stages=$dist/stage
maintainer='The Bedplate authors <maintainers@bedplate.invalid>'
host=build/release/bedplate # of this machine: writes completions
rm -rf "$stages" "$dist"/{*.tar.gz,*.deb,*.whl,SHA256SUMS}
mkdir -p "$stages"

# stage BUILD NAME: the tree of a tarball.
stage() {
    local build=build/$1 to=$stages/$2 machine=${2#*-linux-} shell at doc
    local variant=$1
    [[ $variant != release ]] || variant=''
    make -s VARIANT="$variant" DESTDIR="$to" PREFIX= install-library >/dev/null
    # Wherever the tarball is unpacked.
    sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$to/lib/pkgconfig/bedplate.pc"
    # Tables for debuggers are nine tenths of it.
    "$(cross "$machine")objcopy" -D --strip-debug "$to/lib/libbedplate.a"
    install -Dm755 "$build/bedplate" "$to/bin/bedplate"
    install -Dm644 docs/bedplate.1 "$to/share/man/man1/bedplate.1"
    for shell in bash:bash-completion/completions/bedplate zsh:zsh/site-functions/_bedplate \
        fish:fish/vendor_completions.d/bedplate.fish; do
        at=$to/share/${shell#*:}
        mkdir -p "${at%/*}"
        "$host" completion "${shell%%:*}" >"$at"
    done
    install -Dm644 LICENSE "$to/LICENSE"
    doc=$to/share/doc/bedplate
    mkdir -p "$doc"
    install -m644 CHANGELOG.md "$doc/CHANGELOG.md"
    licences "$doc" "$machine"
    if [[ $machine == *-static ]]; then
        install -m644 tools/pkg/Containerfile "$to/Containerfile"
    else
        install -m644 tools/pkg/Containerfile.cuda "$to/Containerfile"
    fi
    tools/pkg/sbom.py "$version" "$machine" "$to/bin/bedplate" "$to/lib/libbedplate.a" "$epoch" "$doc"
}
cross() { [[ $1 != aarch64* ]] || echo aarch64-linux-gnu-; }

# licences FOLDER MACHINE: those of what is linked into the program.
licences() {
    local package packages=(libutf8proc-dev zlib1g-dev libzstd-dev libxxhash-dev)
    [[ $2 != *-static ]] || packages+=(musl-dev)
    for package in "${packages[@]}"; do
        install -m644 "/usr/share/doc/$package/copyright" "$1/$package.copyright"
    done
}

# tarball NAME
tarball() {
    tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$epoch" --mode=u=rwX,go=rX \
        -C "$stages" -cf - "$1" | gzip -9n >"$dist/$1.tar.gz"
}

# glibc PROGRAM: the least version of glibc that has every symbol it needs.
glibc() { objdump -T "$1" | grep -oE 'GLIBC_[0-9]+(\.[0-9]+)*' | sed 's/GLIBC_//' | sort -Vu | tail -1; }

# deb NAME ARCHITECTURE TRIPLET: a package of the same files.
deb() {
    local from=$stages/$1 to=$stages/deb-$2 lib=usr/lib/$3 doc file
    mkdir -p "$to/usr" "$to/DEBIAN"
    cp -r "$from"/{bin,include,share} "$to/usr"
    mkdir -p "$to/usr/lib"
    cp -r "$from/lib" "$to/$lib"
    sed -i -e 's|^prefix=.*|prefix=/usr|' -e "s|^libdir=.*|libdir=/$lib|" "$to/$lib/pkgconfig/bedplate.pc"
    mkdir -p "$to/usr/share/zsh/vendor-completions"
    mv "$to/usr/share/zsh/site-functions/_bedplate" "$to/usr/share/zsh/vendor-completions/_bedplate"
    rmdir "$to/usr/share/zsh/site-functions"
    doc=$to/usr/share/doc/bedplate
    gzip -9n "$to/usr/share/man/man1/bedplate.1"
    # One file, as Debian wants it.
    {
        printf '%s\n\n' 'Bedplate:'
        cat LICENSE
        for file in "$doc"/*.copyright; do
            printf '\n%s\n\n' "${file##*/}, of what is linked into the program:"
            cat "$file"
        done
    } >"$doc/copyright"
    rm "$doc"/*.copyright
    gzip -9n "$doc/CHANGELOG.md"
    printf '%s\n' "bedplate ($version) unstable; urgency=medium" '' '  * CHANGELOG.md.gz has what changed.' '' \
        " -- $maintainer  $(date -u -R -d "@$epoch")" | gzip -9n >"$doc/changelog.gz"
    # So that the program needs no library that a system may lack; the bill of materials names them.
    mkdir -p "$to/usr/share/lintian/overrides"
    printf '%s\n' 'bedplate: embedded-library *' >"$to/usr/share/lintian/overrides/bedplate"
    cat >"$to/DEBIAN/control" <<CONTROL
Package: bedplate
Version: $version
Architecture: $2
Maintainer: $maintainer
Installed-Size: $(du -k -s --apparent-size "$to/usr" | cut -f 1)
Depends: libc6 (>= $(glibc "$to/usr/bin/bedplate"))
Suggests: libpng16-16 | libpng16-16t64, libturbojpeg0, libflac14 | libflac12t64 | libflac12
Section: science
Priority: optional
Description: fine-tuning of models in an exact memory budget
 Trains and fine-tunes neural networks inside one block of memory that is
 planned, to the byte, before the first step; it cannot run out of memory later
 and resumes bit for bit after any kill. One program without Python, and a C99
 library.
CONTROL
    (cd "$to" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$to/DEBIAN/md5sums"
    find "$to" -print0 | xargs -0 chmod u=rwX,go=rX
    dpkg-deb --root-owner-group -Zxz --build "$to" "$dist/bedplate_${version}_$2.deb" >/dev/null
}

# wheel NAME TAG
wheel() { tools/pkg/wheel.py "$version" "$2" "$stages/$1/bin/bedplate" "$stages/$1" "$dist" >/dev/null; }

for machine in x86_64 aarch64; do
    name=bedplate-$version-linux-$machine
    [[ $machine == x86_64 ]] && builds=(release musl amd64) || builds=(linux-aarch64 musl-aarch64 arm64)
    stage "${builds[0]}" "$name"
    stage "${builds[1]}" "$name-static"
    tarball "$name"
    tarball "$name-static"
    deb "$name" "${builds[2]}" "$machine-linux-gnu"
    least=$(glibc "$stages/$name/bin/bedplate")
    wheel "$name" "manylinux_${least/./_}_$machine"
    wheel "$name-static" "manylinux2014_$machine.manylinux_2_17_$machine.musllinux_1_1_$machine"
done
cd "$dist"
sha256sum ./*.tar.gz ./*.deb ./*.whl | sed 's|  \./|  |' >SHA256SUMS
ls -l ./*.tar.gz ./*.deb ./*.whl | awk '{ print $5, substr($NF, 3) }'
