//! `plimsoll etcd usage`: what fills the key space.

use crate::analysis::keyspace::report::{self, By, File, Shape};
use crate::analysis::keyspace::{Keyspace, Seen};
use crate::cli::{Context, Error, FailOn};
use crate::model::input::InputReport;
use crate::sources::etcd::bolt::{Bolt, BoltError, Data};
use crate::sources::etcd::mvcc::{KeyValue, Revision};
use crate::sources::etcd::object::{self, Encoding, Object};
use crate::sources::etcd::{KeyWorker, walk};
use crate::sources::find::{self, Wanted};
use crate::sources::open::{Packing, Place, Source};
use crate::views::text::plain;
use std::io::Read;

/// Arguments of `plimsoll etcd usage`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  plimsoll etcd usage snapshot.db
  plimsoll etcd usage snapshot.db --by resource --sort-by history_bytes
  plimsoll etcd usage snapshot.db --quota-bytes 8589934592 --fail-on warning")]
pub(super) struct Args {
    /// A snapshot (etcdctl snapshot save), or a copy of member/snap/db: a file (plain, .gz, .zst), or a folder that holds one.
    #[arg(value_name = "SOURCE")]
    source: String,
    /// What rows are made by.
    #[arg(long, value_enum, default_value = "prefix", value_name = "WHAT")]
    by: What,
    /// Where the apiserver keeps its objects (default: /registry, /kubernetes.io and /openshift.io).
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// Do not look into values: faster, but managedFields are not known.
    #[arg(long)]
    keys_only: bool,
    /// The quota of the member (--quota-backend-bytes), to compare the size with.
    #[arg(long, value_name = "BYTES")]
    quota_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Resource and namespace.
    Prefix,
    /// Resource.
    Resource,
    /// Namespace.
    Namespace,
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let mut source = open(&args.source, context)?;
    let bolt = bolt(&mut source)?;
    let make = || Folding { keyspace: Keyspace::new(args.prefix.as_deref()), decode: !args.keys_only };
    let (workers, walk) = walk(&bolt, context.settings.threads, make);
    let mut all = make();
    workers.into_iter().for_each(|worker| all.keyspace.merge(worker.keyspace));
    for damage in &walk.damages.told {
        context.lost(format!("{}: {damage}; what it held is not counted. Take another snapshot, or one of another member", source.path))?;
    }
    let (rows, total) = all.keyspace.finish();
    let skipped = walk.damages.count;
    let first_error = walk.damages.told.first().map(ToString::to_string);
    let size = if source.size > 0 { source.size } else { bolt.file_bytes };
    let file = File {
        inputs: vec![InputReport { path: source.path, kind: "etcd", bytes: size, records: walk.entries_in_all, skipped, first_error }],
        db_bytes: bolt.db_bytes(),
        in_use_bytes: walk.used_pages * u64::from(bolt.meta.page_size),
        page_size: u64::from(bolt.meta.page_size),
        revision: walk.revision,
        hash: (walk.damages.count == 0).then_some(walk.hash),
        entries: walk.entries,
        encodings: Encoding::ALL.iter().map(|(_, name)| *name).zip(total.encodings).collect(),
        undecodable: total.undecodable,
        damages: (walk.damages.told.iter().map(ToString::to_string).collect(), walk.damages.count),
        quota: args.quota_bytes,
        decoded: !args.keys_only,
    };
    let by = match args.by {
        What::Prefix => By::Prefix,
        What::Resource => By::Resource,
        What::Namespace => By::Namespace,
    };
    let shape = Shape { by, sort_by: context.settings.sort_by.clone(), top: context.settings.top };
    context.print(&report::report(rows, &total, file, &shape), FailOn::Never)
}

/// The one database that the argument names.
fn open(argument: &str, context: &mut Context<'_>) -> Result<Source, Error> {
    let mut found = find::find(&[argument.to_owned()], Wanted::Databases, context.io.now);
    for error in &found.errors {
        context.lost(error)?;
    }
    match found.databases.len() {
        1 => Ok(found.databases.swap_remove(0)),
        0 => Err(Error::Input(format!("{}: no etcd database to read", plain(argument)))),
        _ => {
            let names: Vec<&str> = found.databases.iter().map(|source| source.path.as_str()).collect();
            Err(Error::Usage(format!("{argument} holds several etcd databases, name one: {}", names.join(" "))))
        }
    }
}

fn bolt(source: &mut Source) -> Result<Bolt, Error> {
    let input = |what: String| Error::Input(what);
    let data = match (&source.place, source.packing) {
        (Place::File(path), Packing::None) => {
            Data::File(std::fs::File::open(path).map_err(|error| input(format!("{}: {error}", source.path)))?)
        }
        _ => {
            let mut bytes = Vec::new();
            let reader = source.reader().map_err(|error| input(error.to_string()))?;
            reader.take(64 << 30).read_to_end(&mut bytes).map_err(|error| input(format!("{}: {error}", source.path)))?;
            Data::Memory(bytes)
        }
    };
    Bolt::open(data).map_err(|error: BoltError| input(format!("{}: {error}", source.path)))
}

/// The keyspace of analysis as a worker of the source's walk.
struct Folding {
    keyspace: Keyspace,
    decode: bool,
}

impl KeyWorker for Folding {
    fn revision(&mut self, at: Revision, is_tombstone: bool, kv: &KeyValue<'_>, stored: usize) {
        let revision = (at.main, at.sub);
        let encoding = Encoding::of(kv.value);
        // Runs begin with the newest, so few values are looked at that turn out to be superseded.
        let worth_it = self.decode && !is_tombstone && self.keyspace.is_latest(kv.key, revision);
        let Object { managed_fields, undecodable } = if worth_it { object::look(kv.value, encoding) } else { Object::default() };
        self.keyspace.take(Seen {
            key: kv.key,
            revision,
            is_tombstone,
            value_bytes: kv.value.len() as u64,
            managed_fields,
            encoding: encoding as u8,
            undecodable,
            stored: stored as u64,
        });
    }
}
