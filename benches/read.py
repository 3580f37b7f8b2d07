#!/usr/bin/env python3
"""One read: what a report costs beside the commands that it is made of, what a roll-up costs beside reading the bytes at all, how both grow with
the log, what a step of the terminal UI takes, and what a week in a store does. Prints Markdown tables; exit code 1 where a limit is missed.

    benches/read.py [--runs 7] [report|small|floor|growth|steps|week]...

All commands of a table run in turns; figures are medians, memory is the highest peak RSS. Needs the release build with the example floor, GNU time,
tmux, and 25 GB of disk in target/bench.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLIMSOLL = ROOT / "target/release/plimsoll"
FLOOR = ROOT / "target/release/examples/floor"
PYTHON = ROOT / "target/venv/bin/python"
BENCH = ROOT / "target/bench"
# What is timed is reading: nothing is answered from the cache of roll-ups.
os.environ["PLIMSOLL_CACHE_FROM"] = "1000TB"
missed = []


def limit(what, value, most, unit=""):
    """A cell with a figure and its limit."""
    if value > most:
        missed.append(f"{what}: {value:.2f}{unit}, at most {most}{unit}")
    return f"{value:.2f}{unit} (≤ {most}{unit})"


def run(command):
    """Seconds and peak RSS in MB."""
    memory = BENCH / "read-time.txt"
    start = time.perf_counter()
    with open(BENCH / "read-out.txt", "wb") as out, open(BENCH / "read-err.txt", "wb") as err:
        done = subprocess.run(["/usr/bin/time", "-q", "-o", memory, "-f", "%M", *map(str, command)], stdout=out, stderr=err)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}: {(BENCH / 'read-err.txt').read_text()}")
    return seconds, int(memory.read_text()) * 1024 / 1e6


def turns(commands, runs, before=None):
    """Of each named command the median seconds and the highest peak RSS, of runs in turns."""
    took = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            if before:
                before(name)
            took[name].append(run(command))
    return {name: (statistics.median(s for s, _ in all_), max(m for _, m in all_)) for name, all_ in took.items()}


def made(path, command):
    """A file that is made once."""
    if not path.exists() or path.stat().st_size == 0 or command[0].stat().st_mtime > path.stat().st_mtime:
        part = path.with_name(path.name + ".part")
        subprocess.run([PYTHON, *map(str, command), part], check=True, stdout=subprocess.DEVNULL)
        part.rename(path)
    return path


def log(mode, size):
    return made(BENCH / f"{mode}-{size}.log", [ROOT / "benches/make_logs.py", mode, "--size", size])


def bundle(mode):
    """2 GB of log, 1 GB of etcd, 500 metrics pages, and the sample's heaps, cgroups and objects; its window of a twentieth."""
    audit, database = log(mode, "2GB"), made(BENCH / "etcd-1GB.db", [ROOT / "benches/make_etcd.py", "--size", "1GB"])
    folder = BENCH / f"read-{mode}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "audit/apiserver-0").mkdir(parents=True)
    (folder / "etcd").mkdir()
    os.link(audit, folder / "audit/apiserver-0/audit.log")
    os.link(database, folder / "etcd/after.db")
    for part in ("heap", "cgroup", "objects"):
        shutil.copytree(ROOT / "samples/list-storm" / part, folder / part)
    times = []
    with open(audit, "rb") as file:
        times.append(json.loads(file.readline())["requestReceivedTimestamp"])
        file.seek(-(1 << 20), os.SEEK_END)
        times.append(json.loads(file.read().splitlines()[-1])["requestReceivedTimestamp"])
    first, last = [int(subprocess.run(["date", "-d", at, "+%s"], capture_output=True, text=True, check=True).stdout) for at in times]
    subprocess.run([PYTHON, ROOT / "benches/make_scrapes.py", folder, "--scrapes", "250", "--start", str(first), "--every",
                    str((last - first) // 250)], check=True, stdout=subprocess.DEVNULL)
    (folder / "bundle.yaml").write_text(f"cluster: {mode}\n")
    half = (first + last) // 2
    stamp = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)) for at in (half, half + (last - first) // 20)]
    return folder, stamp


def parts(folder, scratch):
    """The commands that answer what a report holds, each alone."""
    databases = sorted(folder.glob("etcd/*"))
    return {
        "rollup": [PLIMSOLL, "rollup", folder / "audit", "--to", scratch],
        "traffic": [PLIMSOLL, "traffic", folder / "audit", "-o", "json"],
        "traffic --from metrics": [PLIMSOLL, "traffic", folder, "--from", "metrics", "-o", "json"],
        "etcd usage": [PLIMSOLL, "etcd", "usage", databases[0], "-o", "json"],
        "etcd check": [PLIMSOLL, "etcd", "check", databases[0], "-o", "json"],
    }


def report(runs):
    print("| log | `rollup` | `traffic` | `--from metrics` | `etcd usage` | `etcd check` | sum, s | `report`, s | times | peak RSS MB |")
    print("| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |")
    for mode in ("repeat", "fleet"):
        folder, (since, until) = bundle(mode)
        scratch = BENCH / "read-rollup"
        commands = parts(folder, scratch) | {"report": [PLIMSOLL, "report", folder, "-o", "json", "--from", since, "--to", until]}
        took = turns(commands, runs, lambda name: name == "rollup" and shutil.rmtree(scratch, ignore_errors=True))
        own = took.pop("report")
        whole = sum(seconds for seconds, _ in took.values())
        cells = " | ".join(f"{seconds:.2f}" for seconds, _ in took.values())
        times = limit(f"report of {mode}", own[0] / whole, 1.15, " ×")
        print(f"| {mode} | {cells} | {whole:.2f} | {own[0]:.2f} | {times} | {limit(f'report of {mode}', own[1], 600)} |", flush=True)
        shutil.rmtree(folder)
        shutil.rmtree(scratch, ignore_errors=True)


def small(runs):
    folder, scratch = ROOT / "samples/list-storm", BENCH / "read-rollup"
    commands = {name: command for name, command in parts(folder, scratch).items() if name not in ("traffic", "etcd usage", "etcd check")}
    # The report reads each of the capture's databases.
    for database in sorted(folder.glob("etcd/*")):
        commands[f"etcd usage {database.name}"] = [PLIMSOLL, "etcd", "usage", database, "-o", "json"]
    commands["report"] = [PLIMSOLL, "report", folder, "-o", "json"]
    took = turns(commands, runs, lambda name: name == "rollup" and shutil.rmtree(scratch, ignore_errors=True))
    own = took.pop("report")[0]
    whole = sum(seconds for seconds, _ in took.values())
    print("| `samples/list-storm` | " + " | ".join(f"`{name}`" for name in took) + " | sum, s | `report`, s | times |")
    print("| --- |" + " --: |" * (len(took) + 3))
    cells = " | ".join(f"{seconds:.2f}" for seconds, _ in took.values())
    print(f"| | {cells} | {whole:.2f} | {own:.2f} | {limit('report of the sample', own / whole, 1.5, ' ×')} |", flush=True)
    shutil.rmtree(scratch, ignore_errors=True)


def floor(runs):
    print("| log, 1 GB | `floor strings`, s | `rollup` | times | `traffic` | times |")
    print("| --- | --: | --: | --: | --: | --: |")
    for mode, rolled, traffic in (("repeat", 4.2, 1.4), ("fleet", 5.5, 2.2)):
        path, scratch = log(mode, "1GB"), BENCH / "read-rollup"
        took = turns({
            "floor": [FLOOR, "strings", path],
            "rollup": [PLIMSOLL, "rollup", path, "--to", scratch],
            "traffic": [PLIMSOLL, "traffic", path, "--by", "verb,resource,user", "-o", "json"],
        }, runs, lambda name: name == "rollup" and shutil.rmtree(scratch, ignore_errors=True))
        base, own, breakdown = (took[name][0] for name in ("floor", "rollup", "traffic"))
        print(f"| {mode} | {base:.2f} | {own:.2f} | {limit(f'roll-up of {mode}', own / base, rolled, ' ×')} | {breakdown:.2f} | "
              f"{limit(f'traffic of {mode}', breakdown / base, traffic, ' ×')} |", flush=True)
        shutil.rmtree(scratch, ignore_errors=True)


def growth(runs):
    print("| fleet | `rollup`, s | peak RSS MB | `clients`, s | peak RSS MB |")
    print("| --- | --: | --: | --: | --: |")
    scratch, found = BENCH / "read-rollup", {}
    for size in ("1GB", "10GB"):
        path = log("fleet", size)
        found[size] = turns({
            "rollup": [PLIMSOLL, "rollup", path, "--to", scratch],
            "clients": [PLIMSOLL, "clients", path, "-o", "json"],
        }, min(runs, 3), lambda name: name == "rollup" and shutil.rmtree(scratch, ignore_errors=True))
        (a, b), (c, d) = found[size]["rollup"], found[size]["clients"]
        print(f"| {size} | {a:.1f} | {b:.0f} | {c:.1f} | {d:.0f} |", flush=True)
    for name in ("rollup", "clients"):
        times = found["10GB"][name][0] / found["1GB"][name][0]
        print(f"\n`{name}`, 10 GB beside 1 GB: {limit(f'{name} grows', times, 11, ' ×')}, {limit(f'{name} of 10 GB', found['10GB'][name][1], 400)} MB")
    shutil.rmtree(scratch, ignore_errors=True)


class Screen:
    """The terminal UI in tmux."""

    def __init__(self, source):
        self.socket = f"read-{os.getpid()}"
        self.tmux("new-session", "-d", "-x", "200", "-y", "50", f"{PLIMSOLL} tui {source}")

    def tmux(self, *words):
        return subprocess.run(["tmux", "-L", self.socket, "-f", "/dev/null", *words], capture_output=True, text=True).stdout

    def text(self):
        return self.tmux("capture-pane", "-p")

    def settled(self, patience):
        """Waits until nothing is being read and the screen stands still; gives it."""
        end, before, since = time.time() + patience, None, time.time()
        while time.time() < end:
            now = self.text()
            if now != before:
                before, since = now, time.time()
            elif time.time() - since > 1 and "analysing" not in now:
                return now
            time.sleep(0.02)
        sys.exit(f"the screen does not settle:\n{before}")

    def step(self, key):
        """Milliseconds from a key to the last change of the screen within two seconds, and whether it said meanwhile that it is at work."""
        start = time.perf_counter()
        before = last = self.text()
        self.tmux("send-keys", key)
        changed, said = 0.0, False
        while time.perf_counter() - start < 1.5:
            now = self.text()
            if now != last:
                changed, last = time.perf_counter() - start, now
                said |= "analysing" in now
        if last == before:
            sys.exit(f"{key} changed nothing:\n{last}")
        return changed * 1e3, said


def steps(runs):
    path = log("repeat", "2GB")
    screen = Screen(path)
    try:
        screen.settled(120)
        print("| tab, 2 GB of repeat log | ms a step, median of 20 | slowest | it says so |")
        print("| --- | --: | --: | --- |")
        for key, name, most in (("1", "Overview", 100), ("2", "Traffic", 100), ("3", "Clients", 1000), ("9", "Guard", 1000)):
            screen.tmux("send-keys", key)
            screen.settled(60)
            took = [screen.step(",") for _ in range(10)] + [screen.step(".") for _ in range(10)]
            times = sorted(ms for ms, _ in took)
            print(f"| {name} | {limit(f'a step of {name}', statistics.median(times), most, ' ms')} | {times[-1]:.0f} | {any(said for _, said in took)} |", flush=True)
    finally:
        screen.tmux("kill-server")


def week(runs):
    print("| a week of | requests | store, MB | `traffic`, s | MB | `clients`, s | MB | `report` of an hour, s | MB | `clients` of the logs, s |")
    print("| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |")
    for name, how in (("300 clients, 200/s", ["--nodes", "100", "--users", "300", "--rate", "200"]), ("10,000 nodes, 2,000 users", [])):
        hour, store = BENCH / "read-hour.log", BENCH / "read-week"
        subprocess.run([PYTHON, ROOT / "benches/make_logs.py", "fleet", "--size", "100GB", "--seconds", "3500", *how, hour], check=True)
        made_ = subprocess.run([PYTHON, ROOT / "benches/week.py", PLIMSOLL, hour, store], check=True, capture_output=True, text=True)
        facts = json.loads(made_.stdout)
        at = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(facts["first"] // 3600 * 3600 + hours * 3600)) for hours in (50, 51)]
        took = turns({
            "traffic": [PLIMSOLL, "traffic", store, "-o", "json"],
            "clients": [PLIMSOLL, "clients", store, "-o", "json"],
            "report": [PLIMSOLL, "report", store, "--since", at[0], "--until", at[1], "-o", "html"],
            "log": [PLIMSOLL, "clients", hour, "-o", "json"],
        }, min(runs, 5))
        cells = []
        for key, most in (("traffic", 2), ("clients", 2), ("report", 3)):
            seconds, megabytes = took[key]
            cells.append(f"{limit(f'{key} of a week of {name}', seconds, most, ' s')} | {megabytes:.0f}")
        logs = took["log"][0] * 168
        limit(f"clients of a week of {name} beside its logs", took["clients"][0] / logs, 0.1)
        print(f"| {name} | {facts['requests']:,} | {facts['bytes'] / 1e6:.0f} | {' | '.join(cells)} | {logs:.0f} |", flush=True)
        shutil.rmtree(store)
        hour.unlink()


ALL = {"report": report, "small": small, "floor": floor, "growth": growth, "steps": steps, "week": week}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=7)
    arguments.add_argument("tables", nargs="*", choices=[[], *ALL], default=[])
    args = arguments.parse_args()
    BENCH.mkdir(parents=True, exist_ok=True)
    for name in args.tables or ALL:
        print()
        ALL[name](args.runs)
    for what in missed:
        print(f"missed: {what}", file=sys.stderr)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
