//! Pages of one folder, in order of time, to what each process did: increases of counters, last values of gauges.
//! (Rules: docs/metrics.md, sections 1 and 2.)

use super::catalogue::Metric;
use super::series::{PageValues, Retention, Series, SeriesTable};
use crate::model::time::{self, Micros};
use hashbrown::HashMap;

/// Differences between pages are kept for at most so many; beyond, two that follow one another become one.
const MAX_INTERVALS: usize = 1024;

/// Processes of a folder that are distinguished; pages of further ones are left out.
const MAX_PROCESSES: usize = 256;

/// The counters that distinguish processes; they never fall while a process lives.
const MARKS: [Metric; 4] = [Metric::ProcessCpu, Metric::Mallocs, Metric::AllocatedBytes, Metric::NetworkReceived];

/// Seconds by which a process's start may differ from page to page: it is reckoned from the machine's boot time, which
/// moves when the clock is set.
pub(super) const START_SLACK: f64 = 2.0;

/// Whether a process that says it started then (Unix seconds) started between the folder's first page and this one. A
/// start later than the page itself is of another clock than the page's time, and says nothing of when.
fn began_within(start: f64, first: Micros, page: Micros) -> bool {
    start * 1e6 > first as f64 && start * 1e6 <= page as f64 + START_SLACK * 1e6
}

/// A page breaks off that lacks one in ten of the counters that its process has; of fewer that can't be known. More
/// pages in a row that lack as many are pages of less.
const MIN_KNOWN: usize = 20;
const MAX_PARTIAL: u64 = 3;

/// Pages of a process that does not show its start are kept so long, to be separated if they turn out to be those of
/// several processes that one address hides. Where counters fall later, the process was restarted.
const MAX_EARLY: u64 = 3;
/// The same where there are counters that separate processes.
const MAX_EARLY_MARKED: usize = 2;
/// A page is of another process than the one that it fits if it is this many times nearer to that.
const CLEARLY: f64 = 4.0;

/// What a counter leaps by at least where it is absurd, and how many times what it rises by otherwise.
const LEAP: f64 = 100.0;
const LEAP_TIMES: f64 = 10.0;

/// Whether of three values that a counter had on pages that follow one another the middle one can't be: the last is
/// near the first, and the one between lies far from both.
fn is_absurd([prior, before, value]: [f64; 3]) -> bool {
    let rise = value - prior;
    let leap = (before - prior).abs();
    // Not known values compare as false.
    rise >= 0.0 && (before < prior || before > value) && leap >= LEAP && leap > LEAP_TIMES * rise
}

/// One process behind a folder's pages.
#[derive(Debug)]
pub(super) struct Process {
    /// Unix seconds.
    pub(super) start: Option<f64>,
    /// Whether it started after the folder's first page, so that all that it counted is counted.
    pub(super) from_zero: bool,
    pub(super) first: Micros,
    pub(super) last: Micros,
    pub(super) pages: u64,
    /// By series: the value on the last page that had it; NaN before any.
    pub(super) values: Vec<f64>,
    /// By series: the number of the last page that had it.
    pub(super) seen: Vec<u64>,
    /// By series: how many intervals there were when a page had it last.
    stood: Vec<u32>,
    /// By series.
    pub(super) increases: Vec<f64>,
    /// The counters on the first page of a process that is not known to have counted from 0 since the folder's first
    /// page: they count if it turns out to take another's place.
    pub(super) baseline: HashMap<u32, f64>,
    /// Times between which differences were taken.
    pub(super) intervals: Vec<(Micros, Micros)>,
    /// By series whose course in time is asked for: interval and difference.
    pub(super) courses: HashMap<u32, Vec<(u32, f64)>>,
    /// By gauge whose values are kept: when, and what. Of too many, the higher of two neighbours.
    pub(super) levels: HashMap<u32, Vec<(Micros, f64)>>,
    /// By series: the value on the page before the last that had it; NaN before any.
    prior: Vec<f64>,
    /// Counters that were met.
    known: usize,
    /// Pages that break off, of those that followed one another just now.
    partial: u64,
    /// The number of the series that says what it would lead, or which member of etcd it is, if there is one: two
    /// programs do not stand for the same.
    pub(super) stands_for: Option<u32>,
    marks: [f64; MARKS.len()],
    /// All its pages while it is young and does not show its start: they may be those of several processes.
    early: Vec<EarlyPage>,
}

