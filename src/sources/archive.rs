//! Archives as arguments (`.tar`, packed or not, as `collect` and the terminal UI write them): what is in one lies,
//! while the program runs, in a folder that only the user may look into, and every command reads it as it reads a
//! folder.
//!
//! Databases hold Secrets and are large, so they are unpacked only for who asks for databases, into files that have no
//! name: nothing is left of them however the program ends. What a program that was killed left of the rest is removed
//! by the next one that unpacks something.

use super::archive_names;
use super::content::Content;
use super::open::{Place, SourceError, recognise};
use super::packing::{Begin, Packing, read_head, unpack};
use crate::model::units::bytes as size;
use rustix::fs::statvfs;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Cursor, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// What folders of unpacked archives are called.
const NAME: &str = "plimsoll-unpacked-";
/// Held while the program runs that made the folder.
const LOCK: &str = ".lock";
/// Files of an archive; one with more is refused.
const MOST_FILES: usize = 1 << 20;
/// Bytes that are left to others on the disk.
const SPARE: u64 = 64 << 20;
/// A folder without a lock that is older was left by a program that was killed just then.
const STALE_AFTER: Duration = Duration::from_secs(3600);

/// Characters of a member's path that a message names.
const NAMED: usize = 200;

/// Which files of an archive are unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// All but databases.
    Others,
    /// Databases: the others are there.
    Databases,
}

/// An archive that was unpacked.
#[derive(Debug, Default)]
struct Unpacked {
    /// Where it was unpacked.
    base: PathBuf,
    /// Its first folders.
    tops: BTreeSet<PathBuf>,
    /// Whether all of its files lie in folders.
    is_flat: bool,
    /// Whether it has databases that were left out.
    has_more: bool,
    /// Databases: files without names, open while the program runs.
    nameless: Vec<File>,
}

/// What this program unpacked.
#[derive(Debug, Default)]
struct All {
    /// The folder, and its lock.
    home: Option<(PathBuf, File)>,
    archives: HashMap<PathBuf, Unpacked>,
}

static ALL: LazyLock<Mutex<All>> = LazyLock::new(Mutex::default);

/// The folder that an argument names: of an archive the one that it was unpacked into, but for its databases; of what
/// an engine has read that of the roll-up.
pub fn place(argument: &Path) -> PathBuf {
    if let Some(folder) = argument.to_str().and_then(archive_names::folder_of) {
        return folder;
    }
    unpacked(argument, false).ok().flatten().unwrap_or_else(|| argument.to_owned())
}

/// The file, or folder, in an archive that a path such as `bundle.tar.zst/etcd/db` names; `None` if it names none.
pub fn member(path: &Path) -> Result<Option<PathBuf>, SourceError> {
    let Some(archive) = path.ancestors().skip(1).find(|above| above.is_file()) else { return Ok(None) };
    let below = path.strip_prefix(archive).unwrap_or(Path::new(""));
    let known = unpacked(archive, true)?.map(|folder| folder.join(below));
    Ok(known.filter(|known| known.exists()))
}

/// The folder that an archive was unpacked into, with its databases if they are wanted; `None` if it is not an archive.
pub fn unpacked(archive: &Path, databases: bool) -> Result<Option<PathBuf>, SourceError> {
    if !archive.is_file() {
        return Ok(None);
    }
    let source = recognise(&Place::File(archive.to_owned()))?;
    if source.content != Content::TAR {
        return Ok(None);
    }
    let failed = |error| SourceError::Io { path: archive.display().to_string(), error };
    let real = archive.canonicalize().map_err(failed)?;
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.archives.get_mut(&real) {
        if databases && std::mem::take(&mut known.has_more) {
            known.unpack(archive, source.packing, Which::Databases).map_err(failed)?;
        }
        return Ok(Some(known.root()));
    }
    if all.home.is_none() {
        all.home = Some(home().map_err(failed)?);
    }
    let home = all.home.as_ref().map(|(home, _)| home.clone()).unwrap_or_default();
    let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = name.split(".t").next().filter(|stem| !stem.is_empty()).unwrap_or("archive");
    let own = home.join(all.archives.len().to_string());
    let mut new = Unpacked { base: own.join(stem), is_flat: true, ..Unpacked::default() };
    let which = if databases { Which::All } else { Which::Others };
    let done = fs::create_dir_all(&new.base).and_then(|()| new.unpack(archive, source.packing, which));
    done.inspect_err(|_| drop(fs::remove_dir_all(own))).map_err(failed)?;
    let root = new.root();
    archive_names::add(root.clone(), archive.display().to_string());
    all.archives.insert(real, new);
    Ok(Some(root))
}

