//! The legacy text form, as `/debug/pprof/heap?debug=1` gives it: a heading, then for each stack a row of addresses
//! with what is in use and what was allocated, and behind it lines with the names of its functions.

use super::Fault;
use crate::model::stacks::{Frame, Function, Location, Runtime, SampleType, Stacks};
use std::collections::HashMap;

/// How the text begins.
pub(super) const BEGINS: &[u8] = b"heap profile:";

/// Four numbers: objects and bytes in use, objects and bytes allocated.
type Counts = [i64; 4];

/// Reads `n: b [N: B] @`, and gives what stands behind.
fn counts(line: &str) -> Option<(Counts, &str)> {
    fn number(text: &str) -> Option<(i64, &str)> {
        let text = text.trim_start_matches(' ');
        let digits = text.strip_prefix('-').unwrap_or(text);
        let end = text.len() - digits.len() + digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        Some((text[..end].parse().ok()?, text[end..].trim_start_matches(' ')))
    }
    let (objects, rest) = number(line)?;
    let (bytes, rest) = number(rest.strip_prefix(':')?)?;
    let (all_objects, rest) = number(rest.strip_prefix('[')?)?;
    let (all_bytes, rest) = number(rest.strip_prefix(':')?)?;
    let rest = rest.strip_prefix(']')?.trim_start_matches(' ').strip_prefix('@')?;
    Some(([objects, bytes, all_objects, all_bytes], rest.trim()))
}

/// What the heading says of sampling: the rate by which rows are to be scaled, if they are.
fn rate(kind: &str) -> Option<(Option<i64>, i64)> {
    let (name, rate) = kind.split_once('/').unwrap_or((kind, ""));
    let rate = if rate.is_empty() { 0 } else { rate.parse().ok()? };
    match name {
        "heapz_v2" | "heap_v2" => Some((Some(rate), rate)),
        // Go writes twice its rate, for the sake of older tools.
        "heap" => Some((Some(rate / 2), rate / 2)),
        "heapprofile" | "growth" | "growthz" | "fragmentation" | "fragmentationz" => Some((None, 1)),
        _ => None,
    }
}

/// A row is what was sampled. An object of this size is sampled with probability 1 − e^(−size/rate), so the row stands
/// for as many more.
fn scaled(objects: i64, bytes: i64, rate: Option<i64>) -> (i64, i64) {
    let Some(rate) = rate else { return (objects, bytes) };
    if objects == 0 || bytes == 0 {
        return (0, 0);
    }
    if rate <= 1 {
        return (objects, bytes);
    }
    let size = bytes as f64 / objects as f64;
    let scale = 1.0 / (1.0 - (-size / rate as f64).exp());
    ((objects as f64 * scale) as i64, (bytes as f64 * scale) as i64)
}

/// What was met already.
#[derive(Default)]
struct Interned<'t> {
    texts: HashMap<&'t str, u32>,
    functions: HashMap<(u32, u32), u32>,
    named: HashMap<(u32, i64), u32>,
    addresses: HashMap<u64, u32>,
}

impl<'t> Interned<'t> {
    fn text(&mut self, text: &'t str, stacks: &mut Stacks) -> Option<u32> {
        if let Some(known) = self.texts.get(text) {
            return Some(*known);
        }
        let number = stacks.add_text(text)?;
        self.texts.insert(text, number);
        Some(number)
    }

    /// The location of a line that names a function: `#`, address, `name+0x1f`, `file:line`, between tabs.
    fn named(&mut self, line: &'t str, stacks: &mut Stacks) -> Option<u32> {
        let mut parts = line.split('\t').map(str::trim).filter(|part| !part.is_empty());
        if parts.next() != Some("#") {
            return None;
        }
        let address = hex(parts.next()?)?;
        let Some(name) = parts.next() else { return self.address(address, stacks) };
        let name = name.rsplit_once("+0x").map_or(name, |(name, _)| name);
        let place = parts.next().unwrap_or_default();
        let (file, number) = place.rsplit_once(':').unwrap_or((place, "0"));
        let number: i64 = number.parse().unwrap_or(0);
        let (name, file) = (self.text(name, stacks)?, self.text(file, stacks)?);
        let function = *self.functions.entry((name, file)).or_insert_with(|| {
            stacks.functions.push(Function { name, file, start_line: 0 });
            stacks.functions.len() as u32 - 1
        });
        Some(*self.named.entry((function, number)).or_insert_with(|| {
            stacks.frames.push(Frame { function, line: number });
            let end = stacks.frames.len() as u32;
            stacks.locations.push(Location { address, object: 0, first: end - 1, end });
            stacks.locations.len() as u32 - 1
        }))
    }

