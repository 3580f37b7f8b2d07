"""Who should have been told what, and when: written from docs/alerts.md, with zoneinfo for the calendars.

    alerts_model.py scenario SEED        cron runs in time: {"owners", "runs": [{"now", "quotas": {namespace: used}}]}
    alerts_model.py expect < runs        the messages that the runs come to, by run
    alerts_model.py hours < cases        whether each instant is within working hours, and whether the next opening given is right
    alerts_model.py trend < series       Theil and Sen's line through each series, by numpy
"""

import json
import random
import sys
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

HARD = 100
DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
# 2037 has the weekdays and the changes of clocks of 2026, and lies ahead of any clock, as Alertmanager wants for alerts that stand.
OWNERS = {
    "berlin": {"namespaces": ["b-shop", "b-pay", "b-search"], "zone": "Europe/Berlin", "days": [0, 1, 2, 3, 4], "from": 540, "to": 1020,
               "holidays": ["2037-04-03"], "critical_any_time": True, "channels": ["mail", "hook"]},
    "york": {"namespaces": ["y-ads", "y-feed"], "zone": "America/New_York", "days": [0, 1, 2, 3, 4], "from": 510, "to": 1050,
             "holidays": ["2037-11-02"], "critical_any_time": False, "channels": ["mails", "pages"]},
    "ops": {"namespaces": ["monitoring", "kube-extra"], "zone": None, "critical_any_time": True, "channels": ["chat", "pages"]},
    "rest": {"namespaces": ["orphan"], "zone": "UTC", "days": [5, 6], "from": 1320, "to": 360, "holidays": [], "critical_any_time": False,
             "channels": ["mail"]},
}
WEEKS = ["2037-03-06T10:00", "2037-03-27T12:00", "2037-04-02T13:00", "2037-10-23T09:00", "2037-10-30T12:00"]


def open_at(owner, now):
    """Whether it is working time for the owner at this instant, by the clock on the wall."""
    if not owner["zone"]:
        return True
    wall = now.astimezone(ZoneInfo(owner["zone"]))
    minute = wall.hour * 60 + wall.minute

    def works(day):
        return day.weekday() in owner["days"] and day.isoformat() not in owner["holidays"]

    if owner["from"] < owner["to"]:
        return works(wall.date()) and owner["from"] <= minute < owner["to"]
    return (minute >= owner["from"] and works(wall.date())) or (minute < owner["to"] and works(wall.date() - timedelta(days=1)))


def scenario(seed):
    dice = random.Random(seed)
    used = {namespace: 50 for owner in OWNERS.values() for namespace in owner["namespaces"]}
    runs = []
    for week in WEEKS:
        now = datetime.fromisoformat(week).replace(tzinfo=timezone.utc)
        for _ in range(10):
            for namespace in used:
                if dice.random() < 0.45:
                    used[namespace] = dice.choice([10, 60, 77, 79, 80, 85, 90, 93, 94, 95, 99, 100, 104])
            runs.append({"now": now.strftime("%Y-%m-%dT%H:%M:%SZ"), "quotas": dict(used)})
            now += timedelta(minutes=dice.choice([60, 150, 240, 420, 600, 900]))
    return {"owners": OWNERS, "hard": HARD, "runs": runs}


def level(used, before):
    """0 none, 1 warning, 2 critical; falls only two points below a threshold."""
    plain = 2 if used >= 95 else 1 if used >= 80 else 0
    held = 2 if used >= 93 else 1 if used >= 78 else 0
    return max(plain, min(held, before))


def expect(runs):
    memory = {name: {"last": None, "alerts": {}} for name in OWNERS}
    messages = []
    for number, run in enumerate(runs):
        now = datetime.fromisoformat(run["now"])
        for name, owner in OWNERS.items():
            mine = memory[name]
            alerts = mine["alerts"]
            for namespace in owner["namespaces"]:
                used = run["quotas"][namespace]
                known = alerts.get(namespace)
                is_up = known is not None and known["ended"] is None
                found = level(used, known["level"] if is_up else 0)
                if found and known is None:
                    alerts[namespace] = {"level": found, "worst": found, "ended": None, "told": 0, "since": run["now"]}
                elif found:
                    known.update(level=found, worst=max(known["worst"], found), ended=None)
                elif known is not None and known["ended"] is None:
                    known["ended"] = run["now"]
            if not alerts:
                continue
            is_open = open_at(owner, now)
            news = [a for a in alerts.values() if a["worst"] > a["told"]]
            stands = [a for a in alerts.values() if a["ended"] is None]
            presses = owner["critical_any_time"] and any(a["level"] == 2 and a["ended"] is None for a in news)
            reason = None
            if news:
                reason = "news" if is_open or presses else None
            elif is_open and not stands:
                reason = "clear"
            elif is_open and (mine["last"] is None or now - mine["last"] >= timedelta(hours=24)):
                reason = "repeat"
            if reason is None:
                continue
            messages.append({
                "run": number, "owner": name, "reason": reason, "at": run["now"],
                "alerts": sorted([n, a["level"]] for n, a in alerts.items() if a["ended"] is None),
                "over": sorted([n, a["worst"]] for n, a in alerts.items() if a["ended"] is not None),
            })
            mine["last"] = now
            for namespace in [n for n, a in alerts.items() if a["ended"] is not None]:
                del alerts[namespace]
            for a in alerts.values():
                a["told"] = a["worst"] = a["level"]
            if not alerts:
                mine["last"] = None
        # What had neither been told nor stands is gone with the message that says so; an owner without alerts begins anew.
        for mine in memory.values():
            if not mine["alerts"]:
                mine["last"] = None
    standing = {name: {n: a["told"] for n, a in mine["alerts"].items() if a["told"] and a["ended"] is None} for name, mine in memory.items()}
    return {"messages": messages, "standing": standing}


def hours(cases):
    wrong = []
    for case in cases:
        now = datetime.fromtimestamp(case["at"], timezone.utc)
        if open_at(case, now) != case["open"]:
            wrong.append(["open", case])
        if case["next"] is None:
            wrong.append(["never", case])
            continue
        following = datetime.fromtimestamp(case["next"], timezone.utc)
        if not open_at(case, following):
            wrong.append(["closed then", case])
        # Every time is a multiple of a quarter of an hour, and so is every change of clocks.
        at = now
        while at < following:
            if open_at(case, at):
                wrong.append(["earlier", at.isoformat(), case])
                break
            at = datetime.fromtimestamp((int(at.timestamp()) // 900 + 1) * 900, timezone.utc)
    return {"wrong": wrong[:5], "count": len(wrong), "cases": len(cases)}


def trend(cases):
    import numpy as np

    answers = []
    for case in cases:
        days, values = np.array(case["days"], float), np.array(case["values"], float)
        keep = (days < case["today"]) & (days >= case["today"] - 60)
        days, values = days[keep] - case["today"], values[keep]
        if len(days) < 7:
            answers.append(None)
            continue
        first, second = np.triu_indices(len(days), 1)
        slope = np.median((values[second] - values[first]) / (days[second] - days[first]))
        height = np.median(values - slope * days)
        until = (case["limit"] - height) / slope if slope > 0 else np.inf
        answers.append({"per_day": float(slope), "now": float(height), "until": float(max(until, 0.0)) if until <= 365 else None})
    return answers


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "scenario":
        answer = scenario(int(sys.argv[2]))
    else:
        answer = {"expect": expect, "hours": hours, "trend": trend}[what](json.load(sys.stdin))
    json.dump(answer, sys.stdout)
