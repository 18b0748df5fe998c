#!/bin/bash
# SPDX-License-Identifier: MIT
# Data that is packed, in arrays, from a pipe; and files that are no text.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 400; i++) printf "{\"text\": \"%d bottles of %s\"}\n", i, i * i % 7 ? "ale" : "beer" }' \
    >"$work/texts.jsonl"
cp tests/golden/packed/texts.jsonl.gz tests/golden/packed/texts.jsonl.zst "$work"
common=(train --model tiny --max-seq-length 16 --per-device-train-batch-size 4 --max-steps 3 --threads 2 --json)

# digest_of FILE OPTIONS: trains on it and leaves its state's digest in $digest.
digest_of() {
    local file=$1
    shift
    rm -rf "$work/o"
    run "${common[@]}" --output-dir "$work/o" --data "$file" "$@"
    digest=$(json state_digest)
}

digest_of "$work/texts.jsonl"
whole=$digest
[[ $code -eq 0 && -n $whole ]]
check $? "the lines themselves" "$err"
for file in texts.jsonl.gz texts.jsonl.zst; do
    digest_of "$work/$file"
    [[ $digest == "$whole" ]]
    check $? "$file is the same data" "$err"
    grep -q "$file: .* tokens of 400 documents" <<<"$err"
    check $? "by its own name" "$err"
    TMPDIR=$work/none digest_of "$work/$file"
    check "$code" "with an output directory nothing is stored elsewhere" "$err"
    ! compgen -G "$work/o/bedplate-*" >/dev/null
    check $? "and nothing stays there"
done

# The name promises the format; without a promise it is text.
cp "$work/texts.jsonl.gz" "$work/texts.gz"
zcat "$work/texts.jsonl.gz" >"$work/texts.txt"
digest_of "$work/texts.gz"
plain=$digest
digest_of "$work/texts.txt"
[[ $digest == "$plain" && $plain != "$whole" ]]
check $? "a packed file without a format in its name is text" "$err"
gzip -c "$work/texts.txt" >"$work/texts.txt.gz"
digest_of "$work/texts.txt.gz"
[[ $digest == "$plain" ]]
check $? "packed text" "$err"
digest_of "$work/texts.gz" --data-format jsonl
[[ $digest == "$whole" ]]
check $? "a format that is said holds for what is packed" "$err"

# Arrays.
{ echo '['; sed '$!s/$/,/' "$work/texts.jsonl"; echo ']'; } >"$work/array.json"
digest_of "$work/array.json"
[[ $digest == "$whole" ]]
check $? "an array over lines" "$err"
tr -d '\n' <"$work/array.json" >"$work/one.json"
gzip -c "$work/one.json" >"$work/one.json.gz"
for file in one.json one.json.gz; do
    digest_of "$work/$file"
    [[ $digest == "$whole" ]]
    check $? "$file: an array on one line" "$err"
done

# Standard input and pipes. `run` closes standard input.
piped() {
    local file=$1
    shift
    rm -rf "$work/o"
    out=$("$program" "${common[@]}" --output-dir "$work/o" --data - "$@" <"$file" 2>"$work/.err")
    code=$?
    err=$(<"$work/.err")
    digest=$(json state_digest)
}
for file in texts.jsonl texts.jsonl.gz texts.jsonl.zst array.json; do
    piped "$work/$file"
    [[ $digest == "$whole" ]]
    check $? "$file through standard input" "$err"
done
piped "$work/texts.txt" --data-format text
[[ $digest == "$plain" ]]
check $? "standard input with a format" "$err"
mkfifo "$work/pipe"
cat "$work/texts.jsonl" >"$work/pipe" &
digest_of "$work/pipe"
[[ $digest == "$whole" ]]
check $? "a pipe with a name" "$err"
awk 'BEGIN { print "label,text"; for (i = 0; i < 60; i++) printf "%d,text number %d\n", i % 2, i }' >"$work/table.csv"
rm -rf "$work/o"
out=$("$program" train --model tiny-bert --task classification --max-seq-length 16 --max-steps 2 --threads 2 \
    --per-device-train-batch-size 4 --output-dir "$work/o" --json --data - <"$work/table.csv" 2>"$work/.err")
check $? "a table with names of its columns through standard input" "$(<"$work/.err")"
run tokenize --tokenizer "$work/o" --data "$work/texts.jsonl.gz" --output "$work/t.bin"
check "$code" "tokenize reads packed files" "$err"
run eval --model "$work/o" --data "$work/table.csv" --json
sum=$(json loss)
gzip "$work/table.csv"
run eval --model "$work/o" --data "$work/table.csv.gz" --json
[[ $code -eq 0 && $(json loss) == "$sum" ]]
check $? "eval reads packed files" "$out$err"

# verifies formats-17.ac5c
# Damage, and what is no text: exit 4, the file's name, nothing left behind.
refused() {
    local pattern=$1
    shift
    expect 4 "$pattern" "${common[@]}" --output-dir "$work/x" "$@"
    [[ ! -e $work/x ]]
    check $? "nothing is left behind: $*"
}
head -c 900 "$work/texts.jsonl.gz" >"$work/cut.jsonl.gz"
head -c 600 "$work/texts.jsonl.zst" >"$work/cut.jsonl.zst"
for file in gz zst; do
    refused "cut.jsonl.$file: the packed file is cut short" --data "$work/cut.jsonl.$file"
    cp "$work/texts.jsonl.$file" "$work/bad.jsonl.$file"
    printf 'XX' | dd of="$work/bad.jsonl.$file" bs=1 seek=300 conv=notrunc status=none
    refused "bad.jsonl.$file: the packed file is damaged" --data "$work/bad.jsonl.$file"
