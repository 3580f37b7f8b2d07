//! ValidatingAdmissionPolicies (admissionregistration.k8s.io/v1, Kubernetes 1.30 and later) that stop dangerous
//! operations inside the apiserver, without a webhook. What each protects, and the limits of CEL:
//! docs/commands/guard.md.
//!
//! Each policy is here twice: as CEL, and in [`replay`] as a decision about a request in an audit log. A test lets a
//! CEL library decide the same requests.

mod changes;
pub mod replay;
pub mod report;
pub mod requests;

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What the manifests are made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// A label or an annotation with the value `true` that marks what is critical.
    pub critical: String,
    /// The annotation that repeats a name, before it is deleted.
    pub confirm_name: String,
    /// The annotation that repeats a number of replicas, as they change.
    pub confirm_replicas: String,
    /// The annotation with the value `true` on a pod that its node may delete.
    pub node_may_delete: String,
    /// Users and groups that policies leave alone.
    pub exempt: Vec<String>,
    /// Where the terms are read by the policies themselves: namespace and name of a ConfigMap.
    pub params: Option<(String, String)>,
    /// When changes are let through; without it they are not bound to windows.
    pub window: Option<Window>,
    /// Whether a binding denies, or only notes in the audit log and warns.
    pub enforces: bool,
}

/// The domain of what the policies look for.
const DOMAIN: &str = "plimsoll.io";

/// Where what belongs to the policies lives.
pub const NAMESPACE: &str = "kube-system";

impl Default for Terms {
    fn default() -> Self {
        Self {
            critical: format!("{DOMAIN}/critical"),
            confirm_name: format!("{DOMAIN}/confirm-delete"),
            confirm_replicas: format!("{DOMAIN}/confirm-replicas"),
            node_may_delete: format!("{DOMAIN}/node-may-delete"),
            exempt: [
                "system:serviceaccounts:kube-system",
                "system:kube-controller-manager",
                "system:kube-scheduler",
                "system:apiserver",
            ]
            .map(str::to_owned)
            .to_vec(),
            params: None,
            window: None,
            enforces: true,
        }
    }
}

/// A change window: CEL has no clock, so CronJobs open and close a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// When it opens, as cron writes it.
    pub opens: String,
    /// When it closes.
    pub closes: String,
    /// The time zone of both.
    pub zone: String,
    /// An image with kubectl.
    pub image: String,
}

/// The ConfigMap of the change window.
const WINDOW: &str = "plimsoll-change-window";

/// A policy.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Its name; in the cluster with `plimsoll-` before it.
    pub name: &'static str,
    /// What it protects.
    pub what: &'static str,
    /// Which requests it is asked about.
    rules: &'static [Match],
    /// Which it is not, though a rule says so.
    except: &'static [Match],
    /// What must hold: CEL, and what is said where it does not.
    validations: &'static [(&'static str, &'static str)],
    /// Whether it needs a change window.
    by_window: bool,
    /// Whether it lets go what is being deleted already.
    lets_go: bool,
}

/// Requests by group, resource and operation.
#[derive(Debug, Clone, Copy)]
pub struct Match {
    /// API groups.
    pub groups: &'static [&'static str],
    /// Resources, with subresources as `deployments/scale`.
    pub resources: &'static [&'static str],
    /// `CREATE`, `UPDATE`, `DELETE`.
    pub operations: &'static [&'static str],
}

const fn on(
    groups: &'static [&'static str],
    resources: &'static [&'static str],
    operations: &'static [&'static str],
) -> Match {
    Match { groups, resources, operations }
}

const DELETE: &[&str] = &["DELETE"];
const UPDATE: &[&str] = &["UPDATE"];
const WORKLOADS: &[&str] = &["deployments", "statefulsets"];
const SCALES: &[&str] = &["deployments/scale", "statefulsets/scale"];

