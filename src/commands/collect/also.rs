//! What is put into a bundle beside what the apiservers give: files, cgroups of this machine, metrics pages by URL.

use super::taker::Taker;
use crate::actions::bundle::part;
use crate::cli::Error;
use crate::jobs::captures::{group, page, stamp};
use crate::sources::arguments::{expand, is_live, is_url};
use crate::sources::cgroup;
use crate::sources::clock;
use crate::sources::content::Content;
use crate::sources::open::{Place, recognise};
use crate::sources::{archive, archive_names};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Why a database is not copied.
const NO_DATABASE: &str = "an etcd database contains all Secrets, and changes while it is copied; take a snapshot \
     with --include-etcd";

/// What is taken again and again: metrics pages by URL, and cgroups.
pub(super) fn again(taker: &mut Taker<'_>) -> io::Result<()> {
    for source in &taker.args.sources {
        let at = clock::now();
        if is_url(source) {
            match page(source, at) {
                Ok((instance, bytes)) => {
                    taker.keep(
                        "metrics",
                        source,
                        &format!("metrics/{}/{}.txt", part(&instance), stamp(at)),
                        at,
                        &bytes,
                    )?;
                }
                Err(why) => drop(taker.miss("metrics", source, why)),
            }
        } else if cgroup::is_live(Path::new(source)) {
            match group(source) {
                Ok(text) => {
                    let name = Path::new(source).file_name().unwrap_or_default().to_string_lossy();
                    taker.keep(
                        "cgroup",
                        source,
                        &format!("cgroup/{}/{}.txt", part(&name), stamp(at)),
                        at,
                        text.as_bytes(),
                    )?;
                }
                Err(why) => drop(taker.miss("cgroup", source, why)),
            }
        }
    }
    Ok(())
}

/// Looks at what was named before anything is asked of the cluster: a typing error should not cost a collection.
pub(super) fn check(sources: &[String]) -> Result<(), Error> {
    for source in sources.iter().filter(|source| !is_live(source)) {
        let (places, from_folder) = expand(source).map_err(|error| Error::Input(error.to_string()))?;
        for place in places.iter().filter(|_| !from_folder) {
            if !matches!(place, Place::File(_)) {
                return Err(Error::Usage(format!(
                    "{source}: a pipe has no length; write it to a file and name the file"
                )));
            }
            let found = recognise(place).map_err(|error| Error::Input(error.to_string()))?;
            if found.content == Content::Database {
                return Err(Error::Usage(format!("{source}: {NO_DATABASE}")));
            }
        }
    }
    Ok(())
}

/// What is copied once: files, and folders of files.
pub(super) fn once(taker: &mut Taker<'_>) -> io::Result<()> {
    let mut names = HashSet::new();
    for source in &taker.args.sources {
        if is_live(source) {
            continue;
        }
        let (places, from_folder) = match expand(source) {
            Ok(found) => found,
            Err(error) => {
                taker.miss("file", source, error.to_string());
                continue;
            }
        };
        for place in places {
            let Place::File(path) = &place else { continue };
            let of = archive_names::shown(path);
            let found = match recognise(&place) {
                Ok(found) => found,
                Err(error) => {
                    taker.miss("file", &of, error.to_string());
                    continue;
                }
            };
            let what = match found.content {
                Content::AuditLines | Content::AuditDocument | Content::Blank => "audit",
                Content::Metrics => "metrics",
                Content::Profile => "heap",
                Content::Dump => "apf",
                Content::Rollup => {
                    taker.miss("file", &of, format!("{of}: a stored roll-up is a folder; keep it beside the bundle"));
                    continue;
                }
                Content::Database => {
                    taker.miss("file", &of, format!("{of}: {NO_DATABASE}"));
                    continue;
                }
                Content::Empty | Content::Archive(_) | Content::Other(_) => "files",
            };
            let top = from_folder.then(|| archive::place(Path::new(source)));
            let wanted = format!("{what}/{}", below(path, top.as_deref()));
            let name = (1..)
                .map(|n| if n == 1 { wanted.clone() } else { numbered(&wanted, n) })
                .find(|name| names.insert(name.clone()));
            let name = name.unwrap_or(wanted);
            if what == "audit" && !taker.args.with_bodies {
                taker.audit(&of, &name, found)?;
                continue;
            }
            if what == "files" && !taker.args.with_bodies && holds_bodies(path) {
                taker.miss(
                    "file",
                    &of,
                    format!(
                        "{of}: looks like an audit log that can't be read, and may hold bodies; --with-bodies \
                         takes it as it is"
                    ),
                );
                continue;
            }
            match File::open(path) {
                Ok(mut file) => taker.copy("file", &of, &name, &mut file)?,
                Err(error) => drop(taker.miss("file", &of, format!("{of}: {error}"))),
            }
        }
    }
    Ok(())
}

/// Whether a file of unknown kind mentions bodies of audit events in its first megabyte.
fn holds_bodies(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| io::Read::take(file, 1 << 20).read_to_end(&mut head));
    read.is_ok()
        && [&b"requestObject"[..], b"responseObject"].iter().any(|word| memchr::memmem::find(&head, word).is_some())
}

/// Where a file goes: in the folder in which it lies, since that reports which instance it is; below a folder that was
/// named, as there.
fn below(path: &Path, named: Option<&Path>) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let top = match named.and_then(|named| std::path::absolute(named).ok()) {
        Some(named) => named.parent().map(Path::to_owned),
        None => path.parent().and_then(Path::parent).map(Path::to_owned),
    };
    let rest: PathBuf = top.and_then(|top| path.strip_prefix(top).ok().map(Path::to_owned)).unwrap_or(path);
    rest.components().map(|name| part(&name.as_os_str().to_string_lossy())).collect::<Vec<_>>().join("/")
}

/// Another name for what would have the same: `audit/a/audit.log` → `audit/a-2/audit.log`.
fn numbered(path: &str, n: u32) -> String {
    match path.rsplit_once('/') {
        Some((folder, file)) => format!("{folder}-{n}/{file}"),
        None => format!("{path}-{n}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_the_folder_that_names_their_instance() {
        let of = |path: &str, named: Option<&str>| below(Path::new(path), named.map(Path::new));
        assert_eq!(of("/var/log/apiserver-0/audit.log", None), "apiserver-0/audit.log");
        assert_eq!(of("/var/log/audit/apiserver-0/audit.log", Some("/var/log/audit")), "audit/apiserver-0/audit.log");
        assert_eq!(of("/audit.log", None), "_/audit.log");
        assert_eq!(numbered("audit/a/audit.log", 2), "audit/a-2/audit.log");
    }
}
