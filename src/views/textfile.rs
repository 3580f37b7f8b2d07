//! Memory rows as Prometheus text, for node_exporter's textfile collector.

use crate::model::report::{Report, Value};
use std::io::{self, Write};

/// Column, metric, help. All are gauges: what is cumulative in the kernel is reported as a rate.
const METRICS: [(&str, &str, &str); 22] = [
    ("usage", "usage_bytes", "Memory charged to the cgroup."),
    ("limit", "limit_bytes", "The lowest limit of the cgroup, its ancestors and the machine."),
    ("anon", "anon_bytes", "Anonymous memory."),
    ("file", "file_bytes", "Page cache and shared memory."),
    ("file_active", "file_active_bytes", "Page cache on the active list."),
    ("file_inactive", "file_inactive_bytes", "Page cache on the inactive list."),
    ("file_dirty", "file_dirty_bytes", "Page cache not yet written."),
    ("shmem", "shmem_bytes", "tmpfs and shared memory."),
    ("slab_reclaimable", "slab_reclaimable_bytes", "Kernel objects that can be dropped."),
    ("kernel", "kernel_bytes", "Memory of the kernel."),
    ("swap", "swap_bytes", "Swap used."),
    ("working_set", "working_set_bytes", "Usage minus inactive file pages."),
    ("reclaimable", "reclaimable_bytes", "Clean page cache and reclaimable slab."),
    ("unreclaimable", "unreclaimable_bytes", "The rest of the usage."),
    ("headroom", "headroom_bytes", "Limit less usage."),
    ("headroom_with_cache", "headroom_with_cache_bytes", "Limit less what can not be reclaimed."),
    ("refaults_per_s", "refaults_per_second", "File pages that refaulted soon after eviction."),
    ("scans_per_s", "scans_per_second", "Pages scanned by reclaim."),
    ("steals_per_s", "steals_per_second", "Pages stolen by reclaim."),
    ("psi_some", "pressure_some_ratio", "Share of time in which some tasks waited for memory."),
    ("psi_full", "pressure_full_ratio", "Share of time in which all tasks waited for memory."),
    ("oom_kills", "oom_kills", "Processes killed because memory ran out (OOM) in the last minute."),
];

/// Writes the rows; what is not known is left out.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let table = &report.table;
    let column = |name: &str| table.column(name);
    let label = |row: &[Value]| match column("path").map(|at| &row[at]) {
        Some(Value::Text(path)) => escape(path),
        _ => String::new(),
    };
    for (name, metric, help) in METRICS {
        let Some(at) = column(name) else { continue };
        let number = |row: &Vec<Value>| match row[at] {
            Value::Count(count) => Some(count as f64),
            Value::Number(number) => Some(number),
            _ => None,
        };
        if table.rows.iter().any(|row| number(row).is_some()) {
            writeln!(out, "# HELP plimsoll_memory_{metric} {help}\n# TYPE plimsoll_memory_{metric} gauge")?;
        }
        for row in &table.rows {
            if let Some(number) = number(row) {
                writeln!(out, "plimsoll_memory_{metric}{{group=\"{}\"}} {number}", label(row))?;
            }
        }
    }
    writeln!(
        out,
        "# HELP plimsoll_memory_verdict 1 for the verdict on the cgroup.\n# TYPE plimsoll_memory_verdict gauge"
    )?;
    for row in &table.rows {
        if let Some(Value::Text(verdict)) = column("verdict").map(|at| &row[at]) {
            writeln!(out, "plimsoll_memory_verdict{{group=\"{}\",verdict=\"{}\"}} 1", label(row), escape(verdict))?;
        }
    }
    writeln!(out, "# HELP plimsoll_memory_finding 1 for each active finding.\n# TYPE plimsoll_memory_finding gauge")?;
    for finding in &report.findings {
        let cgroup = finding.subject.get("cgroup").map_or("", String::as_str);
        writeln!(
            out,
            "plimsoll_memory_finding{{group=\"{}\",id=\"{}\",severity=\"{}\"}} 1",
            escape(cgroup),
            escape(&finding.id),
            finding.severity.name()
        )?;
    }
    Ok(())
}

/// Names of all metrics that [`write()`] writes.
pub fn metrics() -> Vec<String> {
    let names = METRICS.iter().map(|(_, metric, _)| *metric).chain(["verdict", "finding"]);
    names.map(|name| format!("plimsoll_memory_{name}")).collect()
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
