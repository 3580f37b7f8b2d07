"""The table of scenarios. A group is one control plane with one cast of innocent clients, drawn from its seed."""
import asyncio
import base64
import copy
import json
import os
import signal
import subprocess
import sys
import time

import lab as lablib
from clients import CM, HERE, Client, deployment, filler, iso, whole

PODS, SECRETS = '/api/v1/pods', '/api/v1/secrets'


def loop_call(f, *a):
    return asyncio.get_running_loop().run_in_executor(None, f, *a)


# ---- things that are done in an episode ----

def killed(inst, down):
    async def run(r, s):
        r.lab.kill(f'apiserver-{inst}')
        await asyncio.sleep(down)
        r.lab.apiserver(inst)
        await loop_call(r.lab.ready, inst, 40)
        await asyncio.sleep(5)
    return run


def hung(inst, secs):
    """The process stands still; its connections stay open."""
    async def run(r, s):
        r.lab.kill(f'apiserver-{inst}', signal.SIGSTOP)
        await asyncio.sleep(secs)
        r.lab.kill(f'apiserver-{inst}', signal.SIGCONT)
        await asyncio.sleep(3)
    return run


async def controllers_killed(r, s):
    """They are started again by the supervisor, within 3 s."""
    for name in ('kcm', 'sched'):
        r.lab.kill(name)
    await asyncio.sleep(25)


async def member_killed(r, s):
    r.lab.kill(f"etcd-{s['member']}")
    await asyncio.sleep(s['secs'])
    r.lab.etcd(s['member'])
    await asyncio.sleep(4)


def rolling(delay, gap):
    async def run(r, s):
        for i in (1, 0):
            r.lab.kill(f'apiserver-{i}', signal.SIGTERM)
            await loop_call(r.lab.p[f'apiserver-{i}'].wait, 90)
            await asyncio.sleep(gap)
            r.lab.apiserver(i)
            await loop_call(r.lab.ready, i, 60)
            await asyncio.sleep(delay)
    return run


def etcd_pulses(stop, go, secs):
    async def run(r, s):
        end = time.time() + secs
        while time.time() < end:
            r.lab.kill('etcd-0', signal.SIGSTOP)
            await asyncio.sleep(stop)
            r.lab.kill('etcd-0', signal.SIGCONT)
            await asyncio.sleep(go)
    return run


async def no_leader(r, s):
    for i in (1, 2):
        r.lab.kill(f'etcd-{i}')
    await asyncio.sleep(40)
    for i in (1, 2):
        r.lab.etcd(i)
    await asyncio.sleep(4)


async def load_doubled(r, s):
    r.w.factor = s.get('factor', 2.0)
    await asyncio.sleep(s['secs'])
    r.w.factor = 1.0


async def pinned(r, s):
    r.w.bal.pin, r.w.factor = 0, s['factor']
    await asyncio.sleep(s['secs'])
    r.w.bal.pin, r.w.factor = None, 1.0


def start_webhook(r):
    r.lab.p['webhook'] = subprocess.Popen([sys.executable, f'{HERE}/webhook.py', f'{r.d}/pki', str(lablib.HOOK)],
                                          stdin=subprocess.PIPE, text=True)


async def webhook_up(r, name='guardrails', resources=('configmaps',), policy='Fail', patience=10):
    start_webhook(r)
    ca = base64.b64encode(open(f'{r.d}/pki/ca.crt', 'rb').read()).decode()
    await asyncio.sleep(1.5)
    await r.post('/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations', {
        'apiVersion': 'admissionregistration.k8s.io/v1', 'kind': 'ValidatingWebhookConfiguration',
        'metadata': {'name': name}, 'webhooks': [{
            'name': f'validate.{name}.example.com', 'admissionReviewVersions': ['v1'], 'sideEffects': 'None',
            'failurePolicy': policy, 'timeoutSeconds': patience,
            'clientConfig': {'url': f'https://127.0.0.1:{lablib.HOOK}/validate', 'caBundle': ca},
            'rules': [{'apiGroups': [''], 'apiVersions': ['v1'], 'operations': ['CREATE', 'UPDATE'],
                       'resources': list(resources), 'scope': 'Namespaced'}]}]})