/// A page of a process that may turn out to be another's.
#[derive(Debug)]
struct EarlyPage {
    at: Micros,
    page: Vec<(u32, f64)>,
    marks: [f64; MARKS.len()],
}

/// The fold of one folder's pages.
#[derive(Debug, Default)]
pub struct Fold {
    pub(super) kept: Retention,
    page: Vec<(u32, f64)>,
    at: Micros,
    pub(super) first: Option<Micros>,
    pub(super) processes: Vec<Process>,
    /// Pages without any series that is known.
    pub(super) unknown: u64,
    /// Pages of processes beyond the limit.
    pub(super) left_out: u64,
    /// Samples of series beyond the limit.
    pub(super) dropped: u64,
}

impl Fold {
    /// A fold that keeps this.
    pub fn new(kept: Retention) -> Self {
        Self { kept, ..Self::default() }
    }

    /// Takes a page, which was taken `at`. Later pages may know more series.
    pub fn page(&mut self, page: &PageValues, table: &SeriesTable, at: Micros) {
        let (all, kept) = (&table.series, self.kept);
        self.page.clear();
        self.page.extend(page.values.iter().filter(|(series, _)| all[*series as usize].is_kept(kept)));
        self.dropped += page.dropped;
        self.at = at;
        let mut start = None;
        let mut marks = [f64::NAN; MARKS.len()];
        for &(series, value) in &self.page {
            let metric = all[series as usize].entry.metric;
            if metric == Metric::ProcessStart {
                start = Some(value);
            } else if let Some(mark) = MARKS.iter().position(|mark| *mark == metric) {
                marks[mark] = value;
            }
        }
        let first = *self.first.get_or_insert(self.at);
        if self.page.is_empty() {
            self.unknown += 1;
            return;
        }
        let says_which =
            |series: &u32| matches!(all[*series as usize].entry.metric, Metric::LeaderStatus | Metric::EtcdServerId);
        let stands_for = self.page.iter().map(|(series, _)| *series).filter(says_which).min();
        let own = self.process(all, start, &marks, stands_for);
        let at = match self.split(all, start, &marks, stands_for, own).or(own.map(|own| own.0)) {
            Some(at) => at,
            None if self.processes.len() == MAX_PROCESSES => {
                self.left_out += 1;
                return;
            }
            None => {
                let from_zero = start.is_some_and(|start| began_within(start, first, self.at));
                self.processes.push(Process::new(start, from_zero, self.at, marks));
                self.processes.len() - 1
            }
        };
        let page = &self.page;
        if let Some(start) = start {
            self.processes[at].adopt(start, first, all, kept);
        }
        self.processes[at].stands_for = self.processes[at].stands_for.or(stands_for);
        self.processes[at].take(self.at, page, all, start, marks, kept);
    }

    /// How far the page's counters are ahead of a process's, as parts of these, on average; `None` where more than one
    /// in ten are lower: then it is another's. (A process can begin single counters again.)
    fn ahead(&self, all: &[Series], before: impl Fn(u32) -> f64) -> Option<f64> {
        let counters = self.page.iter().filter(|(series, _)| all[*series as usize].is_counter());
        let (mut fell, mut known, mut sum) = (0_u32, 0_u32, 0.0);
        for (before, value) in counters.map(|&(series, value)| (before(series), value)).filter(|own| !own.0.is_nan()) {
            known += 1;
            fell += u32::from(value < before);
            sum += (value - before).max(0.0) / before.max(1.0);
        }
        (fell * 10 <= known).then(|| sum / f64::from(known.max(1)))
    }

