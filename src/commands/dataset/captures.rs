//! What was taken at moments, as rows of a dataset: metrics pages, databases of etcd, quotas.

use super::building::{Building, failed};
use crate::actions::dataset::{CapturedFile, CapturedPart, DatasetWriter};
use crate::analysis::keyspace::{By, Mode, by};
use crate::analysis::quota::collect::Collector;
use crate::cli::{Context, Error, Progress};
use crate::inputs::etcd::open;
use crate::inputs::etcd::opened::{Ask, Looks};
use crate::model::dataset::{Cell, KEYSPACE, METRICS, QUOTAS};
use crate::model::input::InputReport;
use crate::model::quota::Standing;
use crate::model::sample::{Label, Sample};
use crate::model::series::Day;
use crate::model::time::Micros;
use crate::sources::find;
use crate::sources::objects::captures::{self, Capture};
use crate::sources::open::{Source, SourceError};
use crate::sources::pages::{self, Clock, PageFile, PageFolder, PageWorker};
use crate::sources::wanted::Wanted;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read};
use std::path::Path;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Bytes at the front of a database by which it is known: both of its meta pages.
const META_BYTES: u64 = 64 << 10;

/// Databases and objects that were found.
#[derive(Debug, Default)]
pub(super) struct Captured {
    /// With the clusters that bundles name.
    databases: Vec<(String, Source)>,
    objects: Vec<Capture>,
    inputs: Vec<InputReport>,
    /// What the objects could not be read from.
    errors: Vec<String>,
}

/// Looks for databases and objects.
pub(super) fn find(sources: &[String], is_wanted: &dyn Fn(&str) -> bool, context: &Context<'_>) -> Captured {
    let mut found = Captured::default();
    if is_wanted(KEYSPACE.name) {
        for source in sources.iter().filter(|source| *source != "-" && !source.contains("://")) {
            let own = find::find(std::slice::from_ref(source), Wanted::Databases, context.io.now);
            let cluster = own.bundle.map(|bundle| bundle.cluster).unwrap_or_default();
            found.databases.extend(own.databases.into_iter().map(|database| (cluster.clone(), database)));
        }
    }
    if is_wanted(QUOTAS.name) {
        let own = captures::find(sources);
        found.objects.extend(own.captures.into_iter().filter(|capture| !capture.objects.quotas.is_empty()));
        found.inputs = own.inputs;
        // A folder holds many other files; what a person names should be what it is taken for.
        let is_named =
            |error: &String| sources.iter().any(|source| error.starts_with(source) && Path::new(source).is_file());
        found.errors = own.errors.iter().map(ToString::to_string).filter(is_named).collect();
    }
    found
}

impl Captured {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.databases.is_empty() && self.objects.is_empty()
    }

    /// Whether what others could not use of a source is used here.
    pub(super) fn explains(&self, error: &SourceError) -> bool {
        match error {
            SourceError::NothingHere { .. } => !self.is_empty(),
            SourceError::NotWanted { path, .. } => {
                self.databases.iter().any(|(_, own)| own.path == *path)
                    || self.inputs.iter().any(|own| own.path == *path)
            }
            _ => false,
        }
    }
}

/// A name of what this many parts say.
fn name_of(parts: &[&[u8]]) -> String {
    let mut hash = Xxh3::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    format!("{:032x}", hash.digest128())
}

/// What a page is known by: whose it is and when it was taken; where only its file says when, which copies change, what
/// stands in it.
fn page_name(cluster: &str, instance: &str, page: &PageFile) -> io::Result<String> {
    if matches!(page.clock, Clock::Name | Clock::Samples) {
        return Ok(name_of(&[cluster.as_bytes(), instance.as_bytes(), &page.at.to_le_bytes()]));
    }
    let mut content = Vec::new();
    if let Some(mut again) = page.source.again() {
        again.reader().map_err(io::Error::other)?.read_to_end(&mut content)?;
    }
    Ok(name_of(&[cluster.as_bytes(), instance.as_bytes(), &xxh3_128(&content).to_le_bytes()]))
}

/// Days since 1970.
fn day(at: Micros) -> i64 {
    i64::from(Day::of(at))
}

/// Samples of the pages of one folder, as rows.
struct SampleRows<'w> {
    writer: &'w DatasetWriter,
    cluster: String,
    instance: String,
    /// By path, what pages are known by.
    names: HashMap<String, String>,
    at: Micros,
    /// By day.
    files: BTreeMap<i64, CapturedFile>,
    labels: String,
    result: io::Result<()>,
}

/// Labels that have columns of their own, in their order.
const COLUMNS: [&str; 10] =
    ["verb", "group", "resource", "subresource", "scope", "code", "component", "le", "priority_level", "flow_schema"];