async def wider_webhook_up(r):
    await webhook_up(r, 'pod-signer', ('pods', 'configmaps'))


async def lenient_webhook_up(r):
    await webhook_up(r, 'labeller', ('pods', 'configmaps'), 'Ignore', 3)


async def webhook_slow(r, s):
    p = r.lab.p['webhook']
    p.stdin.write(s.get('delay', '2 4') + '\n')
    p.stdin.flush()
    await asyncio.sleep(s['secs'])
    p.stdin.write('0.004 0.012\n')
    p.stdin.flush()


async def webhook_failing(r, s):
    r.lab.p['webhook'].kill()
    await asyncio.sleep(s['secs'])
    if not s.get('cut'):
        start_webhook(r)
        await asyncio.sleep(1)


async def limits(r):
    """A priority level without a queue for all service accounts."""
    await r.post('/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations', {
        'apiVersion': 'flowcontrol.apiserver.k8s.io/v1', 'kind': 'PriorityLevelConfiguration',
        'metadata': {'name': 'tenants'}, 'spec': {'type': 'Limited', 'limited': {
            'nominalConcurrencyShares': 12, 'lendablePercent': 0, 'borrowingLimitPercent': 0,
            'limitResponse': {'type': 'Reject'}}}})
    await r.post('/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas', {
        'apiVersion': 'flowcontrol.apiserver.k8s.io/v1', 'kind': 'FlowSchema', 'metadata': {'name': 'tenants'},
        'spec': {'priorityLevelConfiguration': {'name': 'tenants'}, 'matchingPrecedence': 950,
                 'distinguisherMethod': {'type': 'ByUser'}, 'rules': [{
                     'subjects': [{'kind': 'Group', 'group': {'name': 'system:serviceaccounts'}}],
                     'resourceRules': [{'verbs': ['*'], 'apiGroups': ['*'], 'resources': ['*'], 'namespaces': ['*'],
                                        'clusterScope': True}]}]}})


async def shared_object(r):
    await r.post(CM.format('data'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'shared'}})


async def big_namespace(r):
    await r.post('/api/v1/namespaces', {'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'old-shop'}})
    await asyncio.sleep(3)
    await asyncio.gather(*[r.post(CM.format('old-shop'), {
        'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': f'item-{k}'}, 'data': {'a': 'z' * 700}})
        for k in range(700)])
    await asyncio.gather(*[r.post('/api/v1/namespaces/old-shop/pods', filler(f'worker-{k}')) for k in range(300)])


async def many_secrets(r):
    await asyncio.gather(*[r.post(f'/api/v1/namespaces/{ns}/secrets', {
        'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': f'token-{k}'}, 'stringData': {'a': 'k' * 900}})
        for ns in lablib.NAMESPACES for k in range(200)])


async def delete_namespace(r, s):
    c = person(r, 'carol', 'kubectl/v1.34.2 (darwin/arm64) kubernetes/8cc511e')
    r.note['client'] = {'user': c.user, 'agent': c.agent}
    await c.req('DELETE', '/api/v1/namespaces/old-shop')
    end = time.time() + 100
    while time.time() < end:
        st, _ = await c.req('GET', '/api/v1/namespaces/old-shop')
        if st == 404:
            break
        await asyncio.sleep(2)
    r.note['text'] = f'the namespace was gone after {100 - (end - time.time()):.0f} s.'
    await c.s.close()


async def daemonset(r):
    t = deployment('node-exporter', 1)['spec']['template']
    await r.post('/apis/apps/v1/namespaces/infra/daemonsets', {
        'apiVersion': 'apps/v1', 'kind': 'DaemonSet', 'metadata': {'name': 'node-exporter'}, 'spec': {
            'selector': {'matchLabels': {'app': 'node-exporter'}}, 'template': t,
            'updateStrategy': {'type': 'RollingUpdate', 'rollingUpdate': {'maxUnavailable': '100%'}}}})


