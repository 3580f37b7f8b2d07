-- The roll-up of an audit log, in DuckDB SQL (2.0). This is docs/rollup.md said a second time, in a
-- form that can be run: a test runs it over the sample logs and compares each table, row by row, with
-- what plimsoll makes of them in one pass. It is written to be read, not to be fast.
--
-- In:   lines(cluster VARCHAR, instance VARCHAR, stream VARCHAR, seq BIGINT, line VARCHAR)
--       one JSON audit event a line; `seq` is the order of the lines within their stream.
-- Out:  t_traffic, t_pulse, t_sequences, t_sources, t_objects, t_notable, t_clients, t_nodes, t_deprecated, t_load,
--       t_operations, t_omitted, t_cascades, t_created, t_leases, t_refusals, t_writes, t_alternations,
--       t_failures,
--       t_coverage_events: key columns first, then values. No NULLs: text is '' and numbers are 0
--       where there is nothing. Times are microseconds since 1970, except `tile` and `second`.
--
-- What it leaves out, because it is for small inputs (a span of up to 6 h, no bound reached):
--   - the coarser tiles of longer spans (section 3): a tile is always 10 s, a pulse row always 1 s;
--   - folding rows into `(other)` and all other limits of section 5, and that of `fleet`;
--   - cutting strings at 1,024 bytes (section 2);
--   - of operations, what roles grant, and patches of bindings, where their bodies are logged (docs/guard.md, `rbac-write`);
--   - of refusals, amounts with suffixes of powers of 1024;
--   - of leases, holders of which some writes show the name and others do not;
--   - of coverage, all but the events by level and stage.

-- ---------------------------------------------------------------------------------------------
-- Macros
-- ---------------------------------------------------------------------------------------------

CREATE OR REPLACE MACRO us_per_s() AS 1_000_000;

