#!/bin/bash
# SPDX-License-Identifier: MIT
# Pages: whole, alone by themselves, with what they are for, and no wider than a screen or a phone.
. "$(dirname "$0")/../lib.sh"
# verifies record-18.a65a

browser=$(command -v chromium || command -v chromium-browser || true)
[[ -n $browser ]] || echo "skipped: chromium is not here: widths of pages"
dom() { # URL: what a browser makes of it
    timeout 600 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --allow-file-access-from-files \
        --enable-logging=stderr --v=0 --host-resolver-rules='MAP * ~NOTFOUND' --virtual-time-budget=3000 --dump-dom "$1" 2>"$work/browser"
}
# page NAME FILE: what each page must be. Its text is left in $text, and what its script does in $shown.
page() {
    text=$(python3 tests/cli/app/page_check.py "$2" 2>"$work/.err")
    check $? "$1: whole, and alone by itself" "$(cat "$work/.err")"
    [[ -n $browser ]] || return
    # A frame has the width that a window of a browser without a screen may not have.
    cat >"$work/frames.html" <<P
<body><script>
for (const width of [390, 1400]) {
    const frame = document.createElement("iframe");
    frame.width = width; frame.height = 800; frame.src = "file://$2";
    frame.onload = () => {
        const root = frame.contentDocument.documentElement;
        document.body.append("at " + width + " too wide by " + (root.scrollWidth - root.clientWidth) + "; ");
        const chart = root.querySelector(".chart");
        if (width === 390 || chart === null) return;
        const text = () => [...chart.querySelectorAll(".axes text, .xt")].map(e => e.textContent).join("|");
        const box = chart.querySelector(".k").getBoundingClientRect();
        chart.querySelector(".plot").dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width / 2, clientY: box.top + 9}));
        document.body.append("{ticks " + [...root.querySelectorAll(".chart")].map(c => c.querySelector("h2").firstChild.textContent +
            " " + [...c.querySelectorAll(".axes .te")].map(e => e.textContent).join("|")).join("; ") + "}");
        document.body.append("{hover " + chart.querySelector(".tip").textContent.replaceAll("\n", "; ") + "}");
        document.body.append("{axes " + text() + "}");
        chart.querySelector(".toggle input").click();
        document.body.append("{log " + text() + "}");
        const time = [...root.querySelectorAll("#bar label")].find(e => e.textContent.startsWith("time"));
        if (time) time.querySelector("input").click();
        document.body.append("{time " + text() + "}");
    };
    document.body.append(frame);
}
</script>
P
    local seen
    shown=$(dom "file://$work/frames.html")
    seen=$(grep -o 'at [0-9]* too wide by [0-9]*' <<<"$shown" | sort)
    [[ $seen == $'at 1400 too wide by 0\nat 390 too wide by 0' ]]
    check $? "$1: no wider than its window" "$seen$(grep CONSOLE "$work/browser")"
    ! grep -qE 'CONSOLE|net::ERR|Refused to' "$work/browser"
    check $? "$1: a browser finds no fault" "$(grep -E 'CONSOLE|net::ERR|Refused to' "$work/browser")"
}

# The page of a plan.
run plan --model tiny --per-device-train-batch-size 3 --max-seq-length 48 --frontier --html "$work/plan.html"
check $code "plan --html" "$err"
page "a plan" "$work/plan.html"
shape='parameters, random weights, batch 3 x 48 tokens, 1 micro-batch a step, checkpointing none, fp32, adamw'
grep -q "<title>Memory map of tiny: .*$shape</title>" "$work/plan.html" && grep -q "$shape" <<<"$text"
check $? "its title has batch, length, policy, precision and optimizer" "$(head -8 "$work/plan.html")"
for words in 'Time of a step against the size of the arena' 'seconds a step (estimated)' 'program time (op)' 'most at one time, bytes'; do
    grep -qF "$words" <<<"$text"
    check $? "it has: $words" "$text"
