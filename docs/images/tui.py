#!/usr/bin/env python3
"""Draws the pictures of the terminal UI from the real thing: runs it in tmux, presses keys, and writes what is on the screen as SVG.

    docs/images/tui.py [PROGRAM]        from the repository's root; needs tmux and target/release/plimsoll
"""
import html
import os
import re
import subprocess
import sys
import time
import unicodedata

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "target/release/plimsoll"
SIZE = (120, 36)
CELL = (8.4, 17)
BACK, FRONT = "#16191d", "#d7dae0"
BASE = ["#2b2f36", "#e5534b", "#57ab5a", "#d4a72c", "#539bf5", "#b083f0", "#39c5cf", "#d7dae0",
        "#768390", "#ff938a", "#6bc46d", "#e3b341", "#6cb6ff", "#dcbdfb", "#56d4dd", "#ffffff"]
# A picture: its name, the sources, and the keys, each with what must be on the screen before it is pressed.
PICTURES = [
    ("tui-overview", ["samples/list-storm"], [("5 critical", "<"), ("▲", "<"), ("▲", None)]),
    ("tui-clients", ["samples/list-storm"], [("5 critical", "3"), ("node-agent", "Enter"), ("time", None)]),
    ("tui-keyspace", ["samples/list-storm"], [("5 critical", "4"), ("secrets", "Down"), ("of its parent", None)]),
]


def color(number):
    if number < 16:
        return BASE[number]
    if number >= 232:
        return "#" + f"{8 + 10 * (number - 232):02x}" * 3
    number -= 16
    return "#" + "".join(f"{0 if part == 0 else 55 + 40 * part:02x}" for part in (number // 36, number // 6 % 6, number % 6))


def tmux(*words):
    return subprocess.run(["tmux", "-L", f"picture-{os.getpid()}", "-f", "/dev/null", *words], capture_output=True, text=True).stdout


def screen(sources, keys):
    width, height = SIZE
    tmux("new-session", "-d", "-x", str(width), "-y", str(height), f"env -u NO_COLOR TERM=screen-256color {PROGRAM} tui {' '.join(sources)}; sleep 9")
    for text, key in keys:
        for _ in range(600):
            if text in tmux("capture-pane", "-p"):
                break
            time.sleep(0.1)
        else:
            sys.exit(f"'{text}' never came:\n{tmux('capture-pane', '-p')}")
        if key:
            tmux("send-keys", key)
            time.sleep(0.5)
    time.sleep(7)  # what is said for a moment goes
    shown = tmux("capture-pane", "-e", "-p", "-N")
    tmux("kill-server")
    return shown


def spans(line, look):
    """Runs of a line that look alike: their column, text, and look. It begins as the line before ended."""
    column = 0
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        codes = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if not codes:
            text = re.sub(r"\x1b.", "", part)
            if text:
                yield column, text, dict(look)
            column += sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
            continue
        numbers = [int(code or 0) for code in codes[1].split(";")]
        while numbers:
            code = numbers.pop(0)
            if code == 0:
                look.clear()
            elif code in (1, 2, 4, 7):
                look[code] = True
            elif code in (22, 24, 27):
                [look.pop(old, None) for old in {22: (1, 2), 24: (4,), 27: (7,)}[code]]
            elif code in (39, 49):
                look.pop("front" if code == 39 else "back", None)
            elif code in (38, 48) and numbers[:1] == [5]:
                look["front" if code == 38 else "back"] = color(numbers[1])
                numbers = numbers[2:]
            elif 30 <= code <= 37 or 90 <= code <= 97:
                look["front"] = color(code - 30 if code < 90 else code - 82)
            elif 40 <= code <= 47 or 100 <= code <= 107:
                look["back"] = color(code - 40 if code < 100 else code - 92)


def svg(shown):
    (width, height), (w, h) = SIZE, CELL
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width * w + 16:.0f} {height * h + 16:.0f}" font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="14">',
           f'<rect width="100%" height="100%" rx="6" fill="{BACK}"/>']
    looks = {}
    for y, line in enumerate(shown.split("\n")[:height]):
        for x, text, look in spans(line, looks):
            front, back = look.get("front", FRONT), look.get("back")
            if look.get(7):
                front, back = back or BACK, front
            left, top = 8 + x * w, 8 + y * h
            if back:
                out.append(f'<rect x="{left:.1f}" y="{top:.1f}" width="{len(text) * w:.1f}" height="{h}" fill="{back}"/>')
            if text.strip():
                weight = ' font-weight="bold"' if look.get(1) else ""
                out.append(f'<text x="{left:.1f}" y="{top + 13:.1f}" fill="{front}"{weight} xml:space="preserve" textLength="{len(text) * w:.1f}" lengthAdjust="spacingAndGlyphs">{html.escape(text)}</text>')
    return "\n".join(out + ["</svg>", ""])


for name, sources, keys in PICTURES:
    path = f"docs/images/{name}.svg"
    with open(path, "w") as file:
        file.write(svg(screen(sources, keys)))
    print(path)
