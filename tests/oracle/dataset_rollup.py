#!/usr/bin/env python3
"""Whether a dataset and a roll-up of the same logs hold the same requests: by SQL over both.

    dataset_rollup.py DATASET ROLLUP      prints {"groups", "requests"}; exit code 1 and the first differences where there are any
"""
import json
import sys

import duckdb

dataset, rollup = sys.argv[1:]
KEY = "cluster, instance, verb, resource, subresource, namespace, scope, code, shape"
SHORT = "verb not in ('watch', 'proxy') and subresource not in ('attach', 'exec', 'log', 'portforward', 'proxy') and shape <> 'path=other'"
texts = [name for name in KEY.split(", ") if name != "code"]
cut = ", ".join(f"coalesce({name}, '') as {name}" for name in texts)
duckdb.sql(f"""create view events as select {cut}, coalesce(code::varchar, '') as code, coalesce(client_user, '') as "user",
    coalesce(client_agent, '') as agent, latency_us, terminal, api_group from read_parquet('{dataset}/audit/**/*.parquet',
    hive_partitioning=1, hive_types={{'cluster': VARCHAR}})""")
duckdb.sql(f"""create view traffic as select {cut}, code::varchar as code, "user", agent, requests, latency_sum
    from read_parquet('{rollup}/traffic.parquet')""")
key = KEY + ', "user", agent'
of_events = f"select {key}, count(*) as requests, coalesce(sum(latency_us), 0) as took from events where terminal and {SHORT} group by all"
of_rollup = f"select {key}, sum(requests) as requests, sum(latency_sum) as took from traffic where {SHORT} group by all"
differ = duckdb.sql(f"(({of_events}) except ({of_rollup})) union all (({of_rollup}) except ({of_events}))").fetchall()
if differ:
    print(f"{len(differ)} groups differ:", *differ[:4], sep="\n", file=sys.stderr)
    sys.exit(1)
groups, requests = duckdb.sql(f"select count(*), sum(requests) from ({of_events})").fetchall()[0]
print(json.dumps({"groups": groups, "requests": int(requests)}))
