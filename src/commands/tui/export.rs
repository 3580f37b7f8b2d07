//! What is shown, written to a file.

use crate::actions::fresh::replace;
use crate::analysis::answer::Answer;
use crate::cli::{Context, Error, Shown};
use crate::commands;
use crate::model::report::{Report, Table};
use crate::views::tui::Want;
use crate::views::{self, Format, Style};
use std::path::Path;

/// Writes what a want comes to, in the form that the file's ending names: rows as they are shown, documents as the
/// command prints them. Says what was written.
pub(super) fn export(want: &Want, rows: Option<Table>, path: &str, context: &mut Context<'_>) -> Result<String, Error> {
    let ending = Path::new(path).extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
    let form = match ending.as_str() {
        "csv" => Format::Csv,
        "json" => Format::Json,
        "yaml" | "yml" => Format::Yaml,
        "md" => Format::Markdown,
        "txt" => Format::Wide,
        "svg" => Format::Svg,
        "folded" => Format::Folded,
        _ => {
            return Err(Error::Usage(
                "the file extension sets the format: .csv .json .yaml .md .txt; for a flame graph .svg .folded"
                    .to_owned(),
            ));
        }
    };
    if Path::new(path).exists() {
        return Err(Error::Usage("it already exists; choose another".to_owned()));
    }
    let style = Style { width: None, color: false, headers: true, compact: false };
    let mut text = Vec::new();
    match (rows, form) {
        (Some(table), Format::Csv | Format::Markdown | Format::Wide) => {
            views::render(&Report { table, ..Report::default() }, form, &style, &mut text)?;
        }
        _ => {
            let Want::Answer(question) = want else {
                return Err(Error::Usage("nothing to write here".to_owned()));
            };
            let shown = Shown { format: Format::Table, top: want.shows_all().then_some(0) };
            match (form.is_of_stacks(), context.compose(shown, |context| commands::answer(question, context))?) {
                (true, Answer::Flame(tree)) => views::flame::draw(&tree, form, &mut text)?,
                (true, _) => {
                    return Err(Error::Usage("only a flame graph is written as .svg or .folded".to_owned()));
                }
                (false, Answer::Report(report, _)) => views::render(&report, form, &style, &mut text)?,
                (false, _) => return Err(Error::Usage("a flame graph is written as .svg or .folded".to_owned())),
            }
        }
    }
    replace(Path::new(path), &text).map_err(|error| Error::Input(format!("can't write it: {error}")))?;
    Ok(format!("written: {path} ({} bytes)", text.len()))
}
