//! Placeholders in the expressions of boards and rules.
//!
//! | placeholder | stands for |
//! |---|---|
//! | `$sel` | matchers of the cluster and the instance that the reader of a board chose |
//! | `$all` | those of the cluster alone |
//! | `[$rate]` | a window of at least four scrapes |
//! | `[$range]` | the time that the board shows |
//! | `$leading` | behind a selector: of processes that elect a leader the leader only, others show the same |
//! | `$burn[5m]` | how many times faster than sustainable the error budget is used up, on a board |
//! | `$bad[5m]`, `$counted[5m]` | requests per second that miss the objective, and that it counts; in rules |

/// Share of requests that may be slow or fail: the objective is 99 % (docs/metrics.md, section 4).
const BUDGET: f64 = 0.01;

/// Requests that the objective counts: those for resources, without what runs as long as its client likes.
const COUNTED: &str = r#"verb=~"GET|LIST|POST|PUT|PATCH|APPLY|DELETE",scope=~"resource|namespace|cluster""#;
const RESOURCES: &str = r#"resource!="",subresource!~"proxy|exec|attach|log|portforward""#;

/// Behind a selector: where somebody leads, only of whom.
const LEADING: &str = "unless on (cluster, job, instance) leader_election_master_status == 0";

/// The expression, with what stands for other expressions written out.
pub fn expand(expr: &str) -> String {
    let mut out = expr.replace("$leading", LEADING);
    for (name, write) in
        [("$burn[", burn as fn(&str) -> String), ("$bad[", |w| bad("", w)), ("$counted[", |w| counted("", w))]
    {
        while let Some((before, rest)) = out.split_once(name)
            && let Some((window, after)) = rest.split_once(']')
        {
            out = format!("{before}{}{after}", write(window));
        }
    }
    out
}

/// `topk` chooses again at each step, so that lines break off; in a graph the ten with the highest maximum are meant.
pub fn of_all_time(expr: String) -> String {
    let inner = expr.strip_prefix("topk(10, ").and_then(|rest| rest.strip_suffix(')'));
    inner.map(|own| format!("({own}) and topk(10, max_over_time(({own})[$range:1m] @ end()))")).unwrap_or(expr)
}

/// The expression in one line, with the other placeholders in Grafana's notation.
pub fn for_grafana(expr: &str) -> String {
    let line = expr.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace("$sel", r#"cluster=~"$cluster",instance=~"$instance""#)
        .replace("$all", r#"cluster=~"$cluster""#)
        .replace("[$rate]", "[$__rate_interval]")
        .replace("[$range]", "[$__range]")
        .replace("[$range:1m]", "[$__range:1m]")
}

fn burn(window: &str) -> String {
    // Rounding may leave less than nothing.
    format!("clamp_min(({}) / {} / {BUDGET}, 0)", bad("$sel,", window), counted("$sel,", window))
}

fn counted(matchers: &str, window: &str) -> String {
    format!("sum by (cluster) (rate(apiserver_request_total{{{matchers}{COUNTED},{RESOURCES}}}[{window}]))")
}

/// Too slow (mutating and reads of one object 1 s, reads of more 30 s), or answered with 0 or 5xx; one that is both
/// counts twice.
/// Prometheus 3 writes the bound 1 as `1.0`.
fn bad(matchers: &str, window: &str) -> String {
    let sli = "apiserver_request_sli_duration_seconds";
    let classes = [
        (r#"le=~"1(\\.0)?""#, r#"verb=~"POST|PUT|PATCH|APPLY|DELETE",scope=~"resource|namespace|cluster""#),
        (r#"le=~"1(\\.0)?""#, r#"verb=~"GET|LIST",scope="resource""#),
        (r#"le=~"30(\\.0)?""#, r#"verb=~"GET|LIST",scope=~"namespace|cluster""#),
    ];
    let bucket = |(bound, class): (&str, &str)| format!("{sli}_bucket{{{matchers}{bound},{class},{RESOURCES}}}");
    let in_time = classes.map(|own| format!("rate({}[{window}])", bucket(own))).join("\n  or ");
    let all = counted(matchers, window);
    let timed = format!("sum by (cluster) (rate({sli}_count{{{matchers}{COUNTED},{RESOURCES}}}[{window}]))");
    let failed = counted(&format!("{matchers}code=~\"0|5..\","), window);
    // Where somebody drops the buckets of a bound, nobody knows what was slow: it is not everything.
    let of_each = classes.map(|own| {
        let counts = format!("{sli}_count{{{matchers}{},{RESOURCES}}}", own.1);
        format!("unless on (cluster) (\n  {counts}\n  unless on (cluster) {}\n)", bucket(own))
    });
    let known = of_each.join("\n");
    format!("(\n{timed}\n- sum by (cluster) (\n  {in_time}\n)\n{known}\n)\n+ (\n  {failed}\n  or 0 * {all}\n)")
}
