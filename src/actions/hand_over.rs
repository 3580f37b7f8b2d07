//! Roll-ups that go to another plimsoll, which judges those of all apiservers together (docs/commands/serve.md): file
//! by file in pieces, the manifest last, which makes them a part there.

use super::notify::Fault;
use super::notify::http::Target;
use crate::model::alert::{Login, Secret, Url};
use crate::model::rollup::MANIFEST;
use crate::sources::rolled::Rolled;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes that are sent at once.
const CHUNK_BYTES: usize = 8 << 20;

/// How long a piece may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The plimsoll that takes roll-ups.
#[derive(Debug, Clone)]
pub struct Recipient {
    /// The URL before `/parts`.
    pub url: String,
    /// A file with the bearer token that it requires, which is read each time.
    pub token: Option<PathBuf>,
    /// Certificates in PEM that are trusted in place of the system's.
    pub authorities: Option<PathBuf>,
}

impl Recipient {
    fn target(&self) -> Result<Target, String> {
        let login = self.token.clone().map(|file| Login::Bearer(Secret::File(file)));
        Target::new(&Url::Plain(self.url.clone()), "/parts", login.as_ref(), self.authorities.as_deref())
    }

    /// Up to where it has each log: bytes, by the hash of the first line.
    ///
    /// # Errors
    /// Why it can't be asked, in words.
    pub fn positions(&self) -> Result<BTreeMap<String, u64>, String> {
        let answer = self.target()?.get(PATIENCE).map_err(words)?;
        serde_json::from_slice(&answer).map_err(|error| format!("its answer is not understood: {error}"))
    }

    /// Hands a part over. It is on the recipient's disk when this returns, or was there before.
    ///
    /// # Errors
    /// Why it is not, in words; it may be handed over again.
    pub fn give(&self, part: &Rolled) -> Result<(), String> {
        let target = self.target()?.at(&format!("/{}", part.name().unwrap_or_default()));
        let here = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        let entries = fs::read_dir(&part.folder).map_err(|error| here(&part.folder, error))?;
        let mut files: Vec<String> =
            entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().into_string().ok()).collect();
        files.sort_by_key(|name| (name == MANIFEST, name.clone()));
        let mut piece = Vec::with_capacity(CHUNK_BYTES);
        for name in files {
            let path = part.folder.join(&name);
            let mut file = File::open(&path).map_err(|error| here(&path, error))?;
            let mut from = 0;
            loop {
                piece.clear();
                let mut next = Read::by_ref(&mut file).take(CHUNK_BYTES as u64);
                next.read_to_end(&mut piece).map_err(|error| here(&path, error))?;
                if piece.is_empty() && from > 0 {
                    break;
                }
                let target = target.at(&format!("/{name}?from={from}"));
                target.send("application/octet-stream", &piece, &[], PATIENCE).map_err(words)?;
                from += piece.len();
                if piece.len() < CHUNK_BYTES {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn words(fault: Fault) -> String {
    match fault {
        Fault::Refused(why) | Fault::Later(why, _) => why,
    }
}
