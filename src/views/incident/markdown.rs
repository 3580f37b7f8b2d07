//! An incident report as Markdown, fit for a ticket: what matters, in a page or two.

use crate::model::cause::Cause;
use crate::model::incident::{Entry, FAILURES, Incident, command_line};
use crate::model::report::{Finding, Report, Severity};
use crate::model::time::{self, SECOND};
use crate::model::units::percent;
use crate::views::markdown::escape;
use std::io::{self, Write};

/// Causes that are reported with their evidence.
const CAUSES: usize = 4;
/// Evidence of each that is reported.
const EVIDENCE: usize = 5;
/// Findings that are reported.
const FINDINGS: usize = 15;

/// Code, whatever is in it: a fence longer than any that it holds.
fn fenced(text: &str, language: &str, out: &mut dyn Write) -> io::Result<()> {
    let text: String = text.chars().filter(|c| *c == '\n' || !crate::views::text::is_active(*c)).collect();
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    writeln!(out, "{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

/// Writes it.
pub(super) fn write(incident: &Incident, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# {}\n", escape(&incident.title))?;
    let mut head = vec![format!("written {}", time::format(incident.written))];
    head.extend((!incident.owner.is_empty()).then(|| format!("owner: {}", incident.owner)));
    head.extend(incident.span.map(|(from, to)| format!("sources from {} to {}", time::format(from), time::format(to))));
    writeln!(out, "{}\n", escape(&head.join("; ")))?;
    for line in &incident.summary {
        writeln!(out, "{}\n", escape(line))?;
    }
    episodes(incident, out)?;
    causes(incident, out)?;
    steps(incident, out)?;
    phases(incident, out)?;
    failures(incident, out)?;
    timeline(incident, out)?;
    let grave: Vec<&Finding> = report
        .findings
        .iter()
        .filter(|finding| finding.id != "incident" && finding.severity >= Severity::Warning)
        .collect();
    if !grave.is_empty() {
        writeln!(out, "## Findings\n")?;
        for finding in grave.iter().take(FINDINGS) {
            let what = escape(finding.summary.trim_end_matches('.'));
            let (label, remedy) = finding.advice();
            writeln!(
                out,
                "- **{}** {}: {what}. {label}: {}.",
                finding.severity.name(),
                escape(&finding.id),
                escape(remedy)
            )?;
        }
        let rest = grave.len().saturating_sub(FINDINGS);
        if rest > 0 {
            writeln!(out, "- {rest} more in the HTML report")?;
        }
        writeln!(out)?;
    }
    quality(incident, out)?;
    for own in &incident.own {
        writeln!(out, "{}\n", own.text.trim_end())?;
    }
    Ok(())
}

/// All episodes, where there are several.
fn episodes(incident: &Incident, out: &mut dyn Write) -> io::Result<()> {
    if incident.episodes.len() < 2 {
        return Ok(());
    }
    writeln!(out, "## Episodes (UTC)\n\n| from | to | grade | what |\n| --- | --- | --- | --- |")?;
    for own in &incident.episodes {
        let [from, to] = [own.from, own.to].map(|at| time::format(at - at.rem_euclid(SECOND)));
        writeln!(out, "| {from} | {to} | {} | {} |", own.grade.name(), escape(&own.headline))?;
    }
    writeln!(out)
}

fn causes(incident: &Incident, out: &mut dyn Write) -> io::Result<()> {
    let reported: Vec<&Cause> =
        incident.causes.iter().filter(|cause| !cause.supports.is_empty()).take(CAUSES).collect();
    if reported.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Likely causes\n\nMore than one may apply.\n")?;
    for (number, cause) in reported.iter().enumerate() {
        writeln!(
            out,
            "{}. **{}** ({}): {}",
            number + 1,
            cause.words(),
            percent(cause.confidence),
            escape(&cause.summary)
        )?;
        for evidence in cause.supports.iter().take(EVIDENCE) {
            writeln!(out, "   - for it: {}", escape(&evidence.text))?;
        }
        for evidence in cause.contradicts.iter().take(EVIDENCE) {
            writeln!(out, "   - against it: {}", escape(&evidence.text))?;
        }
    }
    let missing: Vec<&str> = reported[0].missing.iter().map(String::as_str).collect();
    if !missing.is_empty() {
        writeln!(out, "\nMissing inputs: {}.", escape(&missing.join("; ")))?;
    }
    writeln!(out)
}

/// What to do, of all likely causes, each step once; of possible ones, where none is likely.
pub(super) fn all_steps(incident: &Incident) -> [Vec<&String>; 2] {
    let mut all: [Vec<&String>; 2] = [Vec::new(), Vec::new()];
    let is_likely = incident.causes.iter().any(|cause| cause.confidence >= Cause::LIKELY);
    let least = if is_likely { Cause::LIKELY } else { Cause::POSSIBLE };
    for cause in incident.causes.iter().filter(|cause| cause.confidence >= least) {
        for (steps, own) in all.iter_mut().zip([&cause.now, &cause.later]) {
            for step in own {
                if !steps.contains(&step) {
                    steps.push(step);
                }
            }
        }
    }
    all
}

fn steps(incident: &Incident, out: &mut dyn Write) -> io::Result<()> {
    for (title, steps) in ["If it is ongoing", "Later"].iter().zip(all_steps(incident)) {
        if steps.is_empty() {
            continue;
        }
        writeln!(out, "## {title}\n")?;
        for step in steps {
            writeln!(out, "- {}", escape(step))?;
        }
        writeln!(out)?;
    }
    let manifests = incident.causes.iter().flat_map(|cause| &cause.manifests).take(1);
    for (command, text) in manifests {
        writeln!(out, "Manifests that throttle it, as `plimsoll clients --emit fence` writes them:\n")?;
        fenced(&format!("# {}", command_line(command)), "sh", out)?;
        fenced(text, "yaml", out)?;
    }
    Ok(())
}

fn phases(incident: &Incident, out: &mut dyn Write) -> io::Result<()> {
    if incident.phases.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Before, during and after\n\n| | before | within | after |\n| --- | --: | --: | --: |")?;
    for phase in &incident.phases {
        let values = phase.values.map(|value| escape(&phase.formatted(value)));
        writeln!(out, "| {} | {} |", escape(phase.words), values.join(" | "))?;
    }
    writeln!(out)
}

fn failures(incident: &Incident, out: &mut dyn Write) -> io::Result<()> {
    if incident.failures().is_empty() {
        return Ok(());
    }
    writeln!(out, "## {FAILURES}\n\n| by their message | name | requests |\n| --- | --- | --: |")?;
    for own in incident.failures() {
        writeln!(out, "| {} | {} | {} |", own.words, escape(&own.name), own.requests)?;
    }
    writeln!(out)
}

fn timeline(incident: &Incident, out: &mut dyn Write) -> io::Result<()> {
    if incident.timeline.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Timeline (UTC)\n\n| time | severity | what |\n| --- | --- | --- |")?;
    for Entry { at, severity, who, what, .. } in &incident.timeline {
        let who = if who.is_empty() { String::new() } else { format!("{who} ") };
        writeln!(out, "| {} | {} | {} |", time::format(*at), severity.name(), escape(&format!("{who}{what}")))?;
    }
    writeln!(out)
}

fn quality(incident: &Incident, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "## Inputs\n")?;
    let read: Vec<&str> = incident.read.iter().map(|source| source.words()).collect();
    writeln!(out, "- read: {}", escape(&read.join(", ")))?;
    let missing: Vec<&str> = incident.missing().map(|source| source.words()).collect();
    if !missing.is_empty() {
        writeln!(out, "- missing: {}", escape(&missing.join(", ")))?;
    }
    for lost in &incident.lost {
        writeln!(out, "- lost: {}", escape(lost))?;
    }
    let commands = incident.sections.iter().map(|section| command_line(&section.command));
    writeln!(out, "- every number comes from one of these commands:\n")?;
    fenced(&commands.collect::<Vec<_>>().join("\n"), "sh", out)
}
