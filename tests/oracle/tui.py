#!/usr/bin/env python3
"""How soon a terminal UI draws its first frame, and what it costs while nothing happens.

    tui.py PROGRAM WORD...

Runs it in a pseudo-terminal of 200 by 50. Prints JSON: first_frame_ms, the fastest of five starts until the tabs' names are on the screen;
idle_bytes_per_s and idle_cpu_share over ten seconds after it has been left alone for a while.
"""
import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time


def start(words):
    began = time.monotonic()
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(words[0], words)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    return began, pid, fd


def read(fd, until):
    """What comes until then."""
    got = b""
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([fd], [], [], left)
        if ready:
            try:
                got += os.read(fd, 1 << 16)
            except OSError:
                break
    return got


def ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def end(pid, fd):
    os.kill(pid, signal.SIGTERM)
    read(fd, time.monotonic() + 0.3)
    os.close(fd)
    os.waitpid(pid, 0)


def main():
    words = sys.argv[1:]
    firsts = []
    for _ in range(5):
        began, pid, fd = start(words)
        got = b""
        while b"Forecast" not in got:
            ready, _, _ = select.select([fd], [], [], 10)
            if not ready:
                sys.exit(f"nothing was drawn in 10 s: {got!r}")
            got += os.read(fd, 1 << 16)
        firsts.append((time.monotonic() - began) * 1000)
        end(pid, fd)
    _, pid, fd = start(words)
    # Until all is read nothing is idle.
    quiet = 0
    while quiet < 3:
        before = ticks(pid)
        read(fd, time.monotonic() + 1)
        quiet = quiet + 1 if ticks(pid) - before <= 2 else 0
    before, began = ticks(pid), time.monotonic()
    got = read(fd, began + 10)
    seconds = time.monotonic() - began
    share = (ticks(pid) - before) / os.sysconf("SC_CLK_TCK") / seconds
    end(pid, fd)
    print(json.dumps({"first_frame_ms": min(firsts), "starts_ms": firsts, "idle_bytes_per_s": len(got) / seconds, "idle_cpu_share": share}))


main()
