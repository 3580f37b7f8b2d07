//! What owners are notified of, and when: one message with all that is theirs when something comes nearer to its limit,
//! again after a while if it still stands, and once when all is over. What comes about out of working hours waits for
//! their beginning.
//!
//! The rules, as docs/alerts.md has them:
//! - *News* is an alert of which nothing was said yet, or nothing as bad. It is reported in working hours; critical
//!   news at any hour where the owner wants that, and then with all else.
//! - What was news and is over before it could be reported is reported all the same.
//! - Without news, what still stands is reported again when the last message is `repeat` old, in working hours.
//! - When nothing stands any more and something was reported, that is reported, in working hours. Before, what is over
//!   is part of the next message.

use super::check::Checked;
use super::{calendar, owners};
use crate::model::alert::{Alert, Config, Key, Level, Message, Owner, Reason, Watch, Watched};
use crate::model::time::Micros;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// News that wait for working hours.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// Who is to be notified.
    pub owner: Owner,
    /// When working hours begin; `None` where they don't within two years.
    pub until: Option<Micros>,
    /// The worst of it.
    pub level: Level,
    /// How many news.
    pub count: usize,
}

/// What a run comes to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decided {
    /// Messages to send, by owner.
    pub messages: Vec<(Owner, Message)>,
    /// What waits.
    pub waiting: Vec<Waiting>,
}

/// Takes in what quotas are like now, and decides who is notified of what. `watches` is what earlier runs remembered,
/// by the owner's name, and is changed. Where the input is not `whole`, what is missing from it is not taken for over.
pub fn step(
    watches: &mut BTreeMap<String, Watch>,
    config: &Config,
    cluster: &str,
    checked: &[Checked],
    now: Micros,
    whole: bool,
) -> Decided {
    let mut by_owner: BTreeMap<&str, BTreeMap<&Key, &Checked>> = BTreeMap::new();
    for one in checked {
        by_owner.entry(&one.owner).or_default().insert(&one.gauge.key, one);
    }
    // A namespace that has another owner now is over for the one before, also where others could not be read.
    let known: BTreeSet<&Key> = checked.iter().map(|one| &one.gauge.key).collect();
    let names: BTreeSet<String> =
        watches.keys().cloned().chain(by_owner.keys().map(|name| (*name).to_owned())).collect();
    let mut decided = Decided::default();
    let nothing = BTreeMap::new();
    for name in names {
        let mut watch = watches.remove(&name).unwrap_or_default();
        let seen = by_owner.get(name.as_str()).unwrap_or(&nothing);
        refresh(&mut watch, seen, now, |key| whole || known.contains(key));
        if watch.watched.is_empty() {
            continue;
        }
        let owner = owners::resolve(config, &name);
        match reason(&watch, &owner, config.repeat, now) {
            Some(reason) => {
                let message = message(&mut watch, &owner, cluster, reason, now);
                decided.messages.push((owner, message));
            }
            None => decided.waiting.extend(waiting(&watch, owner, now)),
        }
        if !watch.watched.is_empty() {
            watches.insert(name, watch);
        }
    }
    decided
}

/// Brings what is watched up to date.
fn refresh(watch: &mut Watch, seen: &BTreeMap<&Key, &Checked>, now: Micros, is_known: impl Fn(&Key) -> bool) {
    for watched in &mut watch.watched {
        let Some(one) = seen.get(&watched.gauge.key) else {
            if is_known(&watched.gauge.key) {
                watched.ended.get_or_insert(now);
            }
            continue;
        };
        // It stays at its level until usage is well below.
        let held = one.held.map(|held| held.min(watched.level)).filter(|_| watched.ended.is_none());
        match one.level.max(held) {
            Some(level) => {
                watched.gauge.clone_from(&one.gauge);
                watched.level = level;
                watched.worst = watched.worst.max(level);
                watched.ended = None;
            }
            None => {
                watched.ended.get_or_insert(now);
            }
        }
    }
    let old: BTreeSet<Key> = watch.watched.iter().map(|watched| watched.gauge.key.clone()).collect();
    for (key, one) in seen {
        if let Some(level) = one.level.filter(|_| !old.contains(*key)) {
            watch.watched.push(Watched {
                gauge: one.gauge.clone(),
                level,
                worst: level,
                since: now,
                ended: None,
                reported: None,
            });
        }
    }
    watch.watched.sort_by(|a, b| a.gauge.key.cmp(&b.gauge.key));
}

