use super::metrics::{METRICS, find, series};
use super::panel::{COLUMNS, Place, boards, places};
use super::rules::rules;
use super::*;
use std::collections::BTreeSet;

/// Expressions of panels, rules and annotations with who has them.
fn expressions() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for board in boards().unwrap() {
        for panel in board.panels() {
            let of = |query: &panel::Query| (format!("{} / {}", board.title, panel.title()), query.expr.clone());
            all.extend(panel.queries.iter().map(of));
        }
        let instances = format!("{}{{}}", board.instances_of);
        all.push((board.title.clone(), instances));
        all.extend(board.variables.iter().map(|variable| (board.title.clone(), variable.series.clone())));
    }
    let rules = rules().unwrap();
    all.extend(rules.recordings.into_iter().map(|rule| (rule.record, rule.expr)));
    all.extend(rules.alerts.into_iter().map(|rule| (rule.name, rule.expr)));
    all
}

#[test]
fn every_series_is_in_the_table_and_every_metric_is_used() {
    let recorded: BTreeSet<String> = rules().unwrap().recordings.into_iter().map(|rule| rule.record).collect();
    let mut used = BTreeSet::new();
    let mut unknown = Vec::new();
    for (whose, expr) in expressions() {
        let names = series(&expr);
        assert!(!names.is_empty(), "{whose}: no series in {expr}");
        for name in names {
            match find(name) {
                Some(metric) => drop(used.insert(metric.name)),
                None if recorded.contains(name) => {}
                None => unknown.push(format!("{whose}: {name}")),
            }
        }
    }
    assert!(unknown.is_empty(), "not in the table of metrics:\n{}", unknown.join("\n"));
    let unused: Vec<&str> = METRICS.iter().map(|metric| metric.name).filter(|name| !used.contains(name)).collect();
    assert!(unused.is_empty(), "in the table of metrics, and used nowhere: {unused:?}");
    let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), METRICS.len(), "a metric stands in the table twice");
    assert_eq!(series(r#"rate(a_total{b="c{d}",e="f"}[5m]) / up{} > 0"#), ["a_total", "up"]);
}

#[test]
fn every_metric_of_the_text_file_is_one_that_plimsoll_writes() {
    let written = crate::views::textfile::metrics();
    let ours: Vec<&str> =
        METRICS.iter().filter(|metric| metric.source == Source::Textfile).map(|metric| metric.name).collect();
    assert!(ours.len() > 3, "{ours:?}");
    for name in ours {
        assert!(written.iter().any(|own| own == name), "plimsoll memory watch --textfile does not write {name}");
    }
}

#[test]
fn panels_fill_the_grid_and_do_not_overlap() {
    let overlap = |a: &Place, b: &Place| a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
    for board in boards().unwrap() {
        let mut all: Vec<Place> = Vec::new();
        for (heading, panels) in places(&board) {
            all.push(heading);
            all.extend(panels);
        }
        for (at, place) in all.iter().enumerate() {
            assert!(place.w > 0 && place.h > 0 && place.x + place.w <= COLUMNS, "{}: {place:?}", board.title);
            assert!(!all[..at].iter().any(|other| overlap(place, other)), "{}: {place:?} overlaps", board.title);
        }
    }
}

#[test]
fn panels_say_what_they_show() {
    let mut missing = 0;
    let mut panels = 0;
    for board in boards().unwrap() {
        let mut titles = BTreeSet::new();
        for panel in board.panels() {
            let whose = format!("{} / {}", board.title, panel.title());
            assert!(titles.insert(panel.title().to_owned()), "{whose}: two panels of one title");
            let sentences = panel.description.split_terminator(". ").count();
            assert!(
                (1..=2).contains(&sentences) && panel.description.ends_with('.'),
                "{whose}: {sentences} \
            sentences"
            );
            assert!(!panel.unit.is_empty() && !panel.queries.is_empty(), "{whose}");
            assert!(panel.queries.iter().all(|query| !query.legend.is_empty()), "{whose}: no legend");
            let is_rising = panel.limits.windows(2).all(|two| two[0] < two[1]);
            assert!(is_rising, "{whose}: thresholds do not rise");
            panels += 1;
            missing += usize::from(panel.needs.is_some());
        }
    }
    assert!(missing * 10 <= panels, "{missing} of {panels} panels have no data on the samples");
}
