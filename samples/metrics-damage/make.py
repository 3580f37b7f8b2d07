#!/usr/bin/env python3
"""Writes the files beside it: pages of metrics that are damaged, cut short, or none at all.

    python3 samples/metrics-damage/make.py (needs the module zstandard)

All are cut from a page of samples/quiet. README.md says of every file what is wrong with it and what can still be read; expected.json has the same
as numbers. Everything is deterministic.
"""
import gzip
import json
import pathlib
import re
import shutil
import sys

import zstandard

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "metrics-forms"))
sys.dont_write_bytecode = True
import make as forms  # noqa: E402  (samples/metrics-forms/make.py)

TIME = forms.TIMES[-1]

HTML = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>403 Forbidden</title>
<link rel="stylesheet" href="/static/login.css"><script>window.next = "/metrics?x=1";</script></head>
<body>
<h1>403 Forbidden</h1>
<p>You are not signed in. <a href="/oauth/authorize?client_id=console&amp;redirect_uri=%2Fmetrics">Sign in</a> to continue.</p>
<form method="post" action="/login"><input name="user"> <input name="password" type="password"> <button>Sign in</button></form>
<hr><center>nginx/1.27.4</center>
</body></html>
"""
STATUS = """{
  "kind": "Status",
  "apiVersion": "v1",
  "metadata": {},
  "status": "Failure",
  "message": "forbidden: User \\"system:anonymous\\" cannot get path \\"/metrics\\"",
  "reason": "Forbidden",
  "details": {},
  "code": 403
}
"""


def small_page():
    """Six families of the page, the long ones with their first series only."""
    page = forms.parse(forms.source(TIME))
    names = {"apiserver_current_inflight_requests": None, "apiserver_request_total": 20, "apiserver_response_sizes": 30,
             "apiserver_storage_objects": 20, "process_cpu_seconds_total": None, "process_start_time_seconds": None}
    cut = {}
    for name, count in names.items():
        kind, help_text, samples = page[name]
        if name == "apiserver_request_total":
            samples = [(s, forms.without(labels, "system_client"), v) for s, labels, v in samples if labels["resource"] and not labels["system_client"]]
        cut[name] = (kind, help_text, samples[:count])
    return forms.write_page(cut)


def main():
    page = small_page()
    lines = page.splitlines()
    whole = sum(not line.startswith("#") for line in lines)
    expected = {}

    def write(name, content, kept, lost, message):
        """`kept` samples; `lost` lines or ends that a message must tell of."""
        data = content if isinstance(content, bytes) else content.encode()
        (HERE / name).parent.mkdir(exist_ok=True)
        (HERE / name).write_bytes(data)
        expected[name] = {"kept": kept, "lost": lost, "damage": message}

    def named(damage, suffix=""):
        return f"{damage}-{TIME}.txt{suffix}"

    def at(start):
        """The index of the first line that begins so."""
        return next(i for i, line in enumerate(lines) if line.startswith(start))

    def samples(text):
        return sum(bool(line) and not line.startswith("#") for line in text.split("\n"))

    def edited(**changes):
        """The page with lines replaced: line index as text → new line(s)."""
        return "\n".join(changes.get(f"l{i}", line) for i, line in enumerate(lines)) + "\n"

    for folder in ("html-login", "json-status"):
        shutil.rmtree(HERE / folder, ignore_errors=True)

    # cut short
    stored = at("apiserver_storage_objects{")
    before = "\n".join(lines[:stored + 5]) + "\n"
    write(named("cut-in-label"), before + lines[stored + 5][:34], samples(before), 1, "ends within a line")
    line = lines[at("process_start_time_seconds ")]
    before = page[:page.index(line)]
    write(named("cut-in-value"), before + line[:-8], samples(before), 1, "ends within a line")
    last_bucket = max(i for i, line in enumerate(lines) if line.startswith("apiserver_response_sizes_bucket") and 'le="1e+06"' in line)
    text = "\n".join(lines[:last_bucket + 1]) + "\n"
    write(named("cut-in-histogram"), text, samples(text), 1, "ends within a histogram")
    big = forms.write_page(forms.small(forms.versions(forms.parse(forms.source(TIME)), 36)))
    packed = gzip.compress(big.encode(), 9, mtime=0)
    write(named("cut", ".gz"), packed[:len(packed) * 6 // 10], None, 1, "packed data ends early")
    big = forms.write_page(forms.versions(forms.parse(forms.source(TIME)), 36))
    packed = zstandard.ZstdCompressor(level=19).compress(big.encode())
    write(named("cut", ".zst"), packed[:len(packed) * 8 // 10], None, 1, "packed data ends early")
    for name, unpack in ((named("cut", ".gz"), ungzip), (named("cut", ".zst"), unzstd)):
        text = unpack((HERE / name).read_bytes()).decode(errors="replace")
        expected[name]["kept"] = samples(text[:text.rindex("\n") + 1])

    # something else
    write("html-login/metrics.txt", HTML, 0, 1, "HTML in place of metrics")
    write("json-status/metrics.txt", STATUS, 0, 1, "JSON in place of metrics")
    write(named("empty"), "", 0, 1, "no samples")
    write(named("only-comments"), "\n".join(line for line in lines if line.startswith("#")) + "\n", 0, 1, "no samples")

    # families and series
    i, j = at("apiserver_request_total{"), at("process_cpu_seconds_total ")
    write(named("duplicate-samples"),
          edited(**{f"l{i}": lines[i] + "\n" + lines[i], f"l{i + 1}": lines[i + 1] + "\n" + re.sub(r" \S+$", " 987654", lines[i + 1]),
                    f"l{j}": lines[j] + "\n" + "process_cpu_seconds_total 0"}), whole, 3, "the same series twice")
    i = at("# TYPE apiserver_storage_objects")
    write(named("two-type-lines"), edited(**{f"l{i}": lines[i] + "\n# TYPE apiserver_storage_objects counter"}), whole, 1, "a second # TYPE line")
    i = at("# TYPE process_cpu_seconds_total")
    write(named("type-after-samples"), edited(**{f"l{i}": lines[i + 1], f"l{i + 1}": lines[i]}), whole, 1, "a # TYPE line after samples")

    # bytes
    i = at("apiserver_storage_objects{")
    bad = edited(**{f"l{i + 2}": lines[i + 2].replace('resource="', 'resource="@@'), f"l{i - 2}": lines[i - 2] + " caf@"})
    write(named("invalid-utf8"), bad.encode().replace(b"@@", b"\xff\xfe").replace(b"caf@", b"caf\xe9"), whole - 1, 1, "bytes that are not UTF-8")
    write(named("nul-bytes"), edited(**{f"l{i + 3}": "\0" * 1024 + lines[i + 3]}), whole - 1, 1, "a line that is no sample")

    # lines that are no samples
    def broken(name, *pairs):
        write(named(name), edited(**{f"l{i + n}": new for n, new in enumerate(pairs, 1)}), whole - len(pairs), len(pairs), "a line that is no sample")
    i = at("apiserver_storage_objects{") + 2
    text = edited(**{f"l{i}": lines[i] + "\nE1120 09:21:36.118290      11 wrap.go:54] \"timeout or abort while handling\" method=\"GET\" URI={\"verb\""})
    write(named("garbage-line"), text, whole, 1, "a line that is no sample")
    head = [line.rsplit(" ", 1)[0] for line in lines]
    broken("value-no-number", *(f"{head[i + n]} {value}".rstrip() for n, value in
                                enumerate(["abc", "1.2.3", "12,5", "1_000", "", "1 2 3", "0x", "--1", "1e", "12abc"], 1)))
    broken("unterminated-label", lines[i + 1].replace('"} ', "} "))
    broken("missing-brace", lines[i + 1].replace("} ", " "), lines[i + 2].replace("{", " "), lines[i + 3].replace("{", "{{"),
           lines[i + 4].replace("}", "}}"))
    broken("bad-labels", lines[i + 1].replace("=", ":"), lines[i + 2].replace('"', "'"), lines[i + 3].replace("resource", "res-ource"),
           lines[i + 4].replace("resource", "9resource"), lines[i + 5].replace("{", "{,"), lines[i + 6].replace('"}', '",,}'),
           lines[i + 7].replace('"', ""))
    broken("duplicate-label", lines[i + 1].replace("}", ',resource="other"}'))
    broken("bad-names", "9" + lines[i + 1], lines[i + 2].replace("_", "-"), lines[i + 3].replace("_objects", ".objects"), "{" + lines[i + 4][26:])

    # OpenMetrics
    om = forms.openmetrics(forms.parse(page), TIME)
    count = samples(om)
    write(named("openmetrics-without-eof"), om.removesuffix("# EOF\n"), count, 1, "no # EOF at the end")
    write(named("openmetrics-after-eof"), om + "apiserver_storage_objects{resource=\"after\"} 1\n", count, 1, "something after # EOF")
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


def ungzip(data):
    import zlib
    return zlib.decompressobj(31).decompress(data)


def unzstd(data):
    unpack, out = zstandard.ZstdDecompressor().decompressobj(), b""
    for i in range(0, len(data), 512):
        out += unpack.decompress(data[i:i + 512])
    return out


if __name__ == "__main__":
    main()
