//! Kubernetes objects as `kubectl get -o json|yaml` writes them, in files and bundles.

pub mod captures;
#[cfg(feature = "live")]
pub mod clean;
pub mod flowcontrol;
mod kinds;
#[cfg(feature = "live")]
pub mod live;
mod old;
mod or_default;
pub mod read;
mod rolling;
pub mod usage;
mod waiting;
mod webhooks;

use crate::sources::open::{Source, SourceError};
use std::io::Read;

/// The start of a file; `None` where it can't be read. Each look opens the file again.
fn head(source: &mut Source, bytes: u64) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    source.reader().ok()?.take(bytes).read_to_end(&mut head).ok()?;
    Some(head)
}

/// What to do with a Helm template.
const TEMPLATE: &str = "a Helm template, not objects; render it: helm template CHART > objects.yaml";

/// Whether a file that could not be read, for this reason, is a template of Helm's.
fn is_template(bytes: &[u8], why: &str) -> bool {
    let begins = bytes.trim_ascii_start().starts_with(b"{{");
    begins || (why.contains("not YAML") || why.contains("{{")) && memchr::memmem::find(bytes, b"{{").is_some()
}

/// A whole file; `None` where it is longer than `most`.
fn whole(source: &mut Source, most: u64) -> Result<Option<Vec<u8>>, SourceError> {
    let path = source.path.clone();
    let mut bytes = Vec::new();
    let read = source.reader()?.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| SourceError::Io { path, error })?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}
