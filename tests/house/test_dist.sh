#!/bin/bash
# SPDX-License-Identifier: MIT
# What `make dist` makes can be had and used. Here, of the program that is built: the wheel is the same twice, installs
# into a new environment and runs plan, train, evaluate, generate and embed; errors have the program's exit codes; the
# module's list of repeated options is the program's. BP_TEST_LONG=1 (make dist-check) makes all of it, a second time in
# another folder, compares both, and installs each tarball, package and wheel in a minimal system, which build/bare
# keeps; the static program runs in an empty root, and all train to the same digest.
cd "$(dirname "$0")/../.." || exit 1
. tests/cli/lib.sh
unset MAKEFLAGS MAKELEVEL MFLAGS PYTHONPATH
tree=$PWD
version=$(sed -n 's/^#define BP_VERSION "\(.*\)"$/\1/p' core/base/version.h)
[[ $program == /* ]] || program=$PWD/$program
export SOURCE_DATE_EPOCH=1700000000
awk 'BEGIN { for (i = 0; i < 300; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text.txt"
train=(train --model tiny --data text.txt --output-dir out --max-seq-length 16 --max-steps 10 --threads 1 --quiet --json)
digest_of() { grep -oE '"state_digest": "[0-9a-f]{16}"' | cut -d '"' -f 4; }
digest=$(cd "$work" && "$program" "${train[@]}" 2>"$work/.err" | digest_of)
rm -rf "$work/out"
[[ ${#digest} -eq 16 ]]
check $? "a training to compare with" "$(cat "$work/.err")"

# As a notebook would use it, against whatever bedplate is installed. Its argument is the digest.
cat >"$work/notebook.py" <<'P'
import pathlib, sys
import bedplate

text = pathlib.Path("text.txt")
plan = bedplate.plan(model="tiny", max_seq_length=16)
assert plan["fits"] and plan["arena_bytes"] > 1e6, plan
log = []
last = bedplate.train(log.append, model="tiny", data=[text], output_dir="out", max_seq_length=16, max_steps=10, threads=1,
                      logging_steps=2, quiet=True, seed=None)
assert last["state_digest"] == sys.argv[1] and last["ended_by"] == "complete", last
assert [line["step"] for line in log] == [2, 4, 6, 8, 10] and log[-1]["loss"] < log[0]["loss"], log
scores = bedplate.evaluate(text, model="out")
assert 1 < scores["loss"] < 10 and scores["perplexity"] > 2, scores
assert bedplate.evaluate([{"text": "9 bottles of ale, and more " * 9}], model="out", max_seq_length=16)["tokens"] > 99
one = bedplate.generate("9 bottles", model="out", max_new_tokens=5)
assert len(one["ids"]) == 5 and "sequences" not in one, one
two = bedplate.generate("-9", model="out", max_new_tokens=5, num_return_sequences=2, temperature=0.9)
assert len(two["sequences"]) == 2, two
vectors = bedplate.embed(["a man", "a plan"], model="out", normalize=True)["embeddings"]
assert len(vectors) == 2 and abs(sum(x * x for x in vectors[0]) - 1) < 1e-4, vectors
assert bedplate.embed(["a man"], output="v.npy", model="out")["rows"] == 1 and pathlib.Path("v.npy").stat().st_size > 200

def fails(kind, code, words, call):
    try:
        call()
    except kind as error:
        assert error.exit_code == code and words in str(error), (error.exit_code, str(error))
        return error
    raise AssertionError("%s was not raised" % kind.__name__)

fails(bedplate.UsageError, 2, "--learning-rates", lambda: bedplate.plan(model="tiny", learning_rates=1))
error = fails(bedplate.DoesNotFitError, 3, "2,274,912 bytes are missing", lambda: bedplate.plan(model="tiny", arena=100000))
assert error.result["fits"] is False and error.result["arena_bytes"] == 2374912 and "--json" in error.command, error.result
fails(bedplate.DataError, 4, "nosuch", lambda: bedplate.evaluate("text.txt", model="nosuch"))
try:
    bedplate.plan(model=object())
    raise AssertionError("an object was taken for an option")
except TypeError as error:
    assert "model" in str(error)

class Enough(Exception):
    pass

def enough(line):
    raise Enough

try:  # what on_log raises goes on, after the program has saved
    bedplate.train(enough, model="tiny", data=text, output_dir="stopped", max_seq_length=16, max_steps=1000000, logging_steps=1)
    raise AssertionError("on_log's exception is lost")
except Enough:
    pass
saved = [path for path in pathlib.Path("stopped").iterdir() if path.name.startswith("checkpoint-")]
assert saved, "nothing was saved"
print("notebook: done", bedplate.__version__)
P

# A wheel of this build; the folder of a tarball lends it licences.
mkdir -p "$work/stage/share/doc/bedplate" "$work/one" "$work/two"
cp LICENSE "$work/stage"
make_wheel() { python3 tools/pkg/wheel.py "$version" "$1" "$program" "$work/stage" "$2" 2>&1; }
made=$(make_wheel linux_x86_64 "$work/one" && TZ=Asia/Kolkata make_wheel linux_x86_64 "$work/two")
check $? "a wheel" "$made"
cmp "$work"/{one,two}/*.whl
check $? "the same bytes twice"
grep -q '^version = \|__version__ = "[0-9]' tools/pkg/python/*.py
[[ $? -eq 1 ]]
check $? "the version stands in core/base/version.h alone"
# What takes several values is a list in the program's table.
listed=$(sed -n 's/^ *{"\([a-z-]*\)", OPTION_\(PATHS\|LIST\),.*/\1/p' tools/bedplate/app/options_table.c | sort)
known=$(sed -n '/^_REPEATED/s/.*((\(.*\))).*/\1/p' tools/pkg/python/__init__.py | tr -d '" ' | tr , '\n' | sort)
[[ -n $listed && $listed == "$known" ]]
check $? "options that may be repeated: $(diff <(echo "$listed") <(echo "$known"))"

# The plain way: pip in a new environment. Without ensurepip the wheel is unpacked, as it is pure but for the program.
installed=$work/venv/bin/python
if python3 -m venv "$work/venv" >"$work/said" 2>&1; then
    "$work/venv/bin/pip" install -q --no-index --disable-pip-version-check "$work"/one/*.whl >"$work/said" 2>&1
    check $? "pip installs the wheel" "$(cat "$work/said")"
    found=$("$work/venv/bin/bedplate" --version 2>&1)
    [[ $found == "bedplate $version"* ]]
    check $? "the command that pip installs" "$found"
else
    echo "skipped: no pip for the wheel: $(tail -1 "$work/said")"
    python3 -m zipfile -e "$work"/one/*.whl "$work/unpacked"
    chmod +x "$work/unpacked/bedplate/bin/bedplate"
    export PYTHONPATH=$work/unpacked
    installed=python3
fi
(cd "$work" && "$installed" notebook.py "$digest") >"$work/said" 2>&1
check $? "plan, train, evaluate, generate, embed from Python" "$(cat "$work/said")"
grep -q "notebook: done $version" "$work/said"
check $? "the module's version" "$(cat "$work/said")"
found=$("$installed" -m bedplate --version 2>&1)
[[ $found == "bedplate $version"* ]]
check $? "python -m bedplate" "$found"
# A program that cannot run here, and one whose C library is too old for it.
printf '\177ELF\2\1\1' >"$work/other"
printf '%s\n' '#!/bin/sh' "echo \"bedplate: /lib/libc.so.6: version \\\`GLIBC_2.34' not found (required by bedplate)\" >&2" 'exit 1' >"$work/old"
chmod +x "$work"/{other,old}
for kind in 'other:cannot be run here.*static wheel' 'old:too old.*GLIBC_2.34.*static wheel'; do
    said=$(BEDPLATE_PROGRAM=$work/${kind%%:*} "$installed" -c 'import bedplate; bedplate.plan(model="tiny")' 2>&1 | tail -1)
    grep -q "BedplateError: .*${kind#*:}" <<<"$said"
    check $? "a program that this machine cannot run (${kind%%:*})" "$said"
done

# The image of a Containerfile from scratch, made by hand where no builder is: what it copies lies in ROOT, $entry is what it
# starts, $folder where.
image() { # FOLDER ROOT
    local word rest file to
    while read -r word rest; do
        case $word in
        '#'* | '') ;;
        FROM) [[ $rest == scratch ]] || return ;;
        COPY)
            to=${rest##* }
            mkdir -p "$2${to%/*}" || return
            for file in ${rest% *}; do
                if [[ -d $1/$file ]]; then cp -r "$1/$file/." "$2$to"; else cp "$1/$file" "$2$to"; fi || return
            done
            ;;
        WORKDIR) folder=$rest && mkdir -p "$2$rest" || return ;;
        ENTRYPOINT) entry=${rest#'["'} && entry=${entry%'"]'} ;;
        *) return 1 ;;
        esac
    done <"$1/Containerfile"
}
# contained ROOT: it trains there, in namespaces of its own without network, as a Job starts it, to the known digest.
contained() {
    local said
    cp "$work/text.txt" "$1$folder"
    said=$(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin unshare --map-root-user --mount --net chroot "$1" "$entry" "${train[@]/#text.txt/$folder/text.txt}" --output-dir "$folder/out" \
        2>"$work/.err" | digest_of)
    [[ $said == "$digest" && -s $1$folder/out/model.safetensors ]]
    check $? "what $entry of the image trains: digest $said, expected $digest" "$(cat "$work/.err")"
}
if unshare --map-root-user --mount --net true 2>/dev/null; then
    mkdir -p "$work/stage/bin" "$work/image"
    cp "$program" "$work/stage/bin/bedplate"
    cp tools/pkg/Containerfile "$work/stage"
    cp LICENSE "$work/stage/share/doc/bedplate/COPYING"
    image "$work/stage" "$work/image" && [[ -x $work/image$entry && -s $work/image/usr/share/doc/bedplate/COPYING ]]
    check $? "the image of a Containerfile, by hand" "$(find "$work/image")"
    run plan --model tiny --data "$work/text.txt" --output-dir "$work/run" --unit kubernetes
    grep -qF "command: [\"$entry\", \"train\"" <<<"$out"
    check $? "its program is where the Job looks" "$out$err"
    # The program of make dist is static; what this one is linked with lies beside it.
    ldd "$program" | grep -o '/[^ ]*' | xargs -I{} cp --parents -L {} "$work/image"
    contained "$work/image"
else
    echo "skipped: no namespaces: the image is not made"
fi
[[ -n ${BP_TEST_LONG:-} ]] && . tests/house/dist.sh
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
