//! Load and its consequences by interval: how many requests, how many of them failed, were throttled or slow, and how
//! much slower requests became than requests of their kind are.
//!
//! What is slow depends on the kind of request: a LIST of all pods takes longer than a GET. Each kind is therefore
//! compared with itself in quiet intervals, those in which requests were not slower than usual.

use super::askers::{Askers, Sparse, entry};
use super::latencies::{Latencies, slowdown};
use super::node_signs::{NodeSigns, Sign};
use super::pods::{PodStep, Pods};
use super::refusals::{Refusals, are_about};
use super::requests::{
    CONTROLLERS, Class, Grid, Kind, Requests, Row, account_of_controller, controller, is_control_plane,
};
use crate::analysis::robust::median;
use crate::model::cause::Source;
use crate::model::time::{Micros, Span};
use hashbrown::HashMap;
use std::collections::BTreeSet;

/// Of the intervals, sorted by how much slower requests are than usual, this part counts as quiet. A longer episode
/// than the rest of it would become the baseline.
const QUIET_SHARE: f64 = 0.25;
/// What an interval's mean latency is compared with: this quantile of all intervals' means.
const TYPICAL: f64 = 0.2;
/// Kubernetes' objective for requests of one object is 1 s; people notice a tenth of it when it doubles. s.
pub(super) const NOTICED_BY_S: f64 = 0.1;
/// And a request is slow from this many times the 99th percentile of its kind on.
pub(super) const NOTICED_TIMES: f64 = 2.0;
/// A client that keeps its watches starts fewer of one kind, a second. Of one that starts more each asks for all
/// objects again, as a LIST does.
const KEPT_WATCHES: f64 = 1.0;
/// Fewer requests of a kind do not show what they take.
const MIN_PRICED: f64 = 5.0;
/// Fewer requests of a kind have no 99th percentile of their own.
const MIN_TIMED: f64 = 50.0;

/// 99 in 100 requests take no longer wherever a control plane is well: a tenth of Kubernetes' objectives for the 99th
/// percentile of requests of one object, and of LISTs (SLIs and SLOs of SIG Scalability); s. In the order of [`place`].
const LONG_S: [f32; 3] = [0.1, 3.0, 0.1];

/// What happened to requests of one class in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ClassImpact {
    /// Requests whose latency is known.
    pub timed: f64,
    /// Of these, slow ones for their kind.
    pub slow: f64,
    /// Of these, what takes long wherever it is asked for.
    pub long: f64,
    pub requests: f64,
    /// Of these, code 0 or ≥ 500.
    pub errors: f64,
    /// Of these, code 429.
    pub throttled: f64,
}

/// An interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tile {
    /// Of reads, LISTs and writes: [`place`].
    pub felt: [ClassImpact; 3],
    /// Watches that started.
    pub watches: f64,
    /// Watches that failed, and that were throttled: they ended at once. Not part of `felt`.
    pub long: [f64; 2],
    /// Seconds of work asked for, each request at the price of its kind in quiet intervals; what is throttled, or
    /// fails no slower than usual, is none.
    pub work: f64,
    /// Mean of the logarithms of how many times slower than usual requests are, each kind by its number of requests.
    pub drag: f64,
    /// Latencies of all but long-running requests.
    pub latency: Latencies,
    /// Requests that need no store: reviews, and what asks for no resource.
    pub storeless: f64,
    /// What they say of nodes.
    pub nodes: NodeSigns,
    /// What happened to pods.
    pub pods: Pods,
    /// What rules refuse of the writes.
    pub refusals: Refusals,
    /// Denials by admission whose messages name the webhook or policy.
    pub denied: f64,
    /// What is answered with 401.
    pub unauthorized: Refusals,
}

impl Tile {
    /// All classes together.
    pub fn all(&self) -> ClassImpact {
        self.felt.iter().fold(ClassImpact::default(), |sum, own| ClassImpact {
            timed: sum.timed + own.timed,
            slow: sum.slow + own.slow,
            long: sum.long + own.long,
            requests: sum.requests + own.requests,
            errors: sum.errors + own.errors,
            throttled: sum.throttled + own.throttled,
        })
    }
}

