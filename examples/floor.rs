//! What reading an audit log costs at least: `floor lines|strings LOG`.
//!
//! All cores read it as plimsoll does, in blocks of 1 MiB. `lines` counts newlines. `strings` looks in each line, in
//! the encoder's order, for verb, user and resource, and counts lines by them: it checks no JSON, knows no stages,
//! times or codes, and any body may deceive it. `benches/peers` runs both beside plimsoll: no reader that copies the
//! file can be faster than the first, and the second is a breakdown by plain search, without any check.

use hashbrown::HashMap;
use memchr::memmem::Finder;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCK: usize = 1 << 20;

/// Read behind a block, for the end of its last line; a longer one is cut.
const MORE: usize = 64 << 10;

type Counts = HashMap<Vec<u8>, u64, foldhash::fast::FixedState>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, path] = args.as_slice() else { return Err("usage: floor lines|strings LOG".into()) };
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism()?.get();
    let counts = std::thread::scope(|scope| {
        let work = || -> std::io::Result<Counts> {
            let mut counts = Counts::default();
            let mut buffer = vec![0; BLOCK + MORE];
            loop {
                let from = next.fetch_add(BLOCK as u64, Ordering::Relaxed);
                if from >= size {
                    return Ok(counts);
                }
                let length = ((BLOCK + MORE) as u64).min(size - from) as usize;
                file.read_exact_at(&mut buffer[..length], from)?;
                let text = &buffer[..length];
                if what == "lines" {
                    let lines = memchr::memchr_iter(b'\n', &text[..length.min(BLOCK)]).count() as u64;
                    *counts.entry(Vec::new()).or_default() += lines;
                } else {
                    // A line belongs to the block in which it starts.
                    let first =
                        if from == 0 { Some(0) } else { memchr::memchr(b'\n', text).map(|newline| newline + 1) };
                    strings(text, first.unwrap_or(length), &mut counts);
                }
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread failed")).collect::<Vec<_>>()
    });
    let mut all = Counts::default();
    for counts in counts {
        for (key, count) in counts?? {
            *all.entry(key).or_default() += count;
        }
    }
    writeln!(std::io::stdout(), "{} lines, {} rows", all.values().sum::<u64>(), all.len())?;
    Ok(())
}

/// Counts the lines that start in the block, from `at` on.
fn strings(text: &[u8], mut at: usize, counts: &mut Counts) {
    let finders =
        ["\"verb\":\"", "\"username\":\"", "\"resource\":\""].map(|key| Finder::new(key.as_bytes()).into_owned());
    let [verb, user, resource] = &finders;
    let mut key = Vec::new();
    while at <= BLOCK && at < text.len() {
        key.clear();
        // Each event has the first two; where the line ends has to be known for the third.
        at = take(text, take(text, at, verb, &mut key), user, &mut key);
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline);
        take(&text[..end], at, resource, &mut key);
        match counts.get_mut(&key) {
            Some(count) => *count += 1,
            None => drop(counts.insert(key.clone(), 1)),
        }
        at = end + 1;
    }
}

/// Appends the string behind the next place of a key to `to`; returns where it ends.
fn take(text: &[u8], at: usize, key: &Finder<'_>, to: &mut Vec<u8>) -> usize {
    let Some(found) = key.find(&text[at..]) else { return at };
    let start = at + found + key.needle().len();
    let end = memchr::memchr(b'"', &text[start..]).map_or(text.len(), |quote| start + quote);
    to.extend_from_slice(&text[start..end]);
    to.push(0);
    end
}
