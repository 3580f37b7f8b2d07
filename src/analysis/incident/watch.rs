//! Report live episodes: each when it begins, when it gets worse, and when it ends.

use crate::model::alert::{EpisodeNews, Level};
use crate::model::cause::Cause;
use crate::model::episode::{Episode, Grade, State};
use crate::model::report::Severity;
use crate::model::time::{self, MINUTE, Micros, Span};

/// Of the same episode the begin is found up to so far apart when more is reported, in µs.
const MOVES: Micros = MINUTE;

/// An episode that was reported.
#[derive(Debug, Clone)]
struct Reported {
    id: String,
    grade: Grade,
    span: Span,
    is_over: bool,
}

/// The episodes reported so far.
#[derive(Debug, Default)]
pub struct Watching {
    reported: Vec<Reported>,
    /// Episodes that ended before are not reported.
    since: Micros,
}

impl Watching {
    /// Does not report episodes that ended before `since`.
    pub fn new(since: Micros) -> Self {
        Self { reported: Vec::new(), since }
    }

    /// Restores an episode that an earlier run reported, from its key ([`EpisodeNews::key`]).
    pub fn restore(&mut self, key: &str) {
        let mut words = key.split(' ');
        let (Some("episode"), Some(id), Some(grade)) = (words.next(), words.next(), words.next()) else { return };
        let all = [Grade::Outage, Grade::Incident, Grade::Degraded];
        let Some(grade) = all.into_iter().find(|own| own.name() == grade) else { return };
        let Some(from) = begin(id) else { return };
        let is_over = words.next().is_some();
        match self.reported.iter_mut().find(|reported| reported.id == id) {
            Some(reported) => {
                reported.grade = reported.grade.min(grade);
                reported.is_over |= is_over;
            }
            None => self.reported.push(Reported { id: id.to_owned(), grade, span: (from, from + MINUTE), is_over }),
        }
    }

    /// What is new in these episodes, which are all of the last time, in order of time. They keep the id under which
    /// they were first reported.
    pub fn news(&mut self, episodes: &[Episode]) -> Vec<EpisodeNews> {
        let mut news = Vec::new();
        for own in episodes {
            let span = (own.from, own.to);
            let is_over = own.state == State::Ended;
            let is_it = |reported: &&mut Reported| reported.span.0 <= own.to && own.from <= reported.span.1 + MOVES;
            match self.reported.iter_mut().find(is_it) {
                Some(reported) => {
                    let is_worse = own.grade < reported.grade;
                    let is_new = is_worse || is_over && !reported.is_over;
                    // An episode that continues after a pause is reported again only if it gets worse.
                    reported.grade = reported.grade.min(own.grade);
                    reported.span = (reported.span.0.min(span.0), reported.span.1.max(span.1));
                    reported.is_over = reported.is_over && !is_worse || is_over;
                    if is_new {
                        news.extend(one(own, &reported.id, is_worse));
                    }
                }
                None if own.to >= self.since || !is_over => {
                    news.extend(one(own, &own.id, false));
                    self.reported.push(Reported { id: own.id.clone(), grade: own.grade, span, is_over });
                }
                None => {}
            }
        }
        news
    }
}

/// The start, to the minute, from an id.
fn begin(id: &str) -> Option<Micros> {
    let digits: String =
        id.strip_prefix("e-")?.chars().take_while(|c| *c != '-').filter(char::is_ascii_digit).collect();
    let part = |from: usize, to: usize| digits.get(from..to);
    let (date, hour, minute) = ((part(0, 4)?, part(4, 6)?, part(6, 8)?), part(8, 10)?, part(10, 12)?);
    time::parse_any(&format!("{}-{}-{}T{hour}:{minute}:00Z", date.0, date.1, date.2))
}

/// The report of an episode; `None` for a surge, which has no impact.
fn one(own: &Episode, id: &str, is_worse: bool) -> Option<EpisodeNews> {
    let level = match own.grade.severity() {
        Severity::Critical => Level::Critical,
        Severity::Warning => Level::Warning,
        Severity::Info => return None,
    };
    let likely = own.causes.first().filter(|cause| cause.confidence >= Cause::LIKELY);
    Some(EpisodeNews {
        id: id.to_owned(),
        grade: own.grade.name().to_owned(),
        level,
        from: own.from,
        to: own.to,
        is_over: own.state == State::Ended,
        is_worse,
        headline: own.headline.clone(),
        cause: likely.map_or_else(String::new, |cause| cause.kind.to_owned()),
        user: likely.and_then(|cause| cause.subject_of("user")).unwrap_or_default().to_owned(),
        step: likely.and_then(|cause| cause.now.first().cloned()).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::SECOND;

    fn episode(from: Micros, to: Micros, grade: Grade, state: State) -> Episode {
        Episode {
            id: format!("e-{from}"),
            grade,
            state,
            from: from * SECOND,
            to: to * SECOND,
            slack: 0,
            is_given: false,
            baseline: (0, 0),
            counted: [vec![], vec![]],
            rates: Vec::new(),
            confidence: 0.9,
            headline: "it".to_owned(),
            effects: vec![],
            failures: vec![],
            signals: vec![],
            causes: vec![],
        }
    }

    fn rows(news: &[EpisodeNews]) -> Vec<(&str, &str, bool, bool)> {
        news.iter().map(|own| (own.id.as_str(), own.grade.as_str(), own.is_worse, own.is_over)).collect()
    }

    #[test]
    fn each_episode_is_reported_when_it_begins_gets_worse_and_ends() {
        let mut watching = Watching::new(1000 * SECOND);
        let old = episode(500, 600, Grade::Outage, State::Ended);
        let surge = episode(1300, 1330, Grade::Surge, State::Ongoing);
        let now = |to, grade, state| vec![old.clone(), episode(1100, to, grade, state)];
        assert_eq!(
            rows(&watching.news(&now(1130, Grade::Degraded, State::Ongoing))),
            [("e-1100", "degraded", false, false)]
        );
        assert_eq!(rows(&watching.news(&now(1160, Grade::Degraded, State::Ongoing))), []);
        // With more data it began a little earlier, and has another id of its own.
        let worse = vec![episode(1095, 1190, Grade::Incident, State::Ongoing)];
        assert_eq!(rows(&watching.news(&worse)), [("e-1100", "incident", true, false)]);
        let over = vec![episode(1095, 1195, Grade::Incident, State::Ended), surge];
        assert_eq!(rows(&watching.news(&over)), [("e-1100", "incident", false, true)]);
        assert_eq!(rows(&watching.news(&over)), []);
        // A surge is reported once it has an impact.
        let felt = vec![episode(1300, 1390, Grade::Incident, State::Ongoing)];
        assert_eq!(rows(&watching.news(&felt)), [("e-1300", "incident", true, false)]);
    }

    #[test]
    fn an_episode_of_an_earlier_run_is_not_reported_again_though_it_now_begins_earlier() {
        let mut watching = Watching::new(0);
        ["episode e-19700101T002000Z incident", "something else", "episode e-x incident"]
            .iter()
            .for_each(|key| watching.restore(key));
        let same = vec![episode(1195, 1300, Grade::Incident, State::Ongoing)];
        assert_eq!(rows(&watching.news(&same)), []);
        let over = vec![episode(1195, 1310, Grade::Incident, State::Ended)];
        assert_eq!(rows(&watching.news(&over)), [("e-19700101T002000Z", "incident", false, true)]);
        assert_eq!(rows(&watching.news(&[episode(5000, 5100, Grade::Incident, State::Ongoing)])).len(), 1);
    }
}
