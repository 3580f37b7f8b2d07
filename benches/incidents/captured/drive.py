#!/usr/bin/env python3
"""Drive scenarios against the lab and keep captures with a truth file.

usage: drive.py run DIR OUT GROUP [GROUP...]   run groups of scenarios.py, state in DIR, captures in OUT
       drive.py list                           list groups and scenarios
"""
import asyncio
import glob
import json
import os
import random
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
import zlib
from datetime import datetime, timezone

import aiohttp

import lab as lablib

HERE = os.path.dirname(os.path.abspath(__file__))
PORTS = (lablib.API, lablib.API + 1)
RV = re.compile(rb'"resourceVersion":"(\d+)"')
CM = '/api/v1/namespaces/{}/configmaps'


def iso(t):
    return datetime.fromtimestamp(t, timezone.utc).strftime('%Y-%m-%dT%H:%M:%S.%f')[:-3] + 'Z'


def head(data):
    """First bytes of a body that may be packed."""
    return zlib.decompressobj(31).decompress(data, 800) if data[:2] == b'\x1f\x8b' else data[:800]


def whole(data):
    return zlib.decompress(data, 31) if data[:2] == b'\x1f\x8b' else data


class Balance:
    """What a load balancer in front of both apiservers does: sends clients to one that is ready."""
    up = [True, True]
    pin = None

    def port(self, home):
        if self.pin is not None:
            return PORTS[self.pin]
        return PORTS[home if self.up[home] or not self.up[1 - home] else 1 - home]


class Client:
    """Sends requests under one account, one agent and one source address, and measures them."""

    def __init__(self, world, acct, agent, home=0, ip='127.0.0.1'):
        self.w, self.tok, self.user, self.agent, self.home, self.ip = world, acct[0], acct[1], agent, home, ip
        self.ns = acct[2]
        self.s = None

    def session(self):
        if self.s is None:
            conn = aiohttp.TCPConnector(ssl=self.w.ctx, local_addr=(self.ip, 0), limit=80)
            self.s = aiohttp.ClientSession(
                connector=conn, auto_decompress=False, read_bufsize=1 << 23,
                headers={'Authorization': f'Bearer {self.tok}', 'User-Agent': self.agent},
                timeout=aiohttp.ClientTimeout(total=60))
        return self.s

    async def req(self, method, path, body=None, ct='application/json'):
        t = time.time()
        try:
            data = None if body is None else body if isinstance(body, (bytes, str)) else json.dumps(body)
            hdr = {'Content-Type': ct} if data is not None else {}
            url = f'https://127.0.0.1:{self.w.bal.port(self.home)}{path}'
            async with self.session().request(method, url, data=data, headers=hdr) as r:
                d = await r.read()
                self.w.sample(t, self.agent, method, r.status)
                return r.status, d
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
            self.w.sample(t, self.agent, method, 0)
            await asyncio.sleep(0.3)
            return 0, b''

    async def watch(self, path, rv):
        """Watch until it ends; gives the status and the last resourceVersion."""
        secs = random.randint(280, 560)
        q = f'{path}?watch=true&allowWatchBookmarks=true&resourceVersion={rv}&timeoutSeconds={secs}'
        port = self.w.bal.port(self.home)
        try:
            async with self.session().get(f'https://127.0.0.1:{port}{q}', timeout=aiohttp.ClientTimeout(total=None)) as r:
                if r.status != 200:
                    await r.read()
                    return r.status, rv
                while True:
                    line = await r.content.readline()
                    if not line:
                        return 200, rv
                    if b'"type":"ERROR"' in line[:20]:
                        return 410, rv
                    m = RV.search(line)
                    rv = m[1].decode() if m else rv
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError):
            return 0, rv


