#!/usr/bin/env python3
"""What the terminal UI does under load: follows a log that is written at 20,000 events a second, on top of 2 GB that were there already.

    benches/tui.py PROGRAM FOLDER [SECONDS [EVENTS_PER_SECOND]]

Writes FOLDER/audit.log (the sample's events, their times those of writing), runs `PROGRAM tui --follow` on it in tmux, looks at the tab Traffic,
Prints JSON: events written, how far behind the screen was at most (seconds between the
last event that it counts and now), CPU as a share of one core, peak RSS, bytes of the log.
"""
import glob
import json
import os
import re
import subprocess
import sys
import time
from datetime import datetime, timezone

program, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 60
rate = int(sys.argv[4]) if len(sys.argv) > 4 else 20_000
root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
path = f"{folder}/audit.log"
socket = f"bench-{os.getpid()}"


def tmux(*words):
    return subprocess.run(["tmux", "-L", socket, "-f", "/dev/null", *words], capture_output=True, text=True).stdout


def template():
    """Lines of the sample as pieces around what changes: the audit id and the two times."""
    lines = []
    for packed in sorted(glob.glob(f"{root}/samples/list-storm/audit/*/*.zst")):
        data = subprocess.run(["zstd", "-dc", packed], capture_output=True, check=True).stdout
        for line in data.splitlines():
            event = json.loads(line)
            if event["stage"] != "ResponseComplete" or event["verb"] == "watch":
                continue
            text = line.decode()
            for name in ("requestReceivedTimestamp", "stageTimestamp"):
                text = text.replace(event[name], "@TIME@")
            lines.append(text.replace(event["auditID"], "@ID@").split("@"))
    return lines


def write(file, lines, number, count, at):
    stamp = datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    out = []
    for n in range(number, number + count):
        own = {"TIME": stamp, "ID": f"00000000-0000-4000-8000-{n:012}"}
        out.append("".join(own.get(part, part) for part in lines[n % len(lines)]))
    file.write("\n".join(out) + "\n")
    file.flush()


def main():
    os.makedirs(folder, exist_ok=True)
    lines = template()
    number = 0
    with open(path, "w") as file:
        while file.tell() < 2 << 30:
            write(file, lines, number, 50_000, time.time() - 3600)
            number += 50_000
        before = number
        tmux("new-session", "-d", "-x", "120", "-y", "40", f"env TERM=screen-256color /usr/bin/time -v -o {folder}/time {program} tui --follow {path} --spool {folder} --every 2s; sleep 9")
        time.sleep(3)
        tmux("send-keys", "2")
        began, behind, written = time.time(), [], 0
        while time.time() - began < seconds:
            due = int((time.time() - began) * rate)
            if due > written:
                write(file, lines, number, due - written, time.time())
                number += due - written
                written = due
            time.sleep(0.02)
            if int(time.time() * 10) % 10 == 0 and time.time() - began > 10:
                shown = re.search(r"to (\d{4}-\d\d-\d\dT[\d:.]+)Z, ", tmux("capture-pane", "-p"))
                if shown:
                    last = datetime.fromisoformat(shown[1]).replace(tzinfo=timezone.utc).timestamp()
                    behind.append(time.time() - last)
        took = time.time() - began
    tmux("send-keys", "q")
    time.sleep(3)
    told = open(f"{folder}/time").read()
    cpu = sum(float(re.search(rf"{what} time \(seconds\): ([\d.]+)", told)[1]) for what in ("User", "System"))
    rss = int(re.search(r"Maximum resident set size \(kbytes\): (\d+)", told)[1]) / 1000
    print(json.dumps({"events": written, "events_per_s": written / took, "behind_s": [round(b, 1) for b in behind], "behind_most_s": max(behind, default=None),
                      "cpu_share": cpu / took, "peak_rss_mb": rss, "log_bytes": os.path.getsize(path), "events_before": before}))
    tmux("kill-server")


main()
