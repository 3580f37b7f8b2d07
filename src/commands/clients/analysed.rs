//! What the analysis of clients gave, from which each form of `--emit` is made.

use crate::analysis::clients::Clients;
use crate::analysis::clients::detect::ClientFinding;
use crate::analysis::metrics::facts::Facts;
use crate::cli::Context;
use crate::inputs::selection::Selection;
use crate::model::question;
use crate::sources::audit::pass::Outcome;
use crate::views::Format;

/// What the analysis gave.
pub(super) struct Analysed<'a, 'r> {
    pub(super) question: &'a question::Clients,
    pub(super) selection: &'a Selection,
    pub(super) clients: &'a Clients<'r>,
    pub(super) findings: &'a [ClientFinding<'r>],
    pub(super) facts: &'a Facts,
    pub(super) outcome: Outcome,
}

/// Whether manifests are written, or a report about them.
pub(super) fn writes_manifests(context: &Context<'_>) -> bool {
    matches!(context.settings.format, Format::Table | Format::Yaml)
}
