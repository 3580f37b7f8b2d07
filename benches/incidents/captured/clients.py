"""Clients of the lab: innocent ones that measure what they feel, and those whose rate a scenario changes."""
import asyncio
import json
import os
import random
import re
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
        kind = 'REVIEW' if path.endswith('reviews') else method  # reviews write nothing
        try:
            data = None if body is None else body if isinstance(body, (bytes, str)) else json.dumps(body)
            hdr = {'Content-Type': ct} if data is not None else {}
            url = f'https://127.0.0.1:{self.w.bal.port(self.home)}{path}'
            async with self.session().request(method, url, data=data, headers=hdr) as r:
                d = await r.read()
                self.w.sample(t, self.agent, kind, r.status)
                return r.status, d
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
            self.w.sample(t, self.agent, kind, 0)
            await asyncio.sleep(0.3)
            return 0, b''

    async def watch(self, path, rv):
        """Watch until it ends; gives the status and the last resourceVersion."""
        secs = random.randint(280, 560)
        q = f'{path}?watch=true&allowWatchBookmarks=true&resourceVersion={rv}&timeoutSeconds={secs}'
        port = self.w.bal.port(self.home)
        try:
            forever = aiohttp.ClientTimeout(total=None)
            async with self.session().get(f'https://127.0.0.1:{port}{q}', timeout=forever) as r:
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

    def __init__(self, lab, seed, load=1.0, relist=False, probe=1):
        self.lab, self.rnd, self.load = lab, random.Random(seed), load
        self.relist, self.probe = relist, probe
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
            await asyncio.sleep(self.probe)

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
    return {'apiVersion': 'v1', 'kind': 'Event',
            'metadata': {'name': f'{name}.{rnd.getrandbits(60):x}', 'namespace': ns},
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
            ring = spec.get('ring', 1 << 30)
            name = f"{spec['stem']}-{k % ring}"
            o = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': name},
                 'data': {'blob': (blob[s:] + blob[:s]) * spec['kb']}}
            await c.req('POST' if k < ring else 'PUT', CM.format(ns) + ('' if k < ring else f'/{name}'), o)
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
        self.acct = acct = spec.pop('acct', None) or world.accts.pop()
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
