//! What `guard episodes` reports: all episodes, or what is new of them.

use super::episodes::finding;
use crate::model::alert::EpisodeNews;
use crate::model::episode::{Episode, Grade, State};
use crate::model::report::{Report, Table, Value, Window};
use crate::model::time::{self, Span};
use crate::model::units::counted;

const SCHEMA: &str = "plimsoll.guard.episodes/v1";
const COLUMNS: [&str; 9] = ["id", "grade", "state", "from", "to", "cause", "confidence", "user", "headline"];

fn cells(own: &Episode) -> Vec<Value> {
    let cause = own.causes.first();
    vec![
        own.id.as_str().into(),
        own.grade.name().into(),
        own.state.name().into(),
        time::format(own.from).as_str().into(),
        time::format(own.to).as_str().into(),
        cause.map_or("", |cause| cause.kind).into(),
        cause.map_or(0.0, |cause| cause.confidence).into(),
        cause.and_then(|cause| cause.subject_of("user")).unwrap_or_default().into(),
        own.headline.as_str().into(),
    ]
}

fn table(rows: Vec<Vec<Value>>) -> Table {
    Table { name: "episodes".to_owned(), columns: COLUMNS.map(str::to_owned).to_vec(), rows, ..Table::default() }
}

/// All episodes in a window, in order of time; whether there was enough to judge, and what must be known of them.
pub fn report(episodes: &[Episode], window: Option<Span>, is_judged: bool, notes: Vec<String>) -> Report {
    let of = |grade: Grade| episodes.iter().filter(|own| own.grade == grade).count() as u64;
    let ongoing = episodes.iter().filter(|own| own.state == State::Ongoing).count() as u64;
    let lead = match episodes.len() as u64 {
        0 if !is_judged => "Unknown whether there was an episode: fewer than a minute of requests to judge.".to_owned(),
        0 => "No episode found: requests, latency and errors stayed near their baseline.".to_owned(),
        count => format!("{}, {ongoing} ongoing.", counted(count, "episode")),
    };
    let line = |own: &Episode| format!("{}  {}", time::second(own.from), own.headline);
    Report {
        schema: SCHEMA.to_owned(),
        window: Window::of(window),
        lead: std::iter::once(lead).chain(episodes.iter().map(line)).collect(),
        totals: Grade::ALL
            .map(|grade| (grade.plural().to_owned(), Value::Count(of(grade))))
            .into_iter()
            .chain([("ongoing".to_owned(), Value::Count(ongoing))])
            .collect(),
        people: Some(Vec::new()),
        findings: episodes.iter().map(finding).collect(),
        findings_shown: Some(0),
        notes,
        table: table(episodes.iter().map(cells).collect()),
        ..Report::default()
    }
}

/// The news, one line each.
pub fn news_report(news: &[EpisodeNews]) -> Report {
    let line = |own: &EpisodeNews| {
        let at = if own.is_over { own.to } else { own.from };
        let what = match (own.is_over, own.is_worse) {
            (true, _) => "over",
            (_, true) => "worse",
            _ => "begins",
        };
        format!("{} {what:<6} {}", time::second(at), own.headline)
    };
    let row = |own: &EpisodeNews| -> Vec<Value> {
        vec![
            own.id.as_str().into(),
            own.grade.as_str().into(),
            if own.is_over { "ended" } else { "ongoing" }.into(),
            time::format(own.from).as_str().into(),
            time::format(own.to).as_str().into(),
            own.cause.as_str().into(),
            Value::None,
            own.user.as_str().into(),
            own.headline.as_str().into(),
        ]
    };
    Report {
        schema: SCHEMA.to_owned(),
        lead: news.iter().map(line).collect(),
        people: Some(Vec::new()),
        table: table(news.iter().map(row).collect()),
        ..Report::default()
    }
}
