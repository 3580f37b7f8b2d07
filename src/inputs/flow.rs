//! The FlowSchemas and priority levels that requests are matched with: given, found in bundles, or those that
//! kube-apiserver makes.

use crate::analysis::flow::{Set, Sets};
use crate::cli::{Context, Error};
use crate::model::flowcontrol::FlowConfig;
use crate::model::units::counted;
use crate::sources::objects::flowcontrol::{self, Captured};
use serde_json::{Value, json};
use std::sync::Arc;

/// Where FlowSchemas are read from.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct FlowFlags {
    /// FlowSchemas and PriorityLevelConfigurations (kubectl get -o json|yaml): file or folder
    /// (repeatable; default: those in the bundle, else those that kube-apiserver makes itself).
    #[arg(long, value_name = "PATH")]
    pub flow_schemas: Vec<String>,
}

/// What requests are matched with, and where it comes from.
#[derive(Debug, Clone, Default)]
pub struct Matched {
    /// FlowSchemas by cluster.
    pub sets: Arc<Sets>,
    /// Where they come from, for `coverage`.
    pub coverage: Value,
    /// What people should know of it.
    pub note: Option<String>,
}

/// Reads the FlowSchemas for the logs in `sources`.
pub fn matched(flags: &FlowFlags, sources: &[String], context: &mut Context<'_>) -> Result<Matched, Error> {
    let built_in = flowcontrol::built_in().map_err(|error| Error::Input(error.to_string()))?;
    let captured = if flags.flow_schemas.is_empty() {
        let (captured, errors) = flowcontrol::find(sources);
        for error in errors {
            context.lost(error)?;
        }
        captured
    } else {
        vec![flowcontrol::read(&flags.flow_schemas).map_err(|error| Error::Input(error.to_string()))?]
    };
    let mut sets = Vec::new();
    let mut reported = Vec::new();
    let mut dangling = Vec::new();
    let for_all = captured.len() == 1 && (!flags.flow_schemas.is_empty() || captured[0].cluster.is_empty());
    for Captured { cluster, paths, config } in captured {
        let FlowConfig { mut schemas, mut levels } = config;
        // One kind alone: the other is taken to be as kube-apiserver makes it.
        let lacks = [schemas.is_empty(), levels.is_empty()];
        if lacks[0] {
            schemas.clone_from(&built_in.schemas);
        }
        if lacks[1] {
            levels.clone_from(&built_in.levels);
            for name in schemas.iter().map(|schema| schema.level.clone()).collect::<Vec<_>>() {
                if !levels.iter().any(|level| level.name == name) {
                    context.notice(format!(
                        "no PriorityLevelConfiguration was found; only the name of '{name}' is known"
                    ))?;
                    levels.extend(built_in.levels.iter().find(|level| level.name == "catch-all").map(|level| {
                        let mut level = level.clone();
                        level.name = name;
                        level
                    }));
                }
            }
        }
        let set = Set::new(FlowConfig { schemas, levels }, &built_in);
        dangling.extend(set.dangling.iter().cloned());
        reported.push(json!({"cluster": cluster, "paths": paths, "flow_schemas": set.schemas.len(),
            "priority_levels": set.levels.len(), "built_in": {"flow_schemas": lacks[0], "priority_levels": lacks[1]}}));
        sets.push(((!for_all).then_some(cluster), set));
    }
    let is_built_in = sets.is_empty();
    let note = is_built_in.then(|| {
        "No FlowSchemas were found: requests are matched with the defaults of kube-apiserver 1.36; --flow-schemas \
         gives others."
            .to_owned()
    });
    if !dangling.is_empty() {
        let schemas = counted(dangling.len() as u64, "FlowSchema");
        context.notice(format!(
            "{schemas} not used, because the priority level does not exist: {}",
            dangling.join(", ")
        ))?;
    }
    if !for_all {
        sets.push((None, Set::new(built_in.clone(), &built_in)));
    }
    let coverage = json!({"source": if is_built_in { "built-in" } else { "objects" }, "sets": reported});
    Ok(Matched { sets: Arc::new(Sets::new(sets)), coverage, note })
}
