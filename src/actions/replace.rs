//! A file that is written as a whole, or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces `file`: a temporary file beside it is written, flushed to the disk and renamed.
pub fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let name = file.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "is no file's name"))?;
    // Collectors of text files read `*.prom`: a temporary file must not end so.
    let temporary = file.with_file_name(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
    let written = File::create(&temporary).and_then(|mut out| {
        out.write_all(content)?;
        out.sync_all()
    });
    let done = written.and_then(|()| fs::rename(&temporary, file));
    if done.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    done?;
    // So that the new name outlives a crash as well; not every file system can.
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    Ok(())
}
