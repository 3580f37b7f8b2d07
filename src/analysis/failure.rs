//! Why a request failed, by the message of its answer: which part of the control plane the apiserver names.
//!
//! The words are those of Kubernetes 1.20 to 1.36 and etcd 3.3 to 3.6 (`apiserver/pkg/admission/plugin/webhook`,
//! `apiserver/pkg/storage`, `apiextensions-apiserver/pkg/apiserver/conversion`, `etcd/api/v3rpc/rpctypes/error.go`).

use crate::model::event::{Event, Timed};
use crate::model::json::cut;

/// Which part of the control plane a message names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// etcd did not answer in time.
    EtcdTimeout,
    /// etcd had no leader, or another one.
    EtcdLeader,
    /// etcd's database reached its quota.
    EtcdFull,
    /// etcd could not be reached, or rejected the request as overloaded.
    EtcdUnavailable,
    /// What is stored encrypted could not be read or written: the key service (KMS) failed, or the key is not there.
    Encryption,
    /// An admission webhook could not be asked.
    WebhookFailed,
    /// A webhook that converts objects of a custom resource could not be asked.
    ConversionFailed,
    /// The server behind an aggregated API did not answer.
    ApiUnavailable,
    /// An object was too large for etcd.
    TooLarge,
    /// An apiserver was starting or shutting down.
    Starting,
    /// Something else, but that the time was over or the client gone.
    Other,
    /// An admission webhook denied the request.
    WebhookDenied,
    /// A ValidatingAdmissionPolicy denied it, or PodSecurity.
    PolicyDenied,
    /// A ResourceQuota denied it.
    QuotaExceeded,
}

/// Words that only one kind of fault has, for answers that say an apiserver could not do what it was asked to. Of
/// several the first counts: what a webhook or a key service says is repeated behind it.
const WORDS: [(&str, Fault); 24] = [
    ("failed calling webhook ", Fault::WebhookFailed),
    ("conversion webhook for ", Fault::ConversionFailed),
    ("unable to transform key ", Fault::Encryption),
    ("failed to encrypt DEK", Fault::Encryption),
    ("failed to decrypt DEK", Fault::Encryption),
    ("encryptedDEKSource with keyID", Fault::Encryption),
    ("EDEK with keyID", Fault::Encryption),
    ("etcdserver: request is too large", Fault::TooLarge),
    ("trying to send message larger than max", Fault::TooLarge),
    ("etcdserver: mvcc: database space exceeded", Fault::EtcdFull),
    ("etcdserver: no leader", Fault::EtcdLeader),
    ("etcdserver: leader changed", Fault::EtcdLeader),
    ("etcdserver: not leader", Fault::EtcdLeader),
    ("etcdserver: request timed out, possibly due to previous leader failure", Fault::EtcdLeader),
    ("etcdserver: request timed out", Fault::EtcdTimeout),
    ("etcdserver: too many requests", Fault::EtcdUnavailable),
    ("etcdserver: server stopped", Fault::EtcdUnavailable),
    ("etcdserver: unhealthy cluster", Fault::EtcdUnavailable),
    ("etcdserver: corrupt cluster", Fault::EtcdUnavailable),
    ("rpc error: code = Unavailable", Fault::EtcdUnavailable),
    ("the server is currently unable to handle the request", Fault::ApiUnavailable),
    ("error trying to reach service", Fault::ApiUnavailable),
    ("storage is (re)initializing", Fault::Starting),
    ("apiserver is shutting down", Fault::Starting),
];

/// What says that the time was over, or the client gone, or that seats were taken: that names nothing.
const TIMES: [&str; 6] = [
    "context deadline exceeded",
    "context canceled",
    "request did not complete within",
    "unable to return a response in the time allotted",
    "Too many requests",
    "disruption budget",
];

