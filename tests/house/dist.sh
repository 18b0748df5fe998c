# SPDX-License-Identifier: MIT
# The long part of test_dist.sh, which sources it: every file of `make dist`, made in two folders and used where it is meant to.
dist=$tree/build/dist
made=$(env -u BUILD make -s dist 2>&1)
check $? "make dist" "$(tail -20 <<<"$made")"
glibc=manylinux_2_34
static() { echo "manylinux2014_$1.manylinux_2_17_$1.musllinux_1_1_$1"; }
expected=$(
    for machine in x86_64 aarch64; do
        printf '%s\n' "bedplate-$version-linux-$machine"{,-static}.tar.gz \
            "bedplate-$version-py3-none-"{"${glibc}_$machine","$(static $machine)"}.whl
    done
    printf '%s\n' "bedplate_${version}_"{amd64,arm64}.deb
)
listed=$(cut -d ' ' -f 3 "$dist/SHA256SUMS" | LC_ALL=C sort)
[[ $listed == "$(LC_ALL=C sort <<<"$expected")" ]]
check $? "what SHA256SUMS lists" "$listed"

# The same bytes from another folder, of objects of which a sample is compiled anew (BP_DIST_ANEW=1: all of them).
mkdir -p "$work/another/place"
tar cf - --exclude=./build --exclude=./.git --exclude=./shared . | tar xpf - -C "$work/another/place"
if [[ -z ${BP_DIST_ANEW:-} ]]; then
    tar cf - --exclude=build/*/tests build/{release,musl,linux-aarch64,musl-aarch64,dist/sysroot} | tar xpf - -C "$work/another/place"
    rm -f "$work"/another/place/build/*/{bedplate,libbedplate.a,core/run/feed.o,core/base/error.o,tools/bedplate/app/main.o}
fi
made=$(cd "$work/another/place" && umask 027 && env -u BUILD TZ=Asia/Kolkata LANG=tr_TR.UTF-8 CCACHE_DISABLE=1 USER=nobody make -s dist 2>&1)
check $? "make dist in another folder" "$(tail -20 <<<"$made")"
same=$(diff "$dist/SHA256SUMS" "$work/another/place/build/dist/SHA256SUMS" 2>&1)
check $? "the same bytes there" "$same"
rm -rf "$work/another"

# A download that broke off.
mkdir "$work/download"
cp "$dist"/* "$work/download" 2>/dev/null
(cd "$work/download" && sha256sum -c SHA256SUMS) >"$work/said" 2>&1
check $? "sha256sum -c SHA256SUMS" "$(cat "$work/said")"
for file in "bedplate_${version}_amd64.deb" "bedplate-$version-linux-x86_64.tar.gz"; do
    truncate -s -1000 "$work/download/$file"
    ! (cd "$work/download" && sha256sum -c SHA256SUMS) >"$work/said" 2>&1 && grep -q "^$file: FAILED" "$work/said"
    check $? "a truncated $file is named" "$(cat "$work/said")"
done
rm -r "$work/download"
mkdir "$work/un"
for file in "$dist"/*.tar.gz; do tar -xzf "$file" -C "$work/un"; done
plain=$work/un/bedplate-$version-linux-x86_64
arm=$work/un/bedplate-$version-linux-aarch64

# The library, wherever the tarball was unpacked.
printf '%s\n' '#include <bedplate.h>' '#include <string.h>' 'int main(void) { return strcmp(bp_version(), BP_VERSION); }' >"$work/use.c"
if command -v pkg-config >/dev/null; then
    for compiler in "gcc:$plain" "musl-gcc -static:$plain-static" "aarch64-linux-gnu-gcc -static:$arm"; do
        # shellcheck disable=SC2046,SC2086
        said=$(${compiler%%:*} -std=c99 "$work/use.c" -o "$work/use" $(PKG_CONFIG_LIBDIR=${compiler#*:}/lib/pkgconfig pkg-config --cflags --libs bedplate) 2>&1)
        check $? "the library of ${compiler##*/}" "$said"
    done
else
    echo "skipped: pkg-config is not installed"