impl SampleRows<'_> {
    /// Writes all labels, in the order of their names.
    fn list(&mut self, labels: &[Label<'_>]) {
        let mut all: Vec<_> = labels.iter().map(|label| (label.name.decode(), label.value.decode())).collect();
        all.sort();
        self.labels.clear();
        for (place, (name, value)) in all.iter().enumerate() {
            if place > 0 {
                self.labels.push(',');
            }
            self.labels += name;
            self.labels += "=\"";
            for c in value.chars() {
                match c {
                    '\n' => self.labels += "\\n",
                    '"' | '\\' => self.labels.extend(['\\', c]),
                    _ => self.labels.push(c),
                }
            }
            self.labels.push('"');
        }
    }
}

impl PageWorker for SampleRows<'_> {
    fn begin(&mut self, path: &str, at: Micros) {
        self.at = at;
        let file = self.files.entry(day(at)).or_insert_with(|| self.writer.captured(&METRICS, &self.cluster, day(at)));
        file.begin(self.names.get(path).map_or(path, String::as_str));
    }

    fn sample(&mut self, sample: &Sample<'_, '_>) {
        if self.result.is_err() {
            return;
        }
        self.list(sample.labels);
        let name = sample.name.decode();
        let own: [_; COLUMNS.len()] = std::array::from_fn(|at| sample.label(COLUMNS[at]).map(|value| value.decode()));
        let Some(file) = self.files.get_mut(&day(self.at)) else { return };
        let first = [
            Cell::Time(self.at),
            Cell::text(&self.instance),
            Cell::text(&name),
            Cell::text(&self.labels),
            Cell::Real(sample.value),
        ];
        let rest = own.iter().map(|value| value.as_deref().map_or(Cell::Null, Cell::text));
        self.result = file.row(first.into_iter().chain(rest));
    }

    fn end(&mut self, _: Micros) {}
}

