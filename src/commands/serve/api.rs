//! Documents over HTTP: a path and its query become the question that the command of that name asks, of the store.

use super::pages::KeptPages;
use crate::actions::web::{WebAnswer, WebRequest};
use crate::analysis::answer::Answer;
use crate::analysis::guard::RULES;
use crate::analysis::incident::episode_report;
use crate::cli::{Context, Error, FailOn, Settings, Shown, parse_time, silent};
use crate::commands::{self, report};
use crate::inputs::episodes;
use crate::model::question::{Balance, Clients, Controllers, GuardEvents, Question, Report, Traffic};
use crate::model::report::{Finding, Severity};
use crate::model::time::{Bounds, HOUR, Micros};
use crate::model::uri::parameters;
use crate::sources::clock::now;
use crate::sources::store::Store;
use crate::views::Format;
use serde_json::json;
use std::collections::HashSet;

/// What is looked at where nobody says since when.
const DEFAULT_SPAN: Micros = HOUR;

/// Paths, and the parameters that each takes besides `since` and `until`.
const PATHS: [(&str, &[&str]); 8] = [
    ("/report", &["from", "to", "title"]),
    ("/api/v1/report", &["from", "to", "title"]),
    ("/api/v1/episodes", &[]),
    ("/api/v1/traffic", &["by", "where", "namespace", "top", "series"]),
    ("/api/v1/clients", &["where", "top"]),
    ("/api/v1/balance", &["where", "top"]),
    ("/api/v1/controllers", &["top"]),
    ("/api/v1/guard/events", &["where", "namespace", "kind", "severity", "top"]),
];

/// Parameters that may be given more than once.
const REPEATABLE: [&str; 3] = ["by", "where", "kind"];

/// The parameters of a query.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Those of a query; of what can be given once a second one would be passed over.
    fn read(query: &str) -> Result<Self, Error> {
        let all = parameters(query);
        let mut names = HashSet::new();
        match all.iter().find(|(name, _)| !REPEATABLE.contains(&name.as_str()) && !names.insert(name.as_str())) {
            Some((name, _)) => Err(Error::Usage(format!("{name}: given more than once"))),
            None => Ok(Self(all)),
        }
    }

    fn one(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter that may be repeated.
    fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
    }

    /// All values of a parameter that may be repeated, or joined by commas.
    fn list(&self, name: &str) -> Vec<String> {
        self.all(name).iter().flat_map(|text| text.split(',')).map(|text| text.trim().to_owned()).collect()
    }

    fn time(&self, name: &str, now: Micros) -> Result<Option<Micros>, Error> {
        let read = |text| parse_time(text, now).map_err(|why| Error::Usage(format!("{name}: {why}")));
        self.one(name).map(read).transpose()
    }

    fn top(&self) -> Result<Option<usize>, Error> {
        let read =
            |text: &str| text.parse().map_err(|_| Error::Usage(format!("top: {text:?} is not a number of rows")));
        self.one("top").map(read).transpose()
    }

    /// The namespace that is asked about. What is no name of one might be another condition.
    fn namespace(&self) -> Result<Option<&str>, Error> {
        let is_plain = |name: &str| name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-');
        match self.one("namespace") {
            Some(name) if name.is_empty() || !is_plain(name) => {
                Err(Error::Usage(format!("namespace: {name:?} is not the name of a namespace")))
            }
            name => Ok(name),
        }
    }

    fn bounds(&self, now: Micros) -> Result<Bounds, Error> {
        let (since, until) = (self.time("since", now)?, self.time("until", now)?);
        let since = since.unwrap_or_else(|| until.unwrap_or(now) - DEFAULT_SPAN);
        match until {
            Some(until) if since >= until => Err(Error::Usage("since must be before until".to_owned())),
            until => Ok((Some(since), until)),
        }
    }
}

