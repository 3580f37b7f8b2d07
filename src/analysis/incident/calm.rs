//! How requests ended in a record in which no incident was found.

use crate::analysis::judge::RequestSeries;
use crate::model::units::counted;

/// From this part of all requests on those that fail, or are throttled, are noted.
pub(super) const NOTED_SHARE: f64 = 0.01;

/// How the requests of a record ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcomes {
    requests: f64,
    /// Code 0 or ≥ 500.
    errors: f64,
    /// Code 429.
    throttled: f64,
}

impl Outcomes {
    /// Adds those of a record that was judged.
    pub fn add(&mut self, series: &RequestSeries) {
        for own in series.tiles.iter().map(|tile| tile.all()) {
            self.requests += own.requests;
            self.errors += own.errors;
            self.throttled += own.throttled;
        }
    }

    /// Those that did not end well, where there are more than hardly any: they do so as often at any time.
    fn bad(&self) -> Option<String> {
        let all = [(self.errors, "failed (5xx)"), (self.throttled, "were throttled (429)")];
        let shown = all.into_iter().filter(|(count, _)| *count >= NOTED_SHARE * self.requests.max(1.0));
        let shown: Vec<String> =
            shown.map(|(count, what)| format!("{} {what}", counted(count as u64, "request"))).collect();
        let of = counted(self.requests as u64, "request");
        (!shown.is_empty()).then(|| format!("all along {}, of {of}", shown.join(", and ")))
    }

    /// Why a surge is no incident.
    pub fn of_surge(&self) -> String {
        match self.bad() {
            Some(bad) => format!("no more requests than usual were slow, throttled (429) or failed (5xx); {bad}"),
            None => "hardly any request was slow for its kind, throttled (429) or failed (5xx)".to_owned(),
        }
    }

    /// Why nothing is an incident; so many bursts recur.
    pub fn of_calm(&self, recurring: usize) -> String {
        let but = match recurring {
            0 => String::new(),
            bursts => format!(", but for {bursts} bursts that recur; --from and --to look at one"),
        };
        let bad = self.bad().map_or_else(String::new, |bad| format!("; {bad}"));
        format!("latency, 429s and 5xx stayed near their baseline{but}{bad}")
    }
}
