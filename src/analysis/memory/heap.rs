//! Go's own account of its heap beside the group's anonymous memory.

use super::report::Seen;
use crate::analysis::metrics::catalogue::Metric;
use crate::analysis::metrics::facts::Facts;
use crate::model::report::{Table, Value};
use crate::model::units::bytes;

/// What a Go program says of its memory, beside a group's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Heap {
    /// The group.
    pub group: String,
    /// The instance on whose pages it stands.
    pub instance: String,
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
}

/// Heaps of the instances whose pages tell, each beside the group that its name fits; of one instance and one group no name is needed.
pub fn heaps(facts: &Facts, of: &[Seen]) -> Vec<Heap> {
    let mut heaps = Vec::new();
    for (number, instance) in facts.instances.iter().enumerate() {
        let last = |metric| facts.last_of(metric, |fact| fact.instance == number);
        let sum = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
        let in_use = last(Metric::GoHeapInUse).or_else(|| sum(last(Metric::GoHeapObjects), last(Metric::GoHeapUnused)));
        let released = last(Metric::GoHeapReleased);
        if in_use.is_none() {
            continue;
        }
        let short = instance.name.strip_prefix("kube-").unwrap_or(&instance.name);
        let same = |seen: &&Seen| {
            let path = &seen.sample.path;
            let own = path.rsplit('/').next().unwrap_or(path);
            !short.is_empty() && own.strip_prefix("kube-").unwrap_or(own) == short
        };
        let seen = of.iter().find(same).or_else(|| of.first().filter(|_| of.len() == 1 && facts.instances.len() == 1));
        let Some(seen) = seen else { continue };
        heaps.push(Heap {
            group: seen.sample.path.clone(),
            instance: instance.name.clone(),
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

/// For machines.
pub fn table(heaps: &[Heap]) -> Table {
    let columns = [
        "path",
        "instance",
        "heap_in_use",
        "heap_idle",
        "heap_released",
        "stacks",
        "go_total",
        "go_held",
        "next_gc",
        "resident",
        "anon",
        "anon_outside_go",
    ];
    let row = |heap: &Heap| {
        let numbers = [heap.in_use, heap.idle, heap.released, heap.stacks, heap.total, heap.held(), heap.next_gc, heap.resident];
        let names = [heap.group.as_str().into(), heap.instance.as_str().into()];
        let numbers = numbers.into_iter().map(Value::from);
        names.into_iter().chain(numbers).chain([heap.anon.into(), heap.outside().into()]).collect()
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
    columns.extend(heaps.iter().map(|heap| if heap.instance.is_empty() { "go".to_owned() } else { heap.instance.clone() }));
    type Tell = fn(&Heap) -> Option<f64>;
    let lines: [(&str, Tell); 9] = [
        ("heap in use", |h| h.in_use),
        ("heap idle, not released", |h| Some(h.idle? - h.released.unwrap_or(0.0))),
        ("heap released to the kernel", |h| h.released),
        ("stacks", |h| h.stacks),
        ("Go holds in all", Heap::held),
        ("anonymous memory of the group", |h| h.anon.map(|anon| anon as f64)),
        ("anonymous outside Go's account", Heap::outside),
        ("next collection at", |h| h.next_gc),
        ("resident memory of the process", |h| h.resident),
    ];
    let told = |tell: Tell, heap: &Heap| {
        tell(heap).map_or(Value::None, |value| Value::Text(if value < 0.0 { format!("-{}", bytes(-value)) } else { bytes(value) }))
    };
    let rows = lines.iter().filter(|(_, tell)| heaps.iter().any(|heap| tell(heap).is_some()));
    let rows = rows.map(|(what, tell)| std::iter::once((*what).into()).chain(heaps.iter().map(|heap| told(*tell, heap))).collect());
    Table { title: "Go's own account, from its metrics".to_owned(), columns, rows: rows.collect(), ..Table::default() }
}
