"""Which capture shows a moment, by the names of files alone: moment.py FOLDER SECONDS...

Of the entries of FOLDER whose name has a Unix time, the newest at or before each moment, as a JSON list; null where there is none.
With --written FILE instead of names: when a database of etcd was written to last, by the renewal of its leases (seconds).
"""

import json
import os
import re
import sys


def renewals(path):
    import etcd_bolt
    for revision in etcd_bolt.revisions(etcd_bolt.Bolt(path)):
        if not bytes(revision.key).startswith(b"/registry/leases/") or revision.tombstone:
            continue
        # k8s\0, runtime.Unknown: field 2 is the Lease; its field 2 the spec, of which field 4 is a MicroTime.
        lease = next(value for number, value, _ in etcd_bolt.fields(bytes(revision.value)[4:]) if number == 2)
        spec = next((value for number, value, _ in etcd_bolt.fields(lease) if number == 2), b"")
        time = next((value for number, value, _ in etcd_bolt.fields(spec) if number == 4), b"")
        yield from (value for number, value, _ in etcd_bolt.fields(time) if number == 1)


if sys.argv[1] == "--written":
    print(json.dumps(max(renewals(sys.argv[2]))))
    sys.exit()
names = {int(found[0]): name for name in os.listdir(sys.argv[1]) if (found := re.search(r"1[0-9]{9}", name))}
print(json.dumps([max(((at, name) for at, name in names.items() if at <= moment), default=(0, None))[1] for moment in map(int, sys.argv[2:])]))