    /// The location of an address without a name.
    fn address(&mut self, address: u64, stacks: &mut Stacks) -> Option<u32> {
        let next = u32::try_from(stacks.locations.len()).ok()?;
        Some(*self.addresses.entry(address).or_insert_with(|| {
            stacks.locations.push(Location { address, ..Location::default() });
            next
        }))
    }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Reads a line `# HeapInuse = 4096` of what the runtime says of all memory; nothing if it is of something else.
/// `# Stack = 8192 / 16384` is what is in use and what was asked of the kernel.
fn runtime(line: &str, of: &mut Runtime) -> Option<()> {
    let Some((name, value)) = line.strip_prefix("# ").and_then(|line| line.split_once(" = ")) else { return Some(()) };
    let place = match name {
        "HeapInuse" => &mut of.in_use,
        "HeapIdle" => &mut of.idle,
        "HeapReleased" => &mut of.released,
        "Stack" => &mut of.stacks,
        "Sys" => &mut of.total,
        "NextGC" => &mut of.next_gc,
        _ => return Some(()),
    };
    let first = value.split_once(" / ").map_or(value, |(first, _)| first);
    *place = Some(first.trim().parse().ok()?);
    Some(())
}

/// Reads a profile from its unpacked bytes.
pub(super) fn read(bytes: &[u8]) -> Result<Stacks, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|bad| Fault::at_byte(bad.valid_up_to(), "is not text (UTF-8)"))?;
    let mut lines = text.lines().zip(1u64..).peekable();
    let heading = lines.next().map_or("", |(line, _)| line);
    let bad_heading =
        || Fault::at_line(1, "is not a heading of a heap profile (heap profile: 1: 2 [3: 4] @ heap/1048576)");
    let (sums, kind) = heading.strip_prefix("heap profile:").and_then(counts).ok_or_else(bad_heading)?;
    let (rate, period) = rate(kind).ok_or_else(bad_heading)?;
    // As pprof does: where nothing was freed, or the writer doesn't count what was, there is one pair of numbers.
    let has_all = (sums[2] != sums[0] && sums[2] != 0) || (sums[3] != sums[1] && sums[3] != 0);
    let kinds: &[(&str, &str)] = if has_all {
        &[("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")]
    } else {
        &[("objects", "count"), ("space", "bytes")]
    };
    let types =
        kinds.iter().map(|(name, unit)| SampleType { name: (*name).to_owned(), unit: (*unit).to_owned() }).collect();
    let mut stacks = Stacks::of(types);
    stacks.period = period;
    let mut known = Interned::default();
    known.text("", &mut stacks);
    let mut totals = [0i64; 4];
    while let Some((line, number)) = lines.next() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            runtime(line, &mut stacks.runtime).ok_or_else(|| Fault::at_line(number, "has no amount of bytes"))?;
            continue;
        }
        if line.starts_with("--- Memory map: ---") || line.starts_with("MAPPED_LIBRARIES:") {
            break;
        }
        let fault = |what: &str| Fault::at_line(number, what);
        let (row, addresses) =
            counts(line).ok_or_else(|| fault("is not a row of a heap profile (1: 2 [3: 4] @ 0x5 0x6)"))?;
        if let Some(value) = row.iter().find(|value| **value < 0) {
            return Err(Fault::negative(fault(""), &format!("has a negative value: {value}")));
        }
        let pairs = if has_all { vec![(row[2], row[3]), (row[0], row[1])] } else { vec![(row[0], row[1])] };
        let mut values = Vec::with_capacity(4);
        for (objects, bytes) in pairs {
            if objects == 0 && bytes != 0 {
                return Err(fault(&format!("has {bytes} bytes in 0 objects")));
            }
            let (objects, bytes) = scaled(objects, bytes, rate);
            values.extend([objects, bytes]);
        }
        for (total, value) in totals.iter_mut().zip(&values) {
            *total = total.checked_add(*value).ok_or_else(|| fault("raises the sum above 2^63"))?;
        }
        let mut stack = Vec::new();
        while let Some((name, at)) = lines.peek().copied().filter(|(line, _)| line.starts_with("#\t")) {
            stack.push(
                known
                    .named(name, &mut stacks)
                    .ok_or_else(|| Fault::at_line(at, "is not a line with a function's name"))?,
            );
            lines.next();
        }
        if stack.is_empty() {
            for address in addresses.split_ascii_whitespace() {
                // The address that a call returns to is behind the call.
                let address =
                    hex(address).ok_or_else(|| fault(&format!("has '{address}' for an address")))?.wrapping_sub(1);
                stack.push(known.address(address, &mut stacks).ok_or_else(|| fault("exceeds the limit"))?);
            }
        }
        if !stacks.add_sample(&stack, &values) {
            return Err(fault("exceeds the limit"));
        }
    }
    Ok(stacks)
}