fn is_news(watched: &Watched) -> bool {
    watched.reported.is_none_or(|reported| watched.worst > reported)
}

/// Why the owner is notified now; `None`: not now.
fn reason(watch: &Watch, owner: &Owner, repeat: Duration, now: Micros) -> Option<Reason> {
    let is_open = owner.hours.as_ref().is_none_or(|hours| calendar::is_open(hours, now));
    let stands = watch.watched.iter().any(|watched| watched.ended.is_none());
    let has_news = watch.watched.iter().any(is_news);
    let presses = |watched: &Watched| is_news(watched) && watched.ended.is_none() && watched.level == Level::Critical;
    if has_news && (is_open || owner.critical_any_time && watch.watched.iter().any(presses)) {
        return Some(Reason::News);
    }
    if !is_open || has_news {
        return None;
    }
    let repeat = Micros::try_from(repeat.as_micros()).unwrap_or(Micros::MAX);
    let is_due = watch.last.is_none_or(|last| now.saturating_sub(last) >= repeat);
    match stands {
        false => Some(Reason::Clear),
        true => is_due.then_some(Reason::Repeat),
    }
}

/// The message; afterwards all is reported.
fn message(watch: &mut Watch, owner: &Owner, cluster: &str, reason: Reason, now: Micros) -> Message {
    let alert = |watched: &Watched| Alert {
        gauge: watched.gauge.clone(),
        level: if watched.ended.is_some() { watched.worst } else { watched.level },
        worst: watched.worst,
        was: watched.reported,
        since: watched.since,
        ended: watched.ended,
    };
    let (over, mut alerts): (Vec<Alert>, Vec<Alert>) =
        watch.watched.iter().map(alert).partition(|alert| alert.ended.is_some());
    let share = |alert: &Alert| alert.gauge.share.unwrap_or(f64::INFINITY);
    alerts.sort_by(|a, b| b.level.cmp(&a.level).then(share(b).total_cmp(&share(a))));
    watch.count += 1;
    watch.last = Some(now);
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    add(cluster);
    add(&owner.name);
    add(&format!("{} {now} {}", watch.count, reason.name()));
    for Alert { gauge, level, ended, .. } in alerts.iter().chain(&over) {
        for text in [&gauge.key.namespace, &gauge.key.quota, &gauge.key.resource, &gauge.used, &gauge.hard] {
            add(text);
        }
        add(&format!("{} {ended:?}", level.name()));
    }
    let id = hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    watch.watched.retain(|watched| watched.ended.is_none());
    for watched in &mut watch.watched {
        watched.reported = Some(watched.level);
        watched.worst = watched.level;
    }
    let level = alerts.iter().map(|alert| alert.level).max();
    Message {
        id,
        cluster: cluster.to_owned(),
        owner: owner.name.clone(),
        at: now,
        reason,
        level,
        alerts,
        over,
        deeds: Vec::new(),
        episodes: Vec::new(),
    }
}

fn waiting(watch: &Watch, owner: Owner, now: Micros) -> Option<Waiting> {
    let news = watch.watched.iter().filter(|watched| is_news(watched));
    let (level, count) = (news.clone().map(|watched| watched.worst).max()?, news.count());
    let until = owner.hours.as_ref().and_then(|hours| calendar::next_open(hours, now));
    Some(Waiting { owner, until, level, count })
}