class World:
    """Innocent clients of one group, and what they measured."""

    def __init__(self, lab, seed, load=1.0, relist=False):
        self.lab, self.rnd, self.load, self.relist = lab, random.Random(seed), load, relist
        self.ctx = ssl.create_default_context(cafile=f'{lab.d}/pki/ca.crt')
        self.ctx.check_hostname = False
        self.bal, self.samples, self.factor, self.tasks, self.clients = Balance(), [], 1.0, [], []
        accts = lablib.accounts()
        self.rnd.shuffle(accts)
        seen, self.accts = set(), []
        for a in accts:
            if a[3] not in seen:
                seen.add(a[3])
                self.accts.append(a)

    def sample(self, t, agent, method, status):
        self.samples.append((t, (time.time() - t) * 1000, agent, method, status))

    def agent(self, name):
        r = self.rnd
        v = f'v{r.randint(0, 4)}.{r.randint(0, 30)}.{r.randint(0, 9)}'
        sha = f'{r.getrandbits(28):07x}'
        return r.choice([f'{name}/{v} (linux/amd64) kubernetes/{sha}', f'{name}/{v} (linux/amd64) kubernetes/$Format',
                         f'{name}/{v} (linux/arm64) kubernetes/{sha}', f'{name}/{v}'])

    def client(self, agent=None, ip=None):
        a = self.accts.pop()
        k = len(self.clients)
        c = Client(self, a, agent or self.agent(a[3]), k % 2, ip or f'127.0.2.{10 + k}')
        self.clients.append(c)
        return c

    def go(self, coro):
        self.tasks.append(asyncio.ensure_future(coro))

    async def pause(self, rate):
        await asyncio.sleep(self.rnd.uniform(0.7, 1.3) / (rate * self.factor * self.load))

    async def informer(self, c, path):
        rv, backoff = None, 1.0
        while True:
            if rv is None:
                st, d = await c.req('GET', f'{path}?resourceVersion=0')
                if st != 200:
                    await asyncio.sleep(backoff * self.rnd.uniform(0.5, 1.5))
                    backoff = min(30, backoff * 2)
                    continue
                m, backoff = RV.search(head(d)), 1.0
                rv = m[1].decode() if m else '0'
            st, rv = await c.watch(path, rv)
            if st == 410 or (self.relist and st == 0):
                rv = None
            await asyncio.sleep(self.rnd.uniform(0.5, 1.5) if st == 200 else self.rnd.uniform(1, 3))

    async def getter(self, c, paths, rate):
        while True:
            await c.req('GET', self.rnd.choice(paths))
            await self.pause(rate)

    async def updater(self, c, path, rate):
        while True:
            st, d = await c.req('GET', path)
            if st == 200:
                o = json.loads(whole(d))
                o.setdefault('data', {})['n'] = str(self.rnd.getrandbits(40))
                await c.req('PUT', path, o)
            elif st != 404:
                await asyncio.sleep(1)
            await self.pause(rate)

    async def leases(self, c, ns, n, secs):
        async def one(k):
            name, rv = f'{c.agent.split("/")[0].lower()[:20]}-{k}', None
            base = f'/apis/coordination.k8s.io/v1/namespaces/{ns}/leases'
            while True:
                now = datetime.now(timezone.utc).strftime('%Y-%m-%dT%H:%M:%S.%fZ')
                o = {'apiVersion': 'coordination.k8s.io/v1', 'kind': 'Lease', 'metadata': {'name': name},
                     'spec': {'holderIdentity': name, 'leaseDurationSeconds': 30, 'renewTime': now}}
                if rv:
                    o['metadata']['resourceVersion'] = rv
                    st, d = await c.req('PUT', f'{base}/{name}', o)
                else:
                    st, d = await c.req('POST', base, o)
                if st in (200, 201):
                    rv = RV.search(d)[1].decode()
                elif st in (404, 409):
                    st, d = await c.req('GET', f'{base}/{name}')
                    rv = RV.search(d)[1].decode() if st == 200 else None
                await self.pause(1 / secs)
        for k in range(n):
            self.go(one(k))
            await asyncio.sleep(0.07)

    async def reviews(self, c, rate):
        o = {'apiVersion': 'authorization.k8s.io/v1', 'kind': 'SubjectAccessReview', 'spec': {
            'user': 'system:serviceaccount:monitoring:prometheus',
            'resourceAttributes': {'verb': 'get', 'resource': 'pods', 'namespace': c.ns}}}
        while True:
            await c.req('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', o)
            await self.pause(rate)

    async def emitter(self, c, ns, rate):
        while True:
            await c.req('POST', f'/api/v1/namespaces/{ns}/events', event(ns, c.agent, self.rnd))
            await self.pause(rate)

    async def balancer(self):
        """Ask both apiservers whether they are ready, as a load balancer does."""
        misses = [0, 0]
        admin = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.ctx, force_close=True))
        while True:
            for i in (0, 1):
                try:
                    async with admin.get(f'https://127.0.0.1:{PORTS[i]}/readyz',
                                         headers={'Authorization': 'Bearer t-bob', 'User-Agent': 'lb-probe'},
                                         timeout=aiohttp.ClientTimeout(total=2)) as r:
                        misses[i] = 0 if r.status == 200 else misses[i] + 2
                except aiohttp.ClientConnectorError:
                    misses[i] += 3
                except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
                    misses[i] += 1
                self.bal.up[i] = misses[i] < 3
            await asyncio.sleep(1)

    async def supervise(self):
        while True:
            self.lab.supervise()
            await asyncio.sleep(3)

    def start(self):
        """At least ten innocent clients; who does what is drawn from the seed."""
        r, nss = self.rnd, lablib.NAMESPACES
        self.go(self.balancer())
        self.go(self.supervise())
        for path in r.sample(['/api/v1/pods', '/api/v1/configmaps', '/apis/apps/v1/deployments', '/api/v1/services',
                              '/api/v1/nodes', '/api/v1/secrets'], 4):
            self.go(self.informer(self.client(), path))
        for _ in range(3):
            ns = r.choice(nss)
            paths = r.choice([[f'/apis/apps/v1/namespaces/{n}/deployments/app-{k}' for n in nss for k in (0, 1)],
                              [f'/api/v1/namespaces/{ns}/configmaps/cfg-{k}' for k in range(8)],
                              [f'/api/v1/namespaces/{ns}/services/svc-{k}' for k in range(3)],
                              [f'/api/v1/namespaces/{ns}/pods/filler-{k}' for k in range(20)]])
            self.go(self.getter(self.client(), paths, r.uniform(2, 4.5)))
        for _ in range(3):
            c = self.client()
            self.go(self.updater(c, CM.format(r.choice(nss)) + f'/cfg-{r.randint(8, 15)}', r.uniform(0.6, 1.6)))
        for _ in range(2):
            ns = r.choice(nss)
            path = r.choice([f'/api/v1/namespaces/{ns}/pods?limit=500', '/apis/apps/v1/replicasets?limit=500',
                             f'/api/v1/namespaces/{ns}/pods?resourceVersion=0', '/apis/apps/v1/deployments?limit=100'])
            self.go(self.getter(self.client(), [path], 1 / 30))
        self.go(self.leases(self.client(), r.choice(nss), r.randint(5, 9), r.uniform(1.6, 3)))
        self.go(self.leases(self.client(), r.choice(nss), r.randint(3, 5), r.uniform(3, 6)))
        self.go(self.reviews(self.client(), r.uniform(0.5, 1.5)))
        self.go(self.emitter(self.client(), r.choice(nss), r.uniform(0.2, 0.6)))

    async def stop(self):
        for t in self.tasks:
            t.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for c in self.clients:
            if c.s:
                await c.s.close()