/// Where a class stands in [`Tile::felt`]; `None` of what lasts.
pub fn place(class: Class) -> Option<usize> {
    match class {
        Class::Read | Class::Review => Some(0),
        Class::List => Some(1),
        Class::Write => Some(2),
        Class::Long => None,
    }
}

/// From where on requests are slow, by caller and kind, s.
type Thresholds = HashMap<(u32, u32), f64>;

/// Load in time.
#[derive(Debug)]
pub struct RequestSeries {
    /// What it was counted from.
    pub source: Source,
    /// How time is cut.
    pub grid: Grid,
    /// [`Requests::seams`].
    pub seams: Vec<Micros>,
    /// [`Requests::starts`].
    pub starts: Vec<(Span, usize)>,
    /// By interval.
    pub tiles: Vec<Tile>,
    /// Requests by apiserver, each by interval; without watches, which many start once another apiserver is away.
    pub by_instance: Vec<Vec<f64>>,
    /// Requests by apiserver while it starts, which are no load; all, and writes.
    pub(super) starting: Vec<[Vec<f64>; 2]>,
    /// Requests by caller, watches by their start.
    pub by_caller: Vec<Sparse>,
    /// Who asks which apiserver.
    pub(super) askers: Askers,
    /// Which callers are controllers, by their place in [`CONTROLLERS`].
    pub(super) controllers: Vec<Option<usize>>,
    /// Which callers are these, or accounts of theirs.
    pub(super) accounts: Vec<Option<usize>>,
    /// What each of these asks, with its accounts, by interval.
    pub(super) asked: [Vec<f64>; CONTROLLERS.len()],
    /// What each of these asks of leases, by interval.
    pub(super) leases: [Vec<f64>; CONTROLLERS.len()],
    /// What all others ask of leases, by interval: where that stops, too, the log leaves leases out.
    pub(super) other_leases: Vec<f64>,
    /// Who starts watches in each interval: numbers of callers.
    pub watching: Vec<BTreeSet<u32>>,
    /// Seconds that one request of a kind takes in quiet intervals; of a watch, what a LIST of all takes; 0 of what
    /// else lasts.
    pub prices: Vec<f64>,
    /// From here on a request of a kind is slow; s.
    thresholds: Vec<f64>,
    /// The same by caller and kind, where that is later ([`Newcomers`]).
    of_newcomers: Thresholds,
    /// Which caller is a part of the control plane, or a kubelet.
    pub is_own: Vec<bool>,
    /// Classes of the kinds.
    pub classes: Vec<Class>,
    /// Which kinds ask for no resource.
    is_probe: Vec<bool>,
    /// Which kinds are watches.
    is_watch: Vec<bool>,
    /// Which kinds need no store.
    is_storeless: Vec<bool>,
    /// Which kinds are about leases.
    is_lease: Vec<bool>,
    /// Whether pods are bound by requests that would be seen.
    pub(super) has_bindings: bool,
    /// Which kinds are writes that rules are about.
    is_ruled: Vec<bool>,
}

/// Requests and seconds of a kind by interval.
#[derive(Debug, Clone, Default)]
struct Means(Vec<(u32, [f32; 2])>);

impl Means {
    fn add(&mut self, tile: usize, count: f32, sum: f32) {
        let own = entry(&mut self.0, tile);
        *own = [own[0] + count, own[1] + sum];
    }

    fn typical(&self) -> Option<f64> {
        let means = self.0.iter().filter(|own| own.1[0] > 0.0).map(|own| f64::from(own.1[1] / own.1[0])).collect();
        quantile(means, TYPICAL)
    }
}

/// Who reads what it hardly reads in quiet intervals: what one LIST or GET costs differs by orders of magnitude with
/// how much it asks for, and what others of its kind take says nothing of a person who looks at everything once. Such
/// requests are slow from twice on what they take otherwise, less as far as those of others are slower meanwhile.
#[derive(Debug, Default)]
struct Newcomers(HashMap<(u32, u32), Newcomer>);

