//! Judges: the project's own, and trivial ones that numbers are to be compared with.

use crate::truth::{Grade, Ready};
use plimsoll::analysis::judge::candidates::{Candidate, Operation};
use plimsoll::analysis::judge::requests::{Axes, Class, Row};
use plimsoll::analysis::judge::{self, Requests};
use plimsoll::model::cause::Source;
use plimsoll::model::episode;
use plimsoll::model::time::{Micros, SECOND, Span};

/// What a judge is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Input {
    Audit,
    /// Audit logs that hold writes only.
    Writes,
    Metrics,
    All,
}

impl Input {
    pub const ALL: [Self; 4] = [Self::Audit, Self::Writes, Self::Metrics, Self::All];

    pub fn name(self) -> &'static str {
        match self {
            Self::Audit => "audit",
            Self::Writes => "writes",
            Self::Metrics => "metrics",
            Self::All => "all",
        }
    }
}

/// Of an audit log what it holds where the policy leaves out reads.
struct Writes<'a>(&'a dyn Requests);

impl Requests for Writes<'_> {
    fn source(&self) -> Source {
        self.0.source()
    }

    fn axes(&self) -> &Axes {
        self.0.axes()
    }

    fn starts(&self) -> &[(Span, usize)] {
        self.0.starts()
    }

    fn each(&self, take: &mut dyn FnMut(Row<'_>)) {
        let is_write: Vec<bool> = self.kinds().iter().map(|kind| Class::of(kind) == Class::Write).collect();
        self.0.each(&mut |row| {
            if is_write[row.kind] {
                take(row);
            }
        });
    }
}

/// A cause as a judge names it.
#[derive(Debug, Clone)]
pub struct Cause {
    pub kind: &'static str,
    pub caller: Option<[String; 2]>,
    /// Name, source, value.
    pub features: Vec<(&'static str, &'static str, f64)>,
    pub confidence: f64,
}

/// An episode as a judge sees it.
#[derive(Debug, Clone)]
pub struct Found {
    pub from: Micros,
    pub to: Micros,
    pub grade: Grade,
    pub causes: Vec<Cause>,
}

/// Which judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judge {
    Own,
    /// Nothing ever happens.
    Quiet,
    /// The time around the highest number of requests, and who has most of them.
    Peak,
}

impl Judge {
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "plimsoll",
            Self::Quiet => "always quiet",
            Self::Peak => "highest peak",
        }
    }

    pub fn judge(self, ready: &Ready, input: Input) -> Vec<Found> {
        let writes = Writes(&ready.audit);
        let requests: Vec<&dyn Requests> = match input {
            Input::Audit => vec![&ready.audit],
            Input::Writes => vec![&writes],
            Input::Metrics => vec![&ready.metrics],
            Input::All => vec![&ready.audit, &ready.metrics],
        };
        match self {
            Self::Own => own(&requests, ready, input),
            Self::Quiet => Vec::new(),
            Self::Peak => requests.first().map_or_else(Vec::new, |requests| peak(*requests)),
        }
    }
}

/// The project's judge.
fn own(requests: &[&dyn Requests], ready: &Ready, input: Input) -> Vec<Found> {
    let case = &ready.case;
    let operation = |(at, caller, objects): &(f64, u16, f64)| Operation {
        at: case.begin + (at * SECOND as f64) as Micros,
        caller: case.cluster.callers[usize::from(*caller)].clone(),
        objects: *objects,
    };
    // Operations are in audit logs.
    let of_logs = case.operations.iter().filter(|own| input != Input::Metrics && own.0 < case.span);
    let operations: Vec<Operation> = of_logs.map(operation).collect();
    let vitals = matches!(input, Input::Metrics | Input::All).then_some(&ready.metrics.vitals);
    let judged = judge::judge(&judge::Input { requests, vitals, operations: &operations, given: &[] });
    let found = |own: judge::Episode| Found {
        from: own.from,
        to: own.to,
        grade: match own.grade {
            episode::Grade::Outage => Grade::Outage,
            episode::Grade::Incident => Grade::Incident,
            episode::Grade::Degraded => Grade::Degraded,
            // Of windows that somebody names, which none is here.
            episode::Grade::Surge | episode::Grade::None => Grade::Surge,
        },
        causes: own.causes.into_iter().map(cause).collect(),
    };
    judged.episodes.into_iter().map(found).collect()
}

fn cause(own: Candidate) -> Cause {
    let features = own.features.iter().map(|own| (own.name, own.source.name(), own.value)).collect();
    Cause { kind: own.kind, caller: own.caller, features, confidence: own.confidence }
}

/// Tiles with more than half again as many requests as most, around the highest.
fn peak(requests: &dyn Requests) -> Vec<Found> {
    let grid = requests.grid();
    let mut counts = vec![0.0; grid.len()];
    let mut bad = vec![0.0; grid.len()];
    let classes: Vec<Class> = requests.kinds().iter().map(Class::of).collect();
    requests.each(&mut |row| {
        if classes[row.kind] != Class::Long {
            counts[row.tile] += row.requests / grid.seconds(row.tile).max(1.0);
            bad[row.tile] += row.errors + row.throttled;
        }
    });
    let mut sorted = counts.clone();
    sorted.sort_by(f64::total_cmp);
    let limit = 1.5 * sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
    let Some((top, _)) = counts.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)) else { return Vec::new() };
    if counts[top] <= limit {
        return Vec::new();
    }
    let first = (0..top).rev().take_while(|at| counts[*at] > limit).last().unwrap_or(top);
    let last = (top..counts.len()).take_while(|at| counts[*at] > limit).last().unwrap_or(top);
    let mut by_caller = vec![0.0; requests.callers().len()];
    requests.each(&mut |row| {
        by_caller[row.caller] += if (first..=last).contains(&row.tile) { row.requests } else { 0.0 };
    });
    let caller = by_caller.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|own| own.0);
    let cause = Cause {
        kind: "client-surge",
        caller: caller.map(|own| requests.callers()[own].clone()).filter(|own| !own[0].is_empty()),
        features: Vec::new(),
        confidence: 0.5,
    };
    let is_bad = bad[first..=last].iter().sum::<f64>() >= 10.0;
    let grade = if is_bad { Grade::Incident } else { Grade::Surge };
    let (from, to) = (grid.start(first).max(grid.span.0), grid.start(last + 1).min(grid.span.1));
    vec![Found { from, to, grade, causes: vec![cause] }]
}
