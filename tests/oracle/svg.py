#!/usr/bin/env python3
"""Uses a flame graph as a person would, in headless Chromium: clicks a frame, resets the zoom, searches with Ctrl-F.

    svg.py SVGFILE SEARCHTERM

prints JSON:
    title            the picture's heading
    total            what all frames weigh, as the picture's `total_samples` says
    frames           how many frames are drawn
    zoom_changed     whether a click on a narrow frame made it as wide as the picture, and Reset Zoom put all widths back
    matched_frames   frames that the search for SEARCHTERM (a regular expression) has coloured
    matched_percent  the share that the picture then says is matched
    errors           what the script in the picture complained of; none in a good one

No driver is needed: Chromium is told what to do over a pipe, in its own protocol.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

PROGRAMS = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
SECONDS = 60


class Browser:
    """Chromium, and one page in it."""

    def __init__(self, url, profile):
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if program is None:
            sys.exit("svg.py: no Chromium on the PATH: run .ci/setup first")
        (self.theirs_in, self.ours_out), (self.ours_in, self.theirs_out) = os.pipe(), os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
                 f"--user-data-dir={profile}", "--window-size=1500,1000"]

        def pipes():
            # It reads from 3 and writes to 4. First out of their way, should they be those themselves.
            reads, writes = os.dup(self.theirs_in), os.dup(self.theirs_out)
            reads, writes = os.dup2(reads, 20), os.dup2(writes, 21)
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        self.process = subprocess.Popen([program, *flags, "about:blank"], preexec_fn=pipes, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(self.theirs_in)
        os.close(self.theirs_out)
        self.number, self.pending, self.session, self.events = 0, b"", None, []
        self.end = time.monotonic() + SECONDS
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Page.enable")
        self.ask("Runtime.enable")
        self.ask("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.next()

    def next(self):
        """The next message; an event is kept."""
        while b"\0" not in self.pending:
            if time.monotonic() > self.end:
                sys.exit("svg.py: Chromium did not answer in time")
            got = os.read(self.ours_in, 1 << 20)
            if not got:
                sys.exit(f"svg.py: Chromium ended: code {self.process.wait()}")
            self.pending += got
        text, self.pending = self.pending.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def send(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.ours_out, json.dumps(message).encode() + b"\0")
        return self.number

    def answer(self, number):
        while True:
            message = self.next()
            if message.get("id") == number:
                if "error" in message:
                    sys.exit(f"svg.py: Chromium: {message['error']}")
                return message["result"]

    def ask(self, method, **params):
        return self.answer(self.send(method, **params))

    def run(self, script):
        result = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            sys.exit(f"svg.py: {result['exceptionDetails']}")
        return result["result"].get("value")

    def click(self, x, y):
        for kind in ["mousePressed", "mouseReleased"]:
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def close(self):
        self.session = None
        self.send("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


# What is drawn: of each frame its name, place and colour.
FRAMES = """[...document.querySelectorAll('#frames > g, #frames > a > g')].map(g => {
    const rect = g.querySelector('rect'), box = rect.getBoundingClientRect(), style = getComputedStyle(g);
    return {name: g.querySelector('title').textContent, x: box.x, y: box.y, width: style.display === 'none' ? 0 : box.width,
            height: box.height, fill: rect.getAttribute('fill')};
})"""


def main():
    picture, term = sys.argv[1:]
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(pathlib.Path(picture).resolve().as_uri(), profile)
        try:
            print(json.dumps(use(browser, term)))
        finally:
            browser.close()


def use(browser, term):
    before = browser.run(FRAMES)
    whole = max(frame["width"] for frame in before)
    # A frame that is wide enough to be hit and narrow enough to grow, on the screen.
    narrow = [n for n, frame in enumerate(before) if 8 < frame["width"] < 0.6 * whole and 0 < frame["y"] < 900]
    zoomed = restored = False
    if narrow:
        chosen = max(narrow, key=lambda n: before[n]["width"])
        frame = before[chosen]
        browser.click(frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] / 2)
        zoomed = abs(browser.run(FRAMES)[chosen]["width"] / whole - 1) < 0.02
        place = browser.run("(box => [box.x + box.width / 2, box.y + box.height / 2])(document.getElementById('unzoom').getBoundingClientRect())")
        browser.click(*place)
        widths = zip(browser.run(FRAMES), before)
        restored = all(abs(now["width"] - then["width"]) < 1 for now, then in widths)
    # Ctrl-F asks for a term in a dialog.
    key = {"key": "f", "code": "KeyF", "windowsVirtualKeyCode": 70, "modifiers": 2}
    number = browser.send("Input.dispatchKeyEvent", type="rawKeyDown", **key)
    while not any(event["method"] == "Page.javascriptDialogOpening" for event in browser.events):
        browser.next()
    browser.ask("Page.handleJavaScriptDialog", accept=True, promptText=term)
    # The key's event is over when the picture has searched.
    browser.answer(number)
    matched = browser.run("document.getElementById('matched').textContent").strip()
    coloured = sum(now["fill"] != then["fill"] for now, then in zip(browser.run(FRAMES), before))
    total = browser.run("document.getElementById('frames').getAttribute('total_samples')")
    def said(details):
        return details.get("exception", {}).get("description", details["text"])

    return {
        "title": browser.run("document.getElementById('title').textContent"),
        "total": int(total),
        "frames": len(before),
        "zoom_changed": zoomed and restored,
        "matched_frames": coloured,
        "matched_percent": float(matched.removeprefix("Matched: ").rstrip("%")) if coloured else 0.0,
        "errors": [said(event["params"]["exceptionDetails"]) for event in browser.events if event["method"] == "Runtime.exceptionThrown"],
    }


if __name__ == "__main__":
    main()
