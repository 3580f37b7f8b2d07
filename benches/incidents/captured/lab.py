#!/usr/bin/env python3
"""Run a Kubernetes control plane on loopback: etcd, two kube-apiservers, controllers, scheduler, hollow kubelets."""
import os
import shutil
import signal
import subprocess
import time
import urllib.request
import ssl
import random

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.environ.get('BIN', '/usr/bin')
OFF = int(os.environ.get('LAB_OFFSET', '0'))  # added to all ports, so that two labs can run beside one another
API, ETCD, HOOK, KUBELET = 6443 + OFF, 2379 + OFF, 9443 + OFF, 11000 + OFF
CGROUP = f'kubepods{OFF or ""}'
NAMESPACES = ['payments', 'search', 'ads', 'platform', 'monitoring', 'ci', 'data', 'web', 'batch', 'gateway', 'infra',
              'security']
NAMES = ['cost-exporter', 'route-sync', 'quota-reporter', 'image-scanner', 'cert-rotator', 'cache-warmer', 'node-agent',
         'deploy-bot', 'config-syncer', 'inventory', 'backup-runner', 'metrics-adapter', 'label-keeper', 'dns-updater',
         'feature-gate', 'log-shipper', 'job-launcher', 'secret-mirror', 'ingress-controller', 'mesh-pilot',
         'policy-engine', 'drift-detector', 'asset-index', 'scaler', 'queue-worker', 'topology-watcher', 'idle-reaper',
         'vault-sync', 'event-relay', 'health-board', 'chaos-probe', 'rollout-operator', 'db-operator', 'team-portal',
         'registry-gc', 'volume-trimmer', 'audit-mirror', 'license-meter', 'catalog', 'flow-tuner']
PEOPLE = ['alice', 'bob', 'carol', 'dmitri']


def accounts():
    """All service accounts of the token file: (token, user, namespace, name)."""
    rnd = random.Random(7)
    out = []
    for name in NAMES:
        for ns in rnd.sample(NAMESPACES, 3):
            out.append((f't-{ns}-{name}', f'system:serviceaccount:{ns}:{name}', ns, name))
    return out


def write_tokens(path):
    with open(path, 'w') as f:
        for i in range(1, 61):
            f.write(f't-node-{i:03},system:node:hollow-{i:03},n{i},"system:nodes,lab:full"\n')
        for i, p in enumerate(PEOPLE):
            f.write(f't-{p},{p}@example.com,u{i},"developers,lab:full,system:masters"\n')
        f.write('t-prometheus,system:serviceaccount:monitoring:prometheus,s0,"system:serviceaccounts,lab:full"\n')
        for i, (tok, user, ns, _) in enumerate(accounts()):
            f.write(f'{tok},{user},s{i + 1},"system:serviceaccounts,system:serviceaccounts:{ns},lab:full"\n')