/// All of them.
pub const POLICIES: [Policy; 7] = [
    Policy {
        name: "critical-objects",
        what: "objects marked as critical can't be deleted; for workloads see delete-at-zero",
        rules: &[on(&["*"], &["*"], DELETE)],
        except: &[on(&["apps"], WORKLOADS, DELETE)],
        validations: &[(
            "variables.isExempt || !variables.isCritical || has(oldObject.metadata.deletionTimestamp)",
            "it is marked as critical: remove the mark before you delete it",
        )],
        by_window: false,
        lets_go: true,
    },
    Policy {
        name: "roots",
        what: "namespaces, CRDs, APIServices, nodes and volumes, whose deletion cascades, can be deleted only after \
             an annotation repeats their name",
        rules: &[
            on(&[""], &["namespaces", "nodes", "persistentvolumes"], DELETE),
            on(&["apiextensions.k8s.io"], &["customresourcedefinitions"], DELETE),
            on(&["apiregistration.k8s.io"], &["apiservices"], DELETE),
        ],
        except: &[],
        validations: &[(
            "variables.isExempt || variables.confirmName in variables.annotations && \
             variables.annotations[variables.confirmName] == oldObject.metadata.name",
            "its deletion cascades: repeat its name in the confirmation annotation before you delete it",
        )],
        by_window: false,
        lets_go: false,
    },
    Policy {
        name: "replicas",
        what: "replicas of a critical workload can change only with an annotation that repeats the number",
        rules: &[on(&["apps"], WORKLOADS, UPDATE)],
        except: &[],
        validations: &[(
            "variables.isExempt || !variables.isCritical || variables.replicas == variables.oldReplicas || \
             variables.confirmReplicas in variables.newAnnotations && \
             variables.newAnnotations[variables.confirmReplicas] == string(variables.replicas)",
            "it is marked as critical: repeat the number of replicas in the confirmation annotation",
        )],
        by_window: false,
        lets_go: false,
    },
    Policy {
        name: "scale",
        what: "the scale subresource, which has no annotations, can't be used in namespaces marked as critical",
        rules: &[on(&["apps"], SCALES, UPDATE)],
        except: &[],
        validations: &[(
            "variables.isExempt || !variables.isInCritical || variables.replicas == variables.oldReplicas",
            "the namespace is marked as critical, and kubectl scale can't confirm a number: edit the workload itself",
        )],
        by_window: false,
        lets_go: false,
    },
    Policy {
        name: "delete-at-zero",
        what: "a critical workload can be deleted only when it has no replicas",
        rules: &[on(&["apps"], WORKLOADS, DELETE)],
        except: &[],
        validations: &[(
            "variables.isExempt || !variables.isCritical || variables.oldReplicas == 0",
            "it is marked as critical: scale it to zero before you delete it",
        )],
        by_window: false,
        lets_go: false,
    },
    Policy {
        name: "node-deletes",
        what: "a kubelet can delete only pods that are terminating, completed, its own static pods, or marked",
        rules: &[on(&[""], &["pods"], DELETE)],
        except: &[],
        validations: &[(
            "!request.userInfo.username.startsWith('system:node:') || has(oldObject.metadata.deletionTimestamp) || \
             has(oldObject.status) && has(oldObject.status.phase) && oldObject.status.phase in ['Succeeded', \
             'Failed'] || 'kubernetes.io/config.mirror' in variables.annotations || variables.nodeMayDelete in \
             variables.annotations && variables.annotations[variables.nodeMayDelete] == 'true'",
            "a node may not delete a running pod unless the pod is marked",
        )],
        by_window: false,
        lets_go: true,
    },
    Policy {
        name: "change-window",
        what: "templates of critical workloads can change only while the change window is open",
        rules: &[on(&["apps"], WORKLOADS, UPDATE)],
        except: &[],
        validations: &[(
            "variables.isExempt || !variables.isCritical || object.spec.template == oldObject.spec.template || \
             params.data.open == 'true'",
            "it is marked as critical, and the change window is closed",
        )],
        by_window: true,
        lets_go: false,
    },
];

