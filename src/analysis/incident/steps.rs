//! What to do about a cause, now and later.

use super::answers::Answers;
use crate::analysis::dims::{account, short_user};
use crate::analysis::flow::fence::{refusal, risk};
use crate::analysis::judge::candidates::Candidate;
use crate::model::cause::{Cause, Source};
use crate::model::incident::quote;
use crate::model::report::{Finding, Severity};

/// Findings whose remedies are given with a cause.
const REMEDIES: usize = 3;
/// What ends requests that are answered with 401.
const RENEW: &str = "renew the credentials of who sends them: a certificate or token that expired or was revoked, or \
                     one of another cluster; priority and fairness never sees such requests, so nothing there slows \
                     them down";

/// Adds to causes that are clients what mends the findings on them, once those of the episode's time are known.
pub fn add_remedies(causes: &mut [Cause], answers: &Answers) {
    let field = |cause: &Cause, name: &str| cause.subject_of(name).unwrap_or_default().to_owned();
    for cause in causes.iter_mut().filter(|cause| matches!(cause.kind, "client-surge" | "write-burst")) {
        let who = [field(cause, "user"), field(cause, "agent")];
        let new: Vec<String> =
            remedies(answers, &who).into_iter().filter(|remedy| !cause.later.contains(remedy)).collect();
        cause.later.splice(0..0, new);
    }
}

/// What mends the gravest findings on a client, each once.
fn remedies(answers: &Answers, who: &[String; 2]) -> Vec<String> {
    let mut all: Vec<String> =
        findings_on(answers, who).into_iter().take(REMEDIES).map(|own| own.remedy.clone()).collect();
    all.dedup();
    all
}

/// Findings on a client within the episode.
fn findings_on<'w>(answers: &'w Answers, who: &[String; 2]) -> Vec<&'w Finding> {
    let all = answers.findings("clients").filter(|finding| finding.severity >= Severity::Warning);
    let is = |finding: &Finding, field: &str, value: &str| finding.subject.get(field).is_some_and(|own| own == value);
    let mut all: Vec<&Finding> = all
        .filter(|own| is(own, "user", &who[0]) && (is(own, "agent", &who[1]) || !own.subject.contains_key("agent")))
        .collect();
    all.sort_by(|a, b| a.graver(b));
    all
}

