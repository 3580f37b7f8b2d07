"""What each user asks of the API at most, counted without plimsoll: requests per second and seats in windows of ten seconds.

usage: quota_api.py LOG... -> {"user": {"requests": n, "peak_rps": x, "peak_seats": y}}
"""
import collections
import datetime
import json
import sys

import zstandard

WINDOW = 10_000_000


def micros(text):
    stamp = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (stamp - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) // datetime.timedelta(microseconds=1)


def main(paths):
    requests = collections.Counter()
    starts = collections.Counter()
    busy = collections.Counter()
    for path in paths:
        data = open(path, "rb").read()
        if data[:4] == b"\x28\xb5\x2f\xfd":
            data = zstandard.ZstdDecompressor().stream_reader(data).read()
        for line in data.splitlines():
            event = json.loads(line)
            terminal = event["stage"] in ("ResponseComplete", "Panic")
            if event["stage"] != "ResponseStarted" if event["verb"] == "watch" else not terminal:
                continue
            if event.get("responseStatus", {}).get("code") == 429:
                continue
            # Long-running requests but watches are none of API Priority and Fairness' concern.
            if event.get("objectRef", {}).get("subresource") in ("attach", "exec", "log", "portforward", "proxy"):
                continue
            if event["requestURI"].startswith("/debug/pprof/"):
                continue
            user = event["user"]["username"]
            user = "system:node:*" if user.startswith("system:node:") else user
            begin, end = micros(event["requestReceivedTimestamp"]), micros(event["stageTimestamp"])
            begin = max(begin, end - 120_000_000)
            requests[user] += 1
            starts[user, begin // WINDOW] += 1
            for window in range(begin // WINDOW, end // WINDOW + 1):
                busy[user, window] += max(0, min(end, (window + 1) * WINDOW) - max(begin, window * WINDOW))
    found = {user: {"requests": count, "peak_rps": 0, "peak_seats": 0} for user, count in requests.items()}
    for (user, _), count in starts.items():
        found[user]["peak_rps"] = max(found[user]["peak_rps"], count / 10)
    for (user, _), spent in busy.items():
        found[user]["peak_seats"] = max(found[user]["peak_seats"], spent / WINDOW)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
