//! Captures of objects, which a report asks for with each of its sections.

use crate::cli::Context;
use crate::sources::objects::captures::{self, Captures};
use std::collections::BTreeMap;

/// Captures that were read, by the arguments that name them, where several questions are about the same ones.
#[derive(Debug, Default)]
pub struct Memo(BTreeMap<Vec<String>, Captures>);

/// Finds and reads objects in the files and folders among `arguments`, or remembers them.
pub(crate) fn find(arguments: &[String], context: &mut Context<'_>) -> Captures {
    let Some(memo) = context.shared.get_mut::<Memo>() else { return captures::find(arguments) };
    memo.0.entry(arguments.to_vec()).or_insert_with(|| captures::find(arguments)).clone()
}
