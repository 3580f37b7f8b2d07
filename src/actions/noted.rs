//! Files that remember why they could not be written: who writes Parquet says of a full disk only that something of the
//! format is not as it should be.

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Why a file could not be written, if it could not.
#[derive(Debug, Clone, Default)]
pub(super) struct Why(Arc<Mutex<Option<(io::ErrorKind, String)>>>);

impl Why {
    /// The file, whose first error is remembered here.
    pub(super) fn noting(&self, file: File) -> NotedFile {
        NotedFile { file, why: self.clone() }
    }

    /// What went wrong with the file; what its writer says of it, where that went well.
    pub(super) fn of(&self, error: impl Error + Send + Sync + 'static) -> io::Error {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((kind, text)) => io::Error::new(*kind, text.clone()),
            None => io::Error::other(error),
        }
    }
}

/// A file that remembers its first error.
#[derive(Debug)]
pub(super) struct NotedFile {
    file: File,
    why: Why,
}

impl NotedFile {
    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() != io::ErrorKind::Interrupted
        {
            let mut why = self.why.0.lock().unwrap_or_else(PoisonError::into_inner);
            why.get_or_insert_with(|| (error.kind(), error.to_string()));
        }
        result
    }
}

impl Write for NotedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.file.write(bytes);
        self.note(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.file.flush();
        self.note(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_whatever_the_writer_says() {
        let why = Why::default();
        let mut file = why.noting(File::options().write(true).open("/dev/full").unwrap());
        assert_eq!(why.of(io::Error::other("transport error")).to_string(), "transport error");
        assert!(file.write_all(b"x").is_err());
        let named = why.of(io::Error::other("transport error"));
        assert!(named.kind() == io::ErrorKind::StorageFull && named.to_string().contains("No space left"), "{named}");
    }
}
