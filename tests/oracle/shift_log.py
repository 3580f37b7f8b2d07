#!/usr/bin/env python3
"""The audit logs of a capture as if its episode were going on now: what was logged until now, and what comes later.

usage: shift_log.py CAPTURE SECONDS UNTIL_NOW LATER   the episode of truth.json began SECONDS ago
"""
import datetime
import json
import pathlib
import re
import sys
import time

STAMP = re.compile(r'"(requestReceivedTimestamp|stageTimestamp)":"([^"]+)"')


def parse(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def main():
    capture, ago, until_now, later = pathlib.Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4]
    truth = json.loads((capture / "truth.json").read_text())
    now = time.time()
    shift = now - ago - parse(truth["episodes"][0]["from"])

    def moved(match):
        at = datetime.datetime.fromtimestamp(parse(match[2]) + shift, datetime.timezone.utc)
        return f'"{match[1]}":"{at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}"'

    lines = []
    for path in sorted(capture.glob("audit/*/audit.log")):
        for line in path.read_text().splitlines():
            at = parse(re.search(r'"stageTimestamp":"([^"]+)"', line)[1]) + shift
            lines.append((at, STAMP.sub(moved, line)))
    lines.sort()
    for path, own in ((until_now, [text for at, text in lines if at <= now]), (later, [text for at, text in lines if at > now])):
        pathlib.Path(path).write_text("".join(text + "\n" for text in own))
    print(json.dumps(truth["episodes"][0]["client"]))


if __name__ == "__main__":
    main()