def event(ns, agent, rnd):
    name = f'pod-{rnd.randint(0, 500)}'
    now = datetime.now(timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ')
    return {'apiVersion': 'v1', 'kind': 'Event', 'metadata': {'name': f'{name}.{rnd.getrandbits(60):x}', 'namespace': ns},
            'involvedObject': {'kind': 'Pod', 'namespace': ns, 'name': name}, 'reason': 'Unhealthy', 'type': 'Warning',
            'message': 'Readiness probe failed: HTTP probe failed with statuscode: 503', 'count': 1,
            'firstTimestamp': now, 'lastTimestamp': now, 'source': {'component': agent.split('/')[0]}}


# ---- a process of its own for each client that changes, so that it does not slow the innocent ones ----

async def attack(spec):
    """One client (maybe from many source addresses); its rate is set by lines on stdin."""
    lab = type('L', (), {'d': spec['dir']})
    w = World.__new__(World)
    w.ctx = ssl.create_default_context(cafile=f"{spec['dir']}/pki/ca.crt")
    w.ctx.check_hostname = False
    w.bal, w.samples, w.rnd, w.lab = Balance(), [], random.Random(spec['seed']), lab
    acct, n = spec['acct'], spec.get('n', 1)
    cs = [Client(w, acct, spec['agent'], i % 2 if spec.get('both', True) else 0,
                 f"127.0.{spec['net']}.{2 + i}") for i in range(n)]
    rate = [spec['base']]
    ns, op, r = spec.get('ns', acct[2]), spec['op'], w.rnd
    busy, k = set(), 0
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def line():
        s = sys.stdin.readline()
        if not s:
            done.set()
        else:
            rate[0] = float(s)
    loop.add_reader(sys.stdin, line)
    blob = ''.join(r.choices('abcdefghijklmnopqrstuvwxyz0123456789', k=1024))

    async def one(c, k):
        if op == 'list':
            await c.req('GET', spec['path'])
        elif op == 'write':
            s = r.randint(0, 900)
            o = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': f"{spec['stem']}-{k}"},
                 'data': {'blob': (blob[s:] + blob[:s]) * spec['kb']}}
            await c.req('POST', CM.format(ns), o)
        elif op == 'events':
            await c.req('POST', f'/api/v1/namespaces/{ns}/events', event(ns, c.agent, r))
        elif op == 'update':
            p = CM.format(ns) + f"/{spec['stem']}"
            st, d = await c.req('GET', p)
            if st == 200:
                o = json.loads(whole(d))
                o.setdefault('data', {})['v'] = str(k)
                await c.req('PUT', p, o)
        elif op == 'overwrite':
            o = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': spec['stem']}, 'data': {'by': c.agent}}
            await c.req('PUT', CM.format(ns) + f"/{spec['stem']}", o)
        elif op == 'review':
            if k % 2:
                await c.req('POST', '/apis/authentication.k8s.io/v1/tokenreviews',
                            {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenReview',
                             'spec': {'token': f't-none-{r.getrandbits(60)}'}})
            else:
                await c.req('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews',
                            {'apiVersion': 'authorization.k8s.io/v1', 'kind': 'SubjectAccessReview', 'spec': {
                                'user': f'user-{r.randint(0, 5000)}', 'resourceAttributes': {
                                    'verb': 'list', 'resource': 'secrets', 'namespace': ns}}})
        elif op == 'crd':
            await c.req('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', crd(spec['stem'], k))

    async def loopy(c):
        """A client that asks again at once when it is throttled."""
        while True:
            if rate[0] <= 0:
                await asyncio.sleep(0.2)
                continue
            st, _ = await c.req('GET', spec['path'])
            await asyncio.sleep(spec.get('gap', 0.02) if st in (429, 0) else 1 / rate[0])
    if op == 'loopy':
        busy |= {asyncio.ensure_future(loopy(c)) for c in cs}
        await done.wait()
    else:
        nxt = time.time()
        while not done.is_set():
            if rate[0] <= 0:
                await asyncio.sleep(0.1)
                nxt = time.time()
                continue
            if len(busy) < spec.get('most', 60):
                t = asyncio.ensure_future(one(cs[k % n], k))
                busy.add(t)
                t.add_done_callback(busy.discard)
                k += 1
            nxt = max(nxt + r.uniform(0.8, 1.2) / rate[0], time.time() - 0.5)
            end = nxt - time.time()
            if end > 0:
                try:
                    await asyncio.wait_for(done.wait(), end)
                except asyncio.TimeoutError:
                    pass
            else:
                await asyncio.sleep(0)
    for t in list(busy):
        t.cancel()


