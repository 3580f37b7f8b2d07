//! What a store's series show of a cluster: the same as metrics pages would.

use crate::model::names::{APISERVER_OBJECTS, APISERVER_SEATS, ETCD_DB, ETCD_QUOTA};
use crate::model::series::{Point, Series};
use crate::model::time::Micros;
use std::collections::BTreeMap;

/// Series of a store, as they are read.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Seats that are taken, and those that there are, of all levels with a limit; by time.
    seats: BTreeMap<Micros, [f64; 2]>,
    /// The newest by member.
    databases: BTreeMap<String, (Micros, f64)>,
    quotas: BTreeMap<String, (Micros, f64)>,
    nodes: Option<(Micros, f64)>,
    last: Option<Micros>,
}

impl Recorded {
    /// Takes points of a series, in order of time.
    pub fn take(&mut self, series: &Series, points: &[Point]) {
        let Some(newest) = points.last() else { return };
        self.last = self.last.max(Some(newest.at));
        let newest = (newest.at, newest.value);
        let instance = || series.label("instance").to_owned();
        match series.name.as_str() {
            APISERVER_SEATS if series.label("priority_level") != "exempt" => {
                let place = match series.label("kind") {
                    "executing" => 0,
                    "limit" => 1,
                    _ => return,
                };
                points.iter().for_each(|point| self.seats.entry(point.at).or_default()[place] += point.value);
            }
            ETCD_DB => drop(self.databases.insert(instance(), newest)),
            ETCD_QUOTA => drop(self.quotas.insert(instance(), newest)),
            APISERVER_OBJECTS if series.label("group").is_empty() && series.label("resource") == "nodes" => {
                self.nodes = Some(newest);
            }
            _ => {}
        }
    }

    /// Takes what another store of the cluster has.
    pub fn merge(&mut self, other: Self) {
        for (at, [taken, limit]) in other.seats {
            let own = self.seats.entry(at).or_default();
            *own = [own[0] + taken, own[1] + limit];
        }
        self.databases.extend(other.databases);
        self.quotas.extend(other.quotas);
        self.nodes = other.nodes.or(self.nodes);
        self.last = self.last.max(other.last);
    }

    /// When the last point was.
    pub fn last(&self) -> Option<Micros> {
        self.last
    }

    /// The largest share of all seats that were taken at one time.
    pub fn seats(&self) -> Option<f64> {
        let shares = self.seats.values().filter(|[_, limit]| *limit > 0.0).map(|[taken, limit]| taken / limit);
        shares.max_by(f64::total_cmp)
    }

    /// Bytes of the largest database, and the smallest quota.
    pub fn storage(&self) -> Option<(f64, Option<f64>)> {
        let last = |all: &BTreeMap<String, (Micros, f64)>| all.values().map(|(_, value)| *value).collect::<Vec<_>>();
        let used = last(&self.databases).into_iter().max_by(f64::total_cmp)?;
        let quota = last(&self.quotas).into_iter().filter(|quota| *quota > 0.0).min_by(f64::total_cmp);
        Some((used, quota))
    }

    /// Nodes.
    pub fn nodes(&self) -> Option<u64> {
        self.nodes.map(|(_, count)| count.max(0.0) as u64)
    }
}
