//! LISTs that read through to etcd where the watch cache could answer.

use super::{ClientFinding, Clients, RECURRING_MINUTES, describe, name, resource};
use crate::analysis::clients::{first_page, is_turned_away};
use crate::analysis::list_route::{Minor, Route};
use crate::analysis::rollup::read::TrafficRow;
use crate::model::report::Severity;
use crate::model::units::grouped;
use crate::model::uri::{Match, ReadShape};
use serde_json::json;

/// A minute, or more; a person with kubectl stays below.
const PER_MINUTE: f64 = 1.0;
/// Five of them follow one another: what is done now and then is not done every minute.
const WINDOW: i64 = 5;

pub(super) fn find<'r>(clients: &Clients<'r>, found: &mut Vec<ClientFinding<'r>>) {
    for (profile, what, one) in clients.uses() {
        // Events have no watch cache: nobody could do better.
        if what.1 == "events" {
            continue;
        }
        let minutes = one.minutes(clients, |row| {
            !is_turned_away(row.code) && first_page(row, clients.server).is_some_and(|list| list.route == Route::Etcd)
        });
        let busy = minutes.with(PER_MINUTE);
        if busy < RECURRING_MINUTES || minutes.most_in(WINDOW) < PER_MINUTE * WINDOW as f64 {
            continue;
        }
        let summary = format!(
            "{} LISTs {} from etcd, bypassing the watch cache: {} times",
            name(profile),
            resource(what),
            grouped(minutes.total() as u64)
        );
        let evidence = json!({"etcd_lists": minutes.total(), "minutes": busy, "busiest_minute": minutes.busiest()});
        let finding = clients.finding("client-etcd-lists", Severity::Warning, profile, what, &minutes);
        let of_etcd =
            |row: &&TrafficRow<'_>| first_page(row, clients.server).is_some_and(|list| list.route == Route::Etcd);
        let shape_of = |wanted: &dyn Fn(&ReadShape) -> bool| {
            one.rows
                .iter()
                .filter(of_etcd)
                .filter(|row| row.shape.is_some_and(|shape| wanted(&shape)))
                .map(|row| row.requests)
                .sum::<u64>()
        };
        let half = minutes.total() / 2.0;
        let first = if shape_of(&|shape| shape.version_match == Match::Exact) as f64 > half {
            "remove resourceVersionMatch=Exact, which the cache can't serve, or use an informer"
        } else if shape_of(&|shape| shape.limit) as f64 > half {
            "use an informer: with resourceVersion=0 the cache serves the LIST, but older apiservers then ignore \
             limit and return everything"
        } else {
            "list with resourceVersion=0, or use an informer"
        };
        let later = match clients.server {
            Some(server) if server >= Minor(31) => "",
            _ => "; since Kubernetes 1.31 with etcd 3.5.13 the cache serves such LISTs as well",
        };
        found.push((Some(profile.who), describe(finding, 0.9, summary, evidence, &format!("{first}{later}"))));
    }
}