def crd(stem, k):
    kind = f'{stem.capitalize()}{k}'
    props = {f'field{i}': {'type': 'object', 'properties': {f'p{j}': {'type': 'string', 'description': 'x' * 60}
                                                            for j in range(12)}} for i in range(12)}
    return {'apiVersion': 'apiextensions.k8s.io/v1', 'kind': 'CustomResourceDefinition',
            'metadata': {'name': f'{stem}{k}s.{stem}.example.com'},
            'spec': {'group': f'{stem}.example.com', 'scope': 'Namespaced',
                     'names': {'plural': f'{stem}{k}s', 'singular': f'{stem}{k}', 'kind': kind},
                     'versions': [{'name': 'v1', 'served': True, 'storage': True, 'schema': {'openAPIV3Schema': {
                         'type': 'object', 'properties': {'spec': {'type': 'object', 'properties': props}}}}}]}}


class Attacker:
    def __init__(self, world, spec, net):
        acct = world.accts.pop()
        agent = spec.pop('agent', None) or world.agent(acct[3])
        self.user, self.agent, self.base = acct[1], agent, spec['base']
        spec = dict(spec, dir=world.lab.d, acct=acct, agent=agent, net=net, seed=world.rnd.getrandbits(30))
        self.p = subprocess.Popen([sys.executable, f'{HERE}/drive.py', 'attack', json.dumps(spec)],
                                  stdin=subprocess.PIPE, text=True)

    def rate(self, r):
        self.p.stdin.write(f'{r}\n')
        self.p.stdin.flush()

    def stop(self):
        self.p.stdin.close()
        try:
            self.p.wait(3)
        except subprocess.TimeoutExpired:
            self.p.kill()