def person(r, token, agent):
    return Client(r.w, (f't-{token}', f'{token}@example.com', 'web', token), agent)


async def roll_daemonset(r, s):
    c = person(r, 'dmitri', 'helm/v3.18.4')
    r.note['client'] = {'user': c.user, 'agent': c.agent}
    for k in range(s['times']):
        p = {'spec': {'template': {'spec': {'containers': [{'name': 'c', 'image': f'registry.example/app:{k + 2}'}]}}}}
        await c.req('PATCH', '/apis/apps/v1/namespaces/infra/daemonsets/node-exporter', json.dumps(p),
                    'application/strategic-merge-patch+json')
        await asyncio.sleep(s['secs'] / s['times'])
    await c.s.close()


async def roll_deployment(r, s):
    c = person(r, 'alice', 'kubectl/v1.35.0 (linux/amd64) kubernetes/19ad7c4')
    r.note['client'] = {'user': c.user, 'agent': c.agent}
    p = {'spec': {'template': {'spec': {'containers': [{'name': 'c', 'image': 'registry.example/app:2'}]}}}}
    path = '/apis/apps/v1/namespaces/web/deployments/shop-front'
    await c.req('PATCH', path, json.dumps(p), 'application/strategic-merge-patch+json')
    end = time.time() + 110
    while time.time() < end:
        await asyncio.sleep(3)
        st, d = await c.req('GET', path)
        o = json.loads(d) if st == 200 and d[:1] == b'{' else {}
        if o.get('status', {}).get('updatedReplicas') == 200 and o['status'].get('availableReplicas', 0) >= 195:
            break
    r.note['text'] = f"at its end {o.get('status', {}).get('updatedReplicas')} of 200 replicas were updated."
    await c.s.close()


async def big_deployment(r):
    await r.post('/apis/apps/v1/namespaces/web/deployments', deployment('shop-front', 200, cpu='1m'))
    await asyncio.sleep(60)


async def nodes_lost(r, s):
    names = [f'hollow-{i:03}' for i in s['nodes']]
    for n in names:
        r.lab.kill(n, signal.SIGSTOP)
    await asyncio.sleep(s['secs'])
    for n in names:
        r.lab.kill(n, signal.SIGCONT)
    await asyncio.sleep(15)


async def more_nodes(r, s):
    for i in s['nodes']:
        r.lab.hollow(i)
        await asyncio.sleep(1.5)
    await asyncio.sleep(25)


async def backup(r, s):
    c = Client(r.w, r.w.accts.pop(), 'velero-server/v1.16.1 (linux/amd64) 48cc5fea')
    r.note['client'] = {'user': c.user, 'agent': c.agent}
    for path in ('/api/v1/namespaces', PODS, '/api/v1/configmaps', '/api/v1/secrets', '/api/v1/services',
                 '/apis/apps/v1/deployments', '/apis/apps/v1/replicasets', '/apis/apps/v1/daemonsets',
                 '/apis/batch/v1/jobs', '/api/v1/serviceaccounts', '/apis/rbac.authorization.k8s.io/v1/clusterroles',
                 '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', '/api/v1/nodes', '/api/v1/endpoints',
                 '/apis/discovery.k8s.io/v1/endpointslices', '/api/v1/events',
                 '/apis/storage.k8s.io/v1/storageclasses'):
        tok = ''
        while True:
            st, d = await c.req('GET', f'{path}?limit=100' + (f'&continue={tok}' if tok else ''))
            if st != 200:
                break
            tok = json.loads(whole(d))['metadata'].get('continue', '')
            await asyncio.sleep(s['rest'])
            if not tok:
                break
    await c.s.close()


