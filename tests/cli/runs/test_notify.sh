#!/bin/bash
# SPDX-License-Identifier: MIT
# What a service manager is told, over both kinds of socket; python3 is the manager.
. "$(dirname "$0")/../lib.sh"
command -v python3 >/dev/null || { echo "skipped: python3 is not here"; exit 77; }

awk 'BEGIN { for (i = 0; i < 400; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
cat >"$work/manager.py" <<'P'
import os, socket, subprocess, sys, time
path, stop = sys.argv[1], sys.argv[2] == 'stop'  # once it has given a sign of life
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind('\0' + path[1:] if path[0] == '@' else path)
s.settimeout(0.2)
p = subprocess.Popen(sys.argv[3:], env=dict(os.environ, NOTIFY_SOCKET=path), stdin=subprocess.DEVNULL,
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
began, alive = time.time(), False
while True:
    try:
        words = s.recv(65536).decode().replace('\n', ' ')
        print(words)
        alive = alive or 'WATCHDOG=1' in words
    except socket.timeout:
        if p.poll() is not None:
            break
    if stop and alive:
        p.send_signal(19)  # the step hangs
        stop = False
        os.waitpid(p.pid, os.WUNTRACED)  # it has stopped
        while True:
            try:
                s.recv(65536)
            except socket.timeout:
                break
        print('HANGS')
        time.sleep(1)  # no wait: five intervals in which nothing may come
        try:
            print('LATE', s.recv(65536).decode())
        except socket.timeout:
            pass
        p.send_signal(18)
        p.send_signal(15)
print('seconds', int(time.time() - began))
print('code', p.returncode)
P
train=("$program" train --model tiny --data "$work/text" --max-seq-length 16 --per-device-train-batch-size 2
    --lr-scheduler-type constant --threads 1 --quiet --output-dir "$work/r" --save-steps 10)
for path in "$work/socket" "@bedplate-$$"; do
    said=$(WATCHDOG_USEC=200000 python3 "$work/manager.py" "$path" go "${train[@]}" --max-steps 400)
    [[ $said == *'STATUS=loading'*EXTEND_TIMEOUT_USEC=*'READY=1'*WATCHDOG=1*'STATUS=step '*'/400 loss '*'STOPPING=1'*'code 0' ]]
    check $? "what is told over $path" "$said"
    [[ $said == *'STATUS=step 400/400 loss '*', saved '* ]]
    check $? "the last status" "$said"
    rm -rf "$work/r"
done
said=$(WATCHDOG_USEC=200000 python3 "$work/manager.py" "$work/socket2" stop "${train[@]}" --max-steps 10000000)
[[ $said == *WATCHDOG=1*HANGS* && $said != *LATE* && $said == *'code 143' ]]
check $? "no sign of life but from completed steps" "$(tail -5 <<<"$said")"
# verifies alone-10.21a2
# A manager that waits for less than a few steps is asked to wait longer, before it takes them for a hang.
said=$(WATCHDOG_USEC=300 python3 "$work/manager.py" "$work/socket6" go "${train[@]}" --max-steps 40 --output-dir "$work/slow")
[[ $said =~ WATCHDOG_USEC=([0-9]+) && ${BASH_REMATCH[1]} -gt 300 && $said == *'READY=1'*EXTEND_TIMEOUT_USEC=3600000000*WATCHDOG_USEC=*WATCHDOG=1* ]]
check $? "slow steps" "$said"
# More time for an evaluation, and for each save.
said=$(WATCHDOG_USEC=200000 python3 "$work/manager.py" "$work/socket7" go "${train[@]}" --max-steps 40 --output-dir "$work/eval" --validation-split 0.2 --eval-steps 20)
[[ $said == *'STATUS=evaluating'*EXTEND_TIMEOUT_USEC=3600000000* && $(grep -c 'EXTEND_TIMEOUT_USEC=6[0-9]*$' <<<"$said") -eq 4 ]]
check $? "time for evaluations and saves" "$said"
# And a step that is computed again.
said=$(python3 "$work/manager.py" "$work/socket8" go "${train[@]}" --max-steps 60 --output-dir "$work/again" --replay-every 1)
[[ $said == *'STATUS=replaying step 1'*'STATUS=step '*'code 0' && $(grep -c 'STATUS=replaying' <<<"$said") -le $(($(sed -n 's/^seconds //p' <<<"$said") + 2)) ]]
check $? "steps computed again are told, once a second" "$said"
said=$(WATCHDOG_USEC=200000 WATCHDOG_PID=1 python3 "$work/manager.py" "$work/socket3" go "${train[@]}" --max-steps 400 --resume)
[[ $said == *READY=1* && $said != *WATCHDOG* ]]
check $? "another process's watchdog" "$said"
said=$(python3 "$work/manager.py" "$work/socket4" go "${train[@]}" --max-steps 400 --learning-rate x)
[[ $said == *'code 2' ]]
check $? "usage"
said=$(python3 "$work/manager.py" "$work/socket5" go "${train[@]}" --max-steps 400 --data "$work/none" --output-dir "$work/q")
[[ $said == *'STOPPING=1 EXIT_STATUS='*'code 4' && $said != *READY* ]]
check $? "a run that cannot begin" "$said"
for path in "$work/nobody" vsock:2:3 "" x; do
    NOTIFY_SOCKET=$path run "${train[@]:1}" --max-steps 2 --output-dir "$work/n"
    check $code "nobody listens at '$path'" "$err"
    rm -rf "$work/n"
done
finish