impl Fault {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::EtcdTimeout,
        Self::EtcdLeader,
        Self::EtcdFull,
        Self::EtcdUnavailable,
        Self::Encryption,
        Self::WebhookFailed,
        Self::ConversionFailed,
        Self::ApiUnavailable,
        Self::TooLarge,
        Self::Starting,
        Self::Other,
        Self::WebhookDenied,
        Self::PolicyDenied,
        Self::QuotaExceeded,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::EtcdTimeout => "store-timeout",
            Self::EtcdLeader => "store-leader",
            Self::EtcdFull => "store-full",
            Self::EtcdUnavailable => "store-unavailable",
            Self::Encryption => "encryption",
            Self::WebhookFailed => "webhook-failed",
            Self::ConversionFailed => "conversion-failed",
            Self::ApiUnavailable => "api-unavailable",
            Self::TooLarge => "object-too-large",
            Self::Starting => "starting",
            Self::Other => "other",
            Self::WebhookDenied => "webhook-denied",
            Self::PolicyDenied => "policy-denied",
            Self::QuotaExceeded => "quota-exceeded",
        }
    }

    /// What people call it.
    pub fn words(self) -> &'static str {
        match self {
            Self::EtcdTimeout => "etcd did not answer in time",
            Self::EtcdLeader => "etcd had no leader, or a new one",
            Self::EtcdFull => "etcd's database is full (NOSPACE)",
            Self::EtcdUnavailable => "etcd could not be reached, or was overloaded",
            Self::Encryption => "encryption at rest failed (KMS or key)",
            Self::WebhookFailed => "an admission webhook could not be called",
            Self::ConversionFailed => "a conversion webhook could not be called",
            Self::ApiUnavailable => "an aggregated API did not answer",
            Self::TooLarge => "an object was too large",
            Self::Starting => "an apiserver was starting or shutting down",
            Self::Other => "another message",
            Self::WebhookDenied => "denied by an admission webhook",
            Self::PolicyDenied => "denied by a ValidatingAdmissionPolicy or PodSecurity",
            Self::QuotaExceeded => "denied by a ResourceQuota",
        }
    }

    /// Whether it is etcd's.
    pub fn is_store(self) -> bool {
        matches!(self, Self::EtcdTimeout | Self::EtcdLeader | Self::EtcdFull | Self::EtcdUnavailable)
    }

    /// Whether a webhook or policy denied the request: rules of the cluster, not of one namespace or client.
    pub fn is_rule(self) -> bool {
        matches!(self, Self::WebhookDenied | Self::PolicyDenied)
    }

    /// Whether a rule of the cluster denied the request; all others are failures.
    pub fn is_denial(self) -> bool {
        self.is_rule() || self == Self::QuotaExceeded
    }

    /// What the message of an answer names: the fault, and the webhook, API group, policy or quota, if it is named. The
    /// code decides whether it is a failure or a denial. Most answers name nothing.
    #[inline]
    pub fn of(event: &Timed<'_, '_>) -> Option<(Self, String)> {
        let e: &Event<'_> = event.event;
        let is_failure = matches!(e.code, Some(429 | 500..=599));
        let is_denial = matches!(e.code, Some(400..=499)) && e.code != Some(429);
        // What a proxied server says is its own.
        if !(is_failure || is_denial) || e.subresource.is("proxy") {
            return None;
        }
        let message = e.message.decode();
        if is_failure {
            return Self::failure(&message);
        }
        // What the authorizer refuses repeats the name that was asked for. Few messages get here.
        Self::denial(&message).filter(|_| e.decision().is_none_or(|decision| !decision.is("forbid")))
    }

    /// What the message of a failure names.
    fn failure(message: &str) -> Option<(Self, String)> {
        // A webhook may answer that it failed itself, and quote why.
        if message.starts_with("admission webhook \"")
            && let Some((Self::WebhookDenied, name)) = Self::denial(message)
        {
            return Some((Self::WebhookFailed, name));
        }
        let found = WORDS.into_iter().filter_map(|(words, fault)| Some((message.find(words)?, words, fault)));
        let Some((place, words, fault)) = found.min_by_key(|own| own.0) else {
            let is_other = !message.is_empty() && !TIMES.iter().any(|words| message.contains(words));
            return is_other.then(|| (Self::Other, String::new()));
        };
        let rest = &message[place + words.len()..];
        let name = match fault {
            Self::WebhookFailed => rest.split('"').nth(1).unwrap_or(""),
            // `conversion webhook for stable.example.com/v1, Kind=CronTab failed: …`.
            Self::ConversionFailed => rest.split_once('/').map_or("", |(group, _)| group),
            _ => "",
        };
        Some((fault, cut(name).into_owned()))
    }

    /// What the message of a denial names.
    fn denial(message: &str) -> Option<(Self, String)> {
        let (fault, name) = if let Some((_, rest)) = message.split_once("admission webhook \"") {
            let (name, rest) = rest.split_once('"')?;
            (rest.starts_with(" denied the request").then_some(Self::WebhookDenied)?, name)
        } else if message.contains(" is forbidden: violates PodSecurity \"") {
            (Self::PolicyDenied, "PodSecurity")
        } else if let Some((_, rest)) = message.split_once(" is forbidden: exceeded quota: ") {
            (Self::QuotaExceeded, rest.split_once(", requested: ")?.0)
        } else {
            // `… is forbidden: ValidatingAdmissionPolicy 'a' with binding 'b' denied request: …`.
            let (_, rest) = message.split_once(" is forbidden: ValidatingAdmissionPolicy '")?;
            (Self::PolicyDenied, rest.split_once('\'')?.0)
        };
        Some((fault, cut(name).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_what_failed() {
        for (message, fault, name) in [
            (
                "Internal error occurred: failed calling webhook \"v.kyverno.svc\": failed to call webhook: Post \
                 \"https://a:443/v?timeout=10s\": dial tcp 10.0.0.1:443: connect: connection refused",
                Fault::WebhookFailed,
                "v.kyverno.svc",
            ),
            ("etcdserver: request timed out", Fault::EtcdTimeout, ""),
            ("etcdserver: request timed out, possibly due to connection lost", Fault::EtcdTimeout, ""),
            ("etcdserver: request timed out, possibly due to previous leader failure", Fault::EtcdLeader, ""),
            ("etcdserver: mvcc: database space exceeded", Fault::EtcdFull, ""),
            ("rpc error: code = Unavailable desc = keepalive ping failed", Fault::EtcdUnavailable, ""),
            (
                "conversion webhook for kafka.example/v1alpha1, Kind=Topic failed: the server is currently unable to \
                 handle the request",
                Fault::ConversionFailed,
                "kafka.example",
            ),
            (
                "Internal error occurred: unable to transform key \"/registry/secrets/a/b\": rpc error: code = \
                 Unavailable desc = x",
                Fault::Encryption,
                "",
            ),
            ("error trying to reach service: dial tcp: no route to host", Fault::ApiUnavailable, ""),
            ("storage is (re)initializing", Fault::Starting, ""),
            ("etcdserver: request is too large", Fault::TooLarge, ""),
            (
                "Internal error occurred: encryptedDEKSource with keyID hash \"sha256:a\" expired at 2026-11-29",
                Fault::Encryption,
                "",
            ),
            // The webhook's own error, which quotes another.
            ("admission webhook \"v.x\" denied the request: etcdserver: no leader", Fault::WebhookFailed, "v.x"),
            ("Internal error occurred: resource quota evaluation timed out", Fault::Other, ""),
        ] {
            assert_eq!(Fault::failure(message), Some((fault, name.to_owned())), "{message}");
        }
        for message in ["", "context canceled", "Timeout: request did not complete within requested timeout"] {
            assert_eq!(Fault::failure(message), None, "{message}");
        }
        assert_eq!(Fault::failure("failed calling webhook x"), Some((Fault::WebhookFailed, String::new())));
    }

    #[test]
    fn messages_name_what_denied() {
        for (message, fault, name) in [
            ("admission webhook \"v.example.com\" denied the request: no", Fault::WebhookDenied, "v.example.com"),
            (
                "pods \"a\" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=9, limited: pods=9",
                Fault::QuotaExceeded,
                "compute",
            ),
            (
                "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
                Fault::PolicyDenied,
                "p",
            ),
            (
                "pods \"a\" is forbidden: violates PodSecurity \"baseline:latest\": x",
                Fault::PolicyDenied,
                "PodSecurity",
            ),
        ] {
            assert_eq!(Fault::denial(message), Some((fault, name.to_owned())), "{message}");
        }
        assert_eq!(Fault::denial("pods \"a\" is forbidden: unable to create new content in namespace x"), None);
        assert_eq!(Fault::denial("admission webhook \"x"), None);
    }
}
