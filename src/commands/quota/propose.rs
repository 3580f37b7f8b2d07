//! `plimsoll quota propose`.

use crate::actions::fresh;
use crate::analysis::answer::Answer;
use crate::analysis::quota::propose::{self, Peak, Proposals, Rules, Unstated};
use crate::analysis::quota::report::{self, FIELDS, QuotaInput};
use crate::analysis::quota::{admitted, defaults, manifests};
use crate::cli::{Context, Error, FailOn, parse_tenfold_share};
use crate::commands::show;
use crate::inputs::flow::FlowFlags;
use crate::inputs::quotas::{self, Inputs, QuotaOptions, SourceFlags};
use crate::model::objects::Namespace;
use crate::model::question::{self, PeakOf};
use crate::model::quota::Quotas;
use crate::model::time::Micros;
use crate::model::units::{counted, parse_duration};
use crate::views::{Format, objects};
use clap::builder::RangedU64ValueParser;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What each namespace's quota should be: the peak of what was used, and headroom.
///
/// With -o yaml it prints ResourceQuotas for kubectl apply --server-side -f -. It changes nothing itself.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # peak of usage and 20 % headroom, beside today's quotas
  plimsoll quota propose incident/ -n web
  # from sixty days of kube-state-metrics
  plimsoll quota propose --prometheus http://prometheus:9090
  plimsoll quota propose history/ -o yaml | kubectl apply --server-side -f -")]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    /// Which peak of usage to start from.
    #[arg(long, value_enum, default_value = "max", value_name = "WHICH")]
    peak: PeakOf,
    /// What to add to the peak.
    #[arg(long, default_value = "20%", value_name = "SHARE", value_parser = parse_tenfold_share)]
    headroom: f64,
    /// Treat a shorter peak as a spike: 5m, 15m, 1h or 4h.
    #[arg(long, default_value = "15m", value_name = "LENGTH", value_parser = lasting)]
    min_duration: Micros,
    /// Leave spikes out: start from the sustained level.
    #[arg(long)]
    without_spikes: bool,
    /// Sum up the namespaces that have the same value of this label.
    #[arg(long, value_name = "KEY", group = "project")]
    project_label: Option<String>,
    /// Sum up the namespaces that have the same value of this annotation.
    #[arg(long, value_name = "KEY", group = "project")]
    project_annotation: Option<String>,
    /// Sum up namespaces by this YAML file: project: [namespace, …].
    #[arg(long, value_name = "FILE", group = "project")]
    projects: Option<PathBuf>,
    /// Propose only this resource, as quotas write it: requests.cpu, limits.memory, pods (repeatable).
    #[arg(long = "resource", value_name = "NAME")]
    resources: Vec<String>,
    /// Let manifests (-o yaml, --kustomize) lower limits too, given 14 days of history or more.
    #[arg(long)]
    allow_decrease: bool,
    /// Add LimitRanges with defaults for namespaces whose containers have no requests.
    #[arg(long)]
    limit_range: bool,
    /// Quotas for the API itself, from audit logs: requests per second and seats of each user, as priority levels.
    #[arg(long, conflicts_with_all = ["project", "limit_range", "kustomize", "without_spikes", "resources",
        "allow_decrease"])]
    api: bool,
    /// With --api: number of users, by seats.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "api",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    clients: usize,
    /// With --api: seats of an apiserver, --max-requests-inflight + --max-mutating-requests-inflight [default: 600].
    #[arg(long, value_name = "N", requires = "api", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    server_seats: Option<u32>,
    #[command(flatten)]
    flow: FlowFlags,
    /// Write one file for each namespace into this folder, and a kustomization.yaml that names them.
    #[arg(long, value_name = "DIR")]
    kustomize: Option<PathBuf>,
}

fn lasting(text: &str) -> Result<Micros, String> {
    parse_duration(text)
        .filter(|length| propose::lasting(*length).is_some())
        .ok_or_else(|| "use 5m, 15m, 1h or 4h, the windows that the history keeps".to_owned())
}