/// Removes what was unpacked.
pub fn clear() {
    let all = std::mem::take(&mut *ALL.lock().unwrap_or_else(PoisonError::into_inner));
    archive_names::clear();
    if let Some((home, _)) = all.home {
        let _ = fs::remove_dir_all(home);
    }
}

impl Unpacked {
    /// The only folder that all files lie in, else where they were unpacked.
    fn root(&self) -> PathBuf {
        match self.tops.first() {
            Some(only) if self.tops.len() == 1 && self.is_flat => self.base.join(only),
            _ => self.base.clone(),
        }
    }

    fn unpack(&mut self, archive: &Path, packing: Packing, which: Which) -> io::Result<()> {
        let mut tar = tar::Archive::new(unpack(packing, File::open(archive)?)?);
        let mut files = 0;
        for entry in tar.entries()? {
            let mut entry = entry?;
            // What is no file is left out, and so are paths that lead elsewhere.
            let path = entry.path()?.into_owned();
            let parts = path.components().filter(|part| *part != Component::CurDir).collect::<Vec<_>>();
            let is_below = !parts.is_empty() && parts.iter().all(|part| matches!(part, Component::Normal(_)));
            if !entry.header().entry_type().is_file() || !is_below {
                continue;
            }
            files += 1;
            if files > MOST_FILES {
                return Err(io::Error::other(format!("it has more than {MOST_FILES} files; unpack it yourself")));
            }
            match parts.as_slice() {
                [top, _, ..] => drop(self.tops.insert(PathBuf::from(top))),
                _ => self.is_flat = false,
            }
            let below = parts.iter().collect::<PathBuf>();
            self.add(&below, &mut entry, which).map_err(|error| {
                let begin: String = below.display().to_string().chars().take(NAMED).collect();
                io::Error::new(
                    error.kind(),
                    format!("its member {begin}: {error}; unpack it yourself, and give the folder"),
                )
            })?;
        }
        Ok(())
    }

    fn add<R: Read>(&mut self, path: &Path, entry: &mut tar::Entry<'_, R>, which: Which) -> io::Result<()> {
        let head = read_head(entry.by_ref())?;
        let is_database = Begin::of(&head).look().0 == Content::Database;
        self.has_more |= is_database && which == Which::Others;
        if which != Which::All && is_database != (which == Which::Databases) {
            return Ok(());
        }
        let target = self.base.join(path);
        let parent = target.parent().unwrap_or(&self.base);
        fs::create_dir_all(parent)?;
        has_room(parent, entry.size())?;
        // What comes twice takes the place of what came before.
        let _ = fs::remove_file(&target);
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.read(true).write(true).create_new(true).open(&target)?;
        #[cfg(target_os = "linux")]
        if is_database {
            use std::os::fd::AsRawFd;
            fs::remove_file(&target)?;
            let open = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
            std::os::unix::fs::symlink(open, &target)?;
        }
        let changed = entry.header().mtime().unwrap_or_default().min(u32::MAX.into());
        io::copy(&mut Cursor::new(head).chain(entry), &mut file)?;
        let _ = file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(changed));
        if is_database {
            self.nameless.push(file);
        }
        Ok(())
    }
}

/// A new folder for what is unpacked, and its lock. Those of programs that have ended are removed.
fn home() -> io::Result<(PathBuf, File)> {
    let above = std::env::temp_dir();
    let unusable = |error: io::Error| {
        let what = format!(
            "{error}: {} is where archives are unpacked; set TMPDIR to a folder that is there",
            above.display()
        );
        io::Error::other(what)
    };
    for entry in fs::read_dir(&above).map_err(unusable)?.filter_map(Result::ok) {
        if entry.file_name().to_string_lossy().starts_with(NAME) && is_left(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let home = above.join(format!("{NAME}{}-{since}", std::process::id()));
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&home)?;
    let lock = File::create(home.join(LOCK))?;
    lock.try_lock()?;
    Ok((home, lock))
}

/// Whether the program that created a folder has ended.
fn is_left(home: &Path) -> bool {
    match File::open(home.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(_) => {
            let made = fs::metadata(home).and_then(|meta| meta.modified());
            made.is_ok_and(|made| SystemTime::now().duration_since(made).is_ok_and(|age| age > STALE_AFTER))
        }
    }
}

/// Whether a file of so many bytes has room below a folder.
fn has_room(folder: &Path, bytes: u64) -> io::Result<()> {
    let disk = statvfs(folder)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    match free < bytes.saturating_add(SPARE) {
        true => Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!(
                "{} has {} left, and a file of {} must be unpacked; set TMPDIR to a folder with more space",
                std::env::temp_dir().display(),
                size(free as f64),
                size(bytes as f64)
            ),
        )),
        false => Ok(()),
    }
}