/// What expressions name, in an order in which each names only those before it. Policies get those that they need.
const VARIABLES: [(&str, &str); 8] = [
    ("labels", "has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}"),
    ("annotations", "has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}"),
    ("newAnnotations", "has(object.metadata.annotations) ? object.metadata.annotations : {}"),
    // In a Scale a zero is left out.
    ("replicas", "has(object.spec.replicas) ? object.spec.replicas : 0"),
    ("oldReplicas", "has(oldObject.spec.replicas) ? oldObject.spec.replicas : 0"),
    (
        "isExempt",
        "request.userInfo.username in variables.exempt || request.userInfo.groups.exists(group, group in \
         variables.exempt)",
    ),
    (
        "isCritical",
        "variables.critical in variables.labels && variables.labels[variables.critical] == 'true' || \
         variables.critical in variables.annotations && variables.annotations[variables.critical] == 'true'",
    ),
    (
        "isInCritical",
        "has(namespaceObject.metadata.labels) && variables.critical in namespaceObject.metadata.labels && \
         namespaceObject.metadata.labels[variables.critical] == 'true'",
    ),
];

impl Terms {
    /// The terms as CEL, by the names that expressions have for them.
    fn texts(&self) -> BTreeMap<&'static str, String> {
        let quote = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
        let text =
            |key: &str, value: &str| if self.params.is_some() { format!("params.data.{key}") } else { quote(value) };
        let exempt: Vec<String> = self.exempt.iter().map(|name| quote(name)).collect();
        let exempt = if self.params.is_some() {
            "params.data.exempt.split(',')".to_owned()
        } else {
            format!("[{}]", exempt.join(", "))
        };
        BTreeMap::from([
            ("critical", text("critical", &self.critical)),
            ("confirmName", text("confirmName", &self.confirm_name)),
            ("confirmReplicas", text("confirmReplicas", &self.confirm_replicas)),
            ("nodeMayDelete", text("nodeMayDelete", &self.node_may_delete)),
            ("exempt", exempt),
        ])
    }

    /// The ConfigMap that holds the terms, where policies read it.
    fn parameters(&self) -> Option<Value> {
        let (namespace, name) = self.params.as_ref()?;
        Some(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
            "data": {
                "critical": self.critical, "confirmName": self.confirm_name, "confirmReplicas": self.confirm_replicas,
                "nodeMayDelete": self.node_may_delete, "exempt": self.exempt.join(","),
            },
        }))
    }
}

