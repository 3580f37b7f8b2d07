//! Kubernetes objects as `kubectl get -o json|yaml` writes them.

pub mod flowcontrol;