class Lab:
    """One control plane; state lies in `dir`, `opts` are the knobs of a group of scenarios."""

    def __init__(self, dir, **opts):
        self.d = dir
        self.o = dict(inflight=400, mutating=200, members=1, kcm='', api='', compact='5m')
        self.o.update(opts)
        self.p = {}
        self.supervised = set()
        os.makedirs(f'{dir}/pki', exist_ok=True)
        os.makedirs(f'{dir}/log', exist_ok=True)
        write_tokens(f'{dir}/tokens.csv')
        shutil.copy(f'{HERE}/audit-policy.yaml', dir)
        self.pki()

    def sh(self, cmd):
        subprocess.run(['bash', '-c', cmd], cwd=self.d, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def pki(self):
        if os.path.exists(f'{self.d}/pki/ca.crt'):
            return
        self.sh('openssl req -x509 -newkey rsa:2048 -nodes -keyout pki/ca.key -out pki/ca.crt -subj /CN=lab-ca '
                '-days 3650')
        san = 'IP:127.0.0.1,IP:10.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default'
        for name, subj, alt in (('apiserver', '/CN=kube-apiserver', san), ('webhook', '/CN=webhook', 'IP:127.0.0.1'),
                                ('admin', '/O=system:masters/CN=kubernetes-admin', 'DNS:admin'),
                                ('kcm', '/CN=system:kube-controller-manager', 'DNS:kcm'),
                                ('sched', '/CN=system:kube-scheduler', 'DNS:sched')):
            self.sh(f'openssl req -newkey rsa:2048 -nodes -keyout pki/{name}.key -out pki/{name}.csr -subj "{subj}"; '
                    f'openssl x509 -req -in pki/{name}.csr -CA pki/ca.crt -CAkey pki/ca.key -CAcreateserial -days 3650 '
                    f'-out pki/{name}.crt -extfile <(printf "subjectAltName={alt}\\n'
                    f'extendedKeyUsage=serverAuth,clientAuth")')
        self.sh('openssl genrsa -out pki/sa.key 2048; openssl rsa -in pki/sa.key -pubout -out pki/sa.pub')

    def kubeconfig(self, name, port=API, token=None):
        user = f'token: {token}' if token else \
            f'client-certificate: {self.d}/pki/{name}.crt, client-key: {self.d}/pki/{name}.key'
        path = f'{self.d}/{name}.kubeconfig'
        with open(path, 'w') as f:
            f.write(f'''apiVersion: v1
kind: Config
clusters: [{{name: lab, cluster: {{server: "https://127.0.0.1:{port}", certificate-authority: {self.d}/pki/ca.crt}}}}]
users: [{{name: u, user: {{{user}}}}}]
contexts: [{{name: lab, context: {{cluster: lab, user: u}}}}]
current-context: lab
''')
        return path

    def spawn(self, name, args, cgroup=None):
        log = open(f'{self.d}/log/{name}.log', 'ab')
        files = None
        if cgroup:
            path = f'/sys/fs/cgroup/memory/{CGROUP}/{cgroup}'
            try:
                os.makedirs(path, exist_ok=True)
                files = f'{path}/cgroup.procs'
            except OSError:
                files = None
        env = {k: v for k, v in os.environ.items() if 'proxy' not in k.lower()}
        if name.startswith('hollow'):
            env['GOMAXPROCS'] = '1'
        cmd = ['bash', '-c', f'echo $$ > {files}; exec "$@"', 'x', *args] if files else args
        self.p[name] = subprocess.Popen(cmd, stdout=log, stderr=log, cwd=self.d, env=env, start_new_session=True)

    def etcd(self, i=0):
        n = self.o['members']
        cluster = ','.join(f'etcd-{k}=http://127.0.0.1:{ETCD + 1 + 100 * k}' for k in range(n))
        with open(f'{self.d}/etcd-{i}.yaml', 'w') as f:
            f.write(f'''name: etcd-{i}
data-dir: {self.d}/etcd-{i}
listen-client-urls: http://127.0.0.1:{ETCD + 100 * i}
advertise-client-urls: http://127.0.0.1:{ETCD + 100 * i}
listen-peer-urls: http://127.0.0.1:{ETCD + 1 + 100 * i}
initial-advertise-peer-urls: http://127.0.0.1:{ETCD + 1 + 100 * i}
initial-cluster: {cluster}
quota-backend-bytes: 8589934592
log-level: warn
''')
        self.spawn(f'etcd-{i}', [f'{BIN}/xetcd', f'{self.d}/etcd-{i}.yaml'])

    def apiserver(self, i):
        d = self.d
        os.makedirs(f'{d}/audit-{i}', exist_ok=True)
        etcds = ','.join(f'http://127.0.0.1:{ETCD + 100 * k}' for k in range(self.o['members']))
        args = [f'{BIN}/kube-apiserver', f'--etcd-servers={etcds}', f'--secure-port={API + i}',
                '--bind-address=127.0.0.1', '--advertise-address=127.0.0.1', '--service-cluster-ip-range=10.0.0.0/16',
                f'--tls-cert-file={d}/pki/apiserver.crt', f'--tls-private-key-file={d}/pki/apiserver.key',
                f'--client-ca-file={d}/pki/ca.crt', '--service-account-issuer=https://kubernetes.default.svc',
                f'--service-account-key-file={d}/pki/sa.pub', f'--service-account-signing-key-file={d}/pki/sa.key',
                '--authorization-mode=Node,RBAC', f'--token-auth-file={d}/tokens.csv',
                f'--audit-log-path={d}/audit-{i}/audit.log', f'--audit-policy-file={d}/audit-policy.yaml',
                '--audit-log-maxsize=2000', f"--max-requests-inflight={self.o['inflight']}",
                f"--max-mutating-requests-inflight={self.o['mutating']}", '--profiling=true',
                f"--etcd-compaction-interval={self.o['compact']}", '--allow-privileged=true',
                '--disable-admission-plugins=PodSecurity', *self.o['api'].split()]
        self.spawn(f'apiserver-{i}', args, f'kube-apiserver-{i}')

    def kcm(self):
        k, d = self.kubeconfig('kcm'), self.d
        self.spawn('kcm', [f'{BIN}/kube-controller-manager', f'--kubeconfig={k}', f'--authentication-kubeconfig={k}',
                           f'--authorization-kubeconfig={k}', f'--service-account-private-key-file={d}/pki/sa.key',
                           f'--root-ca-file={d}/pki/ca.crt', '--use-service-account-credentials=true',
                           '--leader-elect=true', '--bind-address=127.0.0.1', f'--secure-port={10257 + OFF}',
                           f'--cluster-signing-cert-file={d}/pki/ca.crt', f'--cluster-signing-key-file={d}/pki/ca.key',
                           *self.o['kcm'].split()])

    def sched(self):
        k = self.kubeconfig('sched')
        self.spawn('sched', [f'{BIN}/kube-scheduler', f'--kubeconfig={k}', f'--authentication-kubeconfig={k}',
                             f'--authorization-kubeconfig={k}', '--leader-elect=true', '--bind-address=127.0.0.1',
                             f'--secure-port={10259 + OFF}'])

    def hollow(self, i):
        k = self.kubeconfig(f'hollow-{i:03}', API + i % 2, f't-node-{i:03}')
        self.spawn(f'hollow-{i:03}', [f'{BIN}/kubemark', '--morph=kubelet', f'--name=hollow-{i:03}',
                                      f'--kubeconfig={k}', f'--kubelet-port={KUBELET + i * 3}',
                                      f'--kubelet-read-only-port={KUBELET + 1 + i * 3}',
                                      '--use-host-image-service=false', '--v=0',
                                      f'--node-labels=topology.kubernetes.io/zone=z{i % 3},kubernetes.io/os=linux'])

    def ready(self, i, secs=60):
        ctx = ssl._create_unverified_context()
        ctx.load_cert_chain(f'{self.d}/pki/admin.crt', f'{self.d}/pki/admin.key')
        end = time.time() + secs
        while time.time() < end:
            try:
                with urllib.request.urlopen(f'https://127.0.0.1:{API + i}/readyz', context=ctx, timeout=3) as r:
                    if r.read() == b'ok':
                        return True
            except OSError:
                pass
            time.sleep(0.5)
        return False

    def up(self, nodes=12):
        for i in range(self.o['members']):
            self.etcd(i)
        time.sleep(2)
        self.apiserver(0)
        self.ready(0)
        self.apiserver(1)
        self.ready(1)
        self.kcm()
        self.sched()
        self.supervised |= {'kcm', 'sched'}
        self.kubeconfig('admin')
        for i in range(1, nodes + 1):
            self.hollow(i)

    def supervise(self):
        """Start controller-manager and scheduler again where they ended, as a kubelet does with static pods."""
        for name in list(self.supervised):
            if self.p[name].poll() is not None:
                getattr(self, name)()

    def kill(self, name, sig=signal.SIGKILL):
        p = self.p.get(name)
        if p and p.poll() is None:
            p.send_signal(sig)

    def down(self):
        self.supervised.clear()
        for pre in ('hollow', 'webhook', 'sched', 'kcm', 'apiserver', 'etcd'):
            for name, p in self.p.items():
                if name.startswith(pre) and p.poll() is None:
                    p.send_signal(signal.SIGCONT)
                    p.send_signal(signal.SIGTERM if pre == 'etcd' else signal.SIGKILL)
            for name, p in self.p.items():
                if name.startswith(pre):
                    try:
                        p.wait(8)
                    except subprocess.TimeoutExpired:
                        p.kill()
                        p.wait()
