//! Go's own account of its heap beside the group's anonymous memory: by metrics, or by a heap profile.

use crate::analysis::memory::seen::Seen;
use crate::analysis::metrics::catalogue::Metric;
use crate::analysis::metrics::facts::Facts;
use crate::model::report::{Table, Value};
use crate::model::stacks::Stacks;
use crate::model::time::{self, MINUTE, Micros};
use crate::model::units::{bytes, duration};

/// Between a profile or a page and the group's sample, more time than this is said.
const MAX_DISTANCE_US: Micros = MINUTE;

/// Where figures of a heap are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeapSource {
    /// A metrics page.
    #[default]
    Metrics,
    /// A heap profile.
    Profile,
}

impl HeapSource {
    fn name(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Profile => "profile",
        }
    }
}

/// What a Go program says of its memory, beside a group's. All in bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Heap {
    pub group: String,
    /// The instance on whose pages it stands.
    pub instance: String,
    /// Where its figures are from.
    pub by: HeapSource,
    /// When it was reported, if that is known.
    pub at: Option<Micros>,
    /// Objects in use at the last collection, as far as the profile's samples show (`inuse_space`).
    pub objects: Option<f64>,
    /// Spans with objects.
    pub in_use: Option<f64>,
    /// Spans without; holds what was released.
    pub idle: Option<f64>,
    /// Given back to the kernel.
    pub released: Option<f64>,
    /// Stacks of goroutines.
    pub stacks: Option<f64>,
    /// Everything that Go has asked the kernel for.
    pub total: Option<f64>,
    /// The heap's size at which the next collection is due.
    pub next_gc: Option<f64>,
    /// The process's resident memory.
    pub resident: Option<f64>,
    /// The group's anonymous memory.
    pub anon: Option<u64>,
}

impl Heap {
    /// What Go holds of the kernel's memory.
    fn held(&self) -> Option<f64> {
        Some(self.total? - self.released.unwrap_or(0.0))
    }

    /// Anonymous memory that Go knows nothing of: C code, or other processes of the group.
    fn outside(&self) -> Option<f64> {
        Some(self.anon? as f64 - self.held()?)
    }

    /// Anonymous memory beyond the objects of a profile: garbage that waits for the next collection, free spans,
    /// stacks, the runtime's own, and what Go knows nothing of.
    fn beyond(&self) -> Option<f64> {
        Some(self.anon? as f64 - self.objects?)
    }
}

/// The group that an instance's name fits; with `alone`, the only one fits any name.
fn group_of<'s>(instance: &str, of: &'s [Seen], alone: bool) -> Option<&'s Seen> {
    let short = instance.strip_prefix("kube-").unwrap_or(instance);
    let same = |seen: &&Seen| {
        let path = &seen.sample.path;
        let own = path.rsplit('/').next().unwrap_or(path);
        !short.is_empty() && own.strip_prefix("kube-").unwrap_or(own) == short
    };
    of.iter().find(same).or_else(|| of.first().filter(|_| of.len() == 1 && alone))
}

/// Heaps of the instances whose pages show, each beside the group that its name fits; of one instance and one group no
/// name is needed.
pub fn of_metrics(facts: &Facts, of: &[Seen]) -> Vec<Heap> {
    let mut heaps = Vec::new();
    for (number, instance) in facts.instances.iter().enumerate() {
        let last = |metric| facts.last_of(metric, |fact| fact.instance == number);
        let sum = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
        let in_use = last(Metric::GoHeapInUse).or_else(|| sum(last(Metric::GoHeapObjects), last(Metric::GoHeapUnused)));
        let released = last(Metric::GoHeapReleased);
        if in_use.is_none() {
            continue;
        }
        let Some(seen) = group_of(&instance.name, of, facts.instances.len() == 1) else { continue };
        heaps.push(Heap {
            group: seen.sample.path.clone(),
            instance: instance.name.clone(),
            by: HeapSource::Metrics,
            at: Some(instance.to),
            objects: None,
            in_use,
            idle: last(Metric::GoHeapIdle).or_else(|| sum(last(Metric::GoHeapFree), released)),
            released,
            stacks: last(Metric::GoStacks),
            total: last(Metric::GoTotal),
            next_gc: last(Metric::GoNextGc),
            resident: last(Metric::ProcessResident),
            anon: seen.account.anon,
        });
    }
    heaps
}

