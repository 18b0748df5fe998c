#!/bin/bash
# SPDX-License-Identifier: MIT
# Pages: whole, alone by themselves, with what they are for, and no wider than a screen or a phone.
. "$(dirname "$0")/../lib.sh"

browser=$(command -v chromium || command -v chromium-browser || true)
[[ -n $browser ]] || echo "skipped: chromium is not here: widths of pages"
dom() { # URL: what a browser makes of it
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --allow-file-access-from-files \
        --enable-logging=stderr --v=0 --host-resolver-rules='MAP * ~NOTFOUND' --virtual-time-budget=3000 --dump-dom "$1" 2>"$work/browser"
}
# page NAME FILE: what each page must be. Its text is left in $text.
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
    };
    document.body.append(frame);
}
</script>
P
    local seen
    seen=$(dom "file://$work/frames.html" | grep -o 'at [0-9]* too wide by [0-9]*' | sort)
    [[ $seen == $'at 1400 too wide by 0\nat 390 too wide by 0' ]]
    check $? "$1: no wider than its window" "$seen$(grep CONSOLE "$work/browser")"
    ! grep -qE 'CONSOLE|net::ERR|Refused to' "$work/browser"
    check $? "$1: a browser finds no fault" "$(grep -E 'CONSOLE|net::ERR|Refused to' "$work/browser")"
}

# The page of a plan.
run plan --model tiny --per-device-train-batch-size 3 --max-seq-length 48 --frontier --html "$work/plan.html"
check $code "plan --html" "$err"
page "a plan" "$work/plan.html"
shape='parameters, batch 3 x 48 tokens, 1 micro-batch a step, checkpointing none, fp32, adamw'
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

finish
