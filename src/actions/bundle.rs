//! Writing a bundle: a folder, or an archive of one. Nobody but the user may read it, and it has its name only when it
//! is whole.

use super::fresh::{Fresh, folder, is_free};
use crate::model::time::{Micros, SECOND};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use zstd::stream::write::Encoder;

/// The ending of an archive.
pub const ARCHIVE: &str = ".tar.zst";
/// How far apart like bytes may lie: pages of metrics are alike, and some MB long (2^26 bytes are 64 MiB).
const WINDOW: u32 = 26;
/// The longest name that is made of words from elsewhere.
const MAX_NAME_CHARS: usize = 100;

/// A bundle that is being written. Dropped before [`Self::finish`], it is removed.
pub struct BundleWriter {
    form: Form,
    pub files: u64,
    pub bytes: u64,
}

enum Form {
    Folder { temporary: PathBuf, target: PathBuf },
    Archive { top: String, tar: Box<tar::Builder<Encoder<'static, Fresh>>> },
    Done,
}

impl std::fmt::Debug for BundleWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BundleWriter").field("files", &self.files).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl BundleWriter {
    /// Begins the bundle `target`: an archive if it is called `*.tar.zst`, else a folder, which must be empty or not be
    /// there yet.
    pub fn create(target: &Path) -> io::Result<Self> {
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let form = match name.strip_suffix(ARCHIVE).filter(|top| !top.is_empty()) {
            Some(top) => {
                let mut packer = Encoder::new(Fresh::create(target)?, 3)?;
                packer.include_checksum(true)?;
                packer.long_distance_matching(true)?;
                packer.window_log(WINDOW)?;
                Form::Archive { top: top.to_owned(), tar: Box::new(tar::Builder::new(packer)) }
            }
            None => {
                is_free(target)?;
                let temporary = target.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
                folder(&temporary)?;
                Form::Folder { temporary, target: target.to_owned() }
            }
        };
        Ok(Self { form, files: 0, bytes: 0 })
    }

    /// Adds a file. `path` is made of [`part`]s with `/` between.
    pub fn add(&mut self, path: &str, at: Micros, bytes: &[u8]) -> io::Result<()> {
        self.add_from(path, at, bytes.len() as u64, &mut &*bytes).map(drop)
    }

    /// Adds a file of `length` bytes; how many of these the reader did not give. In their place stand line ends.
    pub fn add_from(&mut self, path: &str, at: Micros, length: u64, reader: &mut dyn Read) -> io::Result<u64> {
        let mut exactly = Exactly { reader, left: length, missing: 0 };
        match &mut self.form {
            Form::Folder { temporary, .. } => {
                let file = temporary.join(path);
                folder(file.parent().unwrap_or(temporary))?;
                io::copy(&mut exactly, &mut private(&file)?)?;
            }
            Form::Archive { top, tar } => {
                let mut header = tar::Header::new_gnu();
                header.set_size(length);
                header.set_mode(0o600);
                header.set_mtime(u64::try_from(at / SECOND).unwrap_or_default());
                tar.append_data(&mut header, format!("{top}/{path}"), &mut exactly)?;
            }
            Form::Done => return Err(io::Error::other("the bundle is finished")),
        }
        self.files += 1;
        self.bytes += length;
        Ok(exactly.missing)
    }

    /// It is whole: it gets its name.
    pub fn finish(mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.form, Form::Done) {
            Form::Folder { temporary, target } => {
                // An empty folder of that name may be there.
                let renamed = fs::remove_dir(&target).or_else(|error| match error.kind() {
                    io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                });
                renamed
                    .and_then(|()| fs::rename(&temporary, &target))
                    .inspect_err(|_| drop(fs::remove_dir_all(&temporary)))
            }
            Form::Archive { tar, .. } => {
                let mut file = tar.into_inner()?.finish()?;
                file.flush()?;
                file.finish()
            }
            Form::Done => Ok(()),
        }
    }
}

impl Drop for BundleWriter {
    fn drop(&mut self) {
        if let Form::Folder { temporary, .. } = &self.form {
            let _ = fs::remove_dir_all(temporary);
        }
    }
}

/// A new file that only the user may read.
pub fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path)
}

/// Words from elsewhere as the name of a file or folder: not hidden, not a path, not too long.
pub fn part(words: &str) -> String {
    let fits = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-' | ':' | '[' | ']');
    let name: String = words.chars().map(|char| if fits(char) { char } else { '_' }).take(MAX_NAME_CHARS).collect();
    if name.is_empty() || name.starts_with('.') { format!("_{name}") } else { name }
}

/// So many bytes of a reader; where it has fewer, line ends.
struct Exactly<'a> {
    reader: &'a mut dyn Read,
    left: u64,
    missing: u64,
}

impl Read for Exactly<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(into.len());
        let into = &mut into[..most];
        if into.is_empty() {
            return Ok(0);
        }
        let mut read = if self.missing > 0 { 0 } else { self.reader.read(into)? };
        if read == 0 {
            into.fill(b'\n');
            read = most;
            self.missing += read as u64;
        }
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_where_they_belong() {
        for (words, name) in [
            ("10.0.0.1:6443", "10.0.0.1:6443"),
            ("[::1]:6443", "[::1]:6443"),
            ("../../etc/passwd", "_.._.._etc_passwd"),
            (".hidden", "_.hidden"),
            ("", "_"),
            ("a\u{1b}[31m b", "a_[31m_b"),
        ] {
            assert_eq!(part(words), name);
        }
        assert_eq!(part(&"x".repeat(5000)).len(), 100);
    }

    #[test]
    fn a_reader_that_ends_early_is_filled_up() {
        let mut text = &b"abc"[..];
        let mut exactly = Exactly { reader: &mut text, left: 6, missing: 0 };
        let mut got = Vec::new();
        exactly.read_to_end(&mut got).unwrap();
        assert_eq!((got.as_slice(), exactly.missing), (&b"abc\n\n\n"[..], 3));
        let mut text = &b"abcdef"[..];
        let mut exactly = Exactly { reader: &mut text, left: 2, missing: 0 };
        let mut got = Vec::new();
        exactly.read_to_end(&mut got).unwrap();
        assert_eq!((got.as_slice(), exactly.missing), (&b"ab"[..], 0));
    }
}
