//! `plimsoll etcd extract`: objects of a snapshot, fit to be applied.

use crate::actions::fresh::Fresh;
use crate::analysis::extract::{Candidate, Extracted, Living, Options, Reason, select};
use crate::cli::{Context, Error};
use crate::inputs::etcd::{newest, open};
use crate::model::registry;
use crate::model::units::counted;
use crate::sources::etcd::KeyWorker;
use crate::sources::etcd::decode::{self, Undecodable};
use crate::sources::etcd::mvcc::{KeyValue, Revision};
use crate::views::text::plain;
use crate::views::{Format, objects};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Names that are reported where many objects are left out.
const MAX_NAMES_SHOWN: usize = 10;

/// Arguments of `plimsoll etcd extract`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll etcd extract monday.db --deleted-since tuesday.db > gone.yaml
  plimsoll etcd extract monday.db --deleted-since tuesday.db \\
    -n web --include-secrets --output-file gone.yaml
  plimsoll etcd extract monday.db --resource deployments.apps -n web \\
    --name app-0

FORMS
  -o yaml     (default) documents in the order in which they can be applied,
              with comments on what to look at
  -o json     one List

Read the comments before you apply anything. What is removed, changed and left out: \
docs/commands/etcd-extract.md.")]
pub(super) struct Args {
    /// A snapshot (etcdctl snapshot save), or a copy of member/snap/db: a file (plain, .gz, .zst), or a folder that
    /// holds one.
    #[arg(value_name = "SNAPSHOT")]
    source: String,
    /// Extract objects that exist in SNAPSHOT and not in this newer one.
    #[arg(long, value_name = "NEWER")]
    deleted_since: Option<String>,
    /// Extract only keys with this prefix: /registry/configmaps/web/
    #[arg(long, value_name = "PREFIX")]
    key_prefix: Option<String>,
    /// Extract only this resource, in the plural, with its group or without: pods, deployments.apps
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
    /// Extract only objects in this namespace, and the Namespace itself.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Extract only objects of this name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Extract Secrets too: anyone who can read the output can read them.
    #[arg(long)]
    include_secrets: bool,
    /// Extract also objects that controllers create again.
    #[arg(long)]
    all: bool,
    /// Extract objects of a newer Kubernetes too, without unknown fields.
    #[arg(long)]
    lossy: bool,
    /// Key prefix of the apiserver's objects (default: /registry, /kubernetes.io and /openshift.io).
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// Write to this file, which only its owner can read, instead of standard output.
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let has_selector =
        [&args.key_prefix, &args.resource, &args.namespace, &args.name].iter().any(|selector| selector.is_some());
    if args.deleted_since.is_none() && !has_selector {
        let flags = "--deleted-since NEWER, or one of --key-prefix, --resource, --namespace and --name";
        return Err(Error::Usage(format!("choose which objects to extract: {flags}")));
    }
    // Without -o it is YAML: a table of objects can't be applied.
    let as_json = match context.settings.format {
        Format::Json => true,
        Format::Yaml | Format::Table => false,
        _ => return Err(Error::Usage("etcd extract writes -o yaml or -o json".to_owned())),
    };
    let roots = registry::roots(args.prefix.as_deref());
    let lost = context.losses().count();
    let newer = args.deleted_since.as_ref().map(|newer| living(newer, context)).transpose()?;
    if let Some(newer) = args.deleted_since.as_ref().filter(|_| context.losses().count() > lost) {
        context.lost(format!(
            "{newer}: is damaged, and an object in a page that can't be read looks deleted: compare with the cluster \
             before you apply what is written"
        ))?;
    }
    let found = objects(args, &roots, newer.as_ref(), context)?;
    let wanted = found.len();
    let candidates = decoded(found, &roots, args, context)?;
    let matched = candidates.len();
    let options = Options { all: args.all || args.name.is_some(), secrets: args.include_secrets };
    let extracted = select(candidates, options, newer.as_ref());
    if matched == 0 && wanted > 0 {
        return Err(Error::Input(format!("{}: nothing that matches could be extracted", plain(&args.source))));
    }
    if matched == 0 && args.deleted_since.is_none() {
        return Err(Error::Input(format!(
            "{}: no live object matches; plimsoll etcd usage lists what is there",
            plain(&args.source)
        )));
    }
    report_extracted(&extracted, context)?;
    write(extracted, as_json, args, context)
}

/// What lives in a database.
fn living(argument: &str, context: &mut Context<'_>) -> Result<Living, Error> {
    struct Worker(Living);
    impl KeyWorker for Worker {
        fn revision(&mut self, at: Revision, is_tombstone: bool, kv: &KeyValue<'_>, _stored: usize) {
            let at = (at.main, at.sub);
            if self.0.is_latest(kv.key, at) {
                let uid = if is_tombstone { None } else { decode::uid(kv.value) };
                self.0.take(kv.key, at, !is_tombstone, uid.as_deref());
            }
        }
    }
    let workers = pass(argument, context, || Worker(Living::default()))?;
    let mut all = Living::default();
    workers.into_iter().for_each(|worker| all.merge(worker.0));
    all.finish();
    Ok(all)
}