/// What episodes and reports are made of: roll-ups, and pages of the last hour.
pub(super) fn judged_sources(store: &Store) -> Vec<String> {
    let rollups = store.rollups_folder();
    let pages = KeptPages::source(store);
    let is_needed = rollups.is_dir() || pages.is_none();
    is_needed.then(|| rollups.display().to_string()).into_iter().chain(pages).collect()
}

/// What a path asks.
enum ApiRequest {
    Question(Box<Question>),
    Report(Box<Report>, Format),
    Episodes(Vec<String>, Bounds),
    Index,
}

fn asked(path: &str, parameters: &Parameters, store: &Store) -> Result<Option<ApiRequest>, Error> {
    if path == "/api/v1/" {
        return Ok(Some(ApiRequest::Index));
    }
    let Some((_, own)) = PATHS.iter().find(|(name, _)| *name == path) else { return Ok(None) };
    if let Some((name, _)) = parameters
        .0
        .iter()
        .find(|(name, _)| !["since", "until"].contains(&name.as_str()) && !own.contains(&name.as_str()))
    {
        let all = ["since", "until"].iter().chain(*own).copied().collect::<Vec<_>>().join(", ");
        return Err(Error::Usage(format!("{name}: no such parameter; {path} takes {all}")));
    }
    let now = now();
    let sources = match path {
        "/report" | "/api/v1/report" | "/api/v1/episodes" => judged_sources(store),
        _ => vec![store.rollups_folder().display().to_string()],
    };
    let (bounds, mut filters) = (parameters.bounds(now)?, parameters.all("where"));
    filters.extend(parameters.namespace()?.map(|namespace| format!("namespace={namespace}")));
    let question = match path {
        "/report" | "/api/v1/report" => {
            let window = match (parameters.time("from", now)?, parameters.time("to", now)?) {
                (Some(from), Some(to)) if from < to => Some((from, to)),
                (None, None) => None,
                _ => return Err(Error::Usage("from and to are both required, from before to".to_owned())),
            };
            // A window that lies further back brings its own bounds.
            let bounds = match window {
                Some((from, to)) if parameters.one("since").is_none() => {
                    (Some(from - DEFAULT_SPAN), Some((to + DEFAULT_SPAN).min(now)))
                }
                _ => bounds,
            };
            let title = parameters.one("title").map(str::to_owned);
            let format = if path == "/report" { Format::Html } else { Format::Json };
            return Ok(Some(ApiRequest::Report(
                Box::new(Report { sources, bounds, window, title, ..Report::default() }),
                format,
            )));
        }
        "/api/v1/episodes" => return Ok(Some(ApiRequest::Episodes(sources, bounds))),
        "/api/v1/traffic" => {
            let by = Some(parameters.list("by")).filter(|by| !by.is_empty());
            let by = by.unwrap_or_else(|| Traffic::BY.map(str::to_owned).to_vec());
            let series = match parameters.one("series") {
                None | Some("false") => false,
                Some("" | "true") => true,
                Some(other) => return Err(Error::Usage(format!("series: {other:?} is not true or false"))),
            };
            Question::Traffic(Traffic { sources, by, filters, bounds, series, ..Traffic::default() })
        }
        "/api/v1/clients" => Question::Clients(Clients { sources, filters, bounds, ..Clients::default() }),
        "/api/v1/balance" => Question::Balance(Balance { sources, filters, within: Balance::WITHIN, bounds }),
        "/api/v1/controllers" => Question::Controllers(Controllers { sources, bounds, ..Controllers::default() }),
        _ => {
            let severity = match parameters.one("severity") {
                None => None,
                Some(text) => Some(severity(text)?),
            };
            let kinds = parameters.list("kind");
            if let Some(kind) = kinds.iter().find(|kind| !RULES.iter().any(|rule| rule.kind == **kind)) {
                let all: Vec<&str> = RULES.iter().map(|rule| rule.kind).collect();
                return Err(Error::Usage(format!("kind: {kind:?} is unknown; use one of {}", all.join(", "))));
            }
            Question::GuardEvents(GuardEvents { sources, bounds, filters, kinds, severity, ..GuardEvents::default() })
        }
    };
    Ok(Some(ApiRequest::Question(Box::new(question))))
}

