//! Sections of somebody's own: templates that are given the report's JSON.
//!
//! A template whose name ends in `.html` or `.html.j2` gives markup, and values in it are escaped; any other gives
//! Markdown, and values are escaped for that.

use crate::model::incident::Incident;
use crate::views::markdown::escape;
use crate::views::text::plain;
use minijinja::{AutoEscape, Environment, ErrorKind, Output, State, UndefinedBehavior, Value, escape_formatter};
use serde_json::Value as Json;

/// Whether it gives markup.
pub(super) fn is_html(path: &str) -> bool {
    path.ends_with(".html") || path.ends_with(".html.j2")
}

/// Writes a value so that neither Markdown nor a page takes it for markup.
fn format(out: &mut Output<'_>, state: &State<'_, '_>, value: &Value) -> Result<(), minijinja::Error> {
    if value.is_safe() {
        return escape_formatter(out, state, value);
    }
    match value.as_str() {
        Some(text) if state.auto_escape() == AutoEscape::Html => {
            escape_formatter(out, state, &Value::from(plain(text).into_owned()))
        }
        Some(text) => out.write_str(&escape(text)).map_err(minijinja::Error::from),
        None => escape_formatter(out, state, value),
    }
}

/// Replaces each template by what it gives.
pub(super) fn fill(incident: &mut Incident, document: &Json) -> Result<(), String> {
    for own in &mut incident.own {
        let mut environment = Environment::new();
        // A condition may be about what is missing: {% if incident.from %}.
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.set_formatter(format);
        let html = is_html(&own.path);
        environment.set_auto_escape_callback(move |_| if html { AutoEscape::Html } else { AutoEscape::None });
        let wrong = |error: minijinja::Error| {
            let hint = match error.kind() {
                ErrorKind::UndefinedError => {
                    ": a name that is not there (what may be missing has {{ NAME | default('') }} or {% if NAME %})"
                }
                _ => "",
            };
            format!("--template {}: {error}{hint}", own.path)
        };
        own.text = environment.render_named_str(&own.path, &own.text, document).map_err(wrong)?;
    }
    Ok(())
}