async def cron(r, s):
    c = Client(r.w, r.w.accts.pop(), r.w.agent('batch-scheduler'))
    r.note['client'] = {'user': c.user, 'agent': c.agent}
    for burst in range(s['bursts']):
        t = time.time()
        names = [f'report-{burst}-{k}' for k in range(20)]
        base = '/apis/batch/v1/namespaces/batch/jobs'
        for n in names:
            tpl = deployment(n, 1, cpu='5m')['spec']['template']
            tpl['spec']['restartPolicy'] = 'Never'
            await c.req('POST', base, {'apiVersion': 'batch/v1', 'kind': 'Job', 'metadata': {'name': n},
                                       'spec': {'template': tpl}})
        await asyncio.sleep(18)
        for n in names:
            await c.req('DELETE', f'{base}/{n}?propagationPolicy=Background')
        if burst + 1 < s['bursts']:
            await asyncio.sleep(max(0, 60 - (time.time() - t)))
    await c.s.close()


async def human(r, s):
    who = s.get('who', 'alice')
    k = r.lab.kubeconfig(who, lablib.API + 1, f't-{who}')
    await r.post(CM.format('web'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'note'}})
    with open(f'{r.d}/note.yaml', 'w') as f:
        f.write('apiVersion: v1\nkind: ConfigMap\nmetadata: {name: note, namespace: web}\ndata: {a: "1"}\n')
    rnd = r.w.rnd
    end = time.time() + s['secs']
    kube = os.environ.get('KUBECTL', f'{lablib.BIN}/kubectl')
    r.note['client'] = {'user': f'{who}@example.com', 'agent': 'kubectl'}
    while time.time() < end:
        args = rnd.choice(['get pods -n web', 'get nodes', 'get pods -A -l app=app-0',
                           'describe deployment app-0 -n web', 'get events -n web', 'logs deployment/app-1 -n web',
                           f'apply -f {r.d}/note.yaml',
                           'get deployments -A', 'describe node hollow-001', 'rollout status deployment/app-0 -n web'])
        p = await asyncio.create_subprocess_exec(kube, f'--kubeconfig={k}', *args.split(), stdout=subprocess.DEVNULL,
                                                 stderr=subprocess.DEVNULL, env={'HOME': r.d, 'PATH': '/usr/bin'})
        try:
            await asyncio.wait_for(p.wait(), 15)
        except asyncio.TimeoutError:
            p.kill()
        await asyncio.sleep(rnd.uniform(1, 7))


def mixed(*parts):
    """Activities that overlap: (seconds after the start, what is done, its knobs)."""
    async def one(r, wait, f, s):
        await asyncio.sleep(wait)
        own = copy.copy(r)
        own.note, t = {}, time.time()
        await f(own, s)
        return {'from': iso(t), 'to': iso(time.time()), 'client': own.note.get('client'), 'how': s['how']}

    async def run(r, s):
        r.note['activities'] = await asyncio.gather(*[one(r, *p) for p in parts])
    return run


async def memory_limited(r, s):
    cg = f'/sys/fs/cgroup/memory/{lablib.CGROUP}/kube-apiserver-0'
    use = int(open(f'{cg}/memory.usage_in_bytes').read())
    limit = use + s['spare'] * 1048576
    open(f'{cg}/memory.limit_in_bytes', 'w').write(str(limit))
    r.note['text'] = f'limit {limit >> 20} MiB, {use >> 20} MiB used when it was set.'
    for a in r.att[s['name']]:
        a.rate(s['peak'])
    end, deaths = time.time() + s['secs'], 0
    while time.time() < end:
        if r.lab.p['apiserver-0'].poll() is not None:
            deaths += 1
            await asyncio.sleep(3)
            r.lab.apiserver(0)
            await loop_call(r.lab.ready, 0, 15)
        await asyncio.sleep(0.5)
    for a in r.att[s['name']]:
        a.rate(a.base)
    open(f'{cg}/memory.limit_in_bytes', 'w').write('-1')
    if r.lab.p['apiserver-0'].poll() is not None:
        r.lab.apiserver(0)
    r.note['text'] += f" The kernel killed the apiserver {'once' if deaths == 1 else f'{deaths} times'}."


def sc(name, kind, how, **k):
    return dict(name=name, kind=kind, how=how, **k)


def storm(name, n, low, high, secs, **k):
    return sc(name, 'list-storm', f'one service account on {n} source addresses raises LIST of all pods without '
              f'resourceVersion from {low}/s to {high}/s asked, for {secs} s', secs=secs, peak=high,
              attack=dict(op='list', n=n, base=low, path=PODS, most=k.pop('most', 60)), **k)


