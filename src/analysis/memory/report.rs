//! Groups as a report: rows for machines, a bar and tables for people.

use super::account::{Account, Part, amount};
use super::findings;
use super::heap::Heap;
use super::rates::Rates;
use super::seen::Seen;
use super::verdict::{Judged, Verdict};
use crate::model::input::InputReport;
use crate::model::memory::Sample;
use crate::model::report::{Report, Table, Value, Window};
use crate::model::time::{self, Micros, SECOND};
use crate::model::units::{bytes, percent, significant};

/// The columns of a row.
pub const FIELDS: [&str; 57] = [
    "path",
    "version",
    "usage",
    "limit",
    "limit_by",
    "anon",
    "file",
    "file_active",
    "file_inactive",
    "file_mapped",
    "file_dirty",
    "file_writeback",
    "shmem",
    "unevictable",
    "slab_reclaimable",
    "slab_unreclaimable",
    "kernel_stack",
    "pagetables",
    "percpu",
    "vmalloc",
    "kernel",
    "sock",
    "unexplained",
    "swap",
    "peak",
    "working_set",
    "reclaimable",
    "unreclaimable",
    "headroom",
    "headroom_with_cache",
    "high",
    "low",
    "min",
    "usage_share",
    "processes",
    "verdict",
    "confidence",
    "reasons",
    "seconds",
    "refaults_per_s",
    "refault_share_per_min",
    "scans_per_s",
    "steals_per_s",
    "limit_hits",
    "oom_kills",
    "psi_some",
    "psi_full",
    "usage_per_s",
    "unreclaimable_per_s",
    "depth",
    "at",
    "stat",
    "files",
    "tables",
    "pressure",
    "numa",
    "unknown",
];

impl Seen {
    /// The values of [`FIELDS`].
    fn row(&self) -> Vec<Value> {
        let (a, s) = (&self.account, &self.sample);
        let signed = |bytes: Option<i64>| {
            bytes.map_or(Value::None, |bytes| u64::try_from(bytes).map_or(Value::Number(bytes as f64), Value::Count))
        };
        let rate = |of: fn(&Rates) -> Option<f64>| Value::from(self.rates.as_ref().and_then(of));
        let count = |of: fn(&Rates) -> Option<u64>| Value::from(self.rates.as_ref().and_then(of));
        let fields = |fields: &[(String, u64)]| {
            Value::Group(fields.iter().map(|(name, value)| (name.clone(), Value::Count(*value))).collect())
        };
        let values =
            s.values.iter().map(|(name, value)| (name.clone(), value.number().map_or("max".into(), Value::Count)));
        let tables = s.tables.iter().map(|(name, own)| (name.clone(), fields(own)));
        let stall = |stall: &crate::model::memory::Stall| {
            Value::Group(vec![
                ("avg10".to_owned(), stall.avg10.into()),
                ("avg60".to_owned(), stall.avg60.into()),
                ("avg300".to_owned(), stall.avg300.into()),
                ("total_us".to_owned(), stall.total_us.into()),
            ])
        };
        let pressure = s.pressure.map(|psi| {
            let full = psi.full.as_ref().map(|full| ("full".to_owned(), stall(full)));
            Value::Group(std::iter::once(("some".to_owned(), stall(&psi.some))).chain(full).collect())
        });
        let v2 = |file: &str, old: &str| {
            amount(s, file, old).map_or(Value::None, |v| v.number().map_or("max".into(), Value::Count))
        };
        vec![
            s.path.as_str().into(),
            s.version.name().into(),
            a.usage.into(),
            a.limit.into(),
            Some(a.limit_by.as_str()).filter(|by| !by.is_empty()).into(),
            a.anon.into(),
            a.file.into(),
            a.file_active.into(),
            a.file_inactive.into(),
            a.file_mapped.into(),
            a.file_dirty.into(),
            a.file_writeback.into(),
            a.shmem.into(),
            a.unevictable.into(),
            a.slab_reclaimable.into(),
            a.slab_unreclaimable.into(),
            a.kernel_stack.into(),
            a.pagetables.into(),
            a.percpu.into(),
            a.vmalloc.into(),
            a.kernel.into(),
            a.sock.into(),
            signed(a.unexplained),
            a.swap.into(),
            a.peak.into(),
            a.working_set.into(),
            a.reclaimable.into(),
            a.unreclaimable.into(),
            signed(a.headroom),
            signed(a.headroom_with_cache),
            v2("memory.high", "memory.soft_limit_in_bytes"),
            v2("memory.low", ""),
            v2("memory.min", ""),
            a.fill().into(),
            s.processes.into(),
            self.judged.verdict.name().into(),
            self.judged.confidence.into(),
            Value::Text(self.judged.reasons.join("; ")),
            rate(|r| Some(r.seconds)),
            rate(|r| r.refaults_per_s),
            rate(|r| r.refault_share),
            rate(|r| r.scans_per_s),
            rate(|r| r.steals_per_s),
            count(|r| r.limit_hits),
            count(|r| r.oom_kills),
            rate(|r| r.psi_some),
            rate(|r| r.psi_full),
            rate(|r| r.usage_per_s),
            rate(|r| r.firm_per_s),
            self.depth.into(),
            Value::Text(time::format(s.at)),
            fields(&s.stat),
            Value::Group(values.collect()),
            Value::Group(tables.collect()),
            pressure.unwrap_or_default(),
            Value::Group(s.numa.iter().map(|(name, nodes)| (name.clone(), nodes.as_str().into())).collect()),
            Value::Group(unknown(s).into_iter().map(|(name, value)| (name, value.into())).collect()),
        ]
    }
}