    /// How far the page is ahead of counters: of those that separate processes if it has any, else of all. `None` if it
    /// is another process's.
    fn ahead_of(
        &self,
        all: &[Series],
        before: &[f64; MARKS.len()],
        marks: &[f64; MARKS.len()],
        counters: impl Fn(u32) -> f64,
    ) -> Option<f64> {
        let are_shared = before.iter().zip(marks).any(|(before, now)| !before.is_nan() && !now.is_nan());
        if are_shared { ahead_by_marks(before, marks) } else { self.ahead(all, counters) }
    }

    /// The process that the first page of another one is of, to which the others do not belong: this page goes on from
    /// there, and is much further from the process that it fits, if it fits one. Only pages without a start can be
    /// taken for those of another process, of which all counted further.
    fn split(
        &mut self,
        all: &[Series],
        start: Option<f64>,
        marks: &[f64; MARKS.len()],
        stands_for: Option<u32>,
        fits: Option<(usize, f64)>,
    ) -> Option<usize> {
        if start.is_some() || self.processes.len() == MAX_PROCESSES {
            return None;
        }
        let is_blind = marks.iter().all(|mark| mark.is_nan());
        let ahead = |process: &Process| {
            let [first, _, rest @ ..] = process.early.as_slice() else { return None };
            let is_other = process.stands_for.zip(stands_for).is_some_and(|(a, b)| a != b);
            if is_other || !is_blind && rest.len() + 2 > MAX_EARLY_MARKED {
                return None;
            }
            let counters = |series: u32| process.baseline.get(&series).copied().unwrap_or(f64::NAN);
            let is_known = self.page.iter().any(|own| process.baseline.contains_key(&own.0));
            self.ahead_of(all, &first.marks, marks, counters).filter(|_| is_known)
        };
        // What goes on from the last page of a process goes on from its first page, too.
        let others = self.processes.iter().enumerate().filter(|(at, _)| fits.is_none_or(|fits| fits.0 != *at));
        let found = others.filter_map(|(at, own)| Some((at, ahead(own)?)));
        let (at, ahead) = found.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        if fits.is_some_and(|(_, further)| further < CLEARLY * ahead) {
            return None;
        }
        let both = self.processes.swap_remove(at);
        let mut early = both.early.into_iter();
        let first: Vec<EarlyPage> = early.next().into_iter().collect();
        for pages in [early.collect(), first] {
            let mut own: Option<Process> = None;
            for EarlyPage { at, page, marks } in pages {
                let own = own.get_or_insert_with(|| Process::new(None, false, at, marks));
                own.take(at, &page, all, None, marks, self.kept);
                own.stands_for = both.stands_for;
            }
            self.processes.extend(own);
        }
        Some(self.processes.len() - 1)
    }

    /// The process whose page this is, and how far the page is ahead of it: it has the same start, and its marks were
    /// not higher; the nearest if there are several.
    fn process(
        &self,
        all: &[Series],
        start: Option<f64>,
        marks: &[f64; MARKS.len()],
        stands_for: Option<u32>,
    ) -> Option<(usize, f64)> {
        let advance = |process: &Process| {
            if process.stands_for.zip(stands_for).is_some_and(|(a, b)| a != b) {
                return None;
            }
            let away = match (process.start, start) {
                (Some(a), Some(b)) => (a - b).abs(),
                // A page that breaks off lacks its start.
                _ => 0.0,
            };
            let counters = |series: u32| process.values.get(series as usize).copied().unwrap_or(f64::NAN);
            let ahead = match start {
                Some(_) => ahead_by_marks(&process.marks, marks)?,
                None => self.ahead_of(all, &process.marks, marks, counters)?,
            };
            (away <= START_SLACK).then_some((away, ahead))
        };
        let candidates = self.processes.iter().enumerate().filter_map(|(at, process)| Some((at, advance(process)?)));
        // Of those that fit equally, the one that was seen last: the others have ended.
        let last = |at: usize| std::cmp::Reverse(self.processes[at].last);
        candidates
            .min_by(|(i, a), (j, b)| {
                a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then_with(|| last(*i).cmp(&last(*j)))
            })
            .map(|(at, (_, ahead))| (at, ahead))
    }
}

