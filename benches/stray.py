#!/usr/bin/env python3
"""A report on a log with events of 1970 and 2099 in it, beside one on the same log without them: seconds and peak RSS, in turns.

    benches/stray.py [PROGRAM] [FOLDER] [RUNS]       # target/release/plimsoll target/stray 5
"""
import datetime
import os
import re
import statistics
import subprocess
import sys
import time

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "target/release/plimsoll"
FOLDER = sys.argv[2] if len(sys.argv) > 2 else "target/stray"
RUNS = int(sys.argv[3]) if len(sys.argv) > 3 else 5
SAMPLE = "samples/list-storm/audit/apiserver-0/audit.log.zst"
TIME = re.compile(r"2026-11-20T\d\d:\d\d:\d\d\.\d{6}")


def later(line, minutes):
    def shift(found):
        at = datetime.datetime.fromisoformat(found.group(0)) + datetime.timedelta(minutes=minutes)
        return at.strftime("%Y-%m-%dT%H:%M:%S.%f")
    return TIME.sub(shift, line)


def make():
    """Four hours of the sample's traffic, 460 MB; every 5,000th event also of 1970 and of 2099, and so the first and the last."""
    lines = subprocess.run(["zstd", "-dcq", SAMPLE], capture_output=True, check=True, text=True).stdout.splitlines()
    for name in ("plain", "odd"):
        os.makedirs(f"{FOLDER}/{name}", exist_ok=True)
    with open(f"{FOLDER}/plain/audit.log", "w") as plain, open(f"{FOLDER}/odd/audit.log", "w") as odd:
        for copy in range(24):
            for number, line in enumerate(lines):
                line = later(line, 10 * copy).replace('"auditID":"', f'"auditID":"{copy:02}')
                plain.write(line + "\n")
                odd.write(line + "\n")
                if number % 5000 in (0, len(lines) % 5000 - 1):
                    for day in ("1970-01-01", "2099-12-31"):
                        odd.write(re.sub("2026-11-2[01]", day, line) + "\n")


def run(name):
    began = time.monotonic()
    child = subprocess.Popen([PROGRAM, "report", f"{FOLDER}/{name}", "-o", "html"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    # 3: something was set aside, and it was said.
    assert os.waitstatus_to_exitcode(status) == (3 if name == "odd" else 0), status
    return time.monotonic() - began, usage.ru_maxrss / 1024


if not os.path.exists(f"{FOLDER}/odd/audit.log"):
    make()
taken = {"plain": [], "odd": []}
for name in ("plain", "odd"):
    run(name)
for _ in range(RUNS):
    for name in taken:
        taken[name].append(run(name))
for name, runs in taken.items():
    seconds, memory = zip(*runs)
    print(f"{name}: median {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}), peak RSS {max(memory):.0f} MB")
ratios = [odd[0] / plain[0] for odd, plain in zip(taken["odd"], taken["plain"])]
print(f"odd / plain: median {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
sys.exit(statistics.median(ratios) > 1.3 or max(memory for _, memory in taken["odd"]) > 200)