/// Fields of `memory.stat` that the kernel's documents name, or that have been met and are understood.
const KNOWN: [&str; 82] = [
    "anon",
    "file",
    "kernel",
    "kernel_stack",
    "pagetables",
    "sec_pagetables",
    "percpu",
    "sock",
    "vmalloc",
    "shmem",
    "zswap",
    "zswapped",
    "file_mapped",
    "file_dirty",
    "file_writeback",
    "swapcached",
    "anon_thp",
    "file_thp",
    "shmem_thp",
    "inactive_anon",
    "active_anon",
    "inactive_file",
    "active_file",
    "unevictable",
    "slab_reclaimable",
    "slab_unreclaimable",
    "slab",
    "workingset_refault_anon",
    "workingset_refault_file",
    "workingset_activate_anon",
    "workingset_activate_file",
    "workingset_restore_anon",
    "workingset_restore_file",
    "workingset_nodereclaim",
    "workingset_refault",
    "workingset_activate",
    "workingset_restore",
    "pswpin",
    "pswpout",
    "pgscan",
    "pgsteal",
    "pgscan_kswapd",
    "pgscan_direct",
    "pgscan_khugepaged",
    "pgscan_proactive",
    "pgsteal_kswapd",
    "pgsteal_direct",
    "pgsteal_khugepaged",
    "pgsteal_proactive",
    "pgfault",
    "pgmajfault",
    "pgrefill",
    "pgactivate",
    "pgdeactivate",
    "pglazyfree",
    "pglazyfreed",
    "swpin_zero",
    "swpout_zero",
    "zswpin",
    "zswpout",
    "zswpwb",
    "thp_fault_alloc",
    "thp_collapse_alloc",
    "thp_swpout",
    "thp_swpout_fallback",
    "numa_pages_migrated",
    "numa_pte_updates",
    "numa_hint_faults",
    "pgdemote_kswapd",
    "pgdemote_direct",
    "pgdemote_khugepaged",
    "pgdemote_proactive",
    "hugetlb",
    "cache",
    "rss",
    "rss_huge",
    "mapped_file",
    "dirty",
    "writeback",
    "swap",
    "pgpgin",
    "pgpgout",
];

