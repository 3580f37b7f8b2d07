"""What is kept of a scenario: metrics pages, audit logs, and what the innocent clients measured."""
import asyncio
import glob
import json
import os
import re
import shutil
import ssl
import subprocess
import time
from datetime import datetime

import aiohttp

import lab as lablib
from clients import PORTS, whole

async def scrape(d, step, members):
    """Keep metrics pages and cgroup files, as Prometheus and a node agent do."""
    ctx = ssl.create_default_context(cafile=f'{d}/pki/ca.crt')
    ctx.check_hostname = False
    hdr = {'Authorization': 'Bearer t-prometheus', 'User-Agent': 'Prometheus/3.5.0',
           'Accept': 'text/plain;version=0.0.4'}
    s = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=ctx), auto_decompress=False, headers=hdr)
    urls = [(f'apiserver-{i}', f'https://127.0.0.1:{PORTS[i]}/metrics') for i in (0, 1)]
    urls += [(f'etcd-{i}', f'http://127.0.0.1:{lablib.ETCD + 100 * i}/metrics') for i in range(members)]

    async def one(inst, url, t):
        try:
            async with s.get(url, timeout=aiohttp.ClientTimeout(total=step - 0.5)) as r:
                b = await r.read()
                if r.status == 200:
                    os.makedirs(f'{d}/cap/{inst}', exist_ok=True)
                    with open(f'{d}/cap/{inst}/{t}.txt', 'wb') as f:
                        f.write(b)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
            pass
    while os.getppid() != 1:
        t = int(time.time())
        await asyncio.sleep(step - t % step + t - time.time() if t % step else 0)
        t = int(time.time())
        for inst, url in urls:
            asyncio.ensure_future(one(inst, url, t))
        for i in (0, 1):
            cg = f'/sys/fs/cgroup/memory/{lablib.CGROUP}/kube-apiserver-{i}'
            out = ''
            for n in ('memory.stat', 'memory.usage_in_bytes', 'memory.limit_in_bytes', 'memory.max_usage_in_bytes',
                      'memory.failcnt', 'memory.oom_control'):
                try:
                    out += f'== {n}\n' + open(f'{cg}/{n}').read()
                except OSError:
                    pass
            if out:
                os.makedirs(f'{d}/cap/cgroup-{i}', exist_ok=True)
                with open(f'{d}/cap/cgroup-{i}/{t}.txt', 'w') as f:
                    f.write(out)
        await asyncio.sleep(1.2)


def pct(v, q):
    return round(sorted(v)[min(len(v) - 1, int(len(v) * q))], 1) if v else None


def measure(samples, a, b):
    part = [s for s in samples if a <= s[0] < b]
    lat = [s[1] for s in part]
    writes = [s for s in samples if a <= s[0] + s[1] / 1000 < b and s[3] != 'GET' and 200 <= s[4] < 300]
    return {'seconds': round(b - a, 1), 'requests': len(part), 'p50_ms': pct(lat, 0.5), 'p99_ms': pct(lat, 0.99),
            'max_ms': pct(lat, 1), 'errors': sum(s[4] == 0 or s[4] >= 500 for s in part),
            'too_many_requests': sum(s[4] == 429 for s in part), 'writes_done_per_s': round(len(writes) / (b - a), 2)}


def grade(base, ep, quiet_grade):
    n = max(1, ep['requests'])
    if ep['writes_done_per_s'] < 0.1 * base['writes_done_per_s'] or ep['errors'] > 0.3 * n:
        return 'outage', True
    b, e = base['p99_ms'] or 0, ep['p99_ms'] or 0
    felt = (e >= 2 * b and e - b >= 100) or ep['errors'] >= 0.01 * n or \
        (ep['too_many_requests'] >= 0.01 * n and ep['too_many_requests'] >= 10)
    return ('incident', True) if felt else (quiet_grade, False)


STAMP = re.compile(rb'"stageTimestamp":"([^"]+)"')


def zst(data, out, level):
    os.makedirs(os.path.dirname(out), exist_ok=True)
    subprocess.run(['zstd', '-q', f'-{level}', '-f', '-o', out], input=data, check=True)


def pack(d, dst, truth, bundle, every):
    """Write one capture: its own time range of logs and pages, bundle.yaml, truth.json."""
    shutil.rmtree(dst, ignore_errors=True)
    os.makedirs(dst)
    a, b = truth['from'], truth['to']
    counts = {'before': {}, 'during': {}, 'after': {}}
    eps = truth['episodes'] or [{'from': x['from'], 'to': x['to']} for x in truth.get('activities', [])] or \
        [{'from': b, 'to': b}]
    e0, e1 = eps[0]['from'], eps[-1]['to']
    for i in (0, 1):
        keep = []
        for f in sorted(glob.glob(f'{d}/audit-{i}/*.log')):
            with open(f, 'rb') as fh:
                for ln in fh:
                    m = STAMP.search(ln)
                    if not m or not a.encode() <= m[1] <= b.encode():
                        continue
                    keep.append(ln)
                    o = json.loads(ln)
                    if o['stage'] == 'ResponseComplete':
                        t = o['requestReceivedTimestamp']
                        ph = 'before' if t < e0 else 'during' if t <= e1 else 'after'
                        key = o['user']['username'] + ' | ' + o.get('userAgent', '').split(' ')[0]
                        counts[ph][key] = counts[ph].get(key, 0) + 1
        zst(b''.join(keep), f'{dst}/audit/apiserver-{i}/audit.log.zst', 19)
    ua, ub = (datetime.fromisoformat(x.replace('Z', '+00:00')).timestamp() for x in (a, b))
    pages = {}
    for inst in sorted(os.listdir(f'{d}/cap')):
        for f in sorted(glob.glob(f'{d}/cap/{inst}/*.txt')):
            t = int(os.path.basename(f)[:-4])
            if not ua <= t <= ub or (every > 10 and t // 10 % (every // 10)):
                continue
            data = whole(open(f, 'rb').read())
            if inst.startswith('cgroup'):
                out = f'{dst}/cgroup/kube-apiserver-{inst[-1]}/{t}.txt'
                os.makedirs(os.path.dirname(out), exist_ok=True)
                open(out, 'wb').write(data)
            else:
                pages.setdefault(inst, []).append(t)
                zst(data, f'{dst}/metrics/{inst}/{t}.txt.zst', 9)
    truth['counts'] = {k: dict(sorted(v.items(), key=lambda x: -x[1])) for k, v in counts.items()}
    truth['pages'] = {k: {'count': len(v), 'missing': [t for t in range(v[0], v[-1], every) if not any(
        abs(t - x) <= 1 for x in v)]} for k, v in pages.items()}
    json.dump(truth, open(f'{dst}/truth.json', 'w'), indent=1)
    open(f'{dst}/bundle.yaml', 'w').write(bundle)
    for f in glob.glob(f'{dst}/**/*.zst', recursive=True):
        subprocess.run(['zstd', '-q', '-t', f], check=True)