async def scrape(d, step, members):
    """Keep metrics pages and cgroup files, as Prometheus and a node agent do."""
    ctx = ssl.create_default_context(cafile=f'{d}/pki/ca.crt')
    ctx.check_hostname = False
    hdr = {'Authorization': 'Bearer t-prometheus', 'User-Agent': 'Prometheus/3.5.0', 'Accept': 'text/plain;version=0.0.4'}
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


# ---- truth and packing ----

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


class Run:
    """One group: a control plane, its innocent clients, and scenarios one after the other."""

    def __init__(self, dir, out, g):
        self.d, self.out, self.g = dir, out, g

    async def populate(self, w):
        """Objects that are there before anything is recorded."""
        c = Client(w, ('t-bob', 'bob@example.com', 'web', 'bob'), 'kubectl/v1.35.2 (linux/amd64) kubernetes/a1b2c3d')
        sem = asyncio.Semaphore(12)

        async def post(path, o):
            async with sem:
                st, d = await c.req('POST', path, o)
                if st not in (201, 409):
                    await asyncio.sleep(1)
                    st, d = await c.req('POST', path, o)
                    if st not in (201, 409):
                        print('set-up:', path, st, d[:200], flush=True)
        self.post = post
        self.admin = c
        await post('/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
            'apiVersion': 'rbac.authorization.k8s.io/v1', 'kind': 'ClusterRoleBinding', 'metadata': {'name': 'lab-full'},
            'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'cluster-admin'},
            'subjects': [{'kind': 'Group', 'name': 'lab:full', 'apiGroup': 'rbac.authorization.k8s.io'}]})
        for ns in lablib.NAMESPACES:
            await post('/api/v1/namespaces', {'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {
                'name': ns, 'labels': {'team': f'team-{ns}'}, 'annotations': {'plimsoll.example/owner': f'team-{ns}'}}})
        await asyncio.sleep(4)
        jobs = []
        for ns in lablib.NAMESPACES:
            for k in range(16):
                jobs.append(post(CM.format(ns), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': f'cfg-{k}'},
                                                 'data': {'a': 'x' * 400 * (1 + k % 5)}}))
            for k in range(5):
                jobs.append(post(f'/api/v1/namespaces/{ns}/secrets', {
                    'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': f'sec-{k}'}, 'stringData': {'a': 'y' * 900}}))
            for k in range(3):
                jobs.append(post(f'/api/v1/namespaces/{ns}/services', {
                    'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': f'svc-{k}'},
                    'spec': {'selector': {'app': f'app-{k}'}, 'ports': [{'port': 80}]}}))
            for k in range(2):
                jobs.append(post(f'/apis/apps/v1/namespaces/{ns}/deployments', deployment(f'app-{k}', 2)))
        per = self.g.get('fillers', 900) // len(lablib.NAMESPACES)
        for ns in lablib.NAMESPACES:
            for k in range(per):
                jobs.append(post(f'/api/v1/namespaces/{ns}/pods', filler(f'filler-{k}')))
        await asyncio.gather(*jobs)

    async def run(self):
        g = self.g
        shutil.rmtree(self.d, ignore_errors=True)
        os.makedirs(self.d)
        self.lab = lab = lablib.Lab(self.d, **g.get('lab', {}))
        loop = asyncio.get_running_loop()
        print('up', flush=True)
        await loop.run_in_executor(None, lab.up, g.get('nodes', 12))
        self.w = w = World(lab, g['seed'], g.get('load', 1.0), g.get('relist', False))
        await self.populate(w)
        self.att = {}
        for s in g['scenarios']:
            if 'prep' in s:
                await s['prep'](self)
        for s in g['scenarios']:
            for k, spec in enumerate(s['attack'] if isinstance(s.get('attack'), list) else
                                     [s['attack']] if 'attack' in s else []):
                self.att.setdefault(s['name'], []).append(Attacker(w, dict(spec), 20 + len(self.att) * 3 + k))
        w.start()
        step = 10
        scraper = subprocess.Popen([sys.executable, f'{HERE}/drive.py', 'scrape', self.d, str(step),
                                    str(lab.o['members'])])
        packs = []
        try:
            await asyncio.sleep(g.get('settle', 15))
            begin, prev = time.time(), None
            for i, s in enumerate(g['scenarios']):
                start = begin if prev is None else prev + s.get('skip', 4)
                await asyncio.sleep(max(0, start + s.get('base', 82) - time.time()))
                await self.one(s, start, packs)
                prev = self.ep[1]
        finally:
            scraper.kill()
            for a in sum(self.att.values(), []):
                a.stop()
            await w.stop()
            if self.admin.s:
                await self.admin.s.close()
            await asyncio.get_running_loop().run_in_executor(None, lab.down)
            for p in packs:
                p.wait()

    async def one(self, s, start, packs):
        w, att = self.w, self.att.get(s['name'], [])
        print(iso(time.time()), s['name'], flush=True)
        t0 = time.time()
        self.note, self.ep = {}, None
        if 'run' in s:
            await s['run'](self, s)
        elif att:
            for a in att:
                a.rate(s['peak'])
            await asyncio.sleep(s['secs'])
            for a in att:
                a.rate(a.base)
        else:
            await asyncio.sleep(s['secs'])
        t1 = time.time()
        self.ep = (t0, t1)
        whole_time = s.get('whole', False)
        cut = s.get('cut', False) or whole_time
        if not cut:
            await asyncio.sleep(s.get('after', 80))
        end = time.time() - (1 if cut else 0)
        if whole_time:
            start = t0 + 20
        truth = {'name': s['name'], 'kind': s['kind'], 'quiet': s.get('quiet', False), 'from': iso(start), 'to': iso(end)}
        base, ep = measure(w.samples, start, t0 if not whole_time else t0 + 0.001), measure(w.samples, t0, min(t1, end))
        if whole_time:
            base = measure(w.samples, t0 - 60, t0)
        after = measure(w.samples, t1, end) if not cut else None
        gr, felt = grade(base, ep, s.get('mild', 'surge'))
        who = self.note.get('client', {'user': att[0].user, 'agent': att[0].agent} if att else None)
        e = {'from': iso(t0), 'to': iso(t1) if not cut else None, 'state': 'ongoing' if cut else 'ended',
             'cause': s['kind'], 'client': who, 'instance': s.get('instance'), 'felt': felt, 'grade': gr, 'how': s['how']}
        if cut:
            e['to'] = iso(end)
        if len(att) > 1:
            e['clients'] = [{'user': a.user, 'agent': a.agent} for a in att]
        if s.get('quiet'):
            truth['episodes'] = [e] if s.get('degraded') or felt else []
            truth['activities'] = [] if s['kind'] == 'baseline' else \
                [{k: e[k] for k in ('from', 'to', 'client', 'how')}]
        else:
            truth['episodes'] = [e]
        truth['client_side'] = {'baseline': base, 'in_episode': ep, 'after': after}
        others = [{'user': a.user, 'agent': a.agent} for n, x in self.att.items() if n != s['name'] for a in x]
        truth['innocent'] = [{'user': c.user, 'agent': c.agent} for c in w.clients] + others
        truth['notes'] = ' '.join(x for x in (
            s.get('notes', ''), self.note.get('text', ''),
            f'Group {self.g["name"]}, seed {self.g["seed"]}: scenarios of a group follow one another on one control plane, '
            'so the last minute of one can be the baseline of the next.') if x)
        n = self.lab.o['members']
        bundle = f'cluster: lab\nkubernetes_version: v1.36.2\netcd_version: 3.6.8\ninstances: [apiserver-0, apiserver-1, ' \
            f'{", ".join(f"etcd-{k}" for k in range(n))}]\ntime: file names are unix seconds, UTC\nt0: {iso(start)}\n' \
            f'end: {iso(end)}\n'
        dst = f"{self.out}{'-scored' if s.get('scored') else ''}/{s['name']}"
        job = json.dumps([self.d, dst, truth, bundle, s.get('every', 10)])
        path = f"{self.d}/pack-{s['name']}.json"
        open(path, 'w').write(job)
        print(' ', gr, felt, 'base', base, 'ep', ep, 'after', after, flush=True)
        packs.append(subprocess.Popen(['nice', '-n', '15', sys.executable, f'{HERE}/drive.py', 'pack', path]))