/// What to do now, and later.
pub(super) fn steps(
    sources: &str,
    read: &[Source],
    answers: &Answers,
    candidate: &Candidate,
) -> (Vec<String>, Vec<String>) {
    let has = |source: Source| read.contains(&source);
    let (mut now, mut later) = (Vec::new(), Vec::new());
    match candidate.kind {
        "client-surge" | "write-burst" => {
            if let Some(who) = &candidate.caller {
                now.extend(slow_down(who, sources));
                later.extend(remedies(answers, who));
            }
            if candidate.kind == "write-burst" {
                let history =
                    if has(Source::Etcd) { format!(", plimsoll etcd history {sources}") } else { String::new() };
                later.push(format!("write only changes, and less often: plimsoll clients {sources}{history}"));
            }
        }
        "expensive-lists" => later.push(format!(
            "read from the watch cache, in pages or through informers: plimsoll clients {sources} --emit watch-cache"
        )),
        "request-surge" => {
            let is_authenticated = candidate.feature("unauthenticated") == 0.0;
            now.extend((!is_authenticated).then(|| RENEW.to_owned()));
            now.push(match candidate.feature("unlogged") > 0.0 {
                true => "log them at level Metadata to see who sends them: a rule for this resource before the one \
                         that leaves it out of the audit policy"
                    .to_owned(),
                false => "enable audit logging at level Metadata to see who sends them: plimsoll traffic AUDIT --by \
                          user,agent"
                    .to_owned(),
            });
            now.extend(
                is_authenticated.then(|| {
                    "find who holds the seats of API Priority and Fairness: plimsoll clients --seats".to_owned()
                }),
            );
        }
        "load-surge" => {
            later.push(format!("add capacity, or spread the load over time: plimsoll balance {sources}"));
        }
        "slow-etcd" => {
            if candidate.feature("store_full") > 0.0 {
                let step = "see whether NOSPACE is raised; then compact, defragment and disarm: etcdctl alarm list";
                now.push(step.to_owned());
            }
            now.push(format!("check etcd's members, disk and leader: plimsoll etcd health {sources}"));
            later.push(match candidate.feature("defragmented") > 0.0 {
                true => "defragment at a quiet time, one member at a time, and only where much of the file is free: \
                         its etcdctl answers when it is done, and a member must catch up before the next one"
                    .to_owned(),
                false => "give etcd a dedicated disk with low write latency".to_owned(),
            });
        }
        "webhook-drag" => {
            now.push(
                "if it does not enforce security, admit requests without it: failurePolicy Ignore, or a shorter \
                 timeoutSeconds"
                    .to_owned(),
            );
            if has(Source::Objects) {
                later.push(format!("list the requests it is called for: plimsoll guard webhooks {sources}"));
            }
        }
        "api-unavailable" => {
            now.push("see which API is unavailable and why: kubectl get apiservices".to_owned());
            now.push(
                "if its objects are custom resources, see the webhook that converts them: kubectl get crds \
                 -o custom-columns=NAME:.metadata.name,CONVERSION:.spec.conversion.strategy"
                    .to_owned(),
            );
            later.push("run two replicas or more of what serves it, with a PodDisruptionBudget".to_owned());
        }
        "relist-storm" => later.push(format!(
            "use informers with bookmarks, so that clients resume instead of relisting: plimsoll clients {sources} \
             --emit watch-cache"
        )),
        "cascade-delete" => later.push("prevention: delete in steps, and do not grant deletecollection".to_owned()),
        "imbalance" => later.push(format!("spread connections evenly: plimsoll balance {sources}")),
        "nodes-lost" => {
            now.push("see what these nodes share (zone, network, image): kubectl get nodes -o wide".to_owned());
            later.push(format!(
                "see what their pods' eviction asks of the control plane: plimsoll guard events {sources}"
            ));
        }
        "writes-refused" => {
            now.push(format!("see what is refused to whom: plimsoll traffic {sources} --by code,verb,resource,user"));
            now.push("find the rule: responseStatus.message of these in the audit log names it".to_owned());
            now.push(
                "undo the latest change of admission and access: kubectl get \
                 validatingadmissionpolicybindings,validatingwebhookconfigurations,mutatingwebhookconfigurations \
                 --sort-by=.metadata.creationTimestamp"
                    .to_owned(),
            );
            later.push("try rules with validationActions [Warn, Audit] before they deny".to_owned());
        }
        "credentials-invalid" => {
            now.push(format!("see whose: plimsoll traffic {sources} --where code=401 --by agent,source-ip"));
            now.push("see why: grep 'Unable to authenticate the request' in the apiservers' own logs".to_owned());
            now.push(
                "see what changed: --service-account-key-file, --service-account-issuer, --client-ca-file and the OIDC \
                 flags must agree on all apiservers; until tokens are renewed, list the former key as well"
                    .to_owned(),
            );
            later.push("keep the former key and CA until the last credential signed by them has expired".to_owned());
        }
        "encryption-failing" => {
            now.push(
                "see what the key service says: kubectl get --raw '/healthz/kms-providers', and the apiservers' own \
                 logs"
                    .to_owned(),
            );
            now.push(
                "compare --encryption-provider-config of all apiservers: a key that wrote must stay listed until \
                 nothing is encrypted with it"
                    .to_owned(),
            );
            later.push("run the key service with as many replicas as apiservers, and alert on its failures".to_owned());
        }
        "too-few-seats" => {
            now.push(
                "see what was changed, and undo it: kubectl get flowschemas,prioritylevelconfigurations \
                 --sort-by=.metadata.creationTimestamp"
                    .to_owned(),
            );
            later.push(format!("see the seats of each level: plimsoll clients --seats {sources}"));
        }
        "apiserver-slow" => {
            now.push(
                "compare its machine with those of the others: CPU limit and steal, memory, network; restart it if \
                 they are well"
                    .to_owned(),
            );
            later.push(format!("see whether it is full: plimsoll memory show {sources}"));
        }
        "controllers-down" => {
            now.push(
                "see whether its pods run, and why they ended: kubectl -n kube-system get pods -o wide".to_owned(),
            );
            later.push("run it on each control-plane node, with leader election".to_owned());
        }
        "memory" => {
            let heap = if has(Source::Heap) { format!(", plimsoll heap top {sources}") } else { String::new() };
            now.push(format!("find what fills it: plimsoll memory show {sources}{heap}"))
        }
        _ => {}
    }
    (now, later)
}

/// Who repairs the cluster is not to be throttled; up to Kubernetes 1.28 kubeadm makes them exempt from all limits.
const ADMINS: [&str; 2] = ["kubernetes-admin", "kubernetes-super-admin"];

/// What to do about a client while it goes on.
fn slow_down([user, agent]: &[String; 2], sources: &str) -> Vec<String> {
    if user.is_empty() {
        return vec![RENEW.to_owned()];
    }
    let mut steps = Vec::new();
    if agent == "kube-controller-manager" {
        steps.push(format!(
            "it is one of kube-controller-manager's controllers: find whose deletions or changes it carries out, and \
             stop those: plimsoll guard events {sources}"
        ));
    } else if let Some((namespace, account)) = account(user) {
        steps.push(format!(
            "find the workload that runs as {}, and scale it down or roll it back: kubectl get pods -n {} \
             --field-selector spec.serviceAccountName={}",
            short_user(user),
            quote(namespace),
            quote(account)
        ));
    }
    if refusal(user).or(risk(user, &[])).is_some() || ADMINS.contains(&user.as_str()) {
        return steps;
    }
    steps.push(format!(
        "{} {} to protect other clients, with the manifests of: plimsoll clients {sources} \
         --emit fence --client {}",
        if steps.is_empty() { "throttle" } else { "until then throttle" },
        short_user(user),
        quote(user)
    ));
    steps
}
