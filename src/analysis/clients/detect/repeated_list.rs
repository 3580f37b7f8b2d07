//! LIST again and again where an informer would LIST once and watch.

use super::{Clients, Found, name, resource, told};
use crate::analysis::clients::listing;
use crate::analysis::rollup::Fact;
use crate::model::report::Severity;
use crate::model::units::{counted, duration};
use serde_json::json;

/// LISTs from one address within [`WINDOW`] minutes: an informer lists once, and once more for each failure.
const LISTS: f64 = 5.0;
const WINDOW: i64 = 10;
/// From gaps this alike on (90th percentile ÷ median) it goes by the clock.
const REGULAR: f64 = 2.0;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<Found<'r>>) {
    for (profile, what, one) in clients.uses() {
        let of = |row: &_| listing(row, clients.server);
        let is_list = |row: &_| of(row).is_some_and(|list| !list.further_page);
        // One page of a small collection costs little, however often.
        let is_wide = one.sum(|row| of(row).is_some_and(|list| list.full || list.further_page)) > 0;
        if !is_wide || one.sum(|row| row.verb == "watch") > 0 {
            continue;
        }
        let is_answered = |row: &_| is_list(row) && row_succeeded(row);
        let minutes = one.minutes(clients, is_answered);
        let sources = one.sources();
        let densest = minutes.most_in(WINDOW) / sources as f64;
        if densest < LISTS {
            continue;
        }
        let gaps = one.gaps(Fact::Reread);
        // Rereads are of LISTs and GETs together: they tell a period only where nearly all are LISTs.
        let pure = one.sum(|row| row.verb == "get") * 10 <= one.sum(is_list);
        let period = gaps.quantile(0.5).filter(|_| pure).map(|gap| gap / 1e6);
        let regular = gaps.quantile(0.9).zip(period).is_some_and(|(p90, period)| p90 / 1e6 <= REGULAR * period);
        let every = period.map(|period| format!(", each every {}", duration((period * 1e6) as i64))).unwrap_or_default();
        let from = if sources > 1 { format!(" from {}", counted(sources, "address")) } else { String::new() };
        let summary = format!(
            "{} lists {} again and again instead of watching: {}{from}{every}",
            name(profile),
            resource(what),
            counted(minutes.total() as u64, "LIST"),
        );
        let evidence = json!({
            "lists": minutes.total(), "sources": sources, "lists_in_10_min_per_source": densest, "period_s": period,
            "full_lists": one.sum(|row| of(row).is_some_and(|list| list.full)),
        });
        let finding = clients.finding("client-repeated-list", Severity::Warning, profile, what, &minutes);
        let remedy = "use an informer (client-go's SharedInformer, or list once and watch with allowWatchBookmarks); until then list with resourceVersion=0 and less often";
        found.push((Some(profile.who), told(finding, if regular { 0.95 } else { 0.8 }, summary, evidence, remedy)));
    }
}

fn row_succeeded(row: &crate::analysis::rollup::read::TrafficRow<'_>) -> bool {
    row.code.is_none_or(|code| code < 400)
}
