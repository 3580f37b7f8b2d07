#!/usr/bin/env python3
"""What go tool pprof says of every sample profile, for every sample type, by function and by line: the reference that
`plimsoll heap top` is compared with.

    python3 tests/data/pprof/make.py      at the root of the repository; needs Go and zstd

The file here was made with Go 1.19.8 (Debian's golang-go). It has lines of

    GRANULARITY  NAME  PROFILE  INUSE_SPACE  INUSE_OBJECTS  ALLOC_SPACE  ALLOC_OBJECTS      (tab-separated)

with FLAT,CUM for each sample type, nothing where pprof has no row; the NAME of the total is empty. The command is

    go tool pprof -top -symbolize=none -nodecount=0 -nodefraction=0 -edgefraction=0 -unit=bytes
        -functions|-lines -source_path=/nowhere -trim_path=/nowhere -sample_index=TYPE PROFILE

-unit=bytes, -nodecount=0 and -nodefraction=0 make it print whole numbers and leave nothing out; -source_path and
-trim_path of what is not there keep it from shortening paths by the folder that it is started in. By file there is no
reference: pprof has a row there for each function's first line, not for each file.
"""
import glob
import os
import re
import subprocess

# Profile and filters; the PROFILE of such a line is both.
FILTERED = [
    ("samples/list-storm/heap/heap-1795166606-incident.pb.gz", filters)
    for filters in [
        "-focus=storage/cacher",
        "-ignore=(?i)openapi",
        "-focus=apiserver/pkg/endpoints -ignore=ListResource",
        "-show_from=handlers\\.ListResource",
        "-show_from=json -focus=DeepCopy",
        "-focus=bin/kube-apiserver$",
        "-ignore=bin/kube-apiserver$",
        "-show_from=bin/kube-apiserver$",
        "-focus=cacher/watch_cache.go",
    ]
]
KINDS = ["inuse_space", "inuse_objects", "alloc_space", "alloc_objects"]
ROW = re.compile(r"^ *(\d+)(?:B|bytes)? +\S+ +\S+ +(\d+)(?:B|bytes)? +\S+  (.*?)(?: \((?:partial-)?inline\))?$")


def top(profile, by, kind, filters=()):
    command = ["go", "tool", "pprof", "-top", "-symbolize=none", "-nodecount=0", "-nodefraction=0", "-edgefraction=0",
               "-unit=bytes", f"-{by}", "-source_path=/nowhere", "-trim_path=/nowhere", f"-sample_index={kind}", *filters, profile]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    head, rows = re.split(r"^ *flat +flat% .*\n", text, maxsplit=1, flags=re.M)
    total = re.search(r"of (\d+)(?:B|bytes)? total", head).group(1)
    yield "", total, total
    for row in rows.splitlines():
        flat, cum, name = ROW.match(row).groups()
        yield name, flat, cum


def main():
    found = {}
    for profile in sorted(glob.glob("samples/*/heap/*.pb.gz")):
        for by in ["functions", "lines"]:
            for index, kind in enumerate(KINDS):
                for name, flat, cum in top(profile, by, kind):
                    cells = found.setdefault((by, name, profile), [""] * len(KINDS))
                    assert not cells[index], (by, name, profile)
                    cells[index] = f"{flat},{cum}"
    for profile, filters in FILTERED:
        for index, kind in enumerate(KINDS):
            for name, flat, cum in top(profile, "functions", kind, filters.split()):
                found.setdefault(("functions", name, f"{profile} {filters}"), [""] * len(KINDS))[index] = f"{flat},{cum}"
    lines = ["\t".join((*key, *cells)) for key, cells in sorted(found.items())]
    out = os.path.join(os.path.dirname(__file__), "top.tsv.zst")
    subprocess.run(["zstd", "-19", "-q", "-f", "-o", out], input=("\n".join(lines) + "\n").encode(), check=True)
    print(f"{out}: {len(lines)} lines, {os.path.getsize(out)} bytes")


if __name__ == "__main__":
    main()
