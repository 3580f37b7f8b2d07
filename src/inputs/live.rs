//! From the flags that name a cluster to the cluster.

use crate::cli::KubeFlags;
use crate::sources::live::Target;

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