done
# The curve's axis begins near its data: the first point lies in the first tenth of the width.
awk -F'"' '/<circle/ { for (i = 1; i < NF; i++) if ($i ~ / cx=$/) { x = $(i + 1) + 0; if (!n++) least = x; if (x > most) most = x } }
    END { exit !(n > 2 && least < 10 && most > 90) }' "$work/plan.html"
check $? "the curve fills its axis" "$(grep '<circle' "$work/plan.html" | head -3)"

# The program of each op.
grep -q '<title>program step$' "$work/plan.html" && grep -qx 'initialize' <<<"$text" && grep -qx 'step' <<<"$text"
check $? "a strip names the programs" "$(grep -A1 '<title>program' "$work/plan.html")"

# bars: for each bar of a page its name, with * where it is marked, its bytes and its width.
bars() {
    python3 - "$1" <<'P'
import re, sys
for row in re.findall(r'<tr(?: class="most")?><td>[^\n]*class="t">.*', open(sys.argv[1]).read()):
    name, mark = re.search(r"<td>([^<]*?) ?(?:<b>largest</b>)?</td>", row).group(1), "<b>largest</b>" in row
    bytes_of = int(re.search(r'title="([\d,]+) bytes"', row).group(1).replace(",", ""))
    print(name + ("*" if mark else ""), bytes_of, round(sum(map(float, re.findall(r"width:([\d.]+)%", row)))))
P
}
# The phases of a step of grpo: the bytes of the table's lines, the larger one marked, whichever it is.
for larger in training generating; do
    shape=(--per-device-train-batch-size 16 --num-generations 4 --max-seq-length 64 --max-completion-length 32)
    [[ $larger == training ]] || shape=(--per-device-train-batch-size 1 --gradient-accumulation-steps 64 --num-generations 64
        --max-seq-length 64 --max-completion-length 60 --gradient-checkpointing full)
    run plan --task grpo --model tiny --reward number "${shape[@]}" --html "$work/grpo.html"
    page "a plan of grpo, $larger larger" "$work/grpo.html"
    seen=$(bars "$work/grpo.html")
    wanted=$(sed -nE 's/^(generating|training) +([0-9,]+) bytes.*/\1 \2/p' <<<"$out" | tr -d ,)
    [[ $(cut -d ' ' -f 1,2 <<<"$seen" | tr -d '*') == "$wanted" && $(wc -l <<<"$wanted") -eq 2 ]]
    check $? "bars of both phases" "$seen; $wanted"
    [[ $(grep -c '\*' <<<"$seen") -eq 1 && $(sort -k 2 -n <<<"$seen" | tail -1) == "$larger* "*' '100 ]]
    check $? "$larger is marked and is the longest" "$seen"
    grep -q "^The phases use the same arena .*${larger^} is the largest phase: .*makes\? the arena smaller" <<<"$text" &&
        grep -qx prefill <<<"$text" && grep -qx decode <<<"$text"
    check $? "words about them, and where the map has them" "$text"
done

# Ranks as threads of one process: the plan is that of the run, with a bar for each and their sum.
rank=(--model tiny --max-seq-length 16 --max-steps 1 --gradient-accumulation-steps 4)
awk 'BEGIN { for (i = 0; i < 99; i++) print i, "bottles" }' >"$work/few"
run train "${rank[@]}" --data "$work/few" --fabric threads:4 --output-dir "$work/ranks" --quiet
trained=$(grep -o '"arena_bytes":[0-9]*' "$work/ranks/events.jsonl" | head -1 | cut -d : -f 2)
run plan "${rank[@]}" --fabric threads:4 --html "$work/ranks.html"
page "a plan of four ranks" "$work/ranks.html"
seen=$(bars "$work/ranks.html")
[[ -n $trained && $seen == "$(for i in 0 1 2 3; do echo "rank $i $trained 100"; done)" ]]
check $? "a bar for each rank, of the run's bytes" "$seen; $trained"
sum=$(sed 's/process  *\([0-9,]*\) bytes.*/\1/;t;d' <<<"$out")
[[ $(tr -d , <<<"$sum") -eq $((4 * trained)) ]] && grep -q "^4 ranks are threads of one process; their arenas take $sum bytes" <<<"$text"
check $? "the arenas of the process: $sum" "$text"
run plan "${rank[@]}" --ranks 4 --shard parameters --html "$work/ranks.html"
page "a plan of ranks that share weights" "$work/ranks.html"
seen=$(bars "$work/ranks.html")
[[ $(wc -l <<<"$seen") -eq 4 && $(sort -k 3 -n <<<"$seen" | tail -1) == *'* '* ]] && grep -q '^4 ranks, each in its process. --shard parameters' <<<"$text"
check $? "the largest of them is marked" "$seen"
for wrong in mpi threads:17 threads:x; do
    expect 2 "bedplate: --fabric: a plan needs the number of ranks: found $wrong, expected threads:1 to threads:16, or --ranks N" \
        plan "${rank[@]}" --fabric "$wrong"