/// How far marks are ahead of those before, as parts of these; `None` if one is lower.
fn ahead_by_marks(before: &[f64; MARKS.len()], marks: &[f64; MARKS.len()]) -> Option<f64> {
    let both = before.iter().zip(marks).filter(|(before, now)| !before.is_nan() && !now.is_nan());
    both.map(|(before, now)| (now >= before).then(|| (now - before) / before.max(1.0))).sum()
}

impl Process {
    fn new(start: Option<f64>, from_zero: bool, at: Micros, marks: [f64; MARKS.len()]) -> Self {
        Self {
            start,
            from_zero,
            first: at,
            last: at,
            pages: 0,
            values: Vec::new(),
            seen: Vec::new(),
            stood: Vec::new(),
            increases: Vec::new(),
            baseline: HashMap::new(),
            intervals: Vec::new(),
            courses: HashMap::new(),
            levels: HashMap::new(),
            prior: Vec::new(),
            known: 0,
            partial: 0,
            stands_for: None,
            marks,
            early: Vec::new(),
        }
    }

    /// When it began, as far as is known.
    pub(super) fn began(&self) -> Micros {
        self.start.map_or(self.first, |start| time::of_seconds(start).min(self.first))
    }

    /// Takes a start that earlier pages, which broke off, did not show.
    fn adopt(&mut self, start: f64, folder_first: Micros, all: &[Series], kept: Retention) {
        if self.start.is_some() || self.pages == 0 {
            return;
        }
        self.start = Some(start);
        let began = self.began();
        if began > folder_first && began <= self.first {
            // It counted from 0, as is known only now.
            self.from_zero = true;
            self.intervals.insert(0, (began, self.first));
            self.stood.iter_mut().for_each(|intervals| *intervals += 1);
            self.courses.values_mut().flatten().for_each(|(interval, _)| *interval += 1);
            for (number, value) in self.baseline.drain() {
                self.increases[number as usize] += value;
                if value > 0.0 && all[number as usize].is_timed(kept) {
                    self.courses.entry(number).or_default().insert(0, (0, value));
                }
            }
        }
    }

    fn take(
        &mut self,
        at: Micros,
        page: &[(u32, f64)],
        all: &[Series],
        start: Option<f64>,
        marks: [f64; MARKS.len()],
        kept: Retention,
    ) {
        self.pages += 1;
        let is_first = self.pages == 1;
        self.start = self.start.or(start);
        if self.start.is_some() || self.pages > MAX_EARLY {
            self.early = Vec::new();
        } else {
            self.early.push(EarlyPage { at, page: page.to_vec(), marks });
        }
        for (mine, now) in self.marks.iter_mut().zip(marks) {
            if !now.is_nan() {
                *mine = now;
            }
        }
        self.values.resize(all.len(), f64::NAN);
        self.seen.resize(all.len(), 0);
        self.stood.resize(all.len(), 0);
        self.increases.resize(all.len(), 0.0);
        self.prior.resize(all.len(), f64::NAN);
        // What a page lacks that breaks off is counted by the next one: both are of one interval.
        let counters = page.iter().filter(|own| all[own.0 as usize].is_counter()).count();
        let is_partial = !is_first && self.known >= MIN_KNOWN && counters * 10 < self.known * 9;
        let continues = std::mem::take(&mut self.partial);
        if is_partial && continues == MAX_PARTIAL {
            self.known = counters;
        } else if is_partial {
            self.partial = continues + 1;
        }
        if continues > 0
            && let Some(last) = self.intervals.last_mut()
        {
            last.1 = at;
        } else if !is_first {
            self.intervals.push((self.last, at));
        } else if self.from_zero {
            self.intervals.push((self.began().min(at), at));
        }
        for &(number, value) in page {
            let n = number as usize;
            let series = &all[n];
            let before = std::mem::replace(&mut self.values[n], value);
            let prior = std::mem::replace(&mut self.prior[n], before);
            self.known += usize::from(series.is_counter() && self.seen[n] == 0);
            self.seen[n] = self.pages;
            let stood = std::mem::replace(&mut self.stood[n], self.intervals.len() as u32);
            if !series.is_counter() {
                if series.is_followed(kept) {
                    self.level(number, at, value);
                }
                continue;
            }
            let difference = match is_first {
                true if self.from_zero => value,
                true => {
                    self.baseline.insert(number, value);
                    continue;
                }
                // One value that is absurd was none: what it added is taken back, and what rose since the one before
                // rose evenly.
                false if is_absurd([prior, before, value]) => {
                    let added = if before < prior { before } else { before - prior };
                    let rise = value - prior;
                    let part = self.part_of_earlier();
                    self.add(number, 1, rise * part - added, series.is_timed(kept));
                    rise * (1.0 - part)
                }
                // A series that is new was 0; one that fell began again.
                false if before.is_nan() || value < before => value,
                false => {
                    self.spread(number, stood, value - before, series.is_timed(kept));
                    continue;
                }
            };
            if difference > 0.0 {
                self.add(number, 0, difference, series.is_timed(kept));
            }
        }
        self.last = at;
        if self.intervals.len() > MAX_INTERVALS {
            self.coarsen();
        }
    }

