#!/usr/bin/env python3
"""Uses an incident report, or a page of tables, as a person would, in headless Chromium.

    page.py REPORT.html [FOLDER]

prints JSON: what went wrong (`errors`, `requests` that left, `dialogs`), what the policy forbids (`blocked`), and what sorting, filtering,
charts, flame graphs, copying and the keyboard did. With FOLDER, whole pages are written there as pictures: 1280 and 390 pixels wide, and dark.
"""
import base64
import json
import pathlib
import sys
import tempfile

from svg import Browser

# Contrast of all texts that can be seen against what is behind them, by WCAG: the least, and where.
CONTRAST = """(() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
  const light = ([r, g, b]) => { const f = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const behind = (node) => { for (let n = node; n; n = n.parentElement) { const c = parse(getComputedStyle(n).backgroundColor); if (c[3] > 0) return c; } return [255, 255, 255, 1]; };
  let least = [99, ''];
  for (const node of document.querySelectorAll('body *')) {
    if (![...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim())) continue;
    if (['SCRIPT', 'STYLE', 'NOSCRIPT', 'text'].includes(node.tagName) || node.closest('.skip') || !node.getClientRects().length) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least[0]) least = [ratio, node.className + ' ' + node.tagName + ': ' + node.textContent.slice(0, 40)];
  }
  return least;
})()"""

# Elements that a screen reader could not name.
NAMELESS = """[...document.querySelectorAll('button, input, a, figure, svg, table')].filter((node) => {
  const name = node.getAttribute('aria-label') || node.textContent.trim() || node.title;
  return !name;
}).map((node) => node.outerHTML.slice(0, 100))"""


def key(browser, name, code=None):
    codes = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
    number = {"key": name, "code": name, "windowsVirtualKeyCode": codes.get(name, 0)}
    if name == "Enter":
        number["text"] = "\r"
    browser.ask("Input.dispatchKeyEvent", type="keyDown", **number)
    browser.ask("Input.dispatchKeyEvent", type="keyUp", **number)


def shot(browser, path):
    size = browser.ask("Page.getLayoutMetrics")["cssContentSize"]
    clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}
    data = browser.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
    pathlib.Path(path).write_bytes(base64.b64decode(data))