/// Fields of `memory.stat` that are not among those that are known: kept and shown, whatever they mean.
pub fn unknown(sample: &Sample) -> Vec<(String, u64)> {
    let known = |name: &str| {
        let name = name.strip_prefix("total_").unwrap_or(name);
        KNOWN.contains(&name) || matches!(name, "hierarchical_memory_limit" | "hierarchical_memsw_limit")
    };
    sample.stat.iter().filter(|(name, _)| !known(name)).cloned().collect()
}

/// Columns of a bar; with its frame it fits in 80.
const BAR: usize = 76;

/// A bar of letters as long as each part, with dots up to the limit.
pub fn bar(parts: &[Part], whole: u64) -> String {
    let mut text = String::from("[");
    let (mut sum, mut drawn) = (0.0, 0);
    for part in parts {
        sum += part.bytes.max(0) as f64;
        let end = ((sum / whole.max(1) as f64 * BAR as f64).round() as usize).min(BAR);
        text.extend(std::iter::repeat_n(part.letter, end.saturating_sub(drawn)));
        drawn = drawn.max(end);
    }
    text.extend(std::iter::repeat_n('.', BAR - drawn));
    text + "]"
}

fn table(columns: &[&str], rows: Vec<Vec<Value>>) -> Table {
    Table { columns: columns.iter().map(|name| (*name).to_owned()).collect(), rows, ..Table::default() }
}

fn size(bytes_: i64) -> String {
    if bytes_ < 0 { format!("-{}", bytes(-(bytes_ as f64))) } else { bytes(bytes_ as f64) }
}

/// One group for a person: what it is made of, and what that leaves.
fn one(seen: &Seen) -> (Vec<String>, Vec<Table>) {
    let (a, s) = (&seen.account, &seen.sample);
    let Judged { verdict, confidence, .. } = seen.judged;
    let sure =
        if verdict == Verdict::Unknown { String::new() } else { format!(" (confidence {})", percent(confidence)) };
    let why = if a.usage.is_none() { "its usage is unknown" } else { verdict.explain() };
    let mut lead = vec![format!("{}: {}{sure}: {why}.", s.path, verdict.name())];
    lead.extend(seen.judged.reasons.iter().map(|reason| format!("- {reason}")));
    let parts = a.parts(s);
    let usage = a.usage.unwrap_or(0);
    if a.usage.is_some() {
        lead.push(bar(&parts, a.limit.unwrap_or(usage).max(usage)));
    }
    let rows = parts.iter().filter(|part| part.bytes != 0).map(|part| {
        let share = if usage > 0 { Value::from(part.bytes.max(0) as f64 / usage as f64) } else { Value::None };
        vec![Value::Text(part.letter.to_string()), part.name.into(), Value::Text(size(part.bytes)), share]
    });
    let mut made_of = table(&["in_bar", "part", "size", "of_usage"], rows.collect());
    made_of.rows.push(vec![
        "".into(),
        "usage".into(),
        Value::Text(a.usage.map_or("-".to_owned(), |usage| bytes(usage as f64))),
        Value::None,
    ]);
    let mut facts: Vec<Vec<Value>> = Vec::new();
    let mut fact = |what: String, bytes: Option<i64>| {
        facts.extend(bytes.map(|bytes| vec![Value::Text(what), Value::Text(size(bytes))]))
    };
    let signed = |bytes: Option<u64>| bytes.and_then(|bytes| i64::try_from(bytes).ok());
    let by = match a.limit_by.as_str() {
        "host" => "the machine's memory".to_owned(),
        by if by == s.path => "its own".to_owned(),
        by => format!("of {by}"),
    };
    fact(format!("limit ({by})"), signed(a.limit));
    fact("left below the limit".to_owned(), a.headroom);
    if let Some(above) = &a.crowded {
        fact(format!("left below that of {}, which holds it", above.path), Some(above.room()));
    }
    fact("left if reclaimable cache is freed".to_owned(), a.headroom_with_cache);
    fact("working set (kubelet's: usage minus inactive file cache)".to_owned(), signed(a.working_set));
    fact("reclaimable (clean cache, reclaimable slab)".to_owned(), signed(a.reclaimable));
    fact("cache mapped by processes".to_owned(), signed(a.file_mapped));
    fact("cache not yet written".to_owned(), signed(a.file_dirty).filter(|dirty| *dirty > 0));
    fact("in swap".to_owned(), signed(a.swap).filter(|swap| *swap > 0));
    fact("highest usage so far".to_owned(), signed(a.peak));
    (lead, vec![made_of, table(&["what", "size"], facts)])
}