#[derive(Debug, Clone, Copy, Default)]
struct Newcomer {
    /// Requests in quiet intervals, and in all.
    quiet: f64,
    all: f64,
    /// Seconds that they took.
    seconds: f64,
}

/// How many have a latency, and its sum in seconds.
fn timed(row: &Row<'_>) -> (f64, f64) {
    let of = |own: &(f32, f32)| (f64::from(own.1), f64::from(own.0) * f64::from(own.1));
    row.latency.iter().map(of).fold((0.0, 0.0), |sum, own| (sum.0 + own.0, sum.1 + own.1))
}

impl Newcomers {
    fn add(&mut self, row: &Row<'_>, is_quiet: bool) {
        let own = self.0.entry(row.pair()).or_default();
        let (count, seconds) = timed(row);
        own.quiet += if is_quiet { count } else { 0.0 };
        own.all += count;
        own.seconds += seconds;
    }

    /// From where on their requests are slow, by caller and kind; those only that are later than the kind's.
    fn thresholds(mut self, requests: &dyn Requests, series: &RequestSeries, of_kind: &[f64]) -> Thresholds {
        let is_later = |key: &(u32, u32), seconds: f64, count: f64| {
            let later = NOTICED_TIMES * seconds / count.max(1.0);
            Some(later).filter(|later| *later > of_kind[key.1 as usize])
        };
        self.0.retain(|key, own| own.quiet < MIN_PRICED && is_later(key, own.seconds, own.all).is_some());
        if self.0.is_empty() {
            return HashMap::default();
        }
        // How much slower others are in each interval.
        let mut others = vec![[0.0; 2]; series.tiles.len()];
        let mut of_newcomers: Vec<(usize, (u32, u32), f64)> = Vec::new();
        requests.each(&mut |row| {
            let (count, seconds) = timed(&row);
            match self.0.contains_key(&row.pair()) {
                true => of_newcomers.push((row.tile, row.pair(), seconds)),
                false if count > 0.0 && series.classes[row.kind] != Class::Long => {
                    let [sum, weight] = &mut others[row.tile];
                    *sum += count * slowdown(seconds / count, series.prices[row.kind]);
                    *weight += count;
                }
                false => {}
            }
        });
        let mut sums: Thresholds = HashMap::default();
        for (tile, key, seconds) in of_newcomers {
            let [sum, weight] = others[tile];
            *sums.entry(key).or_default() += seconds / (sum / weight.max(1.0)).max(0.0).exp();
        }
        sums.into_iter().filter_map(|(key, own)| Some((key, is_later(&key, own, self.0[&key].all)?))).collect()
    }
}

/// A quantile, by nearest rank.
pub(super) fn quantile(mut values: Vec<f64>, q: f64) -> Option<f64> {
    let rank = ((values.len() as f64 * q).ceil() as usize).clamp(1, values.len().max(1)) - 1;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(rank, f64::total_cmp).1)
}

