//! `plimsoll guard policies`: manifests, or what they would have said to the requests of a log.

use crate::analysis::guard::policies::replay::{Old, Target, is_marked};
use crate::analysis::guard::policies::report::{PoliciesInput, report};
use crate::analysis::guard::policies::requests::{Batch, ClusterContext, Request, Watch};
use crate::analysis::guard::policies::{POLICIES, Policy, Terms, Window, manifests};
use crate::cli::{Context, Error, FailOn, TimeFlags};
use crate::inputs::etcd::newest;
use crate::inputs::rollup::{self, Chosen};
use crate::inputs::selection::Selection;
use crate::inputs::{captures, found};
use crate::model::registry::ObjectKey;
use crate::model::report::Window as Span;
use crate::model::time;
use crate::sources::objects::captures::Capture;
use crate::sources::wanted::Wanted;
use crate::views::{Format, objects};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};

/// Arguments of `plimsoll guard policies`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # what they would have denied, allowed, or can't be decided
  plimsoll guard policies bundle/
  # first only warn, and note it in the audit log
  plimsoll guard policies --audit-only | kubectl apply --server-side -f -
  plimsoll guard policies --only roots,critical-objects | kubectl apply \\
    --server-side -f -
  plimsoll guard policies --opens '0 9 * * 1-5' --closes '0 16 * * 1-5' \\
    --time-zone Europe/Berlin --image IMAGE-WITH-KUBECTL

What each protects, how to confirm a number or name, and what CEL can't express: docs/commands/guard.md.")]
pub(super) struct Args {
    /// Audit logs, or bundles with databases of etcd: replay the policies over their requests. None: print the
    /// policies.
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    #[command(flatten)]
    time: TimeFlags,
    /// An etcd database from before the log, for the objects as they were. Of a bundle with several, the first is used.
    #[arg(long, value_name = "FILE.db", requires = "sources")]
    before: Option<String>,
    /// Print only these policies, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Write bindings that warn and audit, and deny nothing.
    #[arg(long)]
    audit_only: bool,
    /// The label or annotation that marks critical objects, with the value `true` [default: plimsoll.io/critical].
    #[arg(long, value_name = "KEY", value_parser = key)]
    critical: Option<String>,
    /// The annotation that repeats a name, before it is deleted [default: plimsoll.io/confirm-delete].
    #[arg(long, value_name = "KEY", value_parser = key)]
    confirm_name: Option<String>,
    /// The annotation that repeats the number of replicas [default: plimsoll.io/confirm-replicas].
    #[arg(long, value_name = "KEY", value_parser = key)]
    confirm_replicas: Option<String>,
    /// The annotation with the value `true` on pods that a node may delete while they run [default:
    /// plimsoll.io/node-may-delete].
    #[arg(long, value_name = "KEY", value_parser = key)]
    node_may_delete: Option<String>,
    /// Exempt this user or group, besides those of the control plane (repeatable).
    #[arg(long, value_name = "NAME", value_parser = name)]
    exempt: Vec<String>,
    /// Let the policies read these keys and names from a ConfigMap, which is printed too.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = map)]
    params: Option<(String, String)>,
    /// When the change window opens, in cron's form; adds the policy change-window, and CronJobs that open and close
    /// it.
    #[arg(long, value_name = "CRON", requires_all = ["closes", "image"], value_parser = schedule)]
    opens: Option<String>,
    /// When the change window closes.
    #[arg(long, value_name = "CRON", requires = "opens", value_parser = schedule)]
    closes: Option<String>,
    /// The time zone of --opens and --closes.
    #[arg(long, value_name = "ZONE", default_value = "UTC", requires = "opens", value_parser = zone)]
    time_zone: String,
    /// An image with kubectl, for the CronJobs of --opens and --closes.
    #[arg(long, value_name = "IMAGE", requires = "opens", value_parser = name)]
    image: Option<String>,
}

/// A key of labels and annotations: what else it held would have to be written as CEL and YAML.
fn key(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    if !text.is_empty() && text.len() <= 317 && text.bytes().all(is_plain) && text.matches('/').count() <= 1 {
        return Ok(text.to_owned());
    }
    Err("write a label key, as example.org/critical".to_owned())
}

fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && c != ',';
    if !text.is_empty() && text.chars().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err("write a name without spaces and commas".to_owned())
    }
}