fn many(of: &[Seen]) -> Table {
    let columns =
        ["group", "state", "used_bytes", "limit_bytes", "anon_bytes", "cache_bytes", "back_bytes", "left_bytes"];
    let rows = of.iter().map(|seen| {
        let (a, s) = (&seen.account, &seen.sample);
        let name = if seen.depth == 0 { s.path.as_str() } else { s.path.rsplit('/').next().unwrap_or(&s.path) };
        let left = a.headroom.map_or(Value::None, |left| Value::Number(left as f64));
        vec![
            Value::Text(format!("{}{name}", "  ".repeat(seen.depth.min(12) as usize))),
            seen.judged.verdict.name().into(),
            a.usage.into(),
            a.limit.into(),
            a.anon.into(),
            a.cache().into(),
            a.reclaimable.into(),
            left,
        ]
    });
    table(&columns, rows.collect())
}

/// What else is said of groups.
#[derive(Debug, Default)]
pub struct MemoryInput {
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// Go's heaps beside the groups.
    pub heaps: Vec<Heap>,
    /// Sentences.
    pub notes: Vec<String>,
}

/// From the first sample to the last.
pub fn window(of: &[Seen]) -> Window {
    let times = || of.iter().map(|seen| seen.sample.at);
    let length = of.iter().filter_map(|seen| seen.rates.as_ref()).map(|rates| rates.seconds).fold(0.0, f64::max);
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return Window::default() };
    let first = first - (length * SECOND as f64) as Micros;
    Window::of(Some((first, last)))
}

/// The rows, and everything around them but what people see.
pub fn rows(schema: &str, of: &[Seen]) -> Report {
    let sum = |of_one: fn(&Account) -> Option<u64>| {
        Value::from(of.iter().filter(|seen| seen.depth == 0).map(|seen| of_one(&seen.account)).sum::<Option<u64>>())
    };
    let mut coverage = serde_json::Map::new();
    coverage.insert("groups".to_owned(), of.len().into());
    coverage.insert("with_rates".to_owned(), of.iter().filter(|seen| seen.rates.is_some()).count().into());
    coverage.insert("page_bytes".to_owned(), (super::rates::PAGE as u64).into());
    Report {
        schema: format!("plimsoll.{schema}/v1"),
        window: window(of),
        coverage,
        totals: vec![("usage".to_owned(), sum(|a| a.usage)), ("reclaimable".to_owned(), sum(|a| a.reclaimable))],
        table: table(&FIELDS, of.iter().map(Seen::row).collect()),
        ..Report::default()
    }
}