impl RequestSeries {
    /// By three passes over the rows, or four.
    pub fn new(requests: &dyn Requests) -> Self {
        let grid = requests.grid();
        let len = grid.len();
        let kinds = requests.kinds();
        let classes: Vec<Class> = kinds.iter().map(Class::of).collect();
        let mut series = Self {
            source: requests.source(),
            grid,
            seams: requests.seams().to_vec(),
            starts: requests.starts().to_vec(),
            tiles: vec![Tile::default(); len],
            by_instance: vec![vec![0.0; len]; requests.instances().len()],
            starting: vec![[vec![0.0; len], vec![0.0; len]]; requests.instances().len()],
            by_caller: vec![Sparse::default(); requests.callers().len()],
            askers: Askers::new(requests.instances().len()),
            controllers: requests.callers().iter().map(controller).collect(),
            accounts: requests.callers().iter().map(account_of_controller).collect(),
            asked: std::array::from_fn(|_| vec![0.0; len]),
            leases: std::array::from_fn(|_| vec![0.0; len]),
            other_leases: vec![0.0; len],
            watching: vec![BTreeSet::new(); len],
            prices: Vec::new(),
            thresholds: Vec::new(),
            of_newcomers: HashMap::default(),
            is_own: requests.callers().iter().map(is_control_plane).collect(),
            classes,
            is_watch: kinds.iter().map(|kind| kind[0] == "watch").collect(),
            is_storeless: kinds.iter().map(|own| own[2].is_empty() || own[2].ends_with("reviews")).collect(),
            is_lease: kinds.iter().map(|kind| kind[2] == "leases").collect(),
            has_bindings: kinds.iter().any(|kind| PodStep::of(kind) == Some(PodStep::Bound)),
            is_ruled: kinds.iter().map(|kind| Class::of(kind) == Class::Write && are_about(kind)).collect(),
            is_probe: kinds.iter().map(|[_, _, resource, _]| resource.is_empty()).collect(),
        };
        let signs: Vec<Option<Sign>> = kinds.iter().map(Sign::of).collect();
        let steps: Vec<Option<PodStep>> = kinds.iter().map(PodStep::of).collect();
        let mut means: Vec<Means> = vec![Means::default(); kinds.len()];
        requests.each(&mut |row| {
            series.count(&row, &mut means);
            if row.is_start {
                return;
            }
            if let Some(sign) = signs[row.kind].filter(|sign| sign.is_of(&requests.callers()[row.caller])) {
                series.tiles[row.tile].nodes.add(sign, row.requests - row.errors - row.throttled);
            }
            if let Some(step) = steps[row.kind] {
                series.tiles[row.tile].pods.add(step, &requests.callers()[row.caller], &row);
            }
        });
        for own in requests.faults().iter().filter(|own| own.fault.is_rule()) {
            series.tiles[own.tile].denied += own.count;
        }
        series.slow_down(&means);
        series.thresholds = series.thresholds(requests, kinds, &means);
        requests.each(&mut |row| {
            if !row.is_start {
                series.judge(&row);
            }
        });
        series
    }

    /// The first pass: what there was.
    fn count(&mut self, row: &Row<'_>, means: &mut [Means]) {
        let class = self.classes[row.kind];
        if row.is_start {
            let [all, writes] = &mut self.starting[row.instance];
            all[row.tile] += if class == Class::Long { 0.0 } else { row.requests };
            writes[row.tile] += if class == Class::Write { row.requests } else { 0.0 };
            return;
        }
        let (mut count, mut sum) = (0.0f32, 0.0f32);
        for (seconds, timed) in row.latency {
            (count, sum) = (count + timed, sum + seconds * timed);
        }
        let tile = &mut self.tiles[row.tile];
        let is_long = class == Class::Long;
        if let Some(controller) = row.controller.or(self.accounts[row.caller]) {
            self.asked[controller][row.tile] += if is_long { f64::from(count) } else { row.requests };
        }
        let Some(place) = place(class) else {
            // A watch counts when it starts.
            tile.watches += f64::from(count);
            // What proxies and shells end with is of other servers.
            if self.is_watch[row.kind] {
                tile.long[0] += row.errors;
                tile.long[1] += row.throttled;
            }
            if count > 0.0 {
                self.watching[row.tile].insert(row.caller as u32);
            }
            self.by_caller[row.caller].add(row.tile, f64::from(count));
            return;
        };
        if self.is_lease[row.kind] {
            match row.controller.or(self.controllers[row.caller]) {
                Some(controller) => self.leases[controller][row.tile] += row.requests,
                None => self.other_leases[row.tile] += row.requests,
            }
        }
        if self.is_ruled[row.kind] {
            tile.refusals.add(row, row.refused, self.is_own[row.caller]);
        }
        tile.unauthorized.add(row, row.unauthorized, self.is_own[row.caller]);
        tile.storeless += if self.is_storeless[row.kind] { row.requests } else { 0.0 };
        let felt = &mut tile.felt[place];
        felt.requests += row.requests;
        // A probe of /readyz fails while its apiserver starts, and nobody waits for it.
        felt.errors += if self.is_probe[row.kind] { 0.0 } else { row.errors };
        felt.throttled += row.throttled;
        felt.timed += f64::from(count);
        tile.latency.add(row.latency);
        self.by_instance[row.instance][row.tile] += row.requests;
        self.askers.take(row, self.source, class == Class::Write);
        self.by_caller[row.caller].add(row.tile, row.requests);
        if count > 0.0 {
            means[row.kind].add(row.tile, count, sum);
        }
    }

