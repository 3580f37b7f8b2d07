#!/usr/bin/env python3
"""What a cgroup's bytes are, a second time: from docs/commands/memory.md, without a look at the Rust.

usage: memory.py FILE [HOST_BYTES]      FILE has a line '== NAME' before the content of each cgroup file
"""

import json
import sys

sections, name = {}, None
for line in open(sys.argv[1], encoding="utf-8"):
    if line.startswith("== "):
        name = line[3:].strip()
        sections[name] = ""
    elif name is not None:
        sections[name] += line

stat = dict(line.split() for line in sections["memory.stat"].splitlines())
stat = {key: int(value) for key, value in stat.items()}
v1 = "memory.usage_in_bytes" in sections
NO_LIMIT = 1 << 62


def number(file):
    text = sections.get(file, "").strip()
    if not text or text in ("max", "-1") or int(text) >= NO_LIMIT:
        return None
    return int(text)


def field(v2_name, v1_name):
    if not v1:
        return stat.get(v2_name)
    return stat.get("total_" + v1_name, stat.get(v1_name))


usage = number("memory.usage_in_bytes" if v1 else "memory.current")
limits = [number("memory.limit_in_bytes" if v1 else "memory.max"), stat.get("hierarchical_memory_limit")]
limits.append(int(sys.argv[2]) if len(sys.argv) > 2 else None)
for line in sections.get("meminfo", "").splitlines():
    if line.startswith("MemTotal:") and len(sys.argv) <= 2:
        limits.append(int(line.split()[1]) * 1024)
limits = [limit for limit in limits if limit is not None and limit < NO_LIMIT]
limit = min(limits) if limits else None

anon = field("anon", "rss")
file = field("file", "cache")
active = field("active_file", "active_file")
inactive = field("inactive_file", "inactive_file")
busy = (field("file_dirty", "dirty") or 0) + (field("file_writeback", "writeback") or 0)
slab = 0 if v1 else stat.get("slab_reclaimable", 0)
reclaimable = min(max(active + inactive - busy, 0) + slab, usage)
if v1:
    kernel = number("memory.kmem.usage_in_bytes") or 0
else:
    named = ["slab_reclaimable", "slab_unreclaimable", "kernel_stack", "pagetables", "percpu", "vmalloc"]
    kernel = stat.get("kernel", sum(stat.get(name, 0) for name in named)) + stat.get("sock", 0)

print(
    json.dumps(
        {
            "usage": usage,
            "limit": limit,
            "anon": anon,
            "file": file,
            "file_active": active,
            "file_inactive": inactive,
            "shmem": field("shmem", "shmem"),
            "working_set": max(usage - inactive, 0),
            "reclaimable": reclaimable,
            "unreclaimable": usage - reclaimable,
            "headroom": None if limit is None else limit - usage,
            "headroom_with_cache": None if limit is None else limit - usage + reclaimable,
            "unexplained": usage - anon - file - kernel,
        }
    )
)