-- Start of the 10 s tile of a time.
CREATE OR REPLACE MACRO tile_of(t) AS (t // us_per_s()) // 10 * 10;

-- Microseconds of an RFC 3339 time; NULL if it is absent or none.
CREATE OR REPLACE MACRO us(text) AS epoch_us(TRY_CAST(text AS TIMESTAMPTZ));

-- Section 1, histograms: 16 buckets per power of two. floor(log2 v) is the number of binary digits
-- less one, which unlike a logarithm has no rounding.
CREATE OR REPLACE MACRO log2_floor(v) AS length(bin(v::BIGINT)) - 1;
CREATE OR REPLACE MACRO bucket(v) AS
  CASE WHEN v < 16 THEN v::BIGINT
       ELSE 16 * (log2_floor(v) - 3) + ((v::BIGINT >> (log2_floor(v) - 4)) & 15)
  END;

-- bucket -> count, as `bucket:count` joined by `;`, ascending.
CREATE OR REPLACE MACRO histogram_text(h) AS
  coalesce(array_to_string(
    list_transform(list_sort(map_entries(h)), lambda e: e.key || ':' || e.value), ';'), '');

-- A Go duration ('1m2.5s', '329.670009ms', '40.14µs'), in microseconds, rounded down. Exact decimals:
-- no unit and no digit is lost.
CREATE OR REPLACE MACRO ns_per(unit) AS
  CASE unit WHEN 'h' THEN 3_600_000_000_000 WHEN 'm' THEN 60_000_000_000 WHEN 's' THEN 1_000_000_000
            WHEN 'ms' THEN 1_000_000 WHEN 'ns' THEN 1 ELSE 1_000 END;  -- else: us, with either µ
CREATE OR REPLACE MACRO go_duration_us(text) AS
  CASE WHEN regexp_full_match(text, '([0-9]+(\.[0-9]*)?(h|ms|µs|μs|us|ns|m|s))+') THEN
    list_sum(list_transform(
      regexp_extract_all(text, '[0-9.]+(?:h|ms|µs|μs|us|ns|m|s)'),
      lambda part: regexp_extract(part, '^[0-9.]+')::DECIMAL(24, 9)
                   * ns_per(regexp_extract(part, '[^0-9.]+$'))::DECIMAL(14, 0)))::HUGEINT // 1000
    ELSE 0 END;

-- A parameter of a query string read by `parameters`: NULL if absent; the first of a name counts.
CREATE OR REPLACE MACRO param(ps, wanted) AS
  list_filter(ps, lambda p: p.name = wanted)[1].value;

-- Percent-decoded; what does not decode to UTF-8 stays as it is.
CREATE OR REPLACE MACRO percent_decoded(text) AS coalesce(TRY(url_decode(text)), text);
CREATE OR REPLACE MACRO parameters(query) AS
  list_transform(
    list_filter(string_split(query, '&'), lambda s: s <> ''),
    lambda s: {
      'name': percent_decoded(split_part(s, '=', 1)),
      'value': percent_decoded(CASE WHEN contains(s, '=') THEN substr(s, instr(s, '=') + 1) ELSE '' END)
    });

-- A parameter as a boolean: true unless absent, `0` or `false`.
CREATE OR REPLACE MACRO is_true(value) AS value IS NOT NULL AND lower(value) NOT IN ('0', 'false');
-- A parameter as an integer; NULL if it is none.
CREATE OR REPLACE MACRO as_integer(value) AS
  CASE WHEN regexp_full_match(value, '[+-]?[0-9]+') THEN TRY_CAST(value AS BIGINT) END;

-- Section 4, clients: a set, of which the 64 members with the smallest md5 are kept (by all its digits),
-- written in the order of the members. An empty text is no member.
CREATE OR REPLACE MACRO set_text(members) AS
  coalesce(array_to_string(list_sort(list_transform(
    list_sort(list_transform(
      list_filter(list_distinct(members), lambda m: m <> ''),
      lambda m: {'hash': md5(m), 'member': m}))[1:64],
    lambda p: p.member)), ';'), '');

-- Section 4, notable: users whose changes follow from those of others.
CREATE OR REPLACE MACRO is_control_plane(u) AS
  u IN ('system:apiserver', 'system:kube-controller-manager', 'system:kube-scheduler')
  OR starts_with(u, 'system:serviceaccount:kube-system:');

-- ---------------------------------------------------------------------------------------------
-- Sections 1 and 2: events, and the fields made from them
-- ---------------------------------------------------------------------------------------------

-- The JSON as it is. A line that is not JSON, and one without a time, is no event.
CREATE OR REPLACE TEMP TABLE raw_events AS
WITH json AS (
  SELECT cluster, instance, stream, seq, line, from_json(line, '{
           "level": "VARCHAR", "stage": "VARCHAR", "auditID": "VARCHAR",
           "verb": "VARCHAR", "requestURI": "VARCHAR",
           "user": {"username": "VARCHAR", "groups": ["VARCHAR"], "extra": {
              "authentication.kubernetes.io/node-name": ["VARCHAR"],
              "authentication.kubernetes.io/pod-name": ["VARCHAR"]}},
           "impersonatedUser": {"username": "VARCHAR"},
           "sourceIPs": ["VARCHAR"],
           "userAgent": "VARCHAR",
           "objectRef": {"apiGroup": "VARCHAR", "resource": "VARCHAR", "subresource": "VARCHAR",
                         "namespace": "VARCHAR", "name": "VARCHAR"},
           "responseStatus": {"code": "INTEGER", "message": "VARCHAR"},
           "requestObject": "JSON",
           "requestReceivedTimestamp": "VARCHAR", "stageTimestamp": "VARCHAR",
           "annotations": {
             "authorization.k8s.io/decision": "VARCHAR",
              "apiserver.latency.k8s.io/etcd": "VARCHAR",
              "apiserver.latency.k8s.io/mutating-webhook": "VARCHAR",
              "apiserver.latency.k8s.io/validating-webhook": "VARCHAR",
              "apiserver.latency.k8s.io/apf-queue-wait": "VARCHAR",
              "k8s.io/deprecated": "VARCHAR", "k8s.io/removed-release": "VARCHAR"}}') AS j,
         -- The response body, with the start of each escape (`\n`, `\"`, `\u0026`) masked by two
         -- plain characters, so that none is left: DuckDB writes JSON anew when it takes a part of it,
         -- and would write `&` for `\u0026`. So its length is that in the log (blanks between the
         -- tokens and numbers such as 1.50 apart, which apiservers do not write).
         CASE WHEN contains(line, '"responseObject"')
              THEN nullif(json_extract(regexp_replace(line, '\\.', '__', 'g'), '$.responseObject')::VARCHAR,
                          'null') END AS body
  FROM (SELECT * FROM lines WHERE json_valid(line))
)
SELECT
  cluster, instance, stream, seq,
  us(j.stageTimestamp) AS "at",
  us(j.requestReceivedTimestamp) AS received_or_null,
  coalesce(j.level, '') AS level,
  coalesce(j.stage, '') AS stage,
  coalesce(j.auditID, '') AS audit_id,
  coalesce(j.requestURI, '') AS uri,
  coalesce(j.verb, '') AS verb,
  coalesce(j.user.username, '') AS full_user,
  coalesce(j.user.groups, []) AS groups,
  j.user.extra AS extra,
  coalesce(j.impersonatedUser.username, '') AS impersonated,
  coalesce(j.sourceIPs[-1], '') AS source,          -- the last: the socket peer
  coalesce(j.userAgent, '') AS user_agent,
  coalesce(j.objectRef.apiGroup, '') AS "group",
  coalesce(j.objectRef.resource, '') AS resource,
  coalesce(j.objectRef.subresource, '') AS subresource,
  coalesce(j.objectRef.namespace, '') AS namespace,
  coalesce(j.objectRef.name, '') AS name,
  j.responseStatus.code AS code_or_null,
  coalesce(j.responseStatus.message, '') AS message,
  j.requestObject AS request_object,
  coalesce(json_extract_string(j.requestObject, '$.metadata.resourceVersion'), '') AS request_version,
  coalesce(json_extract_string(body, '$.metadata.resourceVersion'), '') AS response_version,
  body IS NOT NULL AS has_body,
  coalesce(strlen(body), 0) AS body_bytes,
  CASE WHEN json_type(body, '$.items') = 'ARRAY' THEN json_array_length(body, '$.items') ELSE 0 END
    AS body_items,
  -- Leases: what was answered.
  json_extract(body, '$.spec') AS response_spec,
  coalesce(json_extract_string(body, '$.metadata.name'), '') AS response_name,
  j.annotations AS annotations
FROM json
WHERE us(j.stageTimestamp) IS NOT NULL;

-- Section 3: stray times. Days with events that lie within 32 days of one another are a group; groups with few
-- events beside the largest are set aside.
CREATE OR REPLACE TEMP TABLE stray_days AS
WITH days AS (SELECT floor("at" / (86_400::BIGINT * us_per_s()))::BIGINT AS day, count(*) AS n FROM raw_events GROUP BY ALL),
numbered AS (
  SELECT day, n, CASE WHEN day - lag(day) OVER (ORDER BY day) <= 32 THEN 0 ELSE 1 END AS begins FROM days
),
grouped AS (SELECT day, n, sum(begins) OVER (ORDER BY day) AS grp FROM numbered),
sized AS (SELECT day, sum(n) OVER (PARTITION BY grp) AS size FROM grouped)
SELECT day
FROM sized, (SELECT max(size) AS largest FROM sized)
WHERE (size <= 1_000 AND size * 50 <= largest) OR (size = 1 AND largest >= 3);

CREATE OR REPLACE TEMP TABLE events AS
WITH basic AS (
  SELECT
    *,
    coalesce(received_or_null, "at") AS received,
    coalesce(code_or_null::VARCHAR, '') AS code,
    stage IN ('ResponseComplete', 'Panic') AS terminal,
    stage = 'ResponseStarted' AS started,
    split_part(uri, '?', 1) AS path,
    CASE WHEN contains(uri, '?') THEN substr(uri, instr(uri, '?') + 1) ELSE '' END AS query,
    -- user folded: all kubelets are one client
    CASE WHEN starts_with(full_user, 'system:node:') THEN 'system:node:*' ELSE full_user END AS "user",
    regexp_extract(user_agent, '^[^/ ]*') AS agent,
    -- agent version: after product and `/`, up to a blank
    regexp_extract(user_agent, '^[^/ ]*/([^ ]*)', 1) AS version,
    CASE WHEN starts_with(full_user, 'system:node:') THEN substr(full_user, length('system:node:') + 1)
         ELSE coalesce(extra['authentication.kubernetes.io/node-name'][1], '') END AS node,
    coalesce(extra['authentication.kubernetes.io/pod-name'][1], '') AS pod,
    -- Section 3: late, if more than 5 s before the largest time already seen in the stream. Every
    -- stage counts for that, RequestReceived too.
    "at" < max("at") OVER (PARTITION BY cluster, instance, stream ORDER BY seq
                       ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - 5 * us_per_s() AS late
  FROM (SELECT * REPLACE (
               -- An arrival that lies further from the event than any request lasts is none.
               CASE WHEN abs(received_or_null - "at") <= 32 * 86_400::BIGINT * us_per_s() THEN received_or_null END
                 AS received_or_null)
        FROM raw_events)
  WHERE floor("at" / (86_400::BIGINT * us_per_s()))::BIGINT NOT IN (SELECT day FROM stray_days)
),

-- Path, as kube-apiserver reads it, in three steps: what is behind the version; behind `watch/` or
-- `proxy/`; behind `namespaces/NS/`. NULL where the URI is not of this form.
path_1 AS (
  SELECT *, string_split(trim(path, '/'), '/') AS segments,
         CASE segments[1] WHEN 'api' THEN segments[3:] WHEN 'apis' THEN segments[4:] END AS behind_version
  FROM basic
),
path_2 AS (
  SELECT *, CASE WHEN behind_version[1] IN ('watch', 'proxy') THEN behind_version[2:]
                 ELSE behind_version END AS relative
  FROM path_1
),
path_3 AS (
  SELECT *,
         coalesce(relative[1] = 'namespaces' AND length(relative) >= 3
                  AND relative[3] NOT IN ('status', 'finalize'), false) AS inside_namespace,
         CASE WHEN inside_namespace THEN relative[3:] ELSE relative END AS resource_and_name
  FROM path_2
)
SELECT
  * EXCLUDE (segments, behind_version, relative),
  verb IN ('watch', 'proxy')
    OR subresource IN ('attach', 'exec', 'log', 'portforward', 'proxy')
    OR starts_with(path, '/debug/pprof/') AS long_running,
  CASE
    WHEN resource = '' THEN 'nonresource'
    WHEN coalesce(resource_and_name[1], '') <> '' THEN
      CASE WHEN coalesce(resource_and_name[2], '') <> '' THEN 'object'
           WHEN inside_namespace THEN 'namespace'
           ELSE 'cluster' END
    -- not a path of this form: by the object reference
    WHEN name <> '' AND verb NOT IN ('create', 'list', 'watch', 'deletecollection') THEN 'object'
    WHEN namespace <> '' THEN 'namespace'
    ELSE 'cluster'
  END AS scope,
  CASE WHEN verb IN ('get', 'list', 'watch') THEN verb
       WHEN verb IN ('create', 'update', 'patch') THEN 'write'
       WHEN verb IN ('delete', 'deletecollection') THEN 'delete'
       ELSE 'other' END AS op,
  parameters(query) AS ps,
  coalesce(param(ps, 'resourceVersion'), '') AS resource_version,
  coalesce(param(ps, 'resourceVersionMatch'), '') AS rv_match,
  coalesce(param(ps, 'continue'), '') AS continue_token,
  coalesce(param(ps, 'fieldSelector'), '') AS field_selector,
  coalesce(param(ps, 'labelSelector'), '') AS label_selector,
  is_true(param(ps, 'sendInitialEvents')) AS initial_events,
  CASE WHEN resource <> '' AND verb IN ('get', 'list', 'watch', 'deletecollection') THEN
    -- concat_ws leaves out the parts that are NULL
    concat_ws(',',
      'rv=' || CASE resource_version WHEN '' THEN 'unset' WHEN '0' THEN '0' ELSE 'N' END,
      'match=' || CASE rv_match WHEN '' THEN NULL WHEN 'Exact' THEN 'exact'
                                WHEN 'NotOlderThan' THEN 'notolder' ELSE 'other' END,
      CASE WHEN as_integer(param(ps, 'limit')) > 0 THEN 'limit' END,
      CASE WHEN continue_token <> '' THEN 'continue' END,
      'sel=' || CASE WHEN contains(field_selector, 'metadata.name=') THEN 'name'
                     WHEN contains(field_selector, 'spec.nodeName=') THEN 'node'
                     WHEN field_selector <> '' THEN 'field'
                     WHEN label_selector <> '' THEN 'label' END,
      CASE WHEN is_true(param(ps, 'allowWatchBookmarks')) THEN 'bookmarks' END,
      CASE WHEN initial_events THEN 'initial' END,
      CASE WHEN verb = 'watch' THEN
        't=' || CASE WHEN as_integer(param(ps, 'timeoutSeconds')) IS NULL THEN 'default'
                     WHEN as_integer(param(ps, 'timeoutSeconds')) < 60 THEN 'short'
                     WHEN as_integer(param(ps, 'timeoutSeconds')) <= 600 THEN 'informer'
                     ELSE 'long' END END)
    WHEN resource = '' THEN
      'path=' || CASE WHEN segments[1] IN ('api', 'apis') THEN 'discovery'
                      WHEN segments[1] IN ('openapi', 'swagger.json') THEN 'openapi'
                      WHEN segments[1] IN ('healthz', 'livez', 'readyz') THEN 'health'
                      WHEN segments[1] = 'metrics' THEN 'metrics'
                      WHEN segments[1] = 'version' THEN 'version'
                      ELSE 'other' END
    ELSE '' END AS shape,
  -- Group and version of an API path.
  CASE segments[1] WHEN 'api' THEN coalesce(segments[2], '')
                   WHEN 'apis' THEN array_to_string(segments[2:3], '/') ELSE '' END AS api_version,
  -- A write that was done and no dry run, of which the log shows what the object then was.
  verb IN ('update', 'patch') AND coalesce(code_or_null BETWEEN 200 AND 299, false)
    AND coalesce(param(parameters(query), 'dryRun'), '') = '' AND response_version <> '' AS is_written,
  CASE WHEN code <> '504' THEN ''
       WHEN contains(message, 'context canceled') THEN 'client'
       WHEN contains(message, 'Too large resource version') THEN 'cache'
       WHEN contains(message, 'deadline exceeded') OR contains(message, 'allotted timeout') THEN 'deadline'
       ELSE '' END AS timeout_cause,
  -- Outcome. A code that is absent is none, but for a panic.
  coalesce(code_or_null = 0 OR code_or_null >= 500, stage = 'Panic') AS is_error,
  coalesce(code_or_null = 429, false) AS is_throttled
FROM path_3;

-- ---------------------------------------------------------------------------------------------
-- Section 1: requests
-- ---------------------------------------------------------------------------------------------

-- Started events of long-running requests whose end is seen: a terminal event of the same identity, not
-- before it, and for a started event that failed at most 120 s after it. Events without
-- requestReceivedTimestamp are alike in that, whenever they were.
CREATE OR REPLACE TEMP TABLE started_and_ended AS
SELECT DISTINCT s.cluster, s.instance, s.stream, s.seq
FROM events s
JOIN events t ON t.cluster = s.cluster AND t.instance = s.instance
             AND t.audit_id = s.audit_id AND t.uri = s.uri
             AND t.received_or_null IS NOT DISTINCT FROM s.received_or_null
WHERE s.started AND s.long_running AND t.terminal
  AND t."at" >= s."at"
  AND (coalesce(s.code_or_null, 0) < 400 OR t."at" <= s."at" + 120 * us_per_s());

-- Ends of long-running requests whose start was let in and is seen.
CREATE OR REPLACE TEMP TABLE ends_of_started AS
SELECT DISTINCT t.cluster, t.instance, t.stream, t.seq, true AS told
FROM events s
JOIN events t ON t.cluster = s.cluster AND t.instance = s.instance
             AND t.audit_id = s.audit_id AND t.uri = s.uri
             AND t.received_or_null IS NOT DISTINCT FROM s.received_or_null
WHERE s.started AND s.long_running AND t.terminal AND t."at" >= s."at" AND coalesce(s.code_or_null, 0) < 400;

-- All events of the stages that count, `kind` 1 to 3 being the requests of section 1. NULL is a started
-- event that is none: its request comes with its end. It counts for the latency of watches, and as a list
-- (`relist`).
CREATE OR REPLACE TEMP TABLE stages AS
SELECT
  e.*,
  CASE WHEN e.terminal THEN 1
       WHEN NOT e.long_running THEN 2
       WHEN x.seq IS NULL THEN 3 END AS kind,
  coalesce(kind = 3 AND coalesce(code_or_null, 0) < 400, false) AS open,
  -- Latency: requests of kinds 1 and 2 that are not long-running, and the started events of watches.
  CASE WHEN (NOT long_running OR (started AND verb = 'watch'))
            AND received_or_null IS NOT NULL
       THEN greatest(0, "at" - received_or_null) END AS latency,
  -- An event without requestReceivedTimestamp has neither this nor a lifetime.
  -- Lifetime: the ends of long-running requests.
  CASE WHEN long_running AND terminal AND received_or_null IS NOT NULL
       THEN greatest(0, "at" - received_or_null) END AS lifetime
FROM events e
LEFT JOIN started_and_ended x USING (cluster, instance, stream, seq)
WHERE e.terminal OR e.started;

CREATE OR REPLACE TEMP VIEW requests AS SELECT * FROM stages WHERE kind IS NOT NULL;

-- Section 3: the order of the events that are not late, across streams. (Stream and place only make the
-- order of what is then still equal a definite one. The first 16 bytes of the id are taken as characters:
-- ids are ASCII.)
CREATE OR REPLACE TEMP TABLE ordered AS
SELECT *, row_number() OVER (
            ORDER BY "at", received, left(audit_id, 16), terminal, cluster, instance, stream, seq) AS place
FROM stages
WHERE NOT late;

-- ---------------------------------------------------------------------------------------------
-- Section 4: the tables
-- ---------------------------------------------------------------------------------------------

-- traffic. Only requests bring bodies and annotations; a started event whose end is seen brings its watch
-- latency alone.
CREATE OR REPLACE TABLE t_traffic AS
SELECT
  tile_of("at") AS tile, cluster, instance, "user", agent, verb, "group", resource, subresource, scope,
  namespace, code, shape,
  count(kind) AS requests,
  count(*) FILTER (open) AS open,
  histogram_text(histogram(bucket(latency)) FILTER (latency IS NOT NULL)) AS latency,
  coalesce(sum(latency), 0)::BIGINT AS latency_sum,
  coalesce(max(latency), 0) AS latency_max,
  histogram_text(histogram(bucket(lifetime)) FILTER (lifetime IS NOT NULL)) AS lifetime,
  coalesce(sum(lifetime), 0)::BIGINT AS lifetime_sum,
  coalesce(max(lifetime), 0) AS lifetime_max,
  count(*) FILTER (kind IS NOT NULL AND has_body) AS bodies,
  coalesce(sum(body_bytes) FILTER (kind IS NOT NULL), 0)::BIGINT AS body_bytes,
  coalesce(sum(body_items) FILTER (kind IS NOT NULL), 0)::BIGINT AS body_items,
  coalesce(sum(go_duration_us(annotations['apiserver.latency.k8s.io/etcd']))
             FILTER (kind IS NOT NULL), 0)::BIGINT AS etcd_us,
  coalesce(sum(go_duration_us(annotations['apiserver.latency.k8s.io/mutating-webhook'])
             + go_duration_us(annotations['apiserver.latency.k8s.io/validating-webhook']))
             FILTER (kind IS NOT NULL), 0)::BIGINT AS webhook_us,
  coalesce(sum(go_duration_us(annotations['apiserver.latency.k8s.io/apf-queue-wait']))
             FILTER (kind IS NOT NULL), 0)::BIGINT AS queue_us,
  count(*) FILTER (kind IS NOT NULL AND timeout_cause = 'client') AS timeout_client,
  count(*) FILTER (kind IS NOT NULL AND timeout_cause = 'deadline') AS timeout_deadline,
  count(*) FILTER (kind IS NOT NULL AND timeout_cause = 'cache') AS timeout_cache
FROM stages s
GROUP BY tile_of("at"), cluster, instance, "user", agent, verb, "group", resource, subresource, scope,
         namespace, code, shape
HAVING count(kind) > 0 OR count(s.latency) > 0;

-- pulse. A request starts in one second and ends in another.
CREATE OR REPLACE TABLE t_pulse AS
WITH marks AS (
  SELECT received // us_per_s() AS second, *, 1 AS start, 0 AS "end" FROM requests
  UNION ALL BY NAME
  SELECT "at" // us_per_s() AS second, *, 0 AS start, 1 AS "end" FROM requests WHERE NOT open
)
SELECT
  second, cluster, instance, "user", agent, "group", resource, op,
  sum(start)::BIGINT AS starts,
  sum("end")::BIGINT AS ends,
  count(*) FILTER ("end" = 1 AND is_error) AS errors,
  count(*) FILTER ("end" = 1 AND is_throttled) AS throttled
FROM marks
GROUP BY ALL;

-- sequences. Each fact compares an event with the one before it in a group of the same actor's events;
-- the actor is (cluster, user not folded, agent, source). No late events.
CREATE OR REPLACE TABLE t_sequences AS
WITH
retry AS (
  SELECT *,
    CASE WHEN lag(is_throttled) OVER w THEN 'retry-429'
         WHEN lag(code_or_null = 0 OR code_or_null >= 500) OVER w THEN 'retry-5xx' END AS fact,
    received - lag("at") OVER w AS gap,
    120 * us_per_s() AS longest
  FROM ordered
  WHERE kind IN (1, 2)
  WINDOW w AS (PARTITION BY cluster, full_user, agent, source, verb, uri ORDER BY place)
),
ends_and_lists AS (
  SELECT *,
    terminal AND verb = 'watch' AS is_end,
    -- How "too old resource version" shows: a watch from a given version that is over at once.
    coalesce(lifetime < us_per_s(), false) AND resource_version NOT IN ('', '0') AS is_short
  FROM ordered
  WHERE (terminal AND verb = 'watch')
     OR (terminal AND verb = 'list' AND continue_token = '')
     OR (started AND verb = 'watch' AND initial_events)
),
relist AS (
  SELECT *,
    CASE WHEN NOT is_end AND lag(is_end) OVER w THEN
      CASE WHEN lag(is_short) OVER w THEN 'relist-short' ELSE 'relist' END END AS fact,
    received - lag("at") OVER w AS gap,
    120 * us_per_s() AS longest
  FROM ends_and_lists
  WINDOW w AS (PARTITION BY cluster, full_user, agent, source, "group", resource ORDER BY place)
),
reread AS (
  SELECT *,
    'reread' AS fact,
    received - lag(received) OVER w AS gap,
    900 * us_per_s() AS longest
  FROM ordered
  WHERE terminal AND verb IN ('get', 'list') AND continue_token = '' AND NOT long_running
    AND resource <> ''
  WINDOW w AS (PARTITION BY cluster, full_user, agent, source, verb, uri ORDER BY place)
),
unchanged AS (
  SELECT *,
    CASE WHEN is_written
          AND ((verb = 'update' AND request_version = response_version)
               OR (lag(is_written) OVER w AND lag(response_version) OVER w = response_version
                   AND received - lag("at") OVER w BETWEEN 0 AND 900 * us_per_s()))
         THEN 'no-change' END AS fact,
    greatest(0, "at" - received) AS gap,
    gap AS longest
  FROM ordered
  WHERE kind IN (1, 2)
  WINDOW w AS (PARTITION BY cluster, full_user, agent, source, verb, uri ORDER BY place)
),
takeover AS (
  SELECT *,
    CASE WHEN lag(source) OVER w <> source THEN 'takeover' END AS fact,
    received - lag("at") OVER w AS gap,
    900 * us_per_s() AS longest
  FROM ordered
  WHERE verb IN ('update', 'patch') AND resource = 'leases' AND code_or_null BETWEEN 200 AND 299
  WINDOW w AS (PARTITION BY cluster, full_user, agent, verb, uri ORDER BY place)
),
facts AS (
  SELECT tile_of("at") AS tile, cluster, "user", agent, "group", resource, fact, gap, longest FROM unchanged
  UNION ALL
  SELECT tile_of("at") AS tile, cluster, "user", agent, "group", resource, fact, gap, longest FROM takeover
  UNION ALL
  SELECT tile_of("at") AS tile, cluster, "user", agent, "group", resource, fact, gap, longest FROM retry
  UNION ALL
  SELECT tile_of("at") AS tile, cluster, "user", agent, "group", resource, fact, gap, longest FROM relist
  UNION ALL
  SELECT tile_of("at") AS tile, cluster, "user", agent, "group", resource, fact, gap, longest FROM reread
)
SELECT
  tile, cluster, "user", agent, "group", resource, fact,
  count(*) AS count,
  histogram_text(histogram(bucket(gap))) AS gaps,
  sum(gap)::BIGINT AS gaps_sum,
  max(gap) AS gaps_max
FROM facts
WHERE fact IS NOT NULL AND gap BETWEEN 0 AND longest
GROUP BY tile, cluster, "user", agent, "group", resource, fact;

-- sources. Up to 256 addresses exactly; beyond, a sketch and the heaviest. A request without any address
-- counts under the empty one.
CREATE OR REPLACE TABLE t_sources AS
WITH counts AS (
  SELECT tile_of("at") AS tile, cluster, "user", agent, "group", resource, source, count(*) AS n
  FROM requests
  WHERE kind IN (1, 2)
  GROUP BY ALL
)
SELECT
  tile, cluster, "user", agent, "group", resource,
  sum(n)::BIGINT AS requests,
  count(*) <= 256 AS exact,
  CASE WHEN exact THEN array_to_string(list(source || '=' || n ORDER BY source), ';')
       ELSE '' END AS addresses,
  CASE WHEN exact THEN ''
       ELSE array_to_string(list_sort(list(left(md5(source), 16)))[1:256], ';') END AS sketch,
  CASE WHEN exact THEN ''
       ELSE array_to_string(list(source || '=' || n ORDER BY n DESC, source)[1:16], ';') END AS heaviest
FROM counts
GROUP BY tile, cluster, "user", agent, "group", resource;

-- objects. What a client did to an object within 10 s enters as a whole, or not at all. No late events.
CREATE OR REPLACE TABLE t_objects AS
WITH per_tile AS (
  SELECT
    cluster, "group", resource, namespace, name, "user", agent,
    count(*) FILTER (verb IN ('get', 'list', 'watch')) AS reads,
    count(*) FILTER (verb NOT IN ('get', 'list', 'watch')) AS writes,
    count(*) FILTER (code = '409' AND verb <> 'create') AS conflicts,
    min("at") AS first_at,
    max("at") AS last_at
  FROM ordered
  WHERE terminal AND name <> ''
  GROUP BY tile_of("at"), cluster, "group", resource, namespace, name, "user", agent
)
SELECT
  cluster, "group", resource, namespace, name, "user", agent,
  sum(reads)::BIGINT AS reads,
  sum(writes)::BIGINT AS writes,
  sum(conflicts)::BIGINT AS conflicts,
  min(first_at) AS "first",
  max(last_at) AS "last"
FROM per_tile
WHERE reads + writes >= 3 OR conflicts > 0 OR (resource = 'leases' AND writes > 0)
GROUP BY cluster, "group", resource, namespace, name, "user", agent;

-- Events that operations are judged by: terminal ones, and the starts of long-running requests that were let in. The
-- first rule that holds gives the kind.
CREATE OR REPLACE TEMP TABLE judged AS
  SELECT
    *,
    verb IN ('update', 'patch') AS is_change,
    verb IN ('create', 'update', 'patch', 'delete') AS is_write,
    -- spec.replicas set to 0: in an object, or by an element of a JSON patch; a Scale that is written whole leaves 0 out
    CASE json_type(request_object)
      WHEN 'OBJECT' THEN coalesce(json_extract(request_object, '$.spec.replicas')::VARCHAR = '0',
        verb = 'update' AND subresource = 'scale')
      WHEN 'ARRAY' THEN len(list_filter(
        json_extract(request_object, '$[*]'),
        lambda e: json_extract_string(e, '$.path') = '/spec/replicas'
                  AND json_extract(e, '$.value')::VARCHAR = '0')) > 0
    END AS sets_replicas_0,
    json_extract(request_object, '$.spec.unschedulable')::VARCHAR = 'true' AS sets_unschedulable,
    CASE
      -- by anyone
      WHEN verb IN ('create', 'get') AND resource = 'pods' AND subresource IN ('exec', 'attach') THEN 'exec'
      WHEN is_change AND resource = 'pods' AND subresource = 'ephemeralcontainers' THEN 'ephemeral-container'
      WHEN resource = 'nodes' AND subresource = 'proxy' THEN 'node-proxy'
      -- by others than the control plane
      WHEN is_control_plane(full_user) THEN NULL
      WHEN verb = 'deletecollection' THEN 'delete-collection'
      WHEN verb = 'delete' AND subresource = '' AND resource = 'namespaces' THEN 'delete-namespace'
      WHEN verb = 'delete' AND subresource = '' AND resource = 'customresourcedefinitions' THEN 'delete-crd'
      WHEN verb = 'delete' AND subresource = '' AND resource = 'nodes' THEN 'delete-node'
      WHEN verb = 'delete' AND subresource = '' AND resource = 'apiservices' THEN 'delete-apiservice'
      WHEN verb = 'delete' AND subresource = '' AND resource = 'poddisruptionbudgets' THEN 'delete-pdb'
      WHEN verb = 'delete' AND subresource = '' AND resource = 'persistentvolumes' THEN 'delete-volume'
      WHEN verb = 'delete' AND resource = 'leases' AND namespace = 'kube-system'
        THEN 'delete-control-plane-lease'
      WHEN verb = 'create' AND resource = 'pods' AND subresource = 'eviction' THEN 'evict'
      WHEN verb = 'delete' AND resource = 'pods' AND subresource = ''
        AND NOT starts_with(full_user, 'system:node:')
        THEN 'delete-pod'
      WHEN is_change AND sets_replicas_0
        AND (subresource = 'scale'
             OR (subresource = ''
                 AND resource IN ('deployments', 'statefulsets', 'replicasets', 'replicationcontrollers')))
        THEN 'scale-to-zero'
      WHEN is_change AND resource = 'nodes' AND subresource = '' AND sets_unschedulable THEN 'cordon'
      WHEN is_write AND "group" = 'admissionregistration.k8s.io' THEN 'webhook-write'
      WHEN is_write AND resource = 'apiservices' AND subresource = '' THEN 'apiservice-write'
      WHEN is_write AND "group" = 'rbac.authorization.k8s.io' THEN 'rbac-write'
      WHEN is_write AND "group" = 'flowcontrol.apiserver.k8s.io' AND subresource <> 'status'
        THEN 'flowcontrol-write'
      WHEN verb = 'create' AND resource = 'serviceaccounts' AND subresource = 'token'
        AND NOT starts_with(full_user, 'system:node:') THEN 'token-create'
      WHEN is_change AND resource = 'certificatesigningrequests' AND subresource = 'approval'
        THEN 'csr-approve'
      WHEN verb = 'update' AND resource = 'namespaces' AND subresource = 'finalize' THEN 'finalize'
    END AS notable_kind
  FROM stages LEFT JOIN ends_of_started USING (cluster, instance, stream, seq)
  WHERE terminal OR (long_running AND coalesce(code_or_null, 0) < 400);

-- notable. The user is the full one.
CREATE OR REPLACE TABLE t_notable AS
SELECT
  "at", cluster, instance, notable_kind AS kind, full_user AS "user", agent, impersonated, source, verb,
  "group", resource, subresource, namespace, name, code, uri, audit_id, level,
  CASE notable_kind WHEN 'scale-to-zero' THEN 'replicas=0'
                    WHEN 'cordon' THEN 'unschedulable=true'
                    WHEN 'delete-collection' THEN query
                    ELSE '' END AS detail
FROM judged
-- A long-running request is listed at its start, else at its end.
WHERE notable_kind IS NOT NULL AND (NOT terminal OR told IS NULL);

-- clients. All of it from all terminal and started events, whether requests or not, late or not; but only
-- requests of kinds 1 and 2 are counted. So who has but an open watch is here, with 0 requests; and so is a
-- node, in `fleet` and, where there are fewer than 16 others, in `heaviest`.
CREATE OR REPLACE TABLE t_clients AS
WITH node_counts AS (
  SELECT cluster, "user", agent, node, count(*) FILTER (kind IN (1, 2)) AS n
  FROM stages
  WHERE node <> ''
  GROUP BY cluster, "user", agent, node
),
fleets AS (
  SELECT cluster, "user", agent,
         count(*) AS fleet,
         array_to_string(list(node || '=' || n ORDER BY n DESC, node)[1:16], ';') AS heaviest
  FROM node_counts
  GROUP BY ALL
),
per_client AS (
  SELECT
    cluster, "user", agent,
    count(*) FILTER (kind IN (1, 2)) AS requests,
    min("at") AS "first",
    max("at") AS "last",
    regexp_extract("user", '^system:serviceaccount:([^:]+:[^:]+)$', 1) AS service_account,
    set_text(list(version)) AS versions,
    set_text(flatten(list(groups))) AS groups,
    set_text(list(node)) AS nodes,
    set_text(list(pod)) AS pods,
    set_text(list(instance)) AS instances
  FROM stages
  GROUP BY cluster, "user", agent
)
SELECT c.*, coalesce(fleet, 0) AS fleet, coalesce(heaviest, '') AS heaviest
FROM per_client c
LEFT JOIN fleets USING (cluster, "user", agent);

-- nodes. Where the requests of a client came from, as counted in clients.
CREATE OR REPLACE TABLE t_nodes AS
SELECT cluster, "user", agent, node, count(*) FILTER (kind IN (1, 2)) AS requests
FROM stages
WHERE node <> ''
GROUP BY ALL;

-- deprecated. What the apiserver itself calls so.
CREATE OR REPLACE TABLE t_deprecated AS
SELECT
  cluster, "user", agent, api_version AS version, resource, subresource,
  coalesce(annotations['k8s.io/removed-release'], '') AS removed,
  count(*) AS requests,
  min("at") AS "first",
  max("at") AS "last"
FROM stages
WHERE terminal AND annotations['k8s.io/deprecated'] = 'true'
GROUP BY ALL;

-- load. As traffic, by what never is too much.
CREATE OR REPLACE TABLE t_load AS
SELECT
  tile_of("at") AS tile, cluster, instance,
  CASE WHEN verb IN ('get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deletecollection',
                     'post', 'put', 'head', 'options', 'connect', 'proxy') THEN verb ELSE '(other)' END AS verb,
  CASE WHEN code = '' THEN '' WHEN code_or_null >= 600 THEN 'other' ELSE (code_or_null // 100) || 'xx' END AS class,
  count(kind) AS requests,
  count(*) FILTER (open) AS open,
  count(*) FILTER (terminal) AS ended,
  histogram_text(histogram(bucket(latency)) FILTER (latency IS NOT NULL)) AS latency,
  coalesce(sum(latency), 0)::BIGINT AS latency_sum,
  coalesce(max(latency), 0) AS latency_max
FROM stages s
GROUP BY ALL
HAVING count(kind) > 0 OR count(s.latency) > 0;

-- operations: docs/guard.md, "What counts".
CREATE OR REPLACE MACRO raw_param(query, wanted) AS
  regexp_extract(query, '(^|&)' || wanted || '=([^&]*)', 2);
CREATE OR REPLACE MACRO holds_all(list_json) AS
  json_type(list_json) = 'ARRAY' AND list_contains(from_json(list_json, '["VARCHAR"]'), 'All');
CREATE OR REPLACE TEMP TABLE dangerous AS
WITH looked AS (
  SELECT *,
    is_control_plane(full_user) AS of_control_plane,
    verb IN ('create', 'update', 'patch', 'delete', 'deletecollection') AS writes,
    raw_param(query, 'dryRun') = 'All'
      OR coalesce(holds_all(json_extract(request_object, '$.dryRun')), false) AS is_dry_run,
    raw_param(query, 'gracePeriodSeconds') = '0'
      OR coalesce(json_extract(request_object, '$.gracePeriodSeconds')::VARCHAR = '0', false) AS is_forced,
    coalesce(CASE json_type(request_object)
      WHEN 'OBJECT' THEN coalesce(json_extract(request_object, '$.spec.replicas')::VARCHAR = '0',
        verb = 'update' AND subresource = 'scale')
      WHEN 'ARRAY' THEN len(list_filter(
        json_extract(request_object, '$[*]'),
        lambda e: json_extract_string(e, '$.op') IN ('add', 'replace')
          AND coalesce(CASE json_extract_string(e, '$.path')
                WHEN '/spec/replicas' THEN json_extract(e, '$.value')
                WHEN '/spec' THEN json_extract(e, '$.value.replicas')
                WHEN '' THEN json_extract(e, '$.value.spec.replicas') END::VARCHAR = '0', false))) > 0
    END, false) AS scales_to_zero,
    subresource = 'scale'
      OR (subresource = '' AND resource IN ('deployments', 'statefulsets', 'replicasets', 'replicationcontrollers'))
      AS can_scale,
    coalesce(CASE json_type(request_object)
      WHEN 'OBJECT' THEN
        (verb = 'patch' AND json_type(request_object, '$.metadata.finalizers') = 'NULL')
        OR (verb = 'patch' AND json_extract(request_object, '$.metadata.finalizers')::VARCHAR = '[]')
        OR json_extract(request_object, '$.metadata."$deleteFromPrimitiveList/finalizers"') IS NOT NULL
      WHEN 'ARRAY' THEN len(list_filter(
        json_extract(request_object, '$[*]'),
        lambda e: starts_with(json_extract_string(e, '$.path'), '/metadata/finalizers')
          AND (json_extract_string(e, '$.op') = 'remove'
               OR (json_extract_string(e, '$.op') = 'replace'
                   AND coalesce(json_extract(e, '$.value')::VARCHAR, 'null') IN ('null', '[]'))))) > 0
    END, false) AS strips_finalizers,
    verb IN ('list', 'watch') OR (verb = 'get' AND subresource = '') AS reads
  FROM judged
),
found AS (
  SELECT *,
    CASE WHEN notable_kind = 'delete-pod' AND is_forced THEN 'force-delete'
         WHEN notable_kind = 'scale-to-zero' AND NOT scales_to_zero THEN NULL
         ELSE notable_kind END AS by_rule
  FROM looked
)
SELECT *,
  CASE WHEN terminal AND reads AND NOT (code = '403' AND resource = 'secrets') THEN NULL
       WHEN by_rule IS NOT NULL OR of_control_plane THEN by_rule
       -- Where the authorizer allowed it, admission denied it (a quota, a policy): no question of rights.
       WHEN code = '403' AND (writes OR resource = 'secrets')
         AND annotations['authorization.k8s.io/decision'] IS DISTINCT FROM 'allow' THEN 'forbidden'
       WHEN NOT is_change THEN NULL
       WHEN can_scale AND scales_to_zero THEN 'scale-to-zero'
       WHEN strips_finalizers THEN 'strip-finalizers' END AS danger
FROM found;

-- What a binding grants, and to whom.
CREATE OR REPLACE TEMP VIEW granting AS
SELECT *,
  list_transform(coalesce(json_extract(request_object, '$.subjects[*]'), []),
    lambda s: CASE WHEN json_extract_string(s, '$.kind') = 'ServiceAccount' AND json_extract_string(s, '$.namespace') IS NOT NULL
                   THEN json_extract_string(s, '$.namespace') || ':' || coalesce(json_extract_string(s, '$.name'), '')
                   ELSE coalesce(json_extract_string(s, '$.name'), '') END) AS subjects,
  array_to_string(subjects, ', ') AS to_whom,
  coalesce(json_extract_string(request_object, '$.roleRef.name'), '') AS role,
  CASE WHEN resource NOT IN ('clusterrolebindings', 'rolebindings') OR len(subjects) = 0 THEN ''
       WHEN role = '' THEN 'unknown rights to ' || to_whom
       WHEN (role = 'cluster-admin' AND json_extract_string(request_object, '$.roleRef.kind') IS DISTINCT FROM 'Role')
            OR list_has_any(subjects, ['system:anonymous', 'system:unauthenticated', 'system:authenticated'])
         THEN 'grants ' || role || ' to ' || to_whom
       ELSE role || ' to ' || to_whom END AS granted
FROM dangerous;

CREATE OR REPLACE TABLE t_operations AS
SELECT
  "at", cluster, instance, danger AS kind, full_user AS "user", agent, impersonated, source, verb,
  "group", resource, subresource, namespace, name, code, uri, audit_id, level,
  CASE danger WHEN 'scale-to-zero' THEN 'replicas=0'
              WHEN 'cordon' THEN 'unschedulable=true'
              WHEN 'delete-collection' THEN query
              WHEN 'force-delete' THEN 'gracePeriodSeconds=0'
              WHEN 'forbidden' THEN verb || ' ' || resource
              WHEN 'strip-finalizers' THEN 'metadata.finalizers'
              WHEN 'rbac-write' THEN CASE
                WHEN verb = 'delete' THEN ''
                WHEN request_object IS NULL THEN 'unknown rights'
                ELSE granted END
              ELSE '' END AS detail,
  coalesce(received_or_null, 0) AS received,
  NOT terminal AS started
FROM granting
WHERE danger IS NOT NULL AND NOT (terminal AND is_dry_run);

-- omitted. What a timeline of operations leaves out.
CREATE OR REPLACE TABLE t_omitted AS
WITH facts AS (
  SELECT *, 'dry-run' AS fact FROM dangerous WHERE terminal AND danger IS NOT NULL AND is_dry_run
  UNION ALL
  SELECT *, 'hidden' AS fact FROM dangerous
  WHERE terminal AND CASE
    WHEN danger = 'rbac-write' THEN verb <> 'delete' AND request_object IS NULL
    WHEN danger IS NULL THEN
      is_change AND NOT of_control_plane AND request_object IS NULL AND level = 'Metadata'
      AND (subresource = 'scale'
           OR (subresource = '' AND resource IN ('deployments', 'statefulsets', 'replicasets', 'nodes')))
    ELSE false END
)
SELECT tile_of("at") AS tile, cluster, instance, "user", agent, verb, "group", resource, subresource, namespace, fact,
       count(*) AS count
FROM facts
GROUP BY ALL;

-- cascades. What the control plane and kubelets deleted.
CREATE OR REPLACE TABLE t_cascades AS
SELECT tile_of("at") AS tile, cluster, namespace, "group", resource,
       count(*) FILTER (verb = 'delete') AS objects,
       count(*) FILTER (verb = 'deletecollection') AS collections,
       min("at") AS "first", max("at") AS "last"
FROM dangerous
WHERE terminal AND verb IN ('delete', 'deletecollection') AND code_or_null BETWEEN 200 AND 299
  AND (of_control_plane OR starts_with(full_user, 'system:node:'))
GROUP BY tile_of("at"), cluster, namespace, "group", resource;

-- created. Pods made by those whose deletions of pods are operations.
CREATE OR REPLACE TABLE t_created AS
SELECT cluster, full_user AS "user", namespace, name, count(*) AS count, min("at") AS "first", max("at") AS "last"
FROM dangerous
WHERE terminal AND danger IS NULL AND verb = 'create' AND resource = 'pods' AND subresource = ''
  AND code_or_null BETWEEN 200 AND 299 AND NOT is_dry_run AND NOT of_control_plane
  AND NOT starts_with(full_user, 'system:node:')
GROUP BY cluster, full_user, namespace, name;

-- leases. Runs of writes by one holder within a tile.
CREATE OR REPLACE TABLE t_leases AS
WITH asked AS (
  SELECT *,
    -- NULL: nothing is said; 'else': it is about something else; else 'is:' and the holder
    CASE WHEN request_object IS NULL THEN NULL
         WHEN verb = 'patch' AND json_type(request_object) = 'ARRAY' THEN
           CASE WHEN len(list_filter(json_extract(request_object, '$[*]'),
                  lambda e: json_extract_string(e, '$.path') = '/spec/holderIdentity')) > 0
                THEN 'is:' || coalesce(json_extract_string(list_filter(json_extract(request_object, '$[*]'),
                  lambda e: json_extract_string(e, '$.path') = '/spec/holderIdentity')[1], '$.value'), '')
                WHEN len(list_filter(json_extract(request_object, '$[*]'),
                  lambda e: json_extract_string(e, '$.path') = '/spec/renewTime')) > 0 THEN NULL
                ELSE 'else' END
         WHEN json_extract(request_object, '$.spec') IS NULL THEN 'else'
         WHEN verb <> 'patch' OR json_extract(request_object, '$.spec.holderIdentity') IS NOT NULL
           THEN 'is:' || coalesce(json_extract_string(request_object, '$.spec.holderIdentity'), '')
         WHEN json_extract(request_object, '$.spec.renewTime') IS NOT NULL THEN NULL
         ELSE 'else' END AS asked,
    CASE WHEN response_spec IS NOT NULL
         THEN 'is:' || coalesce(json_extract_string(response_spec, '$.holderIdentity'), '') END AS answered,
    coalesce(TRY_CAST(json_extract(response_spec, '$.leaseDurationSeconds')::VARCHAR AS BIGINT),
             TRY_CAST(json_extract(request_object, '$.spec.leaseDurationSeconds')::VARCHAR AS BIGINT), 0) AS seconds,
    CASE WHEN name <> '' THEN name WHEN response_name <> '' THEN response_name
         ELSE coalesce(json_extract_string(request_object, '$.metadata.name'), '') END AS lease
  FROM stages
  WHERE terminal AND verb IN ('create', 'update', 'patch') AND resource = 'leases'
    AND code_or_null BETWEEN 200 AND 299 AND namespace <> 'kube-node-lease'
),
said AS (
  SELECT *, tile_of("at") AS tile,
    substr(coalesce(answered, asked, 'is:'), 4) AS identity,
    coalesce(coalesce(answered, asked) = 'is:', false) AS released,
    CASE WHEN seconds BETWEEN 1 AND 1_000_000 THEN seconds * us_per_s() ELSE 0 END AS lasts
  FROM asked
  WHERE asked IS DISTINCT FROM 'else'
),
told AS (
  SELECT *,
    row_number() OVER w AS place,
    coalesce(lag(released) OVER w AND released, false) AS is_again,
    CASE WHEN lag(place_of_row) OVER w IS NULL THEN 1
         WHEN lag(released) OVER w THEN (NOT released)::INTEGER
         WHEN released THEN 0
         WHEN identity = '' OR lag(identity) OVER w = '' THEN
           ((full_user, agent, source) <> (lag(full_user) OVER w, lag(agent) OVER w, lag(source) OVER w))::INTEGER
         ELSE (identity <> lag(identity) OVER w)::INTEGER END AS begins
  FROM (SELECT *, 1 AS place_of_row FROM said)
  WINDOW w AS (PARTITION BY tile, cluster, namespace, lease
               ORDER BY "at", received, identity, full_user, agent, source, instance, stream, seq)
),
numbered AS (
  SELECT *, sum(begins) OVER (PARTITION BY tile, cluster, namespace, lease ORDER BY place) AS run FROM told
),
gaps AS (
  SELECT *, received - max("at") OVER (PARTITION BY tile, cluster, namespace, lease, run ORDER BY place
                                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS gap
  FROM numbered
)
SELECT tile, cluster, namespace, lease AS name,
  min_by(received, place) AS "first",
  max("at") FILTER (NOT is_again) AS "last",
  min_by(identity, place) AS identity,
  min_by(full_user, place) AS "user",
  min_by(agent, place) AS agent,
  min_by(source, place) AS source,
  count(*) AS writes,
  greatest(0, coalesce(max(gap) FILTER (NOT is_again), 0)) AS longest,
  max_by(released, place) AS released,
  coalesce(max_by(lasts, place) FILTER (lasts > 0 AND NOT is_again), 0) AS lasts
FROM gaps
GROUP BY tile, cluster, namespace, lease, run;

-- refusals. What quotas refused, by the message of their admission. Amounts in thousandths.
CREATE OR REPLACE MACRO milli(amount) AS
  (regexp_extract(amount, '^[0-9.]+')::DECIMAL(24, 3)
   * CASE regexp_extract(amount, '[^0-9.]*$') WHEN 'm' THEN 1 WHEN '' THEN 1_000 WHEN 'k' THEN 1_000_000
          WHEN 'M' THEN 1_000_000_000 WHEN 'G' THEN 1_000_000_000_000 END)::BIGINT;
CREATE OR REPLACE MACRO quantity_text(n) AS
  CASE WHEN n = 0 THEN '0'
       WHEN n % 1_000 <> 0 THEN n || 'm'
       WHEN n % 1_000_000 <> 0 THEN n // 1_000 || ''
       WHEN n % 1_000_000_000 <> 0 THEN n // 1_000_000 || 'k'
       WHEN n % 1_000_000_000_000 <> 0 THEN n // 1_000_000_000 || 'M'
       ELSE n // 1_000_000_000_000 || 'G' END;
CREATE OR REPLACE MACRO amount_of(list_text, wanted) AS
  list_filter(string_split(list_text, ','), lambda part: split_part(part, '=', 1) = wanted)[1];
CREATE OR REPLACE TABLE t_refusals AS
WITH messages AS (
  SELECT *, regexp_extract(message, 'exceeded quota: (.*?), requested: (.*?), used: (.*?), limited: ',
                           ['quota', 'requested', 'used']) AS parts
  FROM stages
  WHERE stage = 'ResponseComplete' AND code = '403' AND contains(message, 'exceeded quota: ')
),
amounts AS (
  SELECT *, unnest(string_split(parts.requested, ',')) AS part FROM messages WHERE parts.quota <> ''
)
SELECT tile_of("at") AS tile, cluster, namespace, parts.quota AS quota, split_part(part, '=', 1) AS resource,
  count(*) AS count,
  quantity_text(max(milli(split_part(part, '=', 2))
                    + coalesce(milli(split_part(amount_of(parts.used, split_part(part, '=', 1)), '=', 2)), 0))) AS needed,
  min("at") AS "first", max("at") AS "last"
FROM amounts
GROUP BY tile_of("at"), cluster, namespace, parts.quota, split_part(part, '=', 1);

-- Writes to objects that were done, in the order of time.
CREATE OR REPLACE TEMP VIEW object_writes AS
SELECT * FROM ordered
WHERE terminal AND verb IN ('update', 'patch') AND name <> '' AND code_or_null BETWEEN 200 AND 299
  AND NOT contains(uri, 'dryRun=');

-- writes. Objects that a client wrote to often within a minute; in the first minute and the last half as often, since
-- parts of one log may share it.
CREATE OR REPLACE TABLE t_writes AS
SELECT minute, cluster, "group", resource, subresource, namespace, name, "user", agent, writes
FROM (SELECT "at" // us_per_s() // 60 * 60 AS minute, cluster, "group", resource, subresource, namespace, name, "user", agent,
             count(*) AS writes
      FROM object_writes
      GROUP BY ALL),
     (SELECT min("at") // us_per_s() // 60 * 60 AS first_minute, max("at") // us_per_s() // 60 * 60 AS last_minute FROM stages)
WHERE writes >= 12 OR (writes >= 6 AND minute IN (first_minute, last_minute));

-- alternations. A write that follows one of another client, before which the same client had written: A, B, A.
CREATE OR REPLACE TABLE t_alternations AS
WITH three AS (
  SELECT *,
    lag("user") OVER w AS one_user, lag(agent) OVER w AS one_agent,
    lag("user", 2) OVER w AS two_user, lag(agent, 2) OVER w AS two_agent,
    "at" - lag("at", 2) OVER w AS long
  FROM object_writes
  WINDOW w AS (PARTITION BY cluster, "group", resource, subresource, namespace, name ORDER BY place)
)
SELECT cluster, "group", resource, subresource, namespace, name,
  least(("user", agent), (one_user, one_agent))[1] AS "user", least(("user", agent), (one_user, one_agent))[2] AS agent,
  greatest(("user", agent), (one_user, one_agent))[1] AS other_user,
  greatest(("user", agent), (one_user, one_agent))[2] AS other_agent,
  count(*) AS turns, min("at") AS "first", max("at") AS "last"
FROM three
WHERE ("user", agent) = (two_user, two_agent) AND ("user", agent) <> (one_user, one_agent)
  AND long <= 120 * us_per_s()
GROUP BY ALL;

-- failures. What the message of an answer names: of the words that only one fault has, those that come first.
CREATE OR REPLACE MACRO place_in(message, words) AS
  CASE WHEN instr(message, words) > 0 THEN instr(message, words) ELSE 1_000_000_000 END;
CREATE OR REPLACE MACRO is_webhooks(message) AS
  regexp_matches(message, '^admission webhook "[^"]*" denied the request');
CREATE OR REPLACE TABLE t_failures AS
WITH words(words, fault) AS (
  VALUES ('failed calling webhook ', 'webhook-failed'),
         ('conversion webhook for ', 'conversion-failed'),
         ('unable to transform key ', 'encryption'),
         ('failed to encrypt DEK', 'encryption'),
         ('failed to decrypt DEK', 'encryption'),
         ('encryptedDEKSource with keyID', 'encryption'),
         ('EDEK with keyID', 'encryption'),
         ('etcdserver: request is too large', 'object-too-large'),
         ('trying to send message larger than max', 'object-too-large'),
         ('etcdserver: mvcc: database space exceeded', 'store-full'),
         ('etcdserver: no leader', 'store-leader'),
         ('etcdserver: leader changed', 'store-leader'),
         ('etcdserver: not leader', 'store-leader'),
         ('etcdserver: request timed out, possibly due to previous leader failure', 'store-leader'),
         ('etcdserver: request timed out', 'store-timeout'),
         ('etcdserver: too many requests', 'store-unavailable'),
         ('etcdserver: server stopped', 'store-unavailable'),
         ('etcdserver: unhealthy cluster', 'store-unavailable'),
         ('etcdserver: corrupt cluster', 'store-unavailable'),
         ('rpc error: code = Unavailable', 'store-unavailable'),
         ('the server is currently unable to handle the request', 'api-unavailable'),
         ('error trying to reach service', 'api-unavailable'),
         ('storage is (re)initializing', 'starting'),
         ('apiserver is shutting down', 'starting')
),
answers AS (
  SELECT *, code_or_null = 429 OR code_or_null BETWEEN 500 AND 599 AS failed
  FROM stages
  WHERE terminal AND subresource <> 'proxy'
    AND code_or_null BETWEEN 400 AND 599
),
failed AS (
  SELECT tile_of("at") AS tile, cluster, instance, "user", agent, "group", resource, "at",
    min_by(fault, (place_in(message, words), -length(words))) AS fault,
    CASE min_by(fault, (place_in(message, words), -length(words)))
      WHEN 'webhook-failed' THEN regexp_extract(any_value(message), 'failed calling webhook [^"]*"([^"]*)', 1)
      WHEN 'conversion-failed' THEN regexp_extract(any_value(message), 'conversion webhook for ([^/]*)/', 1)
      ELSE '' END AS name
  FROM answers, words
  WHERE failed AND contains(message, words) AND NOT is_webhooks(message)
  GROUP BY tile, cluster, instance, "user", agent, "group", resource, "at", stream, seq
),
-- What a webhook answers that failed itself, and what none of the words is in.
others AS (
  SELECT tile_of("at") AS tile, cluster, instance, "user", agent, "group", resource, "at",
    CASE WHEN is_webhooks(message) THEN 'webhook-failed' ELSE 'other' END AS fault,
    CASE WHEN is_webhooks(message) THEN regexp_extract(message, 'admission webhook "([^"]*)"', 1) ELSE '' END AS name
  FROM answers
  WHERE failed AND message <> ''
    AND (is_webhooks(message)
         OR NOT (list_bool_or(list_transform((SELECT list(words) FROM words), lambda one: contains(message, one)))
                 OR contains(message, 'context deadline exceeded') OR contains(message, 'context canceled')
                 OR contains(message, 'request did not complete within')
                 OR contains(message, 'unable to return a response in the time allotted')
                 OR contains(message, 'Too many requests') OR contains(message, 'disruption budget')))
),
denied AS (
  SELECT tile_of("at") AS tile, cluster, instance, "user", agent, "group", resource, "at",
    CASE WHEN contains(message, 'admission webhook "') THEN
           CASE regexp_extract(message, 'admission webhook "[^"]*"( denied the request)?', 1)
             WHEN '' THEN '' ELSE 'webhook-denied' END
         WHEN contains(message, ' is forbidden: violates PodSecurity "') THEN 'policy-denied'
         WHEN regexp_matches(message, ' is forbidden: exceeded quota: .*, requested: ') THEN 'quota-exceeded'
         WHEN contains(message, ' is forbidden: ValidatingAdmissionPolicy ''') THEN 'policy-denied'
         ELSE '' END AS fault,
    CASE fault WHEN 'webhook-denied' THEN regexp_extract(message, 'admission webhook "([^"]*)"', 1)
               WHEN 'quota-exceeded' THEN regexp_extract(message, 'exceeded quota: (.*?), requested: ', 1)
               ELSE CASE WHEN contains(message, ' is forbidden: violates PodSecurity "') THEN 'PodSecurity'
                         ELSE regexp_extract(message, 'ValidatingAdmissionPolicy ''([^'']*)''', 1) END END AS name
  FROM answers
  WHERE NOT failed AND coalesce(annotations['authorization.k8s.io/decision'], '') <> 'forbid'
)
SELECT tile, cluster, instance, "user", agent, "group", resource, fault, name,
  count(*) AS count, min("at") AS "first", max("at") AS "last"
FROM (SELECT * FROM failed UNION ALL SELECT * FROM others UNION ALL SELECT * FROM denied)
WHERE fault <> ''
GROUP BY tile, cluster, instance, "user", agent, "group", resource, fault, name;

-- coverage, of which here only the events by level and stage: all stages, late or not.
CREATE OR REPLACE TABLE t_coverage_events AS
SELECT cluster, instance, stream, level, stage, count(*) AS events
FROM events
GROUP BY ALL;