def deployment(name, replicas, image='registry.example/app:1', cpu='50m'):
    return {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': name}, 'spec': {
        'replicas': replicas, 'selector': {'matchLabels': {'app': name}},
        'template': {'metadata': {'labels': {'app': name}}, 'spec': {
            'terminationGracePeriodSeconds': 1, 'tolerations': [{'operator': 'Exists', 'effect': 'NoSchedule'}],
            'containers': [{'name': 'c', 'image': image, 'resources': {'requests': {'cpu': cpu, 'memory': '16Mi'}}}]}}}}


def filler(name):
    return {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name, 'labels': {'app': 'filler'}}, 'spec': {
        'schedulerName': 'none', 'containers': [{'name': 'c', 'image': 'registry.example/filler:1', 'env': [
            {'name': f'SETTING_NUMBER_{i}', 'value': f'some value of a setting {i * 7919}'} for i in range(22)]}]}}


def main():
    cmd = sys.argv[1] if len(sys.argv) > 1 else 'list'
    if cmd == 'attack':
        asyncio.run(attack(json.loads(sys.argv[2])))
    elif cmd == 'scrape':
        asyncio.run(scrape(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    elif cmd == 'pack':
        pack(*json.load(open(sys.argv[2])))
    else:
        from scenarios import GROUPS
        if cmd == 'list':
            for n, g in GROUPS.items():
                print(n, ' '.join(s['name'] for s in g['scenarios']))
        elif cmd == 'run':
            for n in sys.argv[4:]:
                asyncio.run(Run(sys.argv[2], sys.argv[3], dict(GROUPS[n], name=n)).run())
        else:
            sys.exit(__doc__)


if __name__ == '__main__':
    main()