done
expect 2 'bedplate: --ranks: --fabric has another number of ranks: found 2, expected 4' plan "${rank[@]}" --ranks 2 --fabric threads:4

# The page of a run that was stopped and goes on, with evaluations of three metrics and names that are no HTML.
awk 'BEGIN { for (i = 0; i < 400; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
common=(train --model tiny --data "$work/text" --validation-split 0.1 --max-seq-length 16 --threads 1 --quiet
    --per-device-train-batch-size 2 --logging-steps 10 --eval-steps 20 --save-steps 40 --lr-scheduler-type cosine --max-steps 120)
run "${common[@]}" --output-dir "$work/run" --stop-at-step 60
run "${common[@]}" --output-dir "$work/run" --resume
run "${common[@]}" --learning-rate 1e-3 --output-dir "$work/<b>&amp; run"
clock=$(sed -n 's/.*"unix":\([0-9]*\).*/\1/p' "$work/run/events.jsonl" | tail -1)
for step in 20 40; do
    echo "{\"event\":\"eval\",\"seq\":90,\"unix\":$clock,\"step\":$step,\"accuracy\":0.$step,\"eval_f1\":1e300,\"metrics\":{\"<i>\":$step,\"wide\":$((3 * step - 59)),\"up\":null}}"
done >>"$work/run/events.jsonl"
cat >>"$work/run/events.jsonl" <<P
{"event":"signal","seq":97,"unix":$clock,"step":120,"stop":true,"number":15,"why":"asked"}
{"event":"save-failed","seq":98,"unix":$((clock + 7200)),"step":120,"file":"<script>alert(1)</script>","reason":"no room","found":1e300}
{"event":"anomaly","seq":99,"unix":1e300,"step":1e300,"kind":"loss","loss":NaN,"action":"\"><svg onload=x>"}
P
grep -q 'td.r{white-space:nowrap}' "$work/plan.html"
check $? "a number and its unit stay on one line"
run report "$work/run" --output "$work/one.html"
check $code "report" "$err"
page "a run" "$work/one.html"
for words in 'Loss (line) and evaluation loss (dots)' 'Evaluation: accuracy' 'Evaluation: <i>' 'Gradient norm' 'Learning rate' \
    'Memory: planned and used' 'Memory over one step' 'op of the step' 'Resumed with bedplate' 'Saved a checkpoint in ' \
    'Evaluated: loss ' ', accuracy 0.4' 'Stopped by SIGTERM.' 'A save failed: no room, file <script>alert(1)</script>.' \
    'Anomaly: loss; \"><svg onload=x>.' 'Ended with exit code 0.' 'bytes alive in the arena'; do
    grep -qF -- "$words" <<<"$text"
    check $? "the page has: $words" "$text"
