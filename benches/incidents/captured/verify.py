#!/usr/bin/env python3
"""Check captures: archives whole, log within its range, pages at each interval, counts by client recounted.

usage: verify.py CAPTURE...   prints one line a capture; exits 1 if one is wrong
"""
import glob
import json
import os
import re
import subprocess
import sys


def text(path):
    return subprocess.run(['zstd', '-dcq', path], check=True, stdout=subprocess.PIPE).stdout.decode()


def field(line, name):
    m = re.search(f'"{name}":"((?:[^"\\\\]|\\\\.)*)"', line)
    return json.loads(f'"{m[1]}"') if m else ''


def check(d):
    t = json.load(open(f'{d}/truth.json'))
    wrong, n, seen = [], 0, {}
    if t['name'] != os.path.basename(d.rstrip('/')):
        wrong.append('name')
    acts = t['episodes'] or t.get('activities') or [{'from': t['to'], 'to': t['to'], 'client': None}]
    a, b = acts[0]['from'], acts[-1]['to']
    for f in sorted(glob.glob(f'{d}/audit/*/*.zst')):
        for line in text(f).splitlines():
            n += 1
            if not t['from'] <= field(line, 'stageTimestamp') <= t['to']:
                wrong.append('line out of range')
            if '"stage":"ResponseComplete"' not in line:
                continue
            at = field(line, 'requestReceivedTimestamp')
            phase = 'before' if at < a else 'during' if at <= b else 'after'
            key = field(line, 'username') + ' | ' + field(line, 'userAgent').split(' ')[0]
            seen[phase, key] = seen.get((phase, key), 0) + 1
    told = {(p, k): v for p, c in t['counts'].items() for k, v in c.items()}
    if seen != told:
        wrong.append('counts differ: ' + str({k: (seen.get(k), told.get(k)) for k in set(seen) | set(told)
                                              if seen.get(k) != told.get(k)})[:300])
    step = None
    for inst in sorted(os.listdir(f'{d}/metrics')):
        at = sorted(int(x.split('.')[0]) for x in os.listdir(f'{d}/metrics/{inst}'))
        step = step or min(y - x for x, y in zip(at, at[1:]))
        gaps = [f'{inst}: {y - x} s without a page at {x}' for x, y in zip(at, at[1:]) if y - x > step + 2]
        if gaps:
            print('   ', *gaps)
        for x in at:
            page = text(f'{d}/metrics/{inst}/{x}.txt.zst')
            if 'process_start_time_seconds ' not in page:
                wrong.append(f'page {inst} {x}')
    who = ''
    for c in [acts[0].get('client')] + acts[0].get('clients', [])[1:]:
        if c:
            key = c['user'] + ' | ' + c['agent'].split(' ')[0]
            who += ' {}: {} before, {} during;'.format(key, seen.get(('before', key), 0), seen.get(('during', key), 0))
    e = t['episodes'][0] if t['episodes'] else {'grade': 'quiet'}
    print(t['name'], e['grade'], f'{n} lines,', f'pages every {step} s,', who, 'WRONG ' + '; '.join(sorted(set(wrong)))
          if wrong else 'ok')
    return not wrong


if __name__ == '__main__':
    sys.exit(0 if all([check(d) for d in sys.argv[1:]]) else 1)
