//! From what a person names to what can be read, and what of it can't be used.

use crate::analysis::list_route::Minor;
use crate::cli::{Context, Error};
use crate::model::bundle::Bundle;
use crate::sources::find;
use crate::sources::found::Discovery;
use crate::sources::wanted::Wanted;
use std::collections::BTreeSet;

/// The apiservers' version, and where it is known from.
pub(crate) type Version = (String, &'static str);

/// A flag that names a Kubernetes version.
pub(crate) fn parse_version(text: &str) -> Result<Minor, String> {
    // Vendors put words behind the number: v1.31.2-gke.100, v1.30.4+k3s1.
    let number = text.trim().trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<&str> = number.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let version = Minor::parse(text).filter(|_| parts.len() <= 3 && parts.iter().all(is_number));
    version.ok_or_else(|| "write a Kubernetes version: 1.36, v1.36.2".to_owned())
}

/// Finds what is to be read; says what could not be used.
pub(crate) fn find(sources: &[String], wanted: Wanted, context: &mut Context<'_>) -> Result<Discovery, Error> {
    let found = find::find(sources, wanted, context.io.now);
    let is_some = !(found.streams.is_empty() && found.pages.is_empty());
    usable(found, is_some, context)
}

/// What was found, if it is what was looked for; says what could not be used.
pub(crate) fn usable(found: Discovery, is_some: bool, context: &mut Context<'_>) -> Result<Discovery, Error> {
    if !is_some {
        return Err(Error::inputs(&found.errors));
    }
    for error in &found.errors {
        context.lost(error)?;
    }
    Ok(found)
}

/// Refuses what is of several clusters, where one would be taken for the other: `why` says what belongs to one.
pub(crate) fn of_one_cluster<'a>(
    what: &str,
    clusters: impl IntoIterator<Item = &'a str>,
    why: &str,
) -> Result<(), Error> {
    let names: BTreeSet<&str> = clusters.into_iter().filter(|name| !name.is_empty()).collect();
    if names.len() < 2 {
        return Ok(());
    }
    let names: Vec<&str> = names.into_iter().collect();
    Err(Error::Usage(format!("{what} of several clusters ({}), and {why}; choose one", names.join(", "))))
}

/// The apiservers' version, as given or as a bundle says, and where it is known from.
pub(crate) fn server_version(given: Option<&str>, bundle: Option<&Bundle>) -> Result<Option<Version>, Error> {
    if let Some(version) = given {
        Minor::parse(version)
            .ok_or_else(|| Error::Usage(format!("--k8s-version {version}: not a version; write v1.34")))?;
        return Ok(Some((version.to_owned(), "--k8s-version")));
    }
    let of_bundle = bundle.map(|bundle| bundle.kubernetes_version.clone());
    Ok(of_bundle.filter(|version| Minor::parse(version).is_some()).map(|version| (version, "bundle.yaml")))
}