impl Policy {
    /// The policy of that name.
    pub fn of(name: &str) -> Option<&'static Self> {
        POLICIES.iter().find(|policy| policy.name == name)
    }

    /// Whether it can be had with these terms.
    pub fn is_for(&self, terms: &Terms) -> bool {
        !self.by_window || terms.window.is_some()
    }

    /// Its variables, in order: what its expressions name, and what that names.
    fn variables(&self, terms: &Terms) -> Vec<Value> {
        let texts = terms.texts();
        let all: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_str())).chain(VARIABLES).collect();
        let mut needed: Vec<&str> = self.validations.iter().map(|(expression, _)| *expression).collect();
        let mut taken = vec![false; all.len()];
        // The last name only those before them.
        for (at, (name, text)) in all.iter().enumerate().rev() {
            let reference = format!("variables.{name}");
            let ends = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_alphanumeric());
            taken[at] = needed
                .iter()
                .any(|text| text.match_indices(&reference).any(|(from, _)| ends(&text[from + reference.len()..])));
            if taken[at] {
                needed.push(text);
            }
        }
        let used = all.iter().zip(taken).filter(|(_, is_taken)| *is_taken);
        used.map(|((name, text), _)| json!({"name": name, "expression": text})).collect()
    }

    /// The ConfigMap that it reads.
    fn reads<'t>(&self, terms: &'t Terms) -> Option<(&'t str, &'t str)> {
        match &terms.params {
            Some((namespace, name)) => Some((namespace, name)),
            None => self.by_window.then_some((NAMESPACE, WINDOW)),
        }
    }

    /// The policy and its binding.
    pub fn manifests(&self, terms: &Terms) -> [Value; 2] {
        let name = format!("plimsoll-{}", self.name);
        let rules = |all: &[Match]| -> Vec<Value> {
            let one = |one: &Match| {
                json!({"apiGroups": one.groups, "apiVersions": ["*"], "operations": one.operations,
                "resources": one.resources})
            };
            all.iter().map(one).collect()
        };
        let mut constraints = json!({"resourceRules": rules(self.rules)});
        if !self.except.is_empty() {
            constraints["excludeResourceRules"] = rules(self.except).into();
        }
        let validation = |(expression, message): &(&str, &str)| {
            json!({"expression": expression, "message": message,
            "reason": "Forbidden"})
        };
        let mut spec = json!({
            "failurePolicy": "Fail",
            "matchConstraints": constraints,
            "variables": self.variables(terms),
            "validations": self.validations.iter().map(validation).collect::<Vec<_>>(),
        });
        let actions: &[&str] = if terms.enforces { &["Deny", "Audit"] } else { &["Warn", "Audit"] };
        let mut binding = json!({"policyName": name, "validationActions": actions});
        if let Some((namespace, map)) = self.reads(terms) {
            spec["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
            binding["paramRef"] = json!({"name": map, "namespace": namespace, "parameterNotFoundAction": "Deny"});
        }
        let of = |kind: &str, spec: Value| {
            let annotations = json!({format!("{DOMAIN}/protects"): self.what});
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": {"name": name, "annotations": annotations}, "spec": spec})
        };
        [of("ValidatingAdmissionPolicy", spec), of("ValidatingAdmissionPolicyBinding", binding)]
    }
}

/// All manifests of these policies, in the order in which they are to be applied.
pub fn manifests(policies: &[&Policy], terms: &Terms) -> Vec<Value> {
    let mut all: Vec<Value> = terms.parameters().into_iter().collect();
    if let Some(window) = terms.window.as_ref().filter(|_| policies.iter().any(|policy| policy.by_window)) {
        let (namespace, map) = terms.params.as_ref().map_or((NAMESPACE, WINDOW), |(namespace, name)| (namespace, name));
        all.extend(window.manifests(namespace, map, terms.params.is_none()));
    }
    all.extend(policies.iter().flat_map(|policy| policy.manifests(terms)));
    all
}

impl Window {
    /// What opens and closes the ConfigMap.
    fn manifests(&self, namespace: &str, map: &str, makes_map: bool) -> Vec<Value> {
        let meta = json!({"name": WINDOW, "namespace": namespace});
        let mut all = Vec::new();
        if makes_map {
            all.push(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": map, "namespace": namespace},
                "data": {"open": "false"}}),
            );
        }
        all.push(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}));
        all.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta,
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [map],
            "verbs": ["get", "patch"]}],
        }));
        all.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": WINDOW},
            "subjects": [{"kind": "ServiceAccount", "name": WINDOW, "namespace": namespace}],
        }));
        for (word, schedule, open) in [("opens", &self.opens, "true"), ("closes", &self.closes, "false")] {
            let patch = json!({"data": {"open": open}}).to_string();
            let container = json!({
                "name": "kubectl", "image": self.image,
                "command": ["kubectl", "patch", "configmap", map, "-n", namespace, "--type", "merge", "-p", patch],
                "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
            });
            all.push(json!({
                "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": format!("{WINDOW}-{word}"),
                "namespace": namespace},
                "spec": {
                    "schedule": schedule, "timeZone": self.zone, "concurrencyPolicy": "Replace",
                    "jobTemplate": {"spec": {"backoffLimit": 6, "template": {"spec": {
                        "serviceAccountName": WINDOW, "restartPolicy": "Never", "containers": [container],
                    }}}},
                },
            }));
        }
        all
    }
}