/// Five fields with numbers in their ranges: what Kubernetes refuses would leave the window closed for ever.
fn schedule(text: &str) -> Result<String, String> {
    let is_in = |part: &str, (least, most): (u32, u32)| {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let number = |text: &str| text.parse::<u32>().is_ok_and(|number| (least..=most).contains(&number));
        let is_name = |text: &str| most <= 12 && text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_alphabetic());
        let ends = |text: &str| text.split('-').all(|end| number(end) || is_name(end)) && text.split('-').count() <= 2;
        (range == "*" || ends(range)) && step.parse::<u32>().is_ok_and(|step| step > 0)
    };
    let ranges = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)];
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() == 5
        && fields.iter().zip(ranges).all(|(field, range)| field.split(',').all(|part| is_in(part, range)))
    {
        return Ok(fields.join(" "));
    }
    Err("write five fields, as 0 9 * * 1-5: minute, hour, day, month, weekday".to_owned())
}

fn zone(text: &str) -> Result<String, String> {
    jiff::tz::TimeZone::get(text).map(|_| text.to_owned()).map_err(|_| "write a time zone, as Europe/Berlin".to_owned())
}

fn map(text: &str) -> Result<(String, String), String> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.'))
    };
    let both = text.split_once('/').filter(|(namespace, name)| is_name(namespace) && is_name(name));
    both.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
        .ok_or_else(|| "write NAMESPACE/NAME of a ConfigMap".to_owned())
}

impl Args {
    fn terms(&self) -> Terms {
        let mut terms = Terms { params: self.params.clone(), enforces: !self.audit_only, ..Terms::default() };
        for (own, given) in [
            (&mut terms.critical, &self.critical),
            (&mut terms.confirm_name, &self.confirm_name),
            (&mut terms.confirm_replicas, &self.confirm_replicas),
            (&mut terms.node_may_delete, &self.node_may_delete),
        ] {
            if let Some(given) = given {
                own.clone_from(given);
            }
        }
        terms.exempt.extend(self.exempt.iter().cloned());
        if let (Some(opens), Some(closes), Some(image)) = (&self.opens, &self.closes, &self.image) {
            let (opens, closes, zone, image) = (opens.clone(), closes.clone(), self.time_zone.clone(), image.clone());
            terms.window = Some(Window { opens, closes, zone, image });
        }
        terms
    }

    /// The policies that are asked for.
    fn policies(&self, terms: &Terms) -> Result<Vec<&'static Policy>, Error> {
        let possible = || POLICIES.iter().filter(|policy| policy.is_for(terms));
        if self.only.is_empty() {
            return Ok(possible().collect());
        }
        let of = |name: &String| {
            possible().find(|policy| policy.name == *name).ok_or_else(|| {
                let names: Vec<&str> = possible().map(|policy| policy.name).collect();
                let window = if Policy::of(name).is_some() { "requires --opens, --closes and --image; " } else { "" };
                Error::Usage(format!("--only {name}: {window}use one of: {}", names.join(", ")))
            })
        };
        self.only.iter().map(of).collect()
    }
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let terms = args.terms();
    let policies = args.policies(&terms)?;
    let bounds = args.time.resolve(context.io.now).map_err(Error::Usage)?;
    if args.sources.is_empty() && bounds != (None, None) {
        return Err(Error::Usage("--since, --until: manifests have no time; give a SOURCE to replay".to_owned()));
    }
    if args.sources.is_empty() { print(&policies, &terms, context) } else { replay(args, &policies, &terms, context) }
}

/// Prints the manifests.
fn print(policies: &[&Policy], terms: &Terms, context: &mut Context<'_>) -> Result<(), Error> {
    let all = manifests(policies, terms);
    match context.settings.format {
        Format::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": all});
            Ok(writeln!(context.io.out, "{list:#}")?)
        }
        // Without -o it is YAML: a table can't be applied.
        Format::Yaml | Format::Table => {
            for object in all.iter().filter_map(Value::as_object) {
                let comment = object["metadata"]["annotations"]["plimsoll.io/protects"].as_str().map(str::to_owned);
                let comments: Vec<String> =
                    comment.filter(|_| object["kind"] == "ValidatingAdmissionPolicy").into_iter().collect();
                objects::yaml(&comments, object, &mut context.io.out)?;
            }
            Ok(())
        }
        _ => Err(Error::Usage("guard policies without SOURCE writes -o yaml or -o json".to_owned())),
    }
}