def use(browser, path, folder):
    told = {}
    told["csp"] = browser.run("document.querySelector('meta[http-equiv=Content-Security-Policy]')?.content || ''")
    told["title"] = browser.run("document.querySelector('h1').textContent")
    told["first_sentence"] = browser.run("document.querySelector('.first').textContent")
    told["first_screen"] = browser.run("document.querySelector('.verdict').getBoundingClientRect().bottom")
    told["elements"] = browser.run("Object.fromEntries(['script', 'img', 'iframe', 'object', 'embed', 'link', 'form', 'style'].map((tag) => [tag, document.querySelectorAll(tag).length]))")
    told["handlers"] = browser.run("[...document.querySelectorAll('*')].filter((node) => [...node.attributes].some((a) => a.name.startsWith('on') || /^\\s*javascript:/i.test(a.value))).length")
    told["nameless"] = browser.run(NAMELESS)
    told["headless_tables"] = browser.run("[...document.querySelectorAll('table')].filter((t) => !t.querySelector('thead th[scope=col]')).length")

    # Of a page of tables: the cells of each.
    told["tables"] = browser.run("""Object.fromEntries([...document.querySelectorAll('section[id^="t-"]')].map((part) => [part.id.slice(2),
      [...part.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))]))""")

    # A heading sorts, both ways; a field filters.
    table = "document.querySelector('#s-traffic table.data')"
    if browser.run(f"{table} !== null"):
        browser.run("document.getElementById('s-traffic').open = true")
        column = browser.run(f"[...{table}.tHead.rows[0].cells].findIndex((c) => c.textContent === 'Requests')")
        values = f"[...{table}.tBodies[0].rows].map((row) => Number(row.cells[{column}].dataset.v))"
        told["sorted"] = []
        for _ in range(2):
            browser.run(f"{table}.tHead.rows[0].cells[{column}].firstChild.click()")
            told["sorted"].append(browser.run(values))
        told["sort_said"] = browser.run(f"{table}.tHead.rows[0].cells[{column}].getAttribute('aria-sort')")
    rows = "[...document.querySelectorAll('#timeline tbody tr')]"
    told["timeline"] = browser.run(f"{rows}.map((row) => row.textContent)")
    if browser.run("document.querySelector('#timeline input') !== null"):
        browser.run("document.querySelector('#timeline input').focus()")
        browser.ask("Input.insertText", text="deleted namespace")
        told["filtered"] = browser.run(f"{rows}.filter((row) => !row.hidden).map((row) => row.textContent)")
        told["filter_said"] = browser.run("document.querySelector('#timeline .tools span').textContent")

    # Charts: the keyboard reads values, a name hides its line, numbers stand behind.
    told["charts"] = browser.run("[...document.querySelectorAll('.chart figcaption')].map((c) => c.textContent)")
    if told["charts"]:
        browser.run("document.querySelector('.chart').focus()")
        key(browser, "ArrowRight")
        key(browser, "ArrowRight")
        told["readout"] = browser.run("document.querySelector('.chart .readout').textContent")
        told["band"] = browser.run("document.querySelectorAll('.chart .band').length")
        paths = "document.querySelectorAll('.chart')[0].querySelectorAll('path').length"
        before = browser.run(paths)
        browser.run("document.querySelector('.chart .legend button').click()")
        told["hidden_lines"] = before - browser.run(paths)
        browser.run("document.querySelector('.chart .legend button').click()")
        browser.run("document.querySelector('.chart details').open = true")
        # The toggle event comes a moment later.
        browser.run("new Promise((done) => setTimeout(done, 100))")
        browser.ask("Runtime.evaluate", expression="new Promise((done) => setTimeout(done, 200))", awaitPromise=True)
        told["numbers"] = browser.run("document.querySelectorAll('.chart')[0].querySelectorAll('details tbody tr').length")

    # Flame graphs: search, zoom by Enter, out by Escape, move by arrows.
    told["flames"] = browser.run("[...document.querySelectorAll('.flamegraph figcaption')].map((c) => c.textContent)")
    if told["flames"]:
        graph = "document.querySelector('.flamegraph')"
        browser.run(f"{graph}.querySelector('input').focus()")
        browser.ask("Input.insertText", text="secrets")
        told["found"] = [browser.run(f"{graph}.querySelectorAll('.hit').length"), browser.run(f"{graph}.querySelector('.tools span').textContent")]
        browser.run(f"{graph}.querySelector('.frames button').focus()")
        key(browser, "ArrowDown")
        child = browser.run("document.activeElement.dataset.n")
        key(browser, "Enter")
        told["zoomed"] = [child, browser.run(f"{graph}.querySelector('[data-n=\"{child}\"]').style.width")]
        key(browser, "Escape")
        told["unzoomed"] = browser.run(f"{graph}.querySelector('[data-n=\"{child}\"]').style.width")
        told["flame_focus"] = browser.run("document.activeElement.dataset.n")

    browser.run("document.querySelector('.copy button')?.click()")
    browser.ask("Runtime.evaluate", expression="new Promise((done) => setTimeout(done, 200))", awaitPromise=True)
    told["copied"] = browser.run("document.querySelector('.copy button')?.textContent")

    # What the policy forbids, tried.
    reach = """Promise.all([
      fetch('http://127.0.0.1:9/').then(() => 'fetched', (e) => 'blocked'),
      new Promise((done) => { const i = new Image(); i.onload = () => done('loaded'); i.onerror = () => done('blocked'); i.src = 'http://127.0.0.1:9/x.png'; }),
      new Promise((done) => { const s = document.createElement('script'); s.textContent = 'window.ran = true'; document.body.append(s); done(window.ran ? 'ran' : 'blocked'); }),
    ])"""
    errors_before = len([e for e in browser.events if e["method"] in ("Log.entryAdded",)])
    told["complaints"] = [e["params"]["entry"]["text"] for e in browser.events if e["method"] == "Log.entryAdded" and e["params"]["entry"]["level"] == "error"]
    told["thrown"] = [e["params"]["exceptionDetails"]["text"] for e in browser.events if e["method"] == "Runtime.exceptionThrown"]
    told["console"] = [e["params"]["type"] for e in browser.events if e["method"] == "Runtime.consoleAPICalled"]
    told["requests"] = [url for e in browser.events if e["method"] == "Network.requestWillBeSent" for url in [e["params"]["request"]["url"]] if not url.startswith("file:")]
    told["dialogs"] = len([e for e in browser.events if e["method"] == "Page.javascriptDialogOpening"])
    told["blocked"] = browser.ask("Runtime.evaluate", expression=reach, awaitPromise=True, returnByValue=True)["result"]["value"]
    del errors_before

    # Both schemes, both widths; all parts open, so that all texts are looked at.
    browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    told["contrast"] = {}
    for scheme in ["light", "dark"]:
        browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        told["contrast"][scheme] = browser.run(CONTRAST)
    browser.run("document.querySelectorAll('details').forEach((d) => { d.open = false; })")
    for width in [1280, 390]:
        browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        told[f"overflow_{width}"] = browser.run("document.documentElement.scrollWidth - innerWidth")
        if folder:
            for scheme in ["light", "dark"] if width == 1280 else ["light"]:
                browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
                shot(browser, pathlib.Path(folder) / f"report-{width}-{scheme}.png")
    return told


def main():
    page = pathlib.Path(sys.argv[1]).resolve()
    folder = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser("about:blank", profile)
        try:
            for domain in ["Log", "Network"]:
                browser.ask(f"{domain}.enable")
            browser.events.clear()
            browser.ask("Page.navigate", url=page.as_uri())
            while not any(event["method"] == "Page.loadEventFired" for event in browser.events):
                browser.next()
            print(json.dumps(use(browser, page, folder)))
        finally:
            browser.close()


if __name__ == "__main__":
    main()
