//! Labelled control-plane incidents, composed from seeds, and what a judge makes of them. (README.md)
//!
//! `cargo bench --bench incidents -- score | features | show SEED | oracle | truths | write DIR | check`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark reports on its terminal")]

mod audit;
mod case;
mod check;
mod cluster;
mod episodes;
mod judging;
mod metrics;
mod pages;
mod queue;
mod rng;
mod score;
mod show;
mod sim;
mod truth;
mod vitals;
mod write;

use judging::{Input, Judge};
use std::process::ExitCode;

/// What the command line asks for.
#[derive(Debug, Clone)]
pub struct Options {
    /// Odd seeds are only ever scored, even ones are for choosing.
    pub half: Option<&'static str>,
    /// The first seed.
    pub first: u64,
    /// So many seeds.
    pub cases: u64,
    /// Forms of input.
    pub inputs: Vec<Input>,
    /// How many cases are worked on at a time.
    pub threads: u64,
}

impl Options {
    fn new(words: &[String]) -> Result<Self, String> {
        let mut own = Self { half: None, first: 0, cases: 2000, inputs: Input::ALL.to_vec(), threads: 2 };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--half" => {
                    own.half = match value()?.as_str() {
                        "scored" => Some("scored"),
                        "fitted" => Some("fitted"),
                        "both" => None,
                        other => return Err(format!("--half is scored, fitted or both, not {other}")),
                    }
                }
                "--first" => own.first = value()?.parse().map_err(|_| "--first needs a number")?,
                "--cases" => own.cases = value()?.parse().map_err(|_| "--cases needs a number")?,
                "--threads" => own.threads = value()?.parse().map_err(|_| "--threads needs a number")?,
                "--form" => {
                    let value = value()?;
                    own.inputs = Input::ALL.into_iter().filter(|input| input.name() == value).collect();
                    if own.inputs.is_empty() {
                        return Err(format!("--form is audit, writes, metrics or all, not {value}"));
                    }
                }
                "--bench" => {}
                other => return Err(format!("unknown option {other}")),
            }
        }
        Ok(own)
    }

    /// The seeds of the set.
    pub fn seeds(&self) -> Vec<u64> {
        let is_its = |seed: &u64| match self.half {
            Some("scored") => seed % 2 == 1,
            Some(_) => seed.is_multiple_of(2),
            None => true,
        };
        (self.first..self.first + self.cases).filter(is_its).collect()
    }
}

/// Does something with each seed, on several threads, and hands the results back in the order of seeds.
pub fn each<T: Send>(options: &Options, work: impl Fn(u64) -> T + Sync) -> Vec<(u64, T)> {
    let seeds = options.seeds();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut all: Vec<(u64, T)> = std::thread::scope(|scope| {
        let run = || {
            let mut own = Vec::new();
            loop {
                let place = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(seed) = seeds.get(place) else { return own };
                own.push((*seed, work(*seed)));
            }
        };
        let threads: Vec<_> = (0..options.threads.max(1)).map(|_| scope.spawn(run)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    all.sort_by_key(|own| own.0);
    all
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let command = words.first().map_or("", String::as_str);
    let seed = || words.get(1).and_then(|word| word.parse().ok()).ok_or("show needs a seed".to_owned());
    let options = || Options::new(&words[1..]);
    let done = match command {
        "score" => options().map(|options| score::print(&options, &[Judge::Own])),
        "oracle" => options().map(|options| score::print(&options, &[Judge::Quiet, Judge::Peak])),
        "features" => options().map(|options| score::features(&options)),
        "show" => seed().map(show::print),
        "truths" => options().map(|options| show::truths(&options)),
        "write" => match words.get(1) {
            Some(folder) => Options::new(&words[2..])
                .and_then(|options| write::write(std::path::Path::new(folder), options.cases.min(200) as usize)),
            None => Err("write needs a folder".to_owned()),
        },
        "check" => options().and_then(|options| check::run(&options)),
        // As `cargo bench` without more runs all benchmarks.
        "" => Ok(()),
        other => {
            Err(format!("unknown command {other}; use score, oracle, features, show SEED, truths, write DIR or check"))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
