#!/usr/bin/env python3
"""Drive scenarios against the lab and keep captures with a truth file.

usage: drive.py run DIR OUT GROUP [GROUP...]   run groups of scenarios.py, state in DIR, captures in OUT
       drive.py list                           list groups and scenarios
"""
import asyncio
import json
import os
import shutil
import subprocess
import sys
import time

import lab as lablib
from clients import CM, HERE, Attacker, Client, World, attack, deployment, filler, iso
from record import grade, measure, pack, scrape


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
            'apiVersion': 'rbac.authorization.k8s.io/v1', 'kind': 'ClusterRoleBinding',
            'metadata': {'name': 'lab-full'},
            'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'cluster-admin'},
            'subjects': [{'kind': 'Group', 'name': 'lab:full', 'apiGroup': 'rbac.authorization.k8s.io'}]})
        for ns in lablib.NAMESPACES:
            await post('/api/v1/namespaces', {'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {
                'name': ns, 'labels': {'team': f'team-{ns}'}, 'annotations': {'plimsoll.example/owner': f'team-{ns}'}}})
        await asyncio.sleep(4)
        jobs = []
        for ns in lablib.NAMESPACES:
            for k in range(16):
                jobs.append(post(CM.format(ns), {'apiVersion': 'v1', 'kind': 'ConfigMap',
                                                 'metadata': {'name': f'cfg-{k}'},
                                                 'data': {'a': 'x' * 400 * (1 + k % 5)}}))
            for k in range(5):
                jobs.append(post(f'/api/v1/namespaces/{ns}/secrets', {
                    'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': f'sec-{k}'},
                    'stringData': {'a': 'y' * 900}}))
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
        self.w = w = World(lab, g['seed'], g.get('load', 1.0), g.get('relist', False),
                           g.get('probe', 1))
        await self.populate(w)
        self.att = {}
        for s in g['scenarios']:
            if 'prep' in s:
                await s['prep'](self)
        for s in g['scenarios']:
            for k, spec in enumerate(s['attack'] if isinstance(s.get('attack'), list) else
                                     [s['attack']] if 'attack' in s else []):
                own = self.att.setdefault(s['name'], [])
                if spec.get('share'):  # another agent of the first one's account
                    spec = dict(spec, acct=own[0].acct)
                own.append(Attacker(w, dict(spec), 20 + len(self.att) * 3 + k))
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
            json.dump(w.samples, open(f'{self.d}/samples.json', 'w'))
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
        peaks = s.get('peak') if isinstance(s.get('peak'), list) else [s.get('peak')] * len(att)
        stay = [a for a, p in zip(att, peaks) if p is None and 'run' not in s]  # those that keep their base rate
        print(iso(time.time()), s['name'], flush=True)
        t0 = time.time()
        self.note, self.ep = {}, None
        if 'run' in s:
            await s['run'](self, s)
        elif att:
            att = [a for a in att if a not in stay]
            for a, p in zip(att, [p for p in peaks if p is not None]):
                a.rate(p)
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
        truth = {'name': s['name'], 'kind': s['kind'], 'quiet': s.get('quiet', False), 'from': iso(start),
                 'to': iso(end)}
        base, ep = measure(w.samples, start, t0 if not whole_time else t0 + 0.001), measure(w.samples, t0, min(t1, end))
        if whole_time:
            base = measure(w.samples, t0 - 60, t0)
        after = measure(w.samples, t1, end) if not cut else None
        gr, felt = grade(base, ep, s.get('mild', 'surge'))
        who = self.note.get('client', {'user': att[0].user, 'agent': att[0].agent} if att else None)
        e = {'from': iso(t0), 'to': iso(t1) if not cut else None, 'state': 'ongoing' if cut else 'ended',
             'cause': s['kind'], 'client': who, 'instance': s.get('instance'), 'felt': felt, 'grade': gr,
             'how': s['how']}
        if cut:
            e['to'] = iso(end)
        if len(att) > 1:
            e['clients'] = [{'user': a.user, 'agent': a.agent} for a in att]
        if s.get('quiet'):
            truth['episodes'] = [e] if s.get('degraded') or felt else []
            truth['activities'] = [] if s['kind'] == 'baseline' else self.note.get('activities') or \
                [{k: e[k] for k in ('from', 'to', 'client', 'how')}]
            truth['quiet'] = not felt
        else:
            truth['episodes'] = [e]
        truth['client_side'] = {'baseline': base, 'in_episode': ep, 'after': after}
        others = [{'user': a.user, 'agent': a.agent} for n, x in self.att.items() for a in x
                  if n != s['name'] or a in stay]
        truth['innocent'] = [{'user': c.user, 'agent': c.agent} for c in w.clients] + others
        truth['notes'] = ' '.join(x for x in (
            s.get('notes', ''), self.note.get('text', ''),
            f'Group {self.g["name"]}, seed {self.g["seed"]}: scenarios of a group follow one another on one control '
            'plane, so the last minute of one can be the baseline of the next.') if x)
        n = self.lab.o['members']
        etcds = ', '.join(f'etcd-{k}' for k in range(n))
        bundle = f'cluster: lab\nkubernetes_version: v1.36.2\netcd_version: 3.6.8\n' \
            f'instances: [apiserver-0, apiserver-1, {etcds}]\ntime: file names are unix seconds, UTC\n' \
            f't0: {iso(start)}\nend: {iso(end)}\n'
        dst = f"{self.out}{'-scored' if s.get('scored') else ''}/{s['name']}"
        job = json.dumps([self.d, dst, truth, bundle, s.get('every', 10)])
        path = f"{self.d}/pack-{s['name']}.json"
        open(path, 'w').write(job)
        print(' ', gr, felt, 'base', base, 'ep', ep, 'after', after, flush=True)
        packs.append(subprocess.Popen(['nice', '-n', '15', sys.executable, f'{HERE}/drive.py', 'pack', path]))


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