impl Args {
    /// What the flags ask of files.
    pub(super) fn question(&self, now: Micros) -> Result<question::QuotaPropose, Error> {
        Ok(question::QuotaPropose {
            source: self.source.question(now)?,
            peak: self.peak,
            headroom: self.headroom,
            min_duration: self.min_duration,
            without_spikes: self.without_spikes,
            project_label: self.project_label.clone(),
            project_annotation: self.project_annotation.clone(),
            projects: self.projects.as_ref().map(|path| path.display().to_string()),
            resources: self.resources.clone(),
            allow_decrease: self.allow_decrease,
            limit_range: self.limit_range,
            api: self.api,
            clients: self.clients,
            server_seats: self.server_seats,
            flow_schemas: self.flow.flow_schemas.clone(),
        })
    }
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let question = args.question(context.io.now)?;
    show(answer(&question, Some(&args.source), args.kustomize.as_deref(), context)?, FailOn::Never, context)
}

/// Answers the question; with a folder manifests are written there, too.
pub(super) fn answer(
    question: &question::QuotaPropose,
    access: Option<&SourceFlags>,
    kustomize: Option<&Path>,
    context: &mut Context<'_>,
) -> Result<Answer, Error> {
    if question.api {
        return super::api::answer(question, context);
    }
    let sort_by = context.sort_by(&FIELDS)?;
    let asked = QuotaOptions { sources: &question.source, access };
    let inputs = quotas::read(asked, question.peak != PeakOf::Max, context)?;
    let peak = match question.peak {
        PeakOf::Max => Peak::Max,
        PeakOf::P999 => Peak::P999,
        PeakOf::P99 => Peak::P99,
    };
    let lasting = propose::lasting(question.min_duration)
        .ok_or_else(|| Error::Usage("--min-duration: use 5m, 15m, 1h or 4h".to_owned()))?;
    let rules = Rules {
        peak,
        headroom: question.headroom,
        lasting,
        without_spikes: question.without_spikes,
        days: inputs.days,
        namespaces: question.source.namespaces.clone(),
        resources: question.resources.clone(),
        allow_decrease: question.allow_decrease,
        ..Rules::default()
    };
    let Inputs { quotas, objects, refused, has_logs, inputs, .. } = inputs;
    let limits = if question.limit_range { defaults::proposed(&objects, &rules.namespaces) } else { BTreeMap::new() };
    let added = defaults::added(&objects, &limits, quotas.at);
    let unstated = Unstated { silent: admitted::silence(&objects, &limits), added };
    let proposals = propose::propose(&quotas, &refused, &unstated, &rules);
    let is_known = |resource: &&String| {
        let of_quotas = quotas.standings.iter().map(|own| &own.resource);
        of_quotas.chain(quotas.usage.iter().map(|own| &own.resource)).any(|own| own == *resource)
    };
    if let Some(resource) = question.resources.iter().find(|own| !is_known(own)) {
        return Err(Error::Input(format!(
            "--resource {resource}: these sources have no quota and no usage of it; quotas write requests.cpu, \
             limits.memory, pods"
        )));
    }
    if proposals.rows.is_empty() {
        context.notice(
            "nothing to propose: no usage of a namespace in these sources; give a bundle with pods and quotas, a \
             store, or --prometheus",
        )?;
    }
    let kept = proposals.rows.iter().filter(|row| row.granted(&rules) != row.proposed).count() as u64;
    if kept > 0 && (context.settings.format == Format::Yaml || kustomize.is_some()) {
        let how = match question.allow_decrease {
            true => "--allow-decrease needs 14 days of history",
            false => "--allow-decrease lowers quotas with 14 days of history",
        };
        context.notice(format!("{} would be lower than now and stay unchanged; {how}", counted(kept, "limit")))?;
    }
    let mut documents = manifests::quotas(&proposals, &quotas, &rules);
    for (namespace, range) in &limits {
        documents.entry(namespace.clone()).or_default().push(manifests::limit_range(range));
    }
    if let Some(folder) = kustomize {
        write(folder, &documents, context)?;
    }
    if context.settings.format == Format::Yaml {
        let all = documents.into_values().flatten();
        let all =
            all.filter_map(|object| if let Value::Object(object) = object { Some((Vec::new(), object)) } else { None });
        return Ok(Answer::Manifests(objects::documents(&all.collect::<Vec<_>>())));
    }
    let commitments = propose::commitments(&proposals.rows, &quotas);
    let project_of = project(question, &quotas)?;
    let of_projects = project_of.is_some();
    let proposals = match project_of {
        Some(project_of) => Proposals { rows: propose::by_project(&proposals.rows, &project_of), ..proposals },
        None => proposals,
    };
    let input = QuotaInput { inputs, of_projects, has_logs, top: context.settings.top, sort_by };
    Ok(Answer::of(report::proposed(&proposals, &commitments, &rules, input)))
}