done
# From 1 to 61: an axis of logarithms has ticks over all of it, with the script and without it.
[[ $(grep -A9 '<h2>Evaluation: wide</h2>' "$work/one.html" | grep -o 'class="te"[^<]*' | sed 's/.*>//' | paste -sd '|') == '1|2|5|10|20|50' ]]
check $? "the ticks of a wide axis" "$(grep -A9 '<h2>Evaluation: wide</h2>' "$work/one.html")"
[[ -z $browser ]] || grep -qF 'Evaluation: wide 1|2|5|10|20|50' <<<"$shown"
check $? "the script has the same ticks" "$(grep -o '{ticks [^}]*' <<<"$shown")"
# The smoothed curve is the mean of both sides, 0.8^d at a distance of d: it does not lag behind the loss.
python3 - "$work/one.html" >"$work/smooth" 2>&1 <<'P'
import re, sys
page = open(sys.argv[1]).read()
raw, smooth = re.search(r'data-name="loss".*?data-y="([^"]*)" points="([^"]*)"/><polyline class="smooth r0" points="([^"]*)"', page).group(1, 3)
y = [float(v) for v in raw.split()]
drawn = [float(p.split(',')[1]) for p in smooth.split()]
line = [float(p.split(',')[1]) for p in re.search(r'data-name="loss".*?points="([^"]*)"/>', page).group(1).split()]
# Pixels are a linear function of values where the axis is linear, of their logarithms where it is not.
import math
log = 'data-log="1"><h2>Loss' in page
f = math.log if log else float
low, high = y.index(min(y)), y.index(max(y))
scale = (line[low] - line[high]) / (f(y[low]) - f(y[high]))
for i in range(len(y)):
    w = [0.8 ** abs(i - j) for j in range(len(y))]
    mean = sum(a * b for a, b in zip(w, y)) / sum(w)
    assert abs(drawn[i] - line[low] - scale * (f(mean) - f(y[low]))) < 0.5, (i, drawn[i])
P
check $? "the smoothed loss" "$(cat "$work/smooth")"
! grep -q 'class="e".*Ended with exit code 0' "$work/one.html" && grep -q 'class="e".*Stopped by SIGTERM' "$work/one.html"
check $? "a good end is no mark on the curves, a signal is"
for words in 'Evaluation: f1' 'Evaluation: up' 'eval: ' nan NaN; do
    ! grep -qwF -- "$words" <<<"$text"
    check $? "and not: $words" "$(grep -F -- "$words" <<<"$text")"
done
for class in weights:#0072b2 optimizer:#009e73 gradients:#d55e00 tape:#e69f00; do
    grep -q "background:${class#*:}\" title=\"${class%:*} " "$work/one.html" && grep -q "fill=\"${class#*:}\"><title>${class%:*}<" "$work/one.html" &&
        grep -q "{fill:${class#*:};" "$work/plan.html"
    check $? "the colour of ${class%:*} is that of the page of the plan"
done
run report "$work/run" "$work/<b>&amp; run" --output "$work/two.html"
page "two runs" "$work/two.html"
grep -qF "$work/<b>&amp; run" <<<"$text" && grep -q 'Options that differ' <<<"$text"
check $? "two runs, by their names" "$text"
if [[ -n $browser ]]; then
    grep -qF '{hover step 60; ' <<<"$shown" && grep -qE "/run loss [0-9.]+; [^{]*run loss [0-9.]+; " <<<"$shown"
    check $? "values under the pointer" "$shown"
    grep -qE '\{axes [0-9.]+\|[^}]*\|100\|120\|step\}' <<<"$shown" && grep -qE '\{log [^}]*\|step\}' <<<"$shown" &&
        grep -qE '\{time [^}]* m?s\|running time\}' <<<"$shown" &&
        [[ $(grep -o '{axes [^}]*' <<<"$shown" | cut -c 7-) != $(grep -o '{log [^}]*' <<<"$shown" | cut -c 6-) ]]
    check $? "axes of steps, logarithms and time" "$shown"
fi
# A run that has done nothing yet has a page as well.
mkdir "$work/empty"
head -1 "$work/run/record.jsonl" >"$work/empty/record.jsonl"
run report "$work/empty" --output "$work/none.html"
page "a run without a step" "$work/none.html"
! grep -qE 'Memory|Events|Loss|Checks|Evaluation' <<<"$text"
check $? "it has no sections that say nothing" "$text"

finish