done
cp "$work/texts.jsonl" "$work/false.jsonl.gz"
refused 'false.jsonl.gz: the name stands for a packed file' --data "$work/false.jsonl.gz"
gzip -c "$work/texts.jsonl.gz" >"$work/twice.jsonl.gz"
refused 'twice.jsonl.gz: the file is packed twice' --data "$work/twice.jsonl.gz"
printf 'PAR1\x15\x04%01000dPAR1' 0 >"$work/x.parquet"
refused 'x.parquet: the file is Parquet.*read_parquet.*lines=True' --data "$work/x.parquet"
refused 'read_parquet' --data "$work/x.parquet" --data-format text
refused 'the file is a program' --data "$program"
{ cat "$work/texts.txt"; printf 'a\0b'; } >"$work/nul.txt"
refused 'nul.txt: the file holds NUL bytes.*--data-format bytes' --data "$work/nul.txt"
head -c 3000 /dev/urandom | tr '\0' 'x' >"$work/random.txt"
refused 'random.txt: the file is no text in UTF-8' --data "$work/random.txt"
for file in x.parquet nul.txt random.txt texts.gz; do
    digest_of "$work/$file" --data-format bytes
    check "$code" "$file: bytes are taken as they are" "$err"
done
[[ $digest != "$plain" ]]
check $? "packed ones too"
head -400 "$work/array.json" >"$work/cut.json"
refused 'cut.json:401: the JSON array has no end' --data "$work/cut.json"
refused 'standard input: ' --data -

# What grows without end is refused before it fills a disk: by --unpack-limit, and a tenth of what is free is left.
head -c 3000000 /dev/zero | gzip -9 >"$work/bomb.gz"
gzip -dc "$work/bomb.gz" | zstd -q >"$work/bomb.zst" 2>/dev/null || cp "$work/texts.jsonl.zst" "$work/bomb.zst"
for file in bomb.gz bomb.zst; do
    rm -rf "$work/o"
    expect 6 "$file: what is unpacked is more than --unpack-limit, or than fits .*: found 1000" \
        "${common[@]}" --output-dir "$work/o" --data "$work/$file" --data-format text --unpack-limit 1000
done
out=$("$program" "${common[@]}" --output-dir "$work/o" --data - --unpack-limit 1MB </dev/zero 2>&1)
[[ $? -eq 6 && $out == *'what comes through the pipe is more than --unpack-limit, or than fits'*'found 1000000'* ]]
check $? "standard input without an end" "$out"
refused '/dev/zero: it is a device, which has no end' --data /dev/zero
if unshare -m true 2>/dev/null; then
    mkdir "$work/disk"
    # shellcheck disable=SC2016
    out=$(unshare -m bash -c 'mount -t tmpfs -o size=2m none "$1" && shift && { "$@" 2>&1; df --output=pcent '"$work"'/disk | tail -1; }' \
        x "$work/disk" "$program" "${common[@]}" --output-dir "$work/disk/o" --data "$work/bomb.gz" --data-format text)
    [[ $out == *'what is unpacked is more than --unpack-limit, or than fits'* ]]
    check $? "what fits no disk is refused" "$out"
else
    echo "skipped: a full disk (no mount namespaces here)"
fi

digest_of "$work/texts.jsonl"
# Killed while it stores or tokenises, it leaves nothing behind; what is stored has no name that others know.
mkdir "$work/tmp"
for where in "$work/k" "$work/tmp"; do
    rm -rf "$work/k"
    waits=("${common[@]}" --output-dir "$work/k")
    [[ $where == "$work/k" ]] || waits=(eval --model "$work/o" --max-seq-length 16)
    mkfifo "$work/slow"
    TMPDIR=$work/tmp "$program" "${waits[@]}" --data - <"$work/slow" >/dev/null 2>"$work/.err" &
    job=$!
    exec 9>"$work/slow"
    head -c 200000 "$work/texts.jsonl" >&9
    wait_for 120 'find "/proc/$job/fd" -lname "*(deleted)" 2>/dev/null | grep -q .' $job
    named=$(find "$work/k" "$work/tmp" -name 'bedplate-*' 2>/dev/null)
    kill -9 $job
    check $? "it waits for more" "$(cat "$work/.err")"
    wait $job 2>/dev/null
    exec 9>&-
    rm "$work/slow"
    [[ -z $named && -z $(find "$work/k" "$work/tmp" -type f 2>/dev/null) ]]
    check $? "a pipe is stored without a name in $where" "$named $(find "$work/k" "$work/tmp" 2>&1)"
done
# Folders that killed programs left are removed by the next one; new ones stay, and what somebody else made.
old=("$work/tmp"/{bedplate-tokens-abcdef,bedplate-tokens-foreig,bedplate-models})
mkdir -m 0700 "${old[@]}" "$work/tmp/bedplate-tokens-young1"
mkdir -m 0755 "$work/tmp/bedplate-tokens-other1"
echo x | tee "$work/tmp/bedplate-tokens-abcdef/data.tokens" "$work/tmp/bedplate-tokens-foreig/notes" "$work/tmp/bedplate-models/a.tokens" >/dev/null
touch -d '1 hour ago' "${old[@]}" "$work/tmp/bedplate-tokens-other1"
TMPDIR=$work/tmp run eval --model "$work/o" --data "$work/texts.jsonl" --max-seq-length 16
[[ $code -eq 0 && $(cd "$work/tmp" && echo * */*) == 'bedplate-models bedplate-tokens-foreig bedplate-tokens-other1 bedplate-tokens-young1 bedplate-models/a.tokens bedplate-tokens-foreig/notes' ]]
check $? "what a killed program left is removed, and nothing else" "$(ls -R "$work/tmp") $err"
finish
