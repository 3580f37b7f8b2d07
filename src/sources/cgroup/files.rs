//! One file of a memory cgroup, put into a sample. What is unknown is kept, what is wrong is reported.
//! (Forms: the kernel's admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst, accounting/psi.rst.)

use crate::model::memory::{Amount, Fields, Pressure, Sample, Stall, Version};

/// Whether a file of this name is read.
pub(super) fn is_wanted(name: &str) -> bool {
    /// Written to, not read, or one line per slab cache.
    const SKIPPED: [&str; 5] =
        ["memory.reclaim", "memory.force_empty", "memory.pressure_level", "memory.kmem.slabinfo", "memory.peak.local"];
    let name = name.rsplit('/').next().unwrap_or(name);
    (name.starts_with("memory.") || matches!(name, "meminfo" | "cgroup.procs")) && !SKIPPED.contains(&name)
}

/// Puts the content of the file `name` into `sample`.
pub(super) fn put(sample: &mut Sample, name: &str, text: &str) {
    let name = name.rsplit('/').next().unwrap_or(name);
    match name {
        "memory.stat" => sample.stat = table(name, text, &mut sample.problems),
        "memory.pressure" => match pressure(text) {
            Ok(read) => sample.pressure = read,
            Err(line) => sample.problems.push(format!("{name}:{line}: not a line of a pressure file")),
        },
        "memory.numa_stat" => sample.numa = numa(text),
        "cgroup.procs" => sample.processes = Some(text.split_whitespace().count() as u64),
        "meminfo" => sample.host = meminfo(text),
        _ => {
            let mut words = text.split_whitespace();
            match (words.next(), words.next()) {
                (Some("max" | "-1"), None) => sample.values.push((name.to_owned(), Amount::Max)),
                (Some(word), None) => match word.parse() {
                    Ok(number) => sample.values.push((name.to_owned(), Amount::of(number))),
                    Err(_) => sample.problems.push(format!("{name}:1: '{}' is not an amount", short(word))),
                },
                (Some(_), Some(_)) => {
                    let fields = table(name, text, &mut sample.problems);
                    sample.tables.push((name.to_owned(), fields));
                }
                // The kernel never leaves a file empty.
                (None, _) => sample.problems.push(format!("{name}: is empty")),
            }
        }
    }
}

fn short(word: &str) -> String {
    word.chars().take(40).collect()
}

/// Lines of a name and a number. Of a name that comes again the first counts.
fn table(file: &str, text: &str, problems: &mut Vec<String>) -> Fields {
    let mut fields = Fields::new();
    let mut bad = 0;
    if text.trim().is_empty() {
        problems.push(format!("{file}: is empty"));
    }
    for (number, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next().map(str::parse::<u64>), words.next()) {
            (None, ..) => {}
            (Some(name), Some(Ok(value)), None) if fields.iter().all(|(own, _)| own != name) => {
                fields.push((name.to_owned(), value))
            }
            _ => {
                bad += 1;
                if bad <= 3 {
                    problems.push(format!("{file}:{}: '{}' is not a new name and a number", number + 1, short(line)));
                }
            }
        }
    }
    if bad > 3 {
        problems.push(format!("{file}: {} more such lines", bad - 3));
    }
    fields
}

/// `None` where the kernel leaves it out; `Err` has the line that is wrong.
fn pressure(text: &str) -> Result<Option<Pressure>, usize> {
    let (mut some, mut full) = (None, None);
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let kind = words.next();
        let mut stall = Stall::default();
        let mut seen = 0;
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            let wrong = |_| number + 1;
            match key {
                "avg10" => stall.avg10 = value.parse().map_err(wrong)?,
                "avg60" => stall.avg60 = value.parse().map_err(wrong)?,
                "avg300" => stall.avg300 = value.parse().map_err(wrong)?,
                "total" => stall.total_us = value.parse().map_err(|_| number + 1)?,
                _ => continue,
            }
            seen += 1;
        }
        match kind {
            Some("some") if seen == 4 => some = Some(stall),
            Some("full") if seen == 4 => full = Some(stall),
            _ => return Err(number + 1),
        }
    }
    Ok(some.map(|some| Pressure { some, full }))
}

/// `total=5310 N0=5310` (v1), `anon N0=123 N1=456` (v2).
fn numa(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter_map(|line| line.trim().split_once([' ', '=']));
    lines.map(|(name, nodes)| (name.to_owned(), nodes.chars().take(400).collect())).collect()
}

/// Lines of a name, a colon and kB.
fn meminfo(text: &str) -> Fields {
    let line = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let kilobytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some((name.trim().to_owned(), kilobytes.checked_mul(1024)?))
    };
    text.lines().filter_map(line).collect()
}

/// Which interface these files are of.
pub(super) fn version(sample: &Sample) -> Version {
    let v1 = ["memory.usage_in_bytes", "memory.limit_in_bytes", "memory.failcnt"]
        .iter()
        .any(|file| sample.value(file).is_some())
        || sample.stat("total_rss").is_some()
        || sample.stat("rss").is_some();
    match (v1, sample.pressure) {
        (false, _) => Version::V2,
        (true, None) => Version::V1,
        (true, Some(_)) => Version::Hybrid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Sample {
        let mut sample = Sample::default();
        put(&mut sample, name, text);
        sample
    }

    #[test]
    fn numbers_limits_and_tables_are_read() {
        assert_eq!(read("memory.max", "max\n").value("memory.max"), Some(Amount::Max));
        assert_eq!(
            read("memory.limit_in_bytes", "9223372036854771712\n").value("memory.limit_in_bytes"),
            Some(Amount::Max)
        );
        assert_eq!(read("memory.current", "4096\n").number("memory.current"), Some(4096));
        let events = read("memory.events", "low 0\nhigh 3\nmax 9\noom 1\noom_kill 1\noom_group_kill 0\n");
        assert_eq!((events.table("memory.events", "max"), events.table("memory.events", "nope")), (Some(9), None));
        let stat = read("memory.stat", "anon 8192\nfuture_field 7\n");
        assert_eq!((stat.stat("future_field"), stat.stat("file")), (Some(7), None));
        assert_eq!(read("meminfo", "MemTotal:  2048 kB\nHugePages_Total:  0\n").host("MemTotal"), Some(2 << 20));
    }

    #[test]
    fn pressure_is_read_with_and_without_full() {
        let text =
            "some avg10=1.50 avg60=0.75 avg300=0.10 total=12345\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=42\n";
        let both = read("memory.pressure", text).pressure.unwrap();
        assert_eq!((both.some.avg10, both.some.total_us, both.full.unwrap().total_us), (1.5, 12345, 42));
        assert_eq!(read("memory.pressure", text.lines().next().unwrap()).pressure.unwrap().full, None);
        assert_eq!(read("memory.pressure", "some avg10=x\n").problems.len(), 1);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let bad = read("memory.stat", "anon 1\nfile -5\nanon 2\nshmem 99999999999999999999\n");
        assert_eq!(bad.stat, [("anon".to_owned(), 1)]);
        assert_eq!(bad.problems.len(), 3);
        assert!(bad.problems[0].starts_with("memory.stat:2: 'file -5'"), "{:?}", bad.problems);
        assert_eq!(read("memory.current", "lots\n").problems, ["memory.current:1: 'lots' is not an amount"]);
        assert_eq!(read("memory.stat", "").problems, ["memory.stat: is empty"]);
    }
}
