//! From the flags that name a cluster to the cluster.

use crate::cli::{Context, Error, KubeFlags};
use crate::sources::live::{Cluster, Target};

/// The cluster that the flags name.
pub fn target(flags: &KubeFlags) -> Target {
    Target {
        kubeconfig: flags.kubeconfig.clone(),
        context: flags.context.clone(),
        as_user: flags.as_user.clone(),
        as_groups: flags.as_groups.clone(),
        timeout: flags.request_timeout,
    }
}

/// Connects to the cluster that the flags name; says what of it can't be reached.
pub(crate) fn connect(flags: &KubeFlags, context: &mut Context<'_>) -> Result<Cluster, Error> {
    let cluster = Cluster::connect(&target(flags)).map_err(Error::input)?;
    for note in cluster.notes() {
        context.notice(note)?;
    }
    Ok(cluster)
}