impl Building<'_> {
    fn commit(&mut self, table: &'static str, parts: Vec<CapturedPart>) -> Result<(), Error> {
        if parts.is_empty() {
            return Ok(());
        }
        let own = self.added.captured.entry(table).or_default();
        own.rows += parts.iter().map(|part| part.rows).sum::<u64>();
        let files = parts.iter().filter(|part| part.bytes > 0).count() as u64;
        self.added.wrote(files, parts.iter().map(|part| part.bytes).sum());
        self.writer.commit_captures(parts).map_err(|error| self.unwritten(&error))
    }

    /// Of captures those that the dataset has not; counts both kinds.
    fn is_new(&mut self, table: &'static str, known: &mut HashSet<String>, name: &str) -> bool {
        let own = self.added.captured.entry(table).or_default();
        let is_new = known.insert(name.to_owned());
        *(if is_new { &mut own.captures } else { &mut own.known }) += 1;
        is_new
    }

    /// Adds the pages that the dataset has not.
    pub(super) fn add_pages(&mut self, mut folders: Vec<PageFolder>, context: &mut Context<'_>) -> Result<(), Error> {
        let mut known: HashSet<String> = self.writer.captures(&METRICS).map(str::to_owned).collect();
        let mut names: HashMap<String, String> = HashMap::new();
        for folder in &mut folders {
            let mut new = Vec::new();
            for page in std::mem::take(&mut folder.pages) {
                let name = page_name(&folder.cluster, &folder.instance, &page);
                let name = name.map_err(|error| failed(&page.source.path, &error))?;
                if self.is_new(METRICS.name, &mut known, &name) {
                    names.insert(page.source.path.clone(), name);
                    new.push(page);
                }
            }
            folder.pages = new;
        }
        folders.retain(|folder| !folder.pages.is_empty());
        if folders.is_empty() {
            return Ok(());
        }
        let bytes = folders.iter().flat_map(|folder| &folder.pages).map(|page| page.source.size).sum();
        let progress = Progress::bytes(bytes, context.settings.progress);
        let writer = &self.writer;
        let make = |folder: &PageFolder| SampleRows {
            writer,
            cluster: folder.cluster.clone(),
            instance: folder.instance.clone(),
            names: (folder.pages.iter().map(|page| &page.source.path))
                .filter_map(|path| Some((path.clone(), names.get(path)?.clone())))
                .collect(),
            at: 0,
            files: BTreeMap::new(),
            labels: String::new(),
            result: Ok(()),
        };
        let (workers, read) = pages::read(folders, context.settings.threads, make, &progress);
        progress.finish();
        let mut parts = Vec::new();
        for SampleRows { files, result, .. } in workers {
            let finished =
                result.and_then(|()| files.into_values().map(CapturedFile::finish).collect::<Result<Vec<_>, _>>());
            parts.extend(finished.map_err(|error| self.unwritten(&error))?);
        }
        self.commit(METRICS.name, parts)?;
        read.losses.iter().try_for_each(|loss| context.lost(loss))?;
        self.added.inputs.extend(read.inputs);
        Ok(())
    }

    /// Adds the databases and quotas that the dataset has not.
    pub(super) fn add_captures(&mut self, found: Captured, context: &mut Context<'_>) -> Result<(), Error> {
        let Captured { databases, objects, inputs, errors } = found;
        errors.iter().try_for_each(|error| context.lost(error))?;
        self.add_databases(databases, context)?;
        let mut known: HashSet<String> = self.writer.captures(&QUOTAS).map(str::to_owned).collect();
        let mut parts = Vec::new();
        for Capture { cluster, at, objects, .. } in objects {
            let mut collector = Collector::default();
            collector.objects(&cluster, at, &objects);
            let standings = collector.finish().standings;
            let name = name_of(&[cluster.as_bytes(), &at.to_le_bytes(), format!("{standings:?}").as_bytes()]);
            if self.is_new(QUOTAS.name, &mut known, &name) {
                let part = self.quotas((&cluster, at), &name, &standings);
                parts.push(part.map_err(|error| self.unwritten(&error))?);
            }
        }
        if !parts.is_empty() {
            self.added.inputs.extend(inputs);
        }
        self.commit(QUOTAS.name, parts)
    }

    fn quotas(&self, (cluster, at): (&str, Micros), name: &str, standings: &[Standing]) -> io::Result<CapturedPart> {
        let mut file = self.writer.captured(&QUOTAS, cluster, day(at));
        file.begin(name);
        for Standing { namespace, quota, resource, hard, used } in standings {
            let texts = [namespace, quota, resource].map(|text| Cell::text(text));
            // What nobody knows is in no row: the column always has a number.
            let Some(used) = used else { continue };
            let numbers = [hard, used].map(|quantity| Cell::Real(quantity.value()));
            file.row([Cell::Time(at)].into_iter().chain(texts).chain(numbers))?;
        }
        file.finish()
    }

    fn add_databases(&mut self, found: Vec<(String, Source)>, context: &mut Context<'_>) -> Result<(), Error> {
        let mut known: HashSet<String> = self.writer.captures(&KEYSPACE).map(str::to_owned).collect();
        for (cluster, mut source) in found {
            let mut head = Vec::new();
            let size = source.size.to_le_bytes();
            let read = source
                .again()
                .map(|mut again| again.reader().map_err(io::Error::other)?.take(META_BYTES).read_to_end(&mut head));
            read.transpose().map_err(|error| failed(&source.path, &error))?;
            let name = name_of(&[cluster.as_bytes(), &size, &head]);
            if !self.is_new(KEYSPACE.name, &mut known, &name) {
                continue;
            }
            let (opened, at) = match open::dated(&mut source, context)? {
                Ok(opened) => opened,
                Err(why) => {
                    context.lost(why)?;
                    continue;
                }
            };
            let ask = Ask { mode: Mode::By(By::Prefix), looks: Looks::Living, hashes: false };
            let walked = opened.walked(None, &ask, context);
            let (rows, _) = by::rows(&walked.space, &By::Prefix, context.settings.threads);
            let file = Path::new(&opened.path).file_name().unwrap_or_default().to_string_lossy().into_owned();
            let part = self.keyspace((&cluster, at), &name, &file, &rows).map_err(|error| self.unwritten(&error))?;
            self.added.inputs.extend([InputReport {
                path: opened.path.clone(),
                kind: "etcd",
                bytes: opened.size,
                records: rows.iter().map(|row| row.usage.revisions).sum(),
                ..InputReport::default()
            }]);
            self.commit(KEYSPACE.name, vec![part])?;
        }
        Ok(())
    }

    fn keyspace(
        &self,
        (cluster, at): (&str, Option<Micros>),
        name: &str,
        database: &str,
        rows: &[by::Row],
    ) -> io::Result<CapturedPart> {
        let mut file = self.writer.captured(&KEYSPACE, cluster, day(at.unwrap_or_default()));
        file.begin(name);
        for by::Row { names, usage } in rows {
            let first = [at.map_or(Cell::Null, Cell::Time), Cell::text(database)];
            let names = names.iter().map(|name| Cell::text(name));
            let numbers = [
                usage.keys,
                usage.live_bytes,
                usage.key_bytes,
                usage.max_object_bytes,
                usage.managed_fields_bytes,
                usage.annotation_bytes,
                usage.last_applied_bytes,
                usage.revisions,
                usage.tombstones,
                usage.history_bytes,
            ]
            .map(Cell::Number);
            file.row(first.into_iter().chain(names).chain(numbers))?;
        }
        file.finish()
    }
}