FAST = dict(api='--default-not-ready-toleration-seconds=8 --default-unreachable-toleration-seconds=8',
            kcm='--node-monitor-grace-period=22s --node-monitor-period=2s')
ROLL = dict(api='--shutdown-delay-duration=8s --shutdown-send-retry-after=true')

GROUPS = {
    'a': dict(seed=101, load=1.1, scenarios=[
        storm('list-storm-light', 24, 0.5, 15, 50),
        sc('event-flood', 'event-flood',
           'one controller creates 300 Events a second (asked) for 45 s', secs=45, peak=300,
           attack=dict(op='events', base=0.5)),
        sc('apiserver-killed', 'apiserver-restart', 'SIGKILL of apiserver-0, started again 25 s later',
           run=killed(0, 25), instance='apiserver-0', mild='degraded'),
    ]),
    'a2': dict(seed=111, load=1.3, fillers=2800, scenarios=[
        storm('list-storm', 30, 0.5, 25, 55, most=120),
    ]),
    'b': dict(seed=202, load=1.22, scenarios=[
        sc('etcd-stalled', 'store-slow',
           'etcd stopped for 2 s and run for 1 s, 60 s long', run=etcd_pulses(2, 1, 60),
           instance='etcd-0', mild='degraded'),
        sc('etcd-slow-disk', 'store-slow', 'etcd stopped for 300 ms in each second, 60 s long',
           run=etcd_pulses(0.3, 0.7, 60), instance='etcd-0', mild='degraded'),
        sc('write-storm', 'write-storm',
           'one client writes 80 ConfigMaps of 250 KiB a second (asked) for 40 s', secs=40,
           peak=80, attack=dict(op='write', base=0.1, kb=250, stem='chunk', ring=300, most=100)),
    ]),
    'w': dict(seed=303, load=1.35, scenarios=[
        sc('webhook-slow', 'webhook-slow',
           'the validating webhook of configmaps answers after 2 to 4 s instead of 10 ms',
           prep=webhook_up, run=webhook_slow, secs=60),
        sc('webhook-failing', 'webhook-failing',
           'the webhook of configmaps (failurePolicy Fail) refuses connections',
           run=webhook_failing, secs=45),
        sc('hot-loop', 'hot-loop',
           'two replicas of one controller get and update the same ConfigMap, 60 times a second '
           'each (asked), many conflicts', secs=50, peak=60, attack=[
               dict(op='update', n=2, base=0.3, stem='cfg-3', ns='platform', most=12)]),
    ]),
    'c': dict(seed=404, load=1.35, scenarios=[
        sc('load-doubled', 'load-surge', 'every client doubles its rate for 90 s', run=load_doubled, secs=90),
        sc('one-apiserver', 'imbalance',
           'the balancer sends all clients to apiserver-0, at 3 times their rate, for 60 s',
           run=pinned, factor=3.0, secs=60, instance='apiserver-0'),
    ]),
    'd': dict(seed=505, load=1.35, lab=dict(inflight=24, mutating=12), scenarios=[
        sc('retry-storm', 'retry-storm',
           '40 workers of one service account LIST pods in pages of 100; they ask again 100 ms after a '
           '429; the priority level has few seats and no queue', prep=limits, secs=50, peak=8,
           attack=dict(op='loopy', n=40, base=0.02, path=PODS + '?limit=100', gap=0.1)),
    ]),
    'd2': dict(seed=515, load=1.2, scenarios=[
        sc('alternating-writers', 'alternating-writers',
           'two clients overwrite the same ConfigMap in turns, 8 times a '
           'second each, without resourceVersion, so without conflicts', prep=shared_object, secs=60, peak=8, attack=[
               dict(op='overwrite', base=0.05, stem='shared', ns='data'),
               dict(op='overwrite', base=0.05, stem='shared', ns='data')]),
    ]),
    'e': dict(seed=606, load=1.08, lab=FAST, nodes=14, scenarios=[
        sc('quiet-cron', 'cron',
           '20 Jobs created and deleted 18 s later, each minute', quiet=True, run=cron, bursts=2),
        sc('review-flood', 'review-flood',
           'one client posts 150 TokenReviews and SubjectAccessReviews a second (asked)',
           secs=45, peak=150, attack=dict(op='review', base=1)),
        sc('namespace-deletion', 'namespace-deletion',
           'a person deletes a namespace with 700 ConfigMaps and 300 pods',
           prep=big_namespace, run=delete_namespace),
        sc('daemonset-rollout', 'rollout',
           'a DaemonSet on all nodes gets 5 new images within 50 s, maxUnavailable 100 %',
           prep=daemonset, run=roll_daemonset, times=5, secs=50),
        sc('nodes-notready', 'nodes-notready',
           '6 of 14 kubelets stopped for 60 s; grace 22 s, eviction after 8 s more',
           run=nodes_lost, nodes=[3, 4, 6, 7, 9, 10], secs=60,
           mild='degraded'),
    ]),
    'f': dict(seed=707, load=1.35, lab=dict(members=3), scenarios=[
        sc('etcd-no-leader', 'store-down',
           'two of three etcd members killed, back after 40 s', run=no_leader, instance=None),
    ]),
    'i': dict(seed=1010, load=1.22, settle=75, fillers=2800, scenarios=[
        storm('list-storm-throughout', 16, 0.4, 9, 225, most=60, base=0, whole=True, every=20,
              notes='The storm began 20 s before the record and runs on after it; the baseline in client_side lies '
              'before the record.'),
    ]),
    'u': dict(seed=1515, load=1.1, fillers=2800, scenarios=[
        storm('list-storm-ongoing', 20, 0.4, 10, 165, most=60, cut=True, every=20),
    ]),
    'q': dict(seed=1111, load=1.49, nodes=14, lab=ROLL, scenarios=[
        sc('quiet-backup', 'backup',
           'a backup LISTs 17 resources once, in pages of 100', quiet=True, run=backup, rest=1.2),
        sc('quiet-kubectl', 'human', 'a person works with kubectl for 60 s', quiet=True, run=human, secs=60),
        sc('quiet-scale-up', 'scale-up', '10 nodes join within 15 s', quiet=True, run=more_nodes,
           nodes=list(range(30, 40))),
        sc('quiet-rolling-update', 'apiserver-restart',
           'apiserver-1, then apiserver-0: drained for 8 s, stopped, started',
           quiet=True, degraded=True, run=rolling(15, 1), mild='degraded'),
    ]),
    'r': dict(seed=1212, load=1.08, relist=True, scenarios=[
        sc('deployment-rollout', 'rollout',
           'a Deployment of 200 pods gets a new image', prep=big_deployment, run=roll_deployment,
           every=20),
    ]),
    'm': dict(seed=1222, load=1.08, relist=True, scenarios=[
        sc('memory-pressure', 'memory-pressure',
           'the memory limit of apiserver-0 is set 45 MiB above its use while one '
           'client LISTs pods 14 times a second (asked)', run=memory_limited, spare=45, peak=14, secs=45,
           instance='apiserver-0', mild='degraded', every=20,
           attack=dict(op='list', n=6, base=0.2, path=PODS, most=40)),
    ]),
    't': dict(seed=1414, load=1.1, relist=True, settle=8, scenarios=[
        sc('rolling-restart', 'apiserver-restart',
           'both apiservers stopped with SIGTERM and started one after the other, not drained; '
           'each waits 60 s for its open connections before it ends', run=rolling(8, 3), mild='degraded',
           every=20),
        sc('crd-storm', 'crd-storm',
           'one client creates 150 CustomResourceDefinitions, 5 a second', secs=30, peak=5, every=20,
           attack=dict(op='crd', base=0, stem='widget')),
    ]),
    'p': dict(seed=1313, load=1.62, scenarios=[
        sc('quiet-baseline', 'baseline', 'nothing', quiet=True, base=150, secs=1, after=149),
    ]),
    's': dict(seed=9001, load=1.01, probe=6, fillers=2600, scenarios=[
        storm('s-list-storm', 40, 0.8, 14, 70, base=95, most=120, scored=True),
        sc('s-write-storm', 'write-storm',
           'one client writes 60 ConfigMaps of 350 KiB a second (asked) for 50 s', secs=50,
           peak=60, attack=dict(op='write', base=0.3, kb=350, stem='shard', ring=200, most=100), scored=True),
        sc('s-etcd-stalled', 'store-slow',
           'etcd stopped for 20 s', run=etcd_pulses(20, 1, 15), instance='etcd-0',
           mild='degraded', scored=True),
        sc('s-apiserver-killed', 'apiserver-restart', 'SIGKILL of apiserver-1, started again 35 s later',
           run=killed(1, 35), instance='apiserver-1', mild='degraded', scored=True, every=30, after=100),
    ]),
    # A second set to score on; nothing is tuned on it.
    'sa': dict(seed=2101, load=0.92, probe=3, nodes=10, fillers=1100, scenarios=[
        sc('s2-etcd-stopped', 'store-slow', 'etcd stopped for 12 s', run=etcd_pulses(12, 1, 5), instance='etcd-0',
           mild='degraded', scored=True, every=20, base=75, after=95),
        sc('s2-apiserver-killed', 'apiserver-restart', 'SIGKILL of apiserver-0, started again 15 s later',
           run=killed(0, 15), instance='apiserver-0', mild='degraded', scored=True, every=20, base=110, after=65),
        sc('s2-load-doubled', 'load-surge', 'every client doubles its rate for 120 s', run=load_doubled, secs=120,
           scored=True, every=40, base=90, after=70),
    ]),
    'sb': dict(seed=2202, load=1.15, nodes=11, scenarios=[
        sc('s2-webhook-slow', 'webhook-slow',
           'the validating webhook of pods and configmaps answers after 600 ms instead of 10 ms',
           prep=wider_webhook_up, run=webhook_slow, delay='0.58 0.62', secs=75, scored=True, every=20, base=70,
           after=120),
        sc('s2-webhook-failing', 'webhook-failing',
           'the webhook of pods and configmaps (failurePolicy Fail) refuses connections; the record ends before it '
           'is back', run=webhook_failing, secs=50, cut=True, scored=True, every=20, base=125),
    ]),
    'sc': dict(seed=2303, load=1.0, nodes=13, fillers=1000, scenarios=[
        sc('s2-quiet-mixed', 'mixed',
           'a person works with kubectl, a backup runs, Jobs are created and deleted', quiet=True, scored=True,
           every=30, base=60, after=65, run=mixed(
               (0, human, dict(who='carol', secs=45, how='a person works with kubectl for 45 s')),
               (15, backup, dict(rest=0.5, how='a backup LISTs 17 resources once, in pages of 100')),
               (35, cron, dict(bursts=2, how='20 Jobs created and deleted 18 s later, each minute')))),
        sc('s2-hot-loop', 'hot-loop',
           'one client gets and updates the same ConfigMap, 90 times a second (asked)', secs=65, peak=90,
           attack=dict(op='update', n=1, base=0.4, stem='cfg-5', ns='gateway', most=10), scored=True, every=20, base=80,
           after=75),
        sc('s2-write-storm', 'write-storm',
           'one client writes 60 ConfigMaps of 2 KiB a second (asked) for 35 s', secs=35, peak=60,
           attack=dict(op='write', base=0.2, kb=2, stem='state', ring=400, most=60), scored=True, every=20, base=95,
           after=100),
    ]),
    'sd': dict(seed=2404, load=1.25, nodes=9, lab=dict(inflight=24, mutating=12), scenarios=[
        sc('s2-retry-storm', 'retry-storm',
           '28 workers of one service account LIST configmaps in pages of 200; they ask again 250 ms after a 429; '
           'the priority level has few seats and no queue', prep=limits, secs=40, peak=5,
           attack=dict(op='loopy', n=28, base=0.03, path='/api/v1/configmaps?limit=200', gap=0.25), scored=True,
           every=30, base=65, after=110),
    ]),
    'se': dict(seed=2505, load=0.97, nodes=12, fillers=2000, scenarios=[
        sc('s2-list-secrets', 'list-storm',
           'three agents of one service account LIST all secrets; one of them goes from 1.3/s to 3.9/s (3 times) for '
           '80 s', prep=many_secrets, secs=80, peak=[3.9, None, None], attack=[
               dict(op='list', n=3, base=1.3, path=SECRETS, agent='vault-agent/v1.18.2 (linux/amd64)'),
               dict(op='list', n=3, base=1.3, path=SECRETS, agent='secret-sync/v0.9.4', share=True),
               dict(op='list', n=3, base=1.3, path=SECRETS, agent='Go-http-client/2.0', share=True)], scored=True,
           every=20, base=100, after=60),
        sc('s2-two-list-storms', 'list-storm',
           'two clients raise LIST of all pods without resourceVersion from 0.3/s each, one to 8/s, the other to 4/s '
           '(asked), for 45 s', secs=45, peak=[8, 4], attack=[
               dict(op='list', n=10, base=0.3, path=PODS, most=60),
               dict(op='list', n=10, base=0.3, path=PODS, most=30)], scored=True, every=30, skip=10, base=70, after=90),
    ]),
    # A third set to score on: kinds and forms that the others do not have.
    'ta': dict(seed=3101, load=0.9, nodes=8, fillers=1500, scenarios=[
        sc('s3-apiserver-hung', 'apiserver-hung', 'apiserver-1 stopped (SIGSTOP) for 25 s, its connections stay open',
           run=hung(1, 25), instance='apiserver-1', mild='degraded', scored=True, every=20, base=75, after=80),
        sc('s3-get-flood', 'request-flood',
           'one client GETs the same ConfigMap 250 times a second (asked) for 45 s', secs=45, peak=250,
           attack=dict(op='list', n=3, base=1, path='/api/v1/namespaces/web/configmaps/cfg-1', most=60), scored=True,
           every=20, base=70, after=65),
    ]),
    'tb': dict(seed=3202, load=1.1, nodes=10, fillers=2400, scenarios=[
        sc('s3-webhook-hanging', 'webhook-slow',
           'the webhook of pods and configmaps (failurePolicy Ignore, 3 s) answers no more: requests are let through '
           'after 3 s', prep=lenient_webhook_up, run=webhook_slow, delay='30 30', secs=50, scored=True, every=20,
           base=70, after=80),
        sc('s3-list-selector', 'list-storm',
           'one client LISTs pods by label from the watch cache, 0.2 times a second, then 12 times (asked) for 60 s',
           secs=60, peak=12, attack=dict(
               op='list', n=1, base=0.2, path=PODS + '?labelSelector=app%3Dfiller&resourceVersion=0', most=30),
           scored=True, every=20, base=75, after=70),
    ]),
    'tc': dict(seed=3303, load=1.3, nodes=12, scenarios=[
        sc('s3-quiet-controllers', 'controllers-restarted',
           'controller-manager and scheduler killed, started again within 3 s', quiet=True, run=controllers_killed,
           scored=True, every=20, base=70, after=60),
        sc('s3-quiet-nodes', 'mixed', 'nodes join while a person works with kubectl and Jobs are created', quiet=True,
           scored=True, every=20, base=60, after=60, run=mixed(
               (0, human, dict(who='alice', secs=50, how='a person works with kubectl for 50 s')),
               (10, more_nodes, dict(nodes=list(range(40, 46)), how='6 nodes join within 9 s')),
               (20, cron, dict(bursts=1, how='20 Jobs created and deleted 18 s later')))),
    ]),
    'td': dict(seed=3404, load=1.0, nodes=9, lab=dict(members=3), scenarios=[
        sc('s3-member-killed', 'store-down', 'one of three etcd members killed, back after 40 s', run=member_killed,
           member=1, secs=40, mild='degraded', scored=True, every=20, base=70, after=70),
    ]),
}
