//! What is put into the clipboard: what is selected, or the command that prints what is shown.

use super::sheet::Body;
use super::state::State;
use super::{Effect, Tab};
use crate::model::cause::Source;
use crate::model::incident::{commands, quote};

impl State {
    /// Copies what is selected: the commands of the finding that is looked at, each on a line; a row, with tabs between
    /// its cells; else the command that shows what is shown.
    pub(super) fn copy(&mut self) -> Vec<Effect> {
        let finding = match (&self.popup, self.pane().part().map(|part| &part.body)) {
            (Some(popup), _) => Some(popup.commands.clone()),
            (None, _) if self.tab == Tab::Overview && self.pane().place() == 0 => {
                self.all_findings().get(self.selected).map(|finding| commands(&finding.remedy))
            }
            (None, Some(Body::Grid(grid))) if grid.title == "findings" => {
                let of = |at: usize| self.pane().answer.as_ref().and_then(|answer| answer.findings.get(at));
                grid.selected_index().and_then(of).map(|finding| commands(&finding.remedy))
            }
            _ => None,
        };
        let row = || match self.pane().part().map(|part| &part.body) {
            Some(Body::Grid(grid)) if self.popup.is_none() => grid.selected_text(),
            _ => None,
        };
        let found = finding.filter(|lines| !lines.is_empty()).or_else(|| row().map(|row| vec![row]));
        let Some(lines) = found else { return self.copy_command() };
        let lines: Vec<String> = lines.iter().map(|line| self.of_sources(line)).collect();
        self.show_message(format!("copied: {}", lines.join("  ")));
        vec![Effect::Copy(lines.join("\n"))]
    }

    /// A command of a remedy with the sources that are looked at in place of words that stand for some; one of quotas
    /// that names none would ask the cluster of the kubeconfig.
    fn of_sources(&self, line: &str) -> String {
        let Some(found) = self.found.as_ref().filter(|_| line.starts_with("plimsoll ")) else { return line.to_owned() };
        let all = |sources: Vec<String>| sources.iter().map(|source| quote(source)).collect::<Vec<String>>().join(" ");
        let end = |at: usize| found.ends.get(at).cloned().into_iter().collect::<Vec<String>>();
        let filled = |word: &str| {
            let sources = match word {
                "LOG" | "AUDIT" | "AUDIT-LOG" => found.of(&[Source::Audit]),
                "OLD.db" | "BEFORE.db" => end(0),
                "NEW.db" | "AFTER.db" => end(1),
                _ => Vec::new(),
            };
            if sources.is_empty() { word.to_owned() } else { all(sources) }
        };
        let line = line.split(' ').map(filled).collect::<Vec<String>>().join(" ");
        match line.as_str() {
            "plimsoll quota propose" | "plimsoll quota check" if found.has(Source::Objects) => {
                format!("{line} {}", all(found.of(&[Source::Objects])))
            }
            _ => line,
        }
    }

    pub(super) fn copy_command(&mut self) -> Vec<Effect> {
        match self.shown_want().map(|want| want.line()) {
            Some(line) => {
                self.show_message(format!("copied: {line}"));
                vec![Effect::Copy(line)]
            }
            None => {
                self.show_message("nothing copied: what is shown is still being read, or is no command's output");
                Vec::new()
            }
        }
    }
}
