//! What goes wrong between here and an apiserver, said so that the next step is clear.
//!
//! Text from elsewhere (a server's message, a plugin's last words) passes through [`foreign`]: it may hold control
//! characters or a credential, and an error ends up in terminals, logs and tickets.

use std::time::Duration;

/// Why a cluster could not be reached or an apiserver could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// There is no kubeconfig, and the program does not run in a pod.
    #[error("no kubeconfig: looked for {looked}; give --kubeconfig FILE, or set KUBECONFIG")]
    NoKubeconfig {
        /// The places.
        looked: String,
    },
    /// A kubeconfig can't be read, or makes no sense.
    #[error("{path}: {what}")]
    Kubeconfig {
        /// The file, or what stands for it.
        path: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The kubeconfig has no such context.
    #[error("the kubeconfig has no context '{context}'; {}", listed(known))]
    UnknownContext {
        /// What was asked for.
        context: String,
        /// The contexts there are.
        known: Vec<String>,
    },
    /// No context was asked for, and the kubeconfig names no current one.
    #[error("the kubeconfig sets no current-context; give --context NAME; {}", listed(known))]
    NoContext {
        /// The contexts there are.
        known: Vec<String>,
    },
    /// The kubeconfig's credential plugin gave no credentials.
    #[error(
        "the kubeconfig's credential plugin '{plugin}' {what}; test it with `kubectl version` and the same kubeconfig"
    )]
    Exec {
        /// The command, without arguments.
        plugin: String,
        /// What came of it. Its output is left out but for the end of its stderr.
        what: String,
    },
    /// The kubeconfig's credentials can't be used.
    #[error("the kubeconfig's credentials can't be used: {what}")]
    Credentials {
        /// What is wrong with them.
        what: String,
    },
    /// Nothing answers there.
    #[error("{server}{path}: {what}; {next}")]
    Unreachable {
        /// The apiserver.
        server: String,
        /// What was asked for.
        path: String,
        /// What happened.
        what: String,
        /// What to do.
        next: &'static str,
    },
    /// Its certificate, or ours, is not accepted.
    #[error("{server}{path}: {what}; {next}")]
    Certificate {
        /// The apiserver.
        server: String,
        /// What was asked for.
        path: String,
        /// What is wrong with it.
        what: String,
        /// What to do.
        next: &'static str,
    },
    /// It took too long.
    #[error("{server}{path}: {} within {after:?}; the apiserver may be overloaded, or --request-timeout is too \
         short", so_far(*received))]
    Timeout {
        /// The apiserver.
        server: String,
        /// What was asked for.
        path: String,
        /// How long it was waited for.
        after: Duration,
        /// The bytes of the answer's body that came by then.
        received: u64,
    },
    /// 401: the apiserver does not know who asks.
    #[error(
        "{server}{path}: 401, the apiserver does not accept the kubeconfig's credentials; they may have expired: log \
         in again, and try `kubectl auth whoami`"
    )]
    Unauthorized {
        /// The apiserver.
        server: String,
        /// What was asked for.
        path: String,
    },
    /// 403: the user may not read this.
    #[error("{server}{path}: 403, {what}; {next}")]
    Forbidden {
        /// The apiserver.
        server: String,
        /// What was asked for.
        path: String,
        /// The apiserver's own words.
        what: String,
        /// The rule that is missing.
        next: String,
    },
    /// 429 or 503, however often it was asked.
    #[error("{server}{path}: {code} after {tries} {}{} ({words}); {}: try again \
         later", if *tries == 1 { "try" } else { "tries" }, asks(*retry_after), busy(*code))]
    Busy {
        /// The apiserver.
        server: String,
        /// What was asked for.
        path: String,
        /// The status.
        code: u16,
        /// How often it was asked.
        tries: u32,
        /// How long it last asked to be left alone.
        retry_after: Option<Duration>,
        /// The apiserver's own words.
        words: Box<str>,
    },
    /// Any other status but 200.
    #[error("{server}{path}: {code}, {what}")]
    Status {
        /// The apiserver.
        server: String,
        /// What was asked for.
        path: String,
        /// The status.
        code: u16,
        /// The apiserver's own words.
        what: String,
    },
    /// The answer broke off, or can't be unpacked.
    #[error("{server}{path}: {what}, after {received} bytes; the response is discarded; try again")]
    Cut {
        /// The apiserver.
        server: String,
        /// What was asked for.
        path: String,
        /// What happened.
        what: String,
        /// The bytes that came before.
        received: u64,
    },
    /// The answer is larger than what is taken.
    #[error("{server}{path}: the response exceeds {} MiB", limit >> 20)]
    TooLarge {
        /// The apiserver.
        server: String,
        /// What was asked for.
        path: String,
        /// The bound in bytes.
        limit: u64,
    },
    /// Not a path of an apiserver.
    #[error("'{0}' is not a path: it must begin with / and be percent-encoded")]
    Path(String),
    /// There is no such apiserver.
    #[error("no apiserver {0}: they are numbered from 0, see Cluster::apiservers")]
    NoServer(usize),
    /// The thread that talks to the cluster has ended.
    #[error("the thread that talks to the cluster stopped: {0}")]
    Stopped(String),
}