/// The project of each namespace that has one; `None` where namespaces stand for themselves.
fn project(question: &question::QuotaPropose, quotas: &Quotas) -> Result<Option<BTreeMap<String, String>>, Error> {
    let by = |value: &dyn Fn(&Namespace) -> Option<&String>| {
        let known =
            quotas.namespaces.iter().filter_map(|(name, namespace)| Some((name.clone(), value(namespace)?.clone())));
        Some(known.filter(|(_, project)| !project.is_empty()).collect())
    };
    if let Some(key) = &question.project_label {
        return Ok(by(&|namespace| namespace.labels.get(key)));
    }
    if let Some(key) = &question.project_annotation {
        return Ok(by(&|namespace| namespace.annotations.get(key)));
    }
    let Some(path) = question.projects.as_deref().map(Path::new) else { return Ok(None) };
    let wrong = |what: String| Error::Usage(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let projects: BTreeMap<String, Vec<String>> = serde_yaml_ng::from_str(&text)
        .map_err(|error| wrong(format!("{error}; each line is project: [namespace, …]")))?;
    let mut project_of: BTreeMap<String, String> = BTreeMap::new();
    for (project, namespaces) in projects {
        for namespace in namespaces {
            if let Some(other) = project_of.insert(namespace.clone(), project.clone()) {
                return Err(wrong(format!("namespace {namespace} is in two projects: {other} and {project}")));
            }
        }
    }
    project_of.retain(|_, project| !project.is_empty());
    Ok(Some(project_of))
}

/// Writes one file for each namespace, and a kustomization that names them.
fn write(
    folder: &std::path::Path,
    documents: &BTreeMap<String, Vec<Value>>,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    let failed = |path: &std::path::Path, error: std::io::Error| {
        Error::Input(format!("{}: can't be written: {error}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut names = BTreeSet::new();
    for (namespace, objects) in documents {
        // Names of namespaces are labels of DNS; one that is not came from a file that lies.
        if namespace.is_empty()
            || !namespace.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        {
            context.lost(format!("'{namespace}' is not a valid namespace name: no file was written for it"))?;
            continue;
        }
        let mut text = Vec::new();
        for object in objects.iter().filter_map(Value::as_object) {
            objects::yaml(&[], object, &mut text)?;
        }
        let name = format!("{namespace}.yaml");
        let path = folder.join(&name);
        fresh::replace(&path, &text).map_err(|error| failed(&path, error))?;
        names.insert(name);
    }
    let kustomization =
        json!({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": names});
    let mut text = Vec::new();
    objects::yaml(&[], kustomization.as_object().unwrap_or(&Map::new()), &mut text)?;
    let path = folder.join("kustomization.yaml");
    fresh::replace(&path, &text).map_err(|error| failed(&path, error))?;
    context.notice(format!(
        "wrote {} and kustomization.yaml to {}",
        counted(names.len() as u64, "file"),
        folder.display()
    ))
}