/// What stands and was reported, by owner: what Alertmanager is to go on knowing.
pub fn standing(watches: &BTreeMap<String, Watch>) -> BTreeMap<String, Vec<Alert>> {
    let shown = |watched: &Watched| {
        let level = watched.reported?;
        let (since, ended) = (watched.since, watched.ended);
        Some(Alert { gauge: watched.gauge.clone(), level, worst: level, was: Some(level), since, ended })
    };
    watches.iter().map(|(owner, watch)| (owner.clone(), watch.watched.iter().filter_map(shown).collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::alert::{Calendar, Gauge, Templates, Thresholds};
    use crate::model::time::{HOUR, parse_any};
    use jiff::tz::TimeZone;

    fn config(hours: Option<Calendar>, critical_any_time: bool) -> Config {
        let default =
            Owner { name: "rest".into(), namespaces: vec![], channels: vec![], to: vec![], hours, critical_any_time };
        Config {
            cluster: String::new(),
            thresholds: Thresholds { warn: 0.8, critical: 0.95, days: None },
            repeat: Duration::from_secs(24 * 3600),
            keep: Duration::ZERO,
            owner_keys: vec![],
            channels: vec![],
            owners: vec![],
            default,
            templates: Templates::default(),
        }
    }

    fn office() -> Calendar {
        let days = calendar::days(0, 4);
        Calendar { zone: TimeZone::UTC, days, from: 9 * 60, to: 17 * 60, holidays: BTreeSet::new() }
    }

    fn one(namespace: &str, share: f64) -> Checked {
        let at = |margin: f64| match share + margin {
            share if share >= 0.95 => Some(Level::Critical),
            share if share >= 0.8 => Some(Level::Warning),
            _ => None,
        };
        let key = Key { namespace: namespace.into(), quota: "q".into(), resource: "pods".into() };
        let (used, hard) = (format!("{}", (share * 100.0) as u64), "100".to_owned());
        let gauge = Gauge {
            key,
            used,
            hard,
            share: Some(share),
            per_week: None,
            per_week_share: None,
            full_at: None,
            proposed: None,
            taken: None,
        };
        Checked { gauge, level: at(0.0), held: at(0.02), owner: "pay".into() }
    }

    struct World {
        watches: BTreeMap<String, Watch>,
        config: Config,
    }

    impl World {
        fn new(config: Config) -> Self {
            Self { watches: BTreeMap::new(), config }
        }

        /// `reason: namespace level, … / over` of the one message, or what it waits for.
        fn run(&mut self, at: Micros, shares: &[(&str, f64)]) -> String {
            let checked: Vec<Checked> = shares.iter().map(|(namespace, share)| one(namespace, *share)).collect();
            let decided = step(&mut self.watches, &self.config, "c", &checked, at, true);
            // As it is kept on disk.
            let text = serde_json::to_string(&self.watches).unwrap();
            self.watches = serde_json::from_str(&text).unwrap();
            if let Some(waiting) = decided.waiting.first() {
                assert!(decided.messages.is_empty());
                return format!("waits: {} {}", waiting.count, waiting.level.name());
            }
            let Some((_, message)) = decided.messages.first() else { return String::new() };
            let show = |alerts: &[Alert]| {
                let names = alerts.iter().map(|a| {
                    format!("{} {}{}", a.gauge.key.namespace, a.level.name(), if a.is_new() { "!" } else { "" })
                });
                names.collect::<Vec<_>>().join(", ")
            };
            let over = if message.over.is_empty() { String::new() } else { format!(" / {}", show(&message.over)) };
            format!("{}: {}{over}", message.reason.name(), show(&message.alerts))
        }
    }

    #[test]
    fn it_is_told_when_it_worsens_or_is_old_and_when_it_is_over() {
        let mut world = World::new(config(None, true));
        assert_eq!(world.run(0, &[("a", 0.5)]), "");
        assert_eq!(world.run(HOUR, &[("a", 0.85), ("b", 0.2)]), "news: a warning!");
        assert_eq!(world.run(2 * HOUR, &[("a", 0.90), ("b", 0.2)]), "");
        assert_eq!(world.run(3 * HOUR, &[("a", 0.90), ("b", 0.81)]), "news: a warning, b warning!");
        assert_eq!(world.run(4 * HOUR, &[("a", 0.79), ("b", 0.5)]), "", "within the margin, and one is over");
        assert_eq!(world.run(5 * HOUR, &[("a", 0.96), ("b", 0.5)]), "news: a critical! / b warning");
        assert_eq!(world.run(6 * HOUR, &[("a", 0.94), ("b", 0.5)]), "");
        assert_eq!(world.run(28 * HOUR, &[("a", 0.85)]), "");
        assert_eq!(world.run(29 * HOUR, &[("a", 0.85)]), "repeat: a warning", "24 hours behind the last");
        assert_eq!(world.run(30 * HOUR, &[("a", 0.96)]), "news: a critical!", "the last message had it as a warning");
        assert_eq!(world.run(31 * HOUR, &[("a", 0.1)]), "clear:  / a critical");
        assert_eq!(world.run(32 * HOUR, &[("a", 0.1)]), "");
        assert!(world.watches.is_empty());
    }

    #[test]
    fn nights_are_quiet_but_nothing_is_forgotten() {
        let at = |text: &str| parse_any(text).unwrap();
        let mut world = World::new(config(Some(office()), false));
        // A Friday.
        assert_eq!(world.run(at("2026-03-27T17:00:00Z"), &[("a", 0.85)]), "waits: 1 warning");
        assert_eq!(world.run(at("2026-03-28T03:00:00Z"), &[("a", 0.97), ("b", 0.82)]), "waits: 2 critical");
        assert_eq!(world.run(at("2026-03-29T03:00:00Z"), &[("a", 0.85), ("b", 0.1)]), "waits: 2 critical");
        assert_eq!(world.run(at("2026-03-30T09:00:00Z"), &[("a", 0.85), ("b", 0.1)]), "news: a warning! / b warning!");
        assert_eq!(world.run(at("2026-03-30T18:00:00Z"), &[("a", 0.1)]), "", "the end is not worth waking anybody");
        assert_eq!(world.run(at("2026-03-31T09:00:00Z"), &[]), "clear:  / a warning");
        let mut world = World::new(config(Some(office()), true));
        assert_eq!(world.run(at("2026-03-28T02:00:00Z"), &[("b", 0.82)]), "waits: 1 warning");
        assert_eq!(world.run(at("2026-03-28T03:00:00Z"), &[("a", 0.97), ("b", 0.82)]), "news: a critical!, b warning!");
        assert_eq!(
            world.run(at("2026-03-29T04:00:00Z"), &[("a", 0.97), ("b", 0.82)]),
            "",
            "repeated in working hours only"
        );
        assert_eq!(world.run(at("2026-03-30T09:00:00Z"), &[("a", 0.97), ("b", 0.82)]), "repeat: a critical, b warning");
    }

    #[test]
    fn what_could_not_be_read_is_not_over() {
        let mut world = World::new(config(None, true));
        world.run(0, &[("a", 0.85), ("b", 0.9)]);
        let decided = step(&mut world.watches, &world.config, "c", &[one("b", 0.9)], HOUR, false);
        assert_eq!(decided, Decided::default());
        assert!(world.watches["pay"].watched.iter().all(|watched| watched.ended.is_none()));
        let moved = Checked { owner: "web".into(), ..one("a", 0.85) };
        let decided = step(&mut world.watches, &world.config, "c", &[moved], 2 * HOUR, false);
        assert_eq!(decided.messages.len(), 1, "the new owner is told");
        assert!(world.watches["pay"].watched[0].ended.is_some(), "and the old one at the next message that it is over");
        assert_eq!(standing(&world.watches)["pay"].len(), 2);
    }

    #[test]
    fn ids_differ_and_are_the_same_for_the_same() {
        let ids = |at: Micros| {
            let mut world = World::new(config(None, true));
            let decided = step(&mut world.watches, &world.config, "c", &[one("a", 0.85)], at, true);
            decided.messages[0].1.id.clone()
        };
        assert_eq!(ids(1), ids(1));
        assert_ne!(ids(1), ids(2));
        assert_eq!(ids(1).len(), 32);
    }
}