fn replay(args: &Args, policies: &[&'static Policy], terms: &Terms, context: &mut Context<'_>) -> Result<(), Error> {
    let (since, until) = args.time.resolve(context.io.now).map_err(Error::Usage)?;
    let selection = Selection { since, until, ..Selection::default() };
    let found = found::find(&args.sources, Wanted::Logs, context)?;
    if found.streams.is_empty() {
        return Err(Error::Input(format!("{}: no audit log to replay", args.sources.join(", "))));
    }
    let objects = captures::find(&args.sources, context);
    for error in &objects.errors {
        context.lost(error)?;
    }
    let clusters = found.streams.iter().map(|own| own.stream.cluster.as_str());
    let clusters = clusters.chain(objects.captures.iter().map(|own| own.cluster.as_str()));
    found::of_one_cluster("sources", clusters, "an object of one is none of the others")?;
    let make = || Chosen {
        observer: Watch::new(policies, terms),
        selection: &selection,
        event: Watch::event,
        flush: Watch::flush,
    };
    let (Batch { mut requests, mut changes, events, beyond }, outcome) =
        rollup::pass(found.streams, &selection, make, Batch::default, Batch::take, context)?;
    requests.sort_by(|a, b| (a.at, &a.audit_id).cmp(&(b.at, &b.audit_id)));
    changes.sort_by_key(|change| change.at);
    let (mut known, database) = known(args, (terms, &requests), objects.captures, context)?;
    known.changes = changes;
    let logged = outcome.total().within(since, until);
    let window = match (logged.first, logged.last) {
        (Some(from), Some(to)) => {
            Span { from: time::format(from), to: time::format(to), seconds: (to - from) as f64 / 1e6 }
        }
        _ => Span::default(),
    };
    let reported =
        PoliciesInput { inputs: outcome.inputs, window, events, beyond, database, top: context.settings.top };
    context.print(&report(policies, terms, &requests, &known, reported), FailOn::Never)
}

/// What a database and captured objects say of the objects that were asked about, and where from.
fn known(
    args: &Args,
    (terms, requests): (&Terms, &[Request]),
    captures: Vec<Capture>,
    context: &mut Context<'_>,
) -> Result<(ClusterContext, Option<String>), Error> {
    let mut known = ClusterContext::default();
    for capture in captures {
        for (name, namespace) in &capture.objects.namespaces {
            let object =
                json!({"metadata": {"name": name, "labels": namespace.labels, "annotations": namespace.annotations}});
            known.namespaces.entry(name.clone()).or_insert_with(|| is_marked(&object, &terms.critical, false));
            known.objects.entry(Target::of_namespace(name)).or_insert_with(|| Old::of(&object, terms));
        }
    }
    let wanted: HashSet<&Target> = requests.iter().map(|request| &request.target).collect();
    let collections: HashSet<(&str, &str)> = requests
        .iter()
        .filter(|request| request.verb == "deletecollection")
        .map(|request| (request.target.group.as_str(), request.target.resource.as_str()))
        .collect();
    let target = |of: &ObjectKey<'_>| {
        let [group, resource, namespace, name] = [of.group, of.resource, of.namespace, of.name].map(str::to_owned);
        let target = Target { group, resource, namespace, name };
        if target.is_namespace() { Target::of_namespace(&target.name) } else { target }
    };
    let is_wanted = |of: &ObjectKey<'_>| {
        of.resource == "namespaces" || collections.contains(&(of.group, of.resource)) || wanted.contains(&target(of))
    };
    let take = |of: &ObjectKey<'_>, object: &Value| {
        (target(of), Old::of(object, terms), is_marked(object, &terms.critical, false))
    };
    let Some((path, objects)) = newest::objects(args.before.as_deref(), &args.sources, &is_wanted, take, context)?
    else {
        return Ok((known, None));
    };
    let mut namespaces = BTreeMap::new();
    for (target, old, is_marked) in objects {
        if target.resource == "namespaces" {
            namespaces.insert(target.name.clone(), is_marked);
        }
        known.objects.insert(target, old);
    }
    known.namespaces.extend(namespaces);
    known.is_whole = true;
    Ok((known, Some(path)))
}
