"""Runs a command under strace and prints how many bytes it read of each file, as JSON: {"output": ..., "read": {path: bytes}}.

    reads.py COMMAND...
    reads.py --trace FILE OFFSET      # the same of what strace (-f -y -s 0) wrote into FILE from byte OFFSET on
"""

import collections
import json
import re
import subprocess
import sys
import tempfile

CALL = re.compile(r"(\d+)\s+(?:read|pread64|readv|preadv2?)\(\d+<([^>]*)>.*?(?:= (-?\d+)(?: \w+ \(.*\))?|<unfinished \.\.\.>)$")
RESUMED = re.compile(r"(\d+)\s+<\.\.\. \w+ resumed>.*= (-?\d+)(?: \w+ \(.*\))?$")


def count(trace):
    read = collections.Counter()
    begun = {}
    for line in trace:
        if call := CALL.match(line.rstrip("\n")):
            thread, path, count = call.groups()
            if count is None:
                begun[thread] = path
            else:
                read[path] += max(int(count), 0)
        elif (rest := RESUMED.match(line.rstrip("\n"))) and rest[1] in begun:
            read[begun.pop(rest[1])] += max(int(rest[2]), 0)
    return read


if sys.argv[1] == "--trace":
    with open(sys.argv[2], "rb") as trace:
        trace.seek(int(sys.argv[3]))
        print(json.dumps({"read": count(line.decode(errors="replace") for line in trace)}))
    sys.exit()
with tempfile.NamedTemporaryFile(mode="r", errors="replace") as trace:
    calls = "trace=read,pread64,readv,preadv,preadv2"
    command = ["strace", "-f", "-y", "-s", "0", "-e", calls, "-o", trace.name, *sys.argv[1:]]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(ran.stderr)
    read = count(trace)
print(json.dumps({"output": ran.stdout, "read": read}))