fi
! grep -aqF "$tree" "$plain"/{bin,lib}/*bedplate* "$arm"/{bin,lib}/*bedplate*
check $? "none names the folder it was made in"
for at in "$plain" "$plain-static" "$arm" "$arm-static"; do
    python3 - "$at" "$version" >"$work/said" 2>&1 <<'P'
import hashlib, json, os, sys
at, version = sys.argv[1:]
bom = json.load(open(at + "/share/doc/bedplate/bedplate.cdx.json"))
top = bom["metadata"]["component"]
assert top["version"] == version
assert top["hashes"][0]["content"] == hashlib.sha256(open(at + "/bin/bedplate", "rb").read()).hexdigest()
names = {part["name"]: part for part in bom["components"]}
assert ("musl" in names) == at.endswith("-static") == ("glibc" not in names), names
for name in ("utf8proc", "zlib", "zstd", "xxHash"):
    assert names[name]["version"] != "unknown" and names[name]["purl"].startswith("pkg:deb/debian/"), names[name]
    # xxHash is a header, of this machine's package.
    assert ("arch=arm64" in names[name]["purl"]) == ("aarch64" in at and name != "xxHash"), names[name]
    assert any(name.lower() in file for file in os.listdir(at + "/share/doc/bedplate")), name
P
    check $? "bill of materials and licences of ${at##*/}" "$(cat "$work/said")"
done

# Other processors: the oldest x86-64, and aarch64 with either C library. Three steps, for they are emulated.
short=("${train[@]}" --max-steps 3)
wanted=$(cd "$work" && rm -rf out && "$program" "${short[@]}" 2>/dev/null | digest_of)
emulated() { # NAME WORDS..
    local name=$1 said
    shift
    said=$(cd "$work" && rm -rf out && "$@" "${short[@]}" 2>"$work/.err" | digest_of)
    [[ -n $said && $said == "$wanted" ]]
    check $? "$name: digest $said, expected $wanted" "$(cat "$work/.err")"
}
emulated 'an x86-64 of 2006' qemu-x86_64 -cpu core2duo "$plain-static/bin/bedplate"
emulated 'aarch64, glibc' qemu-aarch64 -L /usr/aarch64-linux-gnu "$arm/bin/bedplate"
emulated 'aarch64, musl' qemu-aarch64 "$arm-static/bin/bedplate"

# The image: what its Containerfile copies is there, and the program is where plan --unit kubernetes starts it.
for at in "$plain" "$plain-static"; do
    copied=$(sed -n 's/^COPY \(.*\) [^ ]*$/\1/p' "$at/Containerfile")
    # shellcheck disable=SC2086
    [[ -n $copied ]] && (cd "$at" && ls -d $copied) >"$work/said" 2>&1
    check $? "what the Containerfile of ${at##*/} copies" "$(cat "$work/said")"
    run plan --model tiny --data "$work/text.txt" --output-dir "$work/run" --unit kubernetes
    entry=$(sed -n 's/^ENTRYPOINT \["\(.*\)"\]$/\1/p' "$at/Containerfile")
    grep -qF "command: [\"$entry\", \"train\"" <<<"$out" && grep -q "^COPY bin/bedplate $entry$" "$at/Containerfile"
    check $? "its program is where the Job looks" "$entry $out"
done
builder=$(command -v buildah || command -v podman)
if [[ -n $builder ]]; then
    made=$("$builder" build -t "bedplate:$version" "$plain-static" 2>&1)
    check $? "the image" "$made"
elif unshare --map-root-user --mount --net true 2>/dev/null; then
    echo "skipped: neither buildah nor podman is here: the image is made by hand"
    mkdir "$work/static" && image "$plain-static" "$work/static"
    check $? "the image of the static program" "$(find "$work/static")"
    contained "$work/static"
fi
if command -v lintian >/dev/null; then
    for file in "$dist"/*.deb; do
        found=$(lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$file" 2>&1)
        check $? "lintian: ${file##*/}" "$found"
    done
else
    echo "skipped: lintian is not here"
fi

# An empty root: the static program and nothing else. Packed data needs zlib, zstd and utf8proc.
. tests/house/minimal.sh
if why=$(minimal_lacks); then
    echo "skipped: the minimal systems ($why)"
    return 0
fi
mkdir "$work/empty"
cp "$plain-static/bin/bedplate" "$work/text.txt" "$work/empty"
gzip -kn "$work/empty/text.txt"
zstd -q "$work/empty/text.txt"
for file in text.txt text.txt.gz text.txt.zst; do
    rm -rf "$work/empty/out"
    said=$(chroot "$work/empty" /bedplate "${train[@]/text.txt/$file}" 2>"$work/.err" | digest_of)
    [[ $said == "$digest" ]]
    check $? "the static program in an empty root, $file: digest $said, expected $digest" "$(cat "$work/.err")"