impl LiveError {
    /// Whether nobody that could be trusted answered at all.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Certificate { .. } | Self::Timeout { .. })
    }

    /// What happened, without the server's name: for lists that have named it.
    pub(super) fn cause(&self) -> String {
        match self {
            Self::Unreachable { what, .. } | Self::Certificate { what, .. } | Self::Forbidden { what, .. } => {
                what.clone()
            }
            Self::Timeout { after, received, .. } => format!("{} within {after:?}", so_far(*received)),
            Self::Unauthorized { .. } => "it does not accept the kubeconfig's credentials".to_owned(),
            Self::Busy { code, tries, words, .. } => format!("{code} after {tries} tries ({words})"),
            Self::Status { code, what, .. } => format!("{code}, {what}"),
            other => other.to_string(),
        }
    }
}

/// The most contexts that an error lists.
const SHOWN: usize = 20;

fn listed(contexts: &[String]) -> String {
    let shown = contexts.iter().take(SHOWN).map(|name| foreign(name)).collect::<Vec<_>>().join(", ");
    match contexts.len() {
        0 => "it has none".to_owned(),
        n if n > SHOWN => format!("it has: {shown} and {} more (`kubectl config get-contexts`)", n - SHOWN),
        _ => format!("it has: {shown}"),
    }
}

fn so_far(received: u64) -> String {
    if received == 0 {
        "no answer".to_owned()
    } else {
        format!(
            "only the first {received} bytes of the response \
         arrived"
        )
    }
}

fn asks(retry_after: Option<Duration>) -> String {
    retry_after.map_or(String::new(), |time| {
        format!(", with Retry-After {:?}", Duration::from_secs(time.as_secs_f64().ceil() as u64))
    })
}

/// Who has too much to do, or is not there: behind an aggregated API another server answers 503.
fn busy(code: u16) -> &'static str {
    if code == 429 {
        "the apiserver is overloaded"
    } else {
        "the apiserver, or the server behind this API, is unavailable"
    }
}

/// The most characters of somebody else's text that an error repeats.
const MAX_REASON_CHARS: usize = 300;

/// Somebody else's text as an error may repeat it: one line, not long, and without what looks like a credential.
pub(in crate::sources) fn foreign(text: &str) -> String {
    let mut out = String::new();
    let mut behind_bearer = false;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        if behind_bearer {
            out.push_str("***");
        } else {
            masked(word, &mut out);
        }
        let end = word.trim_end_matches(['"', '\'', ':']);
        behind_bearer = ["bearer", "basic"].iter().any(|scheme| {
            end.len()
                .checked_sub(scheme.len())
                .and_then(|at| end.get(at..))
                .is_some_and(|tail| tail.eq_ignore_ascii_case(scheme))
        });
    }
    match out.char_indices().nth(MAX_REASON_CHARS) {
        Some((at, _)) => format!("{}…", &out[..at]),
        None => out,
    }
}

/// Adds a word; runs of characters that tokens are made of become `***` where they look like one.
fn masked(word: &str, out: &mut String) {
    let of_token = |c: char| c.is_ascii_alphanumeric() || "+/=_.-".contains(c);
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| of_token(c) != of_token(first)).unwrap_or(rest.len());
        let run = &rest[..end];
        out.push_str(if of_token(first) && is_credential(run) { "***" } else { run });
        rest = &rest[end..];
    }
}

/// A JSON Web Token, a token of EKS or Google, or a long jumble of letters and digits.
fn is_credential(run: &str) -> bool {
    let prefixed = ["eyJ", "k8s-aws-v1.", "ya29."].iter().any(|prefix| run.starts_with(prefix)) && run.len() >= 16;
    let jumble = |part: &str| {
        part.len() >= 24 && part.bytes().any(|b| b.is_ascii_digit()) && part.bytes().any(|b| b.is_ascii_alphabetic())
    };
    prefixed || run.split(['.', '/', '-', '_']).any(jumble)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_masked_and_names_are_not() {
        for (text, expected) in [
            ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
            ("token=eyJhbGciOiJSUzI1NiIsImtpZCI6.x-y_z rejected", "token *** rejected"),
            ("got k8s-aws-v1.aHR0cHM6Ly9zdHM", "got ***"),
            ("\u{1b}[31mred\nline", "[31mred line"),
            ("User \"system:serviceaccount:kube-system:generic-garbage-collector\" cannot get", "same"),
            (
                "ip-10-0-0-12.eu-west-1.compute.internal:6443 in /usr/lib/google-cloud-sdk/bin/gke-gcloud-auth-plugin",
                "same",
            ),
        ] {
            let masked = foreign(text);
            match expected {
                "same" => assert_eq!(masked, text),
                "token *** rejected" => {
                    assert!(masked.ends_with("*** rejected") && !masked.contains("eyJ"), "{masked}")
                }
                _ => assert_eq!(masked, expected),
            }
        }
        assert_eq!(foreign(&"x ".repeat(1000)).chars().count(), MAX_REASON_CHARS + 1);
    }

    #[test]
    fn errors_are_small_enough_to_pass_around() {
        assert!(size_of::<LiveError>() <= 128, "{}", size_of::<LiveError>());
    }
}
