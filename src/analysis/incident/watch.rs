//! Episodes that are told as they come: each when it begins, when it gets worse, and when it is over.

use crate::model::alert::{EpisodeNews, Level};
use crate::model::incident::{Cause, Episode, Grade, Span, State};
use crate::model::report::Severity;
use crate::model::time::{self, Micros, SECOND};

/// Of the same episode the begin is found up to so far apart when more is known, in µs.
const MOVES: Micros = 60 * SECOND;

/// An episode that was told.
#[derive(Debug, Clone)]
struct Known {
    id: String,
    grade: Grade,
    span: Span,
    is_over: bool,
}

/// What was told so far.
#[derive(Debug, Default)]
pub struct Watching {
    known: Vec<Known>,
    /// What was over before is not told.
    since: Micros,
}

impl Watching {
    /// What was over before `since` is not told.
    pub fn new(since: Micros) -> Self {
        Self { known: Vec::new(), since }
    }

    /// Takes what an earlier run told, by its key ([`EpisodeNews::key`]).
    pub fn was_told(&mut self, key: &str) {
        let mut words = key.split(' ');
        let (Some("episode"), Some(id), Some(grade)) = (words.next(), words.next(), words.next()) else { return };
        let all = [Grade::Outage, Grade::Incident, Grade::Degraded];
        let Some(grade) = all.into_iter().find(|own| own.name() == grade) else { return };
        let Some(from) = begin(id) else { return };
        let is_over = words.next().is_some();
        match self.known.iter_mut().find(|known| known.id == id) {
            Some(known) => {
                known.grade = known.grade.min(grade);
                known.is_over |= is_over;
            }
            None => self.known.push(Known { id: id.to_owned(), grade, span: (from, from + 60 * SECOND), is_over }),
        }
    }

    /// What is new in these episodes, which are all of the last time, in order of time. They keep the id by which they
    /// were told first.
    pub fn news(&mut self, episodes: &[Episode]) -> Vec<EpisodeNews> {
        let mut news = Vec::new();
        for own in episodes {
            let span = (own.from, own.to);
            let is_over = own.state == State::Ended;
            let is_it = |known: &&mut Known| known.span.0 <= own.to && own.from <= known.span.1 + MOVES;
            match self.known.iter_mut().find(is_it) {
                Some(known) => {
                    let is_worse = own.grade < known.grade;
                    let is_new = is_worse || is_over && !known.is_over;
                    // What goes on after a pause is not told again, unless it gets worse.
                    *known = Known {
                        id: known.id.clone(),
                        grade: known.grade.min(own.grade),
                        span: (known.span.0.min(span.0), known.span.1.max(span.1)),
                        is_over: known.is_over && !is_worse || is_over,
                    };
                    if is_new {
                        news.extend(one(own, &known.id, is_worse));
                    }
                }
                None if own.to >= self.since || !is_over => {
                    news.extend(one(own, &own.id, false));
                    self.known.push(Known { id: own.id.clone(), grade: own.grade, span, is_over });
                }
                None => {}
            }
        }
        news
    }
}

/// The minute of begin that an id tells.
fn begin(id: &str) -> Option<Micros> {
    let digits: String =
        id.strip_prefix("e-")?.chars().take_while(|c| *c != '-').filter(char::is_ascii_digit).collect();
    let part = |from: usize, to: usize| digits.get(from..to);
    let (date, hour, minute) = ((part(0, 4)?, part(4, 6)?, part(6, 8)?), part(8, 10)?, part(10, 12)?);
    time::parse_any(&format!("{}-{}-{}T{hour}:{minute}:00Z", date.0, date.1, date.2))
}

/// An episode as it is told; nothing of a surge, which nobody notices.
fn one(own: &Episode, id: &str, is_worse: bool) -> Option<EpisodeNews> {
    let level = match own.grade.severity() {
        Severity::Critical => Level::Critical,
        Severity::Warning => Level::Warning,
        Severity::Info => return None,
    };
    let likely = own.causes.first().filter(|cause| cause.confidence >= Cause::LIKELY);
    let user = likely.and_then(|cause| cause.subject.iter().find(|(name, _)| *name == "user"));
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
        user: user.map_or_else(String::new, |(_, user)| user.clone()),
        step: likely.and_then(|cause| cause.now.first().cloned()).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            confidence: 0.9,
            headline: "it".to_owned(),
            effects: vec![],
            signals: vec![],
            causes: vec![],
        }
    }

    fn told(news: &[EpisodeNews]) -> Vec<(&str, &str, bool, bool)> {
        news.iter().map(|own| (own.id.as_str(), own.grade.as_str(), own.is_worse, own.is_over)).collect()
    }

    #[test]
    fn each_episode_is_told_when_it_begins_gets_worse_and_is_over() {
        let mut watching = Watching::new(1000 * SECOND);
        let old = episode(500, 600, Grade::Outage, State::Ended);
        let surge = episode(1300, 1330, Grade::Surge, State::Ongoing);
        let now = |to, grade, state| vec![old.clone(), episode(1100, to, grade, state)];
        assert_eq!(
            told(&watching.news(&now(1130, Grade::Degraded, State::Ongoing))),
            [("e-1100", "degraded", false, false)]
        );
        assert_eq!(told(&watching.news(&now(1160, Grade::Degraded, State::Ongoing))), []);
        // With more data it began a little earlier, and has another id of its own.
        let worse = vec![episode(1095, 1190, Grade::Incident, State::Ongoing)];
        assert_eq!(told(&watching.news(&worse)), [("e-1100", "incident", true, false)]);
        let over = vec![episode(1095, 1195, Grade::Incident, State::Ended), surge];
        assert_eq!(told(&watching.news(&over)), [("e-1100", "incident", false, true)]);
        assert_eq!(told(&watching.news(&over)), []);
        // A surge that users come to notice is told then.
        let felt = vec![episode(1300, 1390, Grade::Incident, State::Ongoing)];
        assert_eq!(told(&watching.news(&felt)), [("e-1300", "incident", true, false)]);
    }

    #[test]
    fn what_an_earlier_run_told_is_known_though_it_begins_a_minute_earlier_now() {
        let mut watching = Watching::new(0);
        ["episode e-19700101T002000Z incident", "something else", "episode e-x incident"]
            .iter()
            .for_each(|key| watching.was_told(key));
        let same = vec![episode(1195, 1300, Grade::Incident, State::Ongoing)];
        assert_eq!(told(&watching.news(&same)), []);
        let over = vec![episode(1195, 1310, Grade::Incident, State::Ended)];
        assert_eq!(told(&watching.news(&over)), [("e-19700101T002000Z", "incident", false, true)]);
        assert_eq!(told(&watching.news(&[episode(5000, 5100, Grade::Incident, State::Ongoing)])).len(), 1);
    }
}
