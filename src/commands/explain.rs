//! `plimsoll explain`: what a finding, a metric or a term means, and what to do about it.

use super::answer;
use crate::analysis::answer::Answer;
use crate::analysis::explain::{self, Kind, Topic};
use crate::cli::{Context, Error, FailOn, Shown};
use crate::model::question::{self, Question};
use crate::model::report::{Finding, Report, Table, Value};
use crate::model::units::counted;
use crate::views::text::plain;
use crate::views::{Format, page};
use std::io::Write as _;

/// Arguments of `plimsoll explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # what it means, how to confirm it, what to do
  plimsoll explain client-fan-out
  # and who does it here
  plimsoll explain client-fan-out samples/list-storm
  # a term
  plimsoll explain watch cache
  # a heading or field of a table, or a metric
  plimsoll explain over limit
  # all findings and terms
  plimsoll explain

Works offline: the texts are those of docs/runbooks, docs/findings.md, docs/columns.md, docs/glossary.md \
and docs/metrics.md.")]
pub struct Args {
    /// A finding's id, a metric, a heading or field of a table, or a term; then, for a finding, sources in which to
    /// look for it. Without arguments all findings and terms are listed.
    #[arg(value_name = "WHAT [SOURCE]")]
    words: Vec<String>,
}

/// Columns of JSON.
const COLUMNS: [&str; 5] = ["topic", "topic_kind", "meaning", "text", "page"];

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    if args.words.is_empty() {
        return list(context);
    }
    let (topic, sources) = topic(&args.words)?;
    if !sources.is_empty() && topic.kind != Kind::Finding {
        return Err(Error::Usage(format!("{} is a {}: only findings take sources", topic.name, topic.kind.name())));
    }
    let found = if sources.is_empty() { None } else { Some(look(&topic, sources, context)?) };
    let form = context.settings.format;
    if !matches!(form, Format::Table | Format::Wide | Format::Markdown) {
        let findings = found.unwrap_or_default();
        return context.print(&Report { findings, ..report(&[topic]) }, FailOn::Never);
    }
    let mut text = format!("# {}\n\n{}\n", topic.name, topic.text);
    if let Some(found) = &found {
        text += &in_words(found, sources);
    }
    text += &format!("\nFrom docs/{}.\n", topic.page);
    if form == Format::Markdown {
        write!(context.io.out, "{text}")?;
    } else {
        page::write(&text, explain::readable, &context.settings.style, &mut context.io.out)?;
    }
    Ok(context.io.out.flush()?)
}

/// The topic that the words name, and what is left: a term may be of several words.
fn topic(words: &[String]) -> Result<(Topic, &[String]), Error> {
    let (all, mut offered) = (explain::topics(), Vec::new());
    for count in (1..=words.len()).rev() {
        match explain::explain(&words[..count].join(" "), &all) {
            Ok(topic) => return Ok((topic, &words[count..])),
            Err(alike) => offered = alike,
        }
    }
    let hint = match offered.as_slice() {
        [] => "plimsoll explain lists all findings and terms".to_owned(),
        some => format!("did you mean {}?", some.join(", ")),
    };
    Err(Error::Usage(format!("'{}' is not a known finding, column, metric or term: {hint}", plain(&words[0]))))
}

/// Findings that no report looks for: how their ids begin, and who does.
const ELSEWHERE: [(&str, &str); 6] = [
    ("budget-", "budget check BUDGET.yaml"),
    ("etcd-removed-", "etcd diff BEFORE AFTER"),
    ("fleet-", "fleet"),
    ("increase-", "compare BEFORE AFTER --fail-on-increase"),
    ("upgrade-", "upgrade"),
    ("webhook-", "guard webhooks"),
];

/// The findings of this id in sources.
fn look(topic: &Topic, sources: &[String], context: &mut Context<'_>) -> Result<Vec<Finding>, Error> {
    if let Some((_, command)) = ELSEWHERE.iter().find(|(begin, _)| topic.name.starts_with(begin)) {
        return Err(Error::Usage(format!(
            "{}: no report looks for it in {}; 'plimsoll {command}' does",
            topic.name,
            sources.join(" ")
        )));
    }
    let is_of_usage = ["quota-near", "quota-full", "quota-overcommitted"].contains(&topic.name.as_str());
    let question = match topic.name.starts_with("quota-") && !is_of_usage {
        true => Question::QuotaLint(question::QuotaLint {
            source: question::QuotaSources { sources: sources.to_vec(), ..question::QuotaSources::default() },
            owner_keys: Vec::new(),
        }),
        false => Question::Report(question::Report { sources: sources.to_vec(), ..question::Report::default() }),
    };
    let shown = Shown { format: Format::Json, top: None };
    let answered = context.compose(shown, |context| answer(&question, context))?;
    let Answer::Report(report, _) = answered else { return Ok(Vec::new()) };
    let mut findings = report.findings;
    findings.retain(|own| own.id == topic.name);
    Ok(findings)
}

/// The findings, as Markdown.
fn in_words(found: &[Finding], sources: &[String]) -> String {
    let sources = sources.iter().map(|source| plain(source)).collect::<Vec<_>>().join(" ");
    let mut text = format!("\n## In {sources}\n\n");
    if found.is_empty() {
        return text + "Not found there.\n";
    }
    text += &format!("{}:\n\n", counted(found.len() as u64, "finding"));
    for own in found {
        let summary = plain(own.summary.trim_end_matches('.'));
        let (label, remedy) = own.advice();
        text += &format!("- {}: {summary}. {label}: {}.\n", own.severity.name(), plain(remedy));
        let evidence: Vec<String> = own.evidence.iter().map(|(name, value)| format!("{name} {value}")).collect();
        if !evidence.is_empty() {
            text += &format!("  Evidence: {}.\n", plain(&evidence.join(", ")));
        }
    }
    text
}

fn report(topics: &[Topic]) -> Report {
    let row = |own: &Topic| {
        let cells = [own.name.as_str(), own.kind.name(), &own.summary, &own.text, &own.page];
        cells.map(|cell| Value::Text(cell.to_owned())).to_vec()
    };
    Report {
        schema: "plimsoll.explain/v1".to_owned(),
        table: Table {
            name: "topics".to_owned(),
            columns: COLUMNS.map(str::to_owned).to_vec(),
            rows: topics.iter().map(row).collect(),
            ..Table::default()
        },
        ..Report::default()
    }
}

/// All that can be explained.
fn list(context: &mut Context<'_>) -> Result<(), Error> {
    let topics = explain::topics();
    let mut report = report(&topics);
    report.notes =
        vec!["plimsoll explain NAME shows the full text; metrics and fields of docs/metrics.md work, too.".to_owned()];
    context.print(&report, FailOn::Never)
}