/// `memory show`.
pub fn show(of: &[Seen], input: MemoryInput) -> Report {
    let mut report = rows("memory-show", of);
    let mut people;
    match of {
        [seen] => (report.lead, people) = one(seen),
        _ => people = vec![many(of)],
    }
    let mut notes = input.notes;
    for seen in of {
        let fields = unknown(&seen.sample);
        if !fields.is_empty() && of.len() == 1 {
            let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name} {value}")).collect();
            notes.push(format!("Kernel fields that plimsoll does not interpret: {}.", fields.join(", ")));
        }
        let tight = seen
            .sample
            .above
            .iter()
            .map(|above| (above, Account::of(above, None)))
            .filter(|(above, _)| !above.is_root());
        for (above, account) in
            tight.filter(|(_, account)| account.fill().is_some_and(|fill| fill >= super::verdict::FULL))
        {
            let (fill, firm) = (account.fill().unwrap_or(0.0), account.firm().unwrap_or(0.0));
            notes.push(format!(
                "The parent cgroup, {}, is at {} of its limit, {} without cache.",
                above.path,
                percent(fill),
                percent(firm)
            ));
        }
        if seen.rates.is_none() && of.len() == 1 {
            notes.push("One sample: refaults are unknown; use memory watch.".to_owned());
        }
    }
    if !input.heaps.is_empty() {
        let heaps = super::heap::table(&input.heaps);
        people.push(super::heap::for_people(&input.heaps));
        report.tables.push(heaps);
    }
    report.people = Some(people);
    report.findings = of.iter().filter_map(|seen| findings::finding(seen, None)).collect();
    report.inputs = input.inputs;
    report.notes = notes;
    report
}

/// One number that a chart shows, with what people read beside it.
fn charted(name: &str, values: &[Option<f64>], scale: f64, shown: impl Fn(f64) -> String) -> Option<Vec<Value>> {
    let last = values.iter().rev().find_map(|value| *value)?;
    let highest = values.iter().flatten().copied().fold(0.0, f64::max);
    let scale = if scale > 0.0 { scale } else { highest };
    // A fixed scale, which a sparkline has not: 2 % of the limit must not look full.
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |value: &Option<f64>| {
        BARS[value.map_or(0, |value| (value / scale.max(1e-9) * 8.0).ceil().clamp(0.0, 8.0) as usize)]
    };
    let course = values.iter().map(bar).collect();
    Some(vec![name.into(), Value::Text(shown(last)), Value::Text(shown(highest)), Value::Text(course)])
}

/// `memory watch`: the last sample, and the course of those before it.
pub fn watch(past: &[Vec<Seen>], width: usize) -> Report {
    let last: &[Seen] = past.last().map_or(&[], Vec::as_slice);
    let mut report = rows("memory-watch", last);
    let mut people = Vec::new();
    for seen in last {
        let course: Vec<&Seen> = past.iter().flatten().filter(|other| other.sample.path == seen.sample.path).collect();
        let course = &course[course.len().saturating_sub(width)..];
        let of = |value: &dyn Fn(&Seen) -> Option<f64>| course.iter().map(|seen| value(seen)).collect::<Vec<_>>();
        let amount = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
        let rate = |value: fn(&Rates) -> Option<f64>| of(&|seen| seen.rates.as_ref().and_then(value));
        let limit = amount(seen.account.limit).unwrap_or(0.0);
        let per_second = |value: f64| format!("{}/s", significant(value));
        let rows = [
            charted("usage", &of(&|seen| amount(seen.account.usage)), limit, bytes),
            charted("anonymous", &of(&|seen| amount(seen.account.anon)), limit, bytes),
            charted("file cache", &of(&|seen| amount(seen.account.cache())), limit, bytes),
            charted("refaults", &rate(|r| r.refaults_per_s), 0.0, per_second),
            charted("scanned", &rate(|r| r.scans_per_s), 0.0, per_second),
            charted("reclaimed", &rate(|r| r.steals_per_s), 0.0, per_second),
            charted("waiting (some)", &rate(|r| r.psi_some), 1.0, percent),
            charted("waiting (all)", &rate(|r| r.psi_full), 1.0, percent),
        ];
        let mut chart = table(&["what", "now", "most", "course"], rows.into_iter().flatten().collect());
        let Judged { verdict, confidence, .. } = seen.judged;
        chart.title = format!(
            "{}: {} (confidence {}): {}.",
            seen.sample.path,
            verdict.name(),
            percent(confidence),
            seen.judged.reasons.join("; ")
        );
        people.push(chart);
    }
    report.people = Some(people);
    report
}