done
said=$(chroot "$work/empty" /bedplate devices 2>&1)
[[ $said == *'static build'*'no GPU'* ]]
check $? "it says that it uses no GPU" "$said"
said=$("$plain-static/bin/bedplate" generate --model tests/golden/speech --audio tests/golden/speech/flac/mono16.flac 2>&1)
[[ $said == *mono16.flac:*'this build reads no FLAC'* ]]
check $? "it says that it reads no FLAC" "$said"

# system RELEASE: a minimal system with Python in $root, with what was made; 1: there is none.
system() {
    root=$work/root-$1
    mkdir -p "$root" "$keep"
    minimal_system "$1" python3-venv || return 1
    mkdir -p "$root/dist" "$root/work"
    cp "$dist"/*.{deb,whl} "$dist"/*x86_64*.tar.gz "$root/dist"
    cp "$work"/{text.txt,notebook.py} "$root/work"
}
# there LINE: in it; what it prints goes to $said.
there() { said=$(inside /work "$1" 2>&1); }
# trains NAME PROGRAM: there, to the digest of here.
trains() {
    there "rm -rf out; $2 ${train[*]} 2>/dev/null"
    [[ $(digest_of <<<"$said") == "$digest" ]]
    check $? "$1 trains to digest $digest" "$said"
}
if system bookworm; then
    there "dpkg -i /dist/bedplate_${version}_amd64.deb && dpkg -V bedplate && bedplate --version && ls /usr/share/man/man1/bedplate.1.gz"
    check $? "dpkg -i in a minimal Debian 12" "$said"
    trains 'the package' bedplate
    there 'dpkg -r bedplate && ! find / -xdev -path /dist -prune -o -path /proc -prune -o -name "*bedplate*" -print | grep -v /var/lib/dpkg | grep .'
    check $? "dpkg -r leaves nothing" "$said"
    there "tar -xzf /dist/bedplate-$version-linux-x86_64.tar.gz -C /opt"
    trains 'the tarball' "/opt/bedplate-$version-linux-x86_64/bin/bedplate"
    for tag in "${glibc}_x86_64" "$(static x86_64)"; do
        there "rm -rf /opt/venv out stopped && python3 -m venv /opt/venv && /opt/venv/bin/pip install -q --no-index /dist/bedplate-$version-py3-none-$tag.whl && /opt/venv/bin/python notebook.py $digest"
        check $? "the wheel $tag" "$said"
        trains "the wheel's command" /opt/venv/bin/bedplate
    done
    there "rm -rf /opt/venv && python3 -m venv /opt/venv && /opt/venv/bin/pip install -q --no-index --find-links /dist bedplate && grep Tag /opt/venv/lib/python3*/site-packages/bedplate-*/WHEEL"
    [[ $said == *"Tag: py3-none-${glibc}_x86_64" ]]
    check $? "pip chooses the wheel that uses GPUs" "$said"
else
    echo "skipped: no minimal Debian 12 ($keep/system.log)"
fi
# glibc 2.31 is too old for the package and for one wheel; both say so, and pip takes the other.
if system bullseye; then
    there "dpkg -i /dist/bedplate_${version}_amd64.deb"
    [[ $said == *'depends on libc6 (>= 2.34)'* ]]
    check $? "dpkg refuses the package on Debian 11" "$said"
    there "python3 -m venv /opt/venv && /opt/venv/bin/pip install -q --no-index /dist/bedplate-$version-py3-none-${glibc}_x86_64.whl"
    [[ $said == *'not a supported wheel on this platform'* ]]
    check $? "pip refuses the wheel of a later glibc" "$said"
    there "mkdir x && python3 -m zipfile -e /dist/bedplate-$version-py3-none-${glibc}_x86_64.whl x && chmod +x x/bedplate/bin/bedplate && PYTHONPATH=x python3 -c 'import bedplate; bedplate.plan(model=\"tiny\")'"
    [[ $said == *'BedplateError: the C library of this machine is too old'*GLIBC_2.3* ]]
    check $? "unpacked by force it says what is wrong" "$said"
    there "/opt/venv/bin/pip install -q --no-index --find-links /dist bedplate && /opt/venv/bin/python notebook.py $digest"
    check $? "pip chooses the static wheel" "$said"
else
    echo "skipped: no minimal Debian 11 ($keep/system.log)"
fi