    /// How much slower than usual requests are in each interval.
    fn slow_down(&mut self, means: &[Means]) {
        let mut weights = vec![0.0; self.tiles.len()];
        for own in means {
            let Some(typical) = own.typical() else { continue };
            for (tile, [count, sum]) in &own.0 {
                let weight = f64::from(*count);
                self.tiles[*tile as usize].drag += weight * slowdown(f64::from(sum / count), typical);
                weights[*tile as usize] += weight;
            }
        }
        for (tile, weight) in self.tiles.iter_mut().zip(weights) {
            tile.drag /= f64::max(weight, 1.0);
        }
    }

    /// Intervals in which requests are as fast as usual.
    fn quiet(&self) -> Vec<bool> {
        let busy = |tile: &&Tile| tile.all().timed > 0.0;
        let bound = quantile(self.tiles.iter().filter(busy).map(|tile| tile.drag).collect(), QUIET_SHARE);
        let bound = bound.unwrap_or(0.0);
        self.tiles.iter().map(|tile| tile.drag <= bound && tile.all().timed > 0.0).collect()
    }

    /// The second pass: what requests of each kind take in quiet intervals, and from where on one is slow.
    fn thresholds(&mut self, requests: &dyn Requests, kinds: &[Kind], means: &[Means]) -> Vec<f64> {
        let quiet = self.quiet();
        let mut by_kind: Vec<Option<Box<Latencies>>> = vec![None; kinds.len()];
        let mut by_class: [Latencies; 3] = Default::default();
        let mut newcomers = Newcomers::default();
        requests.each(&mut |row| {
            if !self.is_own[row.caller] && matches!(self.classes[row.kind], Class::Read | Class::List) {
                newcomers.add(&row, quiet[row.tile]);
            }
            if let Some(place) = place(self.classes[row.kind])
                && quiet[row.tile]
            {
                by_kind[row.kind].get_or_insert_default().add(row.latency);
                by_class[place].add(row.latency);
            }
        });
        let mut all = Latencies::default();
        by_class.iter().for_each(|own| all.merge(own));
        let known = |place: usize| if by_class[place].count() > 0.0 { &by_class[place] } else { &all };
        let mut thresholds = Vec::with_capacity(kinds.len());
        let mut prices: Vec<f64> = Vec::with_capacity(kinds.len());
        for (kind, own) in by_kind.iter().enumerate() {
            let of_class = known(place(self.classes[kind]).unwrap_or(0));
            let reported = own.as_deref().filter(|own| own.count() >= MIN_TIMED).unwrap_or(of_class);
            let p99 = reported.quantile(0.99).unwrap_or(0.0);
            thresholds.push((NOTICED_TIMES * p99).max(p99 + NOTICED_BY_S));
            let mean = |own: &Latencies| own.sum / own.count().max(1.0);
            let known = own.as_deref().filter(|own| own.count() >= MIN_PRICED).map(mean);
            prices.push(match self.classes[kind] {
                // What lasts is no work that ends.
                Class::Long => 0.0,
                // What LISTs cost differs by orders of magnitude.
                Class::List => known.or_else(|| self.price_elsewhere(&means[kind])).unwrap_or_else(|| mean(of_class)),
                _ => known.unwrap_or_else(|| mean(of_class)),
            });
        }
        // How much a watch asks for is not known: the longest tenth of the LISTs of its resource ask for all.
        let long = |own: &Latencies| own.quantile(0.9).unwrap_or(0.0);
        let of_kind = |kind: usize| {
            let own = by_kind[kind].as_deref().filter(|own| own.count() >= MIN_PRICED);
            own.map_or(0.0, long).max(prices[kind])
        };
        let lists: Vec<(&Kind, f64)> =
            kinds.iter().enumerate().filter(|own| own.1[0] == "list").map(|own| (own.1, of_kind(own.0))).collect();
        for (price, [_, group, resource, _]) in prices.iter_mut().zip(kinds).filter(|own| own.1[0] == "watch") {
            let own = lists.iter().filter(|own| own.0[1] == *group && own.0[2] == *resource);
            *price = own.map(|own| own.1).max_by(f64::total_cmp).unwrap_or_else(|| long(known(1)));
        }
        self.prices = prices;
        self.of_newcomers = newcomers.thresholds(requests, self, &thresholds);
        thresholds
    }