    /// Which part of the last two intervals the earlier one is.
    fn part_of_earlier(&self) -> f64 {
        let lengths: Vec<f64> = self.intervals.iter().rev().take(2).map(|own| (own.1 - own.0) as f64).collect();
        match lengths[..] {
            [last, earlier] if last + earlier > 0.0 => earlier / (last + earlier),
            _ => 0.0,
        }
    }

    /// Adds a difference to a series' increase, and to its course in the last interval, or so many `before` it.
    fn add(&mut self, number: u32, before: u32, difference: f64, is_timed: bool) {
        self.increases[number as usize] += difference;
        let Some(interval) = (self.intervals.len() as u32).checked_sub(1 + before).filter(|_| is_timed) else { return };
        let course = self.courses.entry(number).or_default();
        match course.last_mut() {
            Some(last) if last.0 == interval => last.1 = (last.1 + difference).max(0.0),
            _ => course.push((interval, difference.max(0.0))),
        }
    }

    /// Adds what a series rose by since there were so many intervals: what rose while pages lacked it rose evenly.
    fn spread(&mut self, number: u32, stood: u32, rise: f64, is_timed: bool) {
        let lacked = (self.intervals.len() as u32).saturating_sub(stood + 1);
        if rise <= 0.0 {
            return;
        }
        let length = |own: &(Micros, Micros)| (own.1 - own.0).max(0) as f64;
        let since = self.intervals.get(stood as usize..).unwrap_or_default();
        let all: f64 = since.iter().map(length).sum();
        let mut left = rise;
        for before in (1..=lacked).rev().filter(|_| is_timed && all > 0.0) {
            let own = length(&self.intervals[self.intervals.len() - 1 - before as usize]) / all * rise;
            self.add(number, before, own, true);
            left -= own;
        }
        self.add(number, 0, left, is_timed);
    }

    /// Keeps a gauge's value.
    fn level(&mut self, number: u32, at: Micros, value: f64) {
        let levels = self.levels.entry(number).or_default();
        levels.push((at, value));
        if levels.len() > MAX_INTERVALS {
            // A peak must not be lost.
            let higher = |two: &[(Micros, f64)]| two.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
            *levels = levels.chunks(2).filter_map(higher).collect();
        }
    }

    /// Makes one interval of every two that follow one another.
    fn coarsen(&mut self) {
        self.intervals = self.intervals.chunks(2).map(|two| (two[0].0, two[two.len() - 1].1)).collect();
        self.stood.iter_mut().for_each(|intervals| *intervals = intervals.div_ceil(2));
        for course in self.courses.values_mut() {
            let mut coarser: Vec<(u32, f64)> = Vec::with_capacity(course.len());
            for (interval, difference) in course.drain(..) {
                match coarser.last_mut() {
                    Some((last, sum)) if *last == interval / 2 => *sum += difference,
                    _ => coarser.push((interval / 2, difference)),
                }
            }
            *course = coarser;
        }
    }
}
