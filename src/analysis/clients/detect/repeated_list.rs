//! LIST again and again where an informer would LIST once and watch.

use super::{ClientFinding, Clients, RECURRING_MINUTES, describe, name, resource};
use crate::analysis::clients::{first_page, listing, succeeded};
use crate::analysis::list_route::Route;
use crate::analysis::rollup::Fact;
use crate::model::report::Severity;
use crate::model::units::{counted, duration};
use serde_json::json;

/// LISTs from one address within [`WINDOW`] minutes: an informer lists once, and once more for each failure.
const LISTS: f64 = 5.0;
const WINDOW: i64 = 10;
/// From gaps this alike on (90th percentile ÷ median) it goes by the clock.
const REGULAR: f64 = 2.0;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for (profile, what, one) in clients.uses() {
        let of = |row: &_| listing(row, clients.server);
        let is_list = |row: &_| first_page(row, clients.server).is_some();
        // One page of a small collection costs little, however often.
        let is_wide = one.sum(|row| of(row).is_some_and(|list| list.full || list.further_page)) > 0;
        if !is_wide || one.sum(|row| row.verb == "watch") > 0 {
            continue;
        }
        // Who is refused does not get a list to work with.
        let is_answered = |row: &_| is_list(row) && succeeded(row);
        let minutes = one.minutes(clients, is_answered);
        let sources = one.copies(profile);
        let densest = minutes.most_in(WINDOW) / sources as f64;
        if densest < LISTS || minutes.with(1.0) < RECURRING_MINUTES {
            continue;
        }
        let gaps = one.gaps(Fact::Reread);
        // Rereads are of LISTs and GETs together: they show a period only where nearly all are LISTs.
        let pure = one.sum(|row| row.verb == "get") * 10 <= one.sum(is_list);
        let period = gaps.quantile(0.5).filter(|_| pure).map(|gap| gap / 1e6);
        let regular = gaps.quantile(0.9).zip(period).is_some_and(|(p90, period)| p90 / 1e6 <= REGULAR * period);
        let every = period
            .map(|period| {
                format!(", half of them less than {} after the previous one", duration((period * 1e6) as i64))
            })
            .unwrap_or_default();
        let by = |route: Route| one.sum(|row| is_answered(row) && of(row).is_some_and(|list| list.route == route));
        let (cache, etcd, unsure) = (by(Route::Cache), by(Route::Etcd), by(Route::Unsure));
        let from = if sources > 1 { format!(" from {sources} addresses") } else { String::new() };
        let summary = format!(
            "{} lists {} again and again instead of watching: {}{from}{every}",
            name(profile),
            resource(what),
            counted(minutes.total() as u64, "LIST"),
        );
        let evidence = json!({
            "lists": minutes.total(), "sources": sources, "lists_in_10_min_per_source": densest, "period_s": period,
            "full_lists": one.sum(|row| of(row).is_some_and(|list| list.full)),
            "cache_lists": cache, "etcd_lists": etcd, "unsure_lists": unsure,
        });
        let finding = clients.finding("client-repeated-list", Severity::Warning, profile, what, &minutes);
        let until = match (cache, etcd, unsure) {
            // Events have no watch cache.
            _ if what.1 == "events" => "until then list less often",
            (_, 0, 0) => {
                "until then list less often: the watch cache already serves these LISTs, so they get no cheaper"
            }
            (_, 1.., _) => "until then list with resourceVersion=0, which the watch cache serves, and less often",
            _ => "until then list less often (--k8s-version shows whether resourceVersion=0 would help)",
        };
        let remedy = format!(
            "use an informer (client-go's SharedInformer), or list once and then watch with allowWatchBookmarks; \
             {until}"
        );
        found
            .push((Some(profile.who), describe(finding, if regular { 0.95 } else { 0.8 }, summary, evidence, &remedy)));
    }
}