    /// From here on a request of a caller is slow for its kind, s.
    pub fn threshold(&self, caller: usize, kind: usize) -> f64 {
        let own = self.of_newcomers.get(&(caller as u32, kind as u32));
        own.copied().unwrap_or(self.thresholds[kind])
    }

    /// What requests of a kind would take in quiet intervals, of which there are hardly any in these: what they take in
    /// others, less as far as requests of all kinds are slower there.
    fn price_elsewhere(&self, means: &Means) -> Option<f64> {
        let of = |(tile, [count, sum]): &(u32, [f32; 2])| {
            let times = self.tiles[*tile as usize].drag.max(0.0).exp();
            [f64::from(*count), f64::from(*sum) / times]
        };
        let [count, sum] = means.0.iter().map(of).fold([0.0; 2], |all, own| [all[0] + own[0], all[1] + own[1]]);
        (count >= MIN_PRICED).then(|| sum / count)
    }

    /// How many of the watches that a caller starts within so many seconds are LISTs in effect: those beyond what a
    /// client starts that keeps them.
    pub fn replays(&self, caller: usize, kind: usize, starts: f64, seconds: f64) -> f64 {
        let is_its = self.source == Source::Audit && self.is_watch[kind] && !self.is_own[caller];
        if is_its { (starts - KEPT_WATCHES * seconds).max(0.0) } else { 0.0 }
    }

    /// The third pass: what was slow, and how much work was asked for.
    fn judge(&mut self, row: &Row<'_>) {
        let Some(place) = place(self.classes[row.kind]) else {
            let (starts, _) = timed(row);
            let seconds = self.grid.seconds(row.tile);
            self.tiles[row.tile].work += self.replays(row.caller, row.kind, starts, seconds) * self.prices[row.kind];
            return;
        };
        let threshold = self.threshold(row.caller, row.kind) as f32;
        let above = |bound: f32| row.latency.iter().filter(|own| own.0 > bound).map(|own| own.1).sum::<f32>();
        let (slow, long) = (above(threshold), above(LONG_S[place]));
        let tile = &mut self.tiles[row.tile];
        tile.felt[place].slow += f64::from(slow);
        tile.felt[place].long += f64::from(long);
        let price = self.prices[row.kind];
        tile.work += (row.requests - row.throttled - row.unserved(price)).max(0.0) * price;
    }

    /// Requests by interval; without long-running ones.
    pub fn requests(&self) -> Vec<f64> {
        self.tiles.iter().map(|tile| tile.all().requests).collect()
    }

    /// The typical number of requests a second.
    pub fn typical_rate(&self) -> f64 {
        self.typical_of(&self.requests())
    }

    /// The typical number a second of what is counted by interval.
    pub fn typical_of(&self, counts: &[f64]) -> f64 {
        let rate = |(at, count): (usize, &f64)| count / self.grid.seconds(at).max(0.1);
        median(&mut counts.iter().enumerate().map(rate).collect::<Vec<f64>>()).unwrap_or(0.0)
    }
}