/// The objects that are asked for, by key.
fn objects(
    args: &Args,
    roots: &[String],
    newer: Option<&Living>,
    context: &mut Context<'_>,
) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let opened = open::open(&args.source, context)?;
    newest::values(&opened, &|key| args.wants(key, roots) && !newer.is_some_and(|newer| newer.has_key(key)), context)
}

impl Args {
    fn wants(&self, key: &str, roots: &[String]) -> bool {
        let of = registry::parse(key, roots);
        let is = |wanted: &Option<String>, what: &str| wanted.as_deref().is_none_or(|wanted| wanted == what);
        let resource = self.resource.as_deref().is_none_or(|wanted| {
            wanted == of.resource
                || wanted.split_once('.').is_some_and(|(resource, group)| resource == of.resource && group == of.group)
        });
        let is_namespace = of.resource == "namespaces" && of.group.is_empty();
        let namespace = is(&self.namespace, of.namespace) || is_namespace && is(&self.namespace, of.name);
        self.key_prefix.as_deref().is_none_or(|prefix| key.starts_with(prefix))
            && !of.resource.is_empty()
            && resource
            && namespace
            && is(&self.name, of.name)
    }
}

/// Decodes what was found; says what can't be.
fn decoded(
    found: Vec<(String, Vec<u8>)>,
    roots: &[String],
    args: &Args,
    context: &mut Context<'_>,
) -> Result<Vec<Candidate>, Error> {
    let mut candidates = Vec::new();
    let mut encrypted = Vec::new();
    for (key, value) in found {
        match decode::decode(&value) {
            Ok(decoded) => {
                if !decoded.unknown.is_empty() {
                    let unknown: Vec<String> = decoded.unknown.into_iter().collect();
                    let what = format!("{key} has fields of a newer Kubernetes: {}", unknown.join(", "));
                    if !args.lossy {
                        context.lost(format!(
                            "{what}; it is left out. Use a newer plimsoll, or --lossy to extract it without them"
                        ))?;
                        continue;
                    }
                    context.lost(format!("{what}; it is extracted without them"))?;
                }
                let of = registry::parse(&key, roots);
                let root = roots.iter().find(|root| key.starts_with(root.as_str())).map_or(0, String::len);
                let (group, resource) = (of.group.to_owned(), of.resource.to_owned());
                candidates.push(Candidate { key, root, group, resource, object: decoded.object });
            }
            Err(Undecodable::Encrypted) => encrypted.push(key),
            Err(why) => context.lost(format!("{key} {why}; it is left out"))?,
        }
    }
    if !encrypted.is_empty() {
        let advice = "restore the snapshot to an etcd behind an apiserver with the key, and read them there";
        let count = counted(encrypted.len() as u64, "object");
        context.lost(format!("{count} encrypted at rest, left out: {}; {advice}", names(&encrypted)))?;
    }
    Ok(candidates)
}

fn names(all: &[String]) -> String {
    let mut text = all.iter().take(MAX_NAMES_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if all.len() > MAX_NAMES_SHOWN {
        text += &format!(" and {} more", all.len() - MAX_NAMES_SHOWN);
    }
    text
}

/// Says what is extracted, and what is not.
fn report_extracted(extracted: &Extracted, context: &mut Context<'_>) -> Result<(), Error> {
    context.notice(format!("{} extracted", counted(extracted.documents.len() as u64, "object")))?;
    for (reason, left_out) in &extracted.left_out {
        // Few are named, except for Secrets: what is missing there is needed by others.
        let reported = match reason {
            Reason::Secret => format!(": {}", names(left_out)),
            _ if context.settings.verbose => format!(": {}", left_out.join(", ")),
            _ => String::new(),
        };
        context.notice(format!("left out: {} {}{reported}", left_out.len(), reason.explain()))?;
    }
    for needed in &extracted.needed {
        context.notice(format!("{needed} is neither in the output nor in the newer snapshot: create it first"))?;
    }
    Ok(())
}

fn write(extracted: Extracted, as_json: bool, args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let print = |out: &mut dyn Write| {
        if as_json {
            return objects::list(extracted.documents.into_iter().map(|one| one.object).collect(), out);
        }
        extracted.documents.iter().try_for_each(|one| objects::yaml(&one.comments, &one.object, out))
    };
    let Some(path) = &args.output_file else { return Ok(print(&mut context.io.out)?) };
    let failed = |error: std::io::Error| {
        Error::Input(format!("{}: can't write it: {error}", plain(&path.display().to_string())))
    };
    let mut file = BufWriter::new(Fresh::create(path).map_err(failed)?);
    print(&mut file).map_err(failed)?;
    file.into_inner().map_err(|error| failed(error.into_error()))?.finish().map_err(failed)
}

/// One pass over the database that the argument names.
fn pass<W: KeyWorker>(argument: &str, context: &mut Context<'_>, make: impl Fn() -> W + Sync) -> Result<Vec<W>, Error> {
    let opened = open::open(argument, context)?;
    let (workers, walk) = opened.database.walk(context.settings.threads, false, make);
    for damage in &walk.damages.listed {
        context.lost(format!("{}: {damage}; its objects are missing or outdated", opened.path))?;
    }
    Ok(workers)
}