/// The heap by a profile of `instance`, beside the group that its name fits; with `alone`, no name is needed where
/// there is one group. `None` where none fits, or where it is no heap profile.
pub fn of_profile(instance: &str, stacks: &Stacks, of: &[Seen], alone: bool) -> Option<Heap> {
    // A text profile of a program that freed nothing has only the latter.
    let kind = ["inuse_space", "space"].iter().find_map(|name| stacks.type_named(name))?;
    let seen = group_of(instance, of, alone)?;
    let runtime = stacks.runtime;
    let number = |value: Option<u64>| value.map(|value| value as f64);
    Some(Heap {
        group: seen.sample.path.clone(),
        instance: instance.to_owned(),
        by: HeapSource::Profile,
        at: stacks.at,
        objects: Some(stacks.total(kind) as f64),
        in_use: number(runtime.in_use),
        idle: number(runtime.idle),
        released: number(runtime.released),
        stacks: number(runtime.stacks),
        total: number(runtime.total),
        next_gc: number(runtime.next_gc),
        resident: None,
        anon: seen.account.anon,
    })
}

/// What has to be said of heaps by profiles and by metrics.
pub fn notes(profiles: &[Heap], metrics: &[Heap], of: &[Seen]) -> Vec<String> {
    let mut notes = Vec::new();
    for heap in profiles.iter().chain(metrics) {
        let sampled = of.iter().find(|seen| seen.sample.path == heap.group).map(|seen| seen.sample.at);
        if let (Some(at), Some(sampled)) = (heap.at, sampled)
            && at.abs_diff(sampled) > MAX_DISTANCE_US.unsigned_abs()
        {
            let (apart, way) = ((at - sampled).abs(), if at < sampled { "before" } else { "after" });
            let what = if heap.by == HeapSource::Profile { "profile" } else { "metrics page" };
            notes.push(format!(
                "The {what} ({}) was taken {} {way} the sample of {}.",
                time::format(at),
                duration(apart),
                heap.group
            ));
        }
    }
    if profiles.iter().any(|heap| heap.in_use.is_none() && metrics.iter().all(|other| other.group != heap.group)) {
        notes.push(
            "A protobuf profile has only objects; metrics (--metrics) and the text form (/debug/pprof/heap?debug=1) \
             also show idle and released heap."
                .to_owned(),
        );
    }
    notes
}

/// For machines.
pub fn table(heaps: &[Heap]) -> Table {
    let columns = [
        "path",
        "instance",
        "source",
        "at",
        "objects_in_use",
        "heap_in_use",
        "heap_idle",
        "heap_released",
        "stacks",
        "go_total",
        "go_held",
        "next_gc",
        "resident",
        "anon",
        "anon_beyond_objects",
        "anon_outside_go",
    ];
    let row = |heap: &Heap| {
        let numbers = [
            heap.objects,
            heap.in_use,
            heap.idle,
            heap.released,
            heap.stacks,
            heap.total,
            heap.held(),
            heap.next_gc,
            heap.resident,
        ];
        let names = [
            heap.group.as_str().into(),
            heap.instance.as_str().into(),
            heap.by.name().into(),
            heap.at.map_or(Value::None, |at| Value::Text(time::format(at))),
        ];
        let numbers = numbers.into_iter().map(Value::from);
        names
            .into_iter()
            .chain(numbers)
            .chain([heap.anon.into(), heap.beyond().into(), heap.outside().into()])
            .collect()
    };
    Table {
        name: "heap".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: heaps.iter().map(row).collect(),
        ..Table::default()
    }
}

/// For people: one column to an instance.
pub fn for_people(heaps: &[Heap]) -> Table {
    let mut columns = vec!["what".to_owned()];
    columns.extend(heaps.iter().map(|heap| match heap.instance.as_str() {
        "" => heap.by.name().to_owned(),
        name => format!("{name}, {}", heap.by.name()),
    }));
    type ValueOf = fn(&Heap) -> Option<f64>;
    let lines: [(&str, ValueOf); 11] = [
        ("live objects after the last garbage collection", |h| h.objects),
        ("heap in use", |h| h.in_use),
        ("heap idle, not released", |h| Some(h.idle? - h.released.unwrap_or(0.0))),
        ("heap released to the kernel", |h| h.released),
        ("stacks", |h| h.stacks),
        ("Go memory in total, without released", Heap::held),
        ("anonymous memory of the cgroup", |h| h.anon.map(|anon| anon as f64)),
        ("anonymous memory beyond the objects", Heap::beyond),
        ("anonymous memory not accounted for by Go", Heap::outside),
        ("next garbage collection at a heap of", |h| h.next_gc),
        ("resident memory of the process", |h| h.resident),
    ];
    let text = |value_of: ValueOf, heap: &Heap| {
        value_of(heap).map_or(Value::None, |value| {
            Value::Text(if value < 0.0 { format!("-{}", bytes(-value)) } else { bytes(value) })
        })
    };
    let rows = lines.iter().filter(|(_, value_of)| heaps.iter().any(|heap| value_of(heap).is_some()));
    let rows = rows.map(|(what, value_of)| {
        std::iter::once((*what).into()).chain(heaps.iter().map(|heap| text(*value_of, heap))).collect()
    });
    Table {
        title: "Go heap compared with anonymous memory".to_owned(),
        columns,
        rows: rows.collect(),
        ..Table::default()
    }
}
