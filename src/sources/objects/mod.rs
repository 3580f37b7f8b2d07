//! Kubernetes objects as `kubectl get -o json|yaml` writes them, in files and bundles.

pub mod captures;
pub mod flowcontrol;
mod kinds;
#[cfg(feature = "live")]
pub mod live;
pub mod read;
pub mod usage;