fn severity(text: &str) -> Result<Severity, Error> {
    let all = [Severity::Info, Severity::Warning, Severity::Critical];
    let found = all.into_iter().find(|severity| severity.name() == text);
    found.ok_or_else(|| Error::Usage(format!("severity: {text:?} is not info, warning or critical")))
}

/// Answers a path, of the store's roll-ups.
pub(super) fn answer(request: &WebRequest, store: &Store, settings: &Settings) -> WebAnswer {
    let path = request.path.as_str();
    let mut parameters = match Parameters::read(&request.query) {
        Ok(parameters) => parameters,
        Err(error) => return failed(&error),
    };
    if let Some(only) = &request.namespace {
        parameters.0.push(("namespace".to_owned(), only.clone()));
    }
    let asked = match asked(path, &parameters, store) {
        Ok(Some(asked)) => asked,
        Ok(None) => return WebAnswer::text(404, format!("{path}: not found; / lists the available paths")),
        Err(error) => return failed(&error),
    };
    if matches!(asked, ApiRequest::Index) {
        let all: Vec<_> = PATHS.iter().map(|(path, own)| json!({"path": path, "parameters": own})).collect();
        return document(200, &json!({"paths": all, "every": ["since", "until"]}));
    }
    let (written, body) =
        silent(settings, now(), |context| parameters.top().and_then(|top| write(&asked, top, context)));
    match written {
        Ok(content_type) => WebAnswer::new(200, content_type, body),
        Err(error) => failed(&error),
    }
}

/// Writes the answer; gives its content type.
fn write(asked: &ApiRequest, top: Option<usize>, context: &mut Context<'_>) -> Result<&'static str, Error> {
    let json = Shown { format: Format::Json, top };
    match asked {
        ApiRequest::Report(question, format) => {
            context.compose(Shown { format: *format, top }, |context| report::write(question, context))?;
            let is_page = *format == Format::Html;
            Ok(if is_page { "text/html; charset=utf-8" } else { "application/json" })
        }
        ApiRequest::Episodes(sources, bounds) => context.compose(json, |context| {
            let mut judged = episodes::episodes(sources, *bounds, context)?;
            judged.episodes.sort_by_key(|own| own.from);
            let report = episode_report::report(&judged.episodes, judged.window, judged.is_judged, judged.notes);
            context.print(&report, FailOn::Never)?;
            Ok("application/json")
        }),
        ApiRequest::Question(question) => context.compose(json, |context| match commands::answer(question, context)? {
            Answer::Report(report, _) if report.window.from.is_empty() && !is_of_matches(question) => {
                Err(Error::Input("nothing was recorded in this time; ask for another with since and until".to_owned()))
            }
            Answer::Report(report, _) => {
                context.print(&report, FailOn::Never)?;
                Ok("application/json")
            }
            _ => Err(Error::Unanswered),
        }),
        ApiRequest::Index => Ok("application/json"),
    }
}

/// Whether the time that an answer covers is only that of the requests that match.
fn is_of_matches(question: &Question) -> bool {
    matches!(question, Question::Balance(own) if !own.filters.is_empty())
}

/// Findings of a question's answer.
pub(super) fn findings(question: &Question, context: &mut Context<'_>) -> Result<Vec<Finding>, Error> {
    let shown = Shown { format: Format::Json, top: None };
    match context.compose(shown, |context| commands::answer(question, context))? {
        Answer::Report(report, _) => Ok(report.findings),
        _ => Ok(Vec::new()),
    }
}

fn failed(error: &Error) -> WebAnswer {
    let status = match error {
        Error::Usage(_) => 400,
        // Nothing was recorded of that time.
        Error::Input(_) => 404,
        _ => 500,
    };
    document(status, &json!({"error": error.message().unwrap_or_default()}))
}

fn document(status: u16, value: &serde_json::Value) -> WebAnswer {
    WebAnswer::new(status, "application/json", value.to_string() + "\n")
}
