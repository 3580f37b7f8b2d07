//! Datasets (docs/dataset.md) on an engine: the lines that their rows were, as `dataset_lines` has them here, hour by
//! hour.

use crate::model::dataset::{ABOUT, AUDIT, Description, EVENTS, Kind, NO_NAME};
use crate::model::event::{BODY_SIZES, SPENT};
use spark_connect::SparkSession;
use spark_connect_core::SparkError;
use std::collections::BTreeMap;

/// Up to which byte a dataset holds each log; `None` where a folder is none.
pub(super) fn held(session: &SparkSession, root: &str) -> Result<Option<BTreeMap<String, u64>>, SparkError> {
    let about = format!("{}/{ABOUT}/*.json", root.trim_end_matches('/'));
    let texts = session.read().format("text").option("wholetext", "true").load(Some(&about));
    let rows = match texts.collect() {
        Ok(rows) => rows,
        Err(error) if error.message().contains("PATH_NOT_FOUND") => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut held = BTreeMap::new();
    let read = rows.iter().filter_map(|row| row.get(0)?.as_str().map(serde_json::from_str::<Description>));
    for (log, own) in read.flatten().flat_map(|own| own.logs) {
        let to = held.entry(log).or_insert(0);
        *to = own.to.max(*to);
    }
    Ok(Some(held))
}

/// Makes a view of a dataset's events.
pub(super) fn view(session: &SparkSession, root: &str, name: &str) -> Result<(), SparkError> {
    // Times without a zone are UTC.
    session.conf().set("spark.sql.session.timeZone", "UTC")?;
    let of = |kind| match kind {
        Kind::Time => "timestamp_ntz",
        Kind::Number => "bigint",
        Kind::Truth => "boolean",
        Kind::Text => "string",
        Kind::Texts => "array<string>",
        Kind::Real => "double",
    };
    let columns = EVENTS.iter().map(|column| format!("{} {}", column.name, of(column.kind)));
    let columns = columns.chain(["cluster", "date", "hour"].map(|name| format!("{name} string")));
    let schema = columns.collect::<Vec<_>>().join(", ");
    let folder = format!("{}/{AUDIT}", root.trim_end_matches('/'));
    session.read().format("parquet").schema(schema).load(Some(&folder)).create_or_replace_temp_view(name)
}

/// Selects what is selected of raw logs: `part`, `file`, `block`, `place`, `line`. A file is called as if it were the
/// log of its apiserver.
pub(super) fn select(view: &str, held: &BTreeMap<String, u64>) -> String {
    // What stands in an SQL text is looked at, whoever wrote it.
    let is_hash = |log: &&String| log.bytes().all(|byte| byte.is_ascii_hexdigit());
    let held: Vec<String> =
        held.iter().filter(|(log, _)| is_hash(log)).map(|(log, to)| format!("'{log}', {to}L")).collect();
    let is_held = match held.is_empty() {
        true => "false".to_owned(),
        false => format!("cast(from_byte as bigint) < try_element_at(map({}), log)", held.join(", ")),
    };
    let time = |column: &str| format!("replace(date_format({column}, 'yyyy-MM-dd HH:mm:ss.SSSSSS'), ' ', 'T') || 'Z'");
    // Once for the path, once for what it names.
    let folder = |column: &str| {
        let encoded = |text: &str| format!("replace(url_encode({text}), '+', '%20')");
        format!("coalesce({}, '{NO_NAME}')", encoded(&encoded(column)))
    };
    let unless = |is_none: &str, value: &str| format!("if({is_none}, null, {value})");
    let list = |column: &str| unless(&format!("{column} is null"), &format!("array({column})"));
    let extra = unless(
        "node is null and pod is null",
        &format!(
            "named_struct('authentication.kubernetes.io/node-name', {}, \
             'authentication.kubernetes.io/pod-name', {})",
            list("node"),
            list("pod")
        ),
    );
    let object = unless(
        "coalesce(resource, namespace, name, api_group, subresource) is null",
        "named_struct('resource', resource, 'namespace', namespace, 'name', name, 'apiGroup', api_group, \
         'subresource', subresource)",
    );
    let status = unless("code is null and message is null", "named_struct('message', message, 'code', code)");
    let head = format!(
        "named_struct('kind', 'Event', 'apiVersion', 'audit.k8s.io/v1', 'level', level, 'auditID', audit_id, \
         'stage', stage, 'requestURI', uri, 'verb', verb, \
         'user', named_struct('username', username, 'groups', groups, 'extra', {extra}), \
         'impersonatedUser', {}, 'sourceIPs', {}, 'userAgent', agent, 'objectRef', {object}, \
         'responseStatus', {status})",
        unless("impersonated is null", "named_struct('username', impersonated)"),
        list("source_ip"),
    );
    let [request, response, items] = BODY_SIZES;
    let [etcd, webhook, _, queue] = SPENT;
    let annotations = unless(
        "coalesce(etcd_us, webhook_us, queue_us, request_bytes, response_bytes) is null and decision is null and \
         not deprecated",
        &format!(
            "named_struct('{etcd}', cast(etcd_us as string) || 'us', \
             '{webhook}', cast(webhook_us as string) || 'us', \
             '{queue}', cast(queue_us as string) || 'us', \
             'authorization.k8s.io/decision', decision, \
             'authorization.k8s.io/reason', if(decision is null, null, ''), \
             'k8s.io/deprecated', if(deprecated, 'true', null), \
             'k8s.io/removed-release', if(deprecated, removed_release, null), \
             '{request}', cast(request_bytes as string), '{response}', cast(response_bytes as string), \
             '{items}', cast(response_items as string))"
        ),
    );
    let tail = format!(
        "named_struct('requestReceivedTimestamp', {}, 'stageTimestamp', at, 'annotations', {annotations})",
        time("received")
    );
    let body = |name: &str, bytes: &str, kept: &str| {
        format!("if({bytes} is null, '', concat(',\"{name}\":', coalesce({kept}, '{{}}')))")
    };
    // A text in JSON has no quote that is not escaped, so only the member itself is replaced.
    let line = format!(
        "concat(replace(left(head, length(head) - 1), '\"responseStatus\":{{', \
         '\"responseStatus\":{{\"metadata\":{{}},'), {}, {}, ',', substr(tail, 2))",
        body("requestObject", "request_bytes", "request_object"),
        body("responseObject", "response_bytes", "response_object"),
    );
    format!(
        "select substr(at, 1, 13) part, concat(regexp_extract(path, '^(.*)/{AUDIT}/cluster=', 1), '/{AUDIT}/cluster=', \
         {}, '/instance=', {}, '/audit.log.', conv(substr(log, 1, 15), 16, 10)) file, 0L block, seq place, \
         {line} line from (select *, to_json({head}) head, to_json({tail}) tail from (\
         select * except (node), if(username like 'system:node:%', null, node) node, {} at, path, \
         regexp_extract(path, '-([0-9]+)[.]parquet$', 1) from_byte \
         from (select *, input_file_name() path from {view})) where {is_held})",
        folder("cluster"),
        folder("instance"),
        time("event_time"),
    )
}
