use super::*;
use serde_json::json;

fn candidate(key: &str, group: &str, resource: &str, object: Value) -> Candidate {
    let Value::Object(object) = object else { panic!("no object") };
    Candidate {
        key: key.to_owned(),
        root: "/registry/".len(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        object,
    }
}

/// A cluster in which these live: (key, uid).
fn cluster(of: &[(&str, &str)]) -> Living {
    let mut living = Living::default();
    for (key, uid) in of {
        living.take(key.as_bytes(), (1, 0), true, Some(uid));
    }
    living.finish();
    living
}

fn owned(kind: &str, name: &str, uid: &str, by: Option<(&str, &str)>) -> Value {
    let owners = by.map(
        |(kind, uid)| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": uid, "controller": true}]),
    );
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "web", "uid": uid,
        "ownerReferences": owners}})
}

#[test]
fn what_lives_is_the_newest_revision_in_whatever_order() {
    let mut living = Living::default();
    living.take(b"a", (5, 0), false, None);
    living.take(b"a", (4, 0), true, Some("u1"));
    living.take(b"b", (2, 0), true, Some("old"));
    let mut other = Living::default();
    other.take(b"b", (3, 1), true, Some("new"));
    assert!(other.is_latest(b"b", (3, 1)) && !other.is_latest(b"b", (3, 0)));
    living.merge(other);
    living.finish();
    assert!(!living.has_key("a") && !living.has_uid("u1"));
    assert!(living.has_key("b") && living.has_uid("new") && !living.has_uid("old") && !living.has_uid(""));
}

#[test]
fn what_a_controller_makes_anew_is_left_out() {
    let candidates = || {
        vec![
            candidate("/registry/deployments/web/d", "apps", "deployments", owned("Deployment", "d", "d1", None)),
            candidate(
                "/registry/replicasets/web/r",
                "apps",
                "replicasets",
                owned("ReplicaSet", "r", "r1", Some(("Deployment", "d1"))),
            ),
            candidate("/registry/pods/web/p", "", "pods", owned("Pod", "p", "p1", Some(("ReplicaSet", "r1")))),
            candidate("/registry/pods/web/q", "", "pods", owned("Pod", "q", "q1", Some(("ReplicaSet", "alive")))),
            candidate("/registry/pods/web/s", "", "pods", owned("Pod", "s", "s1", Some(("ReplicaSet", "gone")))),
        ]
    };
    let now = cluster(&[("/registry/namespaces/web", "n"), ("/registry/replicasets/web/x", "alive")]);
    let names = |done: &Extracted| done.documents.iter().map(|one| name_of(&one.object)).collect::<Vec<_>>();
    let done = select(candidates(), Options::default(), Some(&now));
    assert_eq!(names(&done), ["Deployment web/d", "Pod web/s"]);
    assert_eq!(done.left_out[&Reason::Controlled], ["Pod web/p", "Pod web/q", "ReplicaSet web/r"]);
    assert!(done.needed.is_empty());
    let all = select(candidates(), Options { all: true, secrets: false }, Some(&now));
    assert_eq!(names(&all), ["Deployment web/d", "ReplicaSet web/r", "Pod web/p", "Pod web/q", "Pod web/s"]);
    let owners = |n: usize| all.documents[n].object["metadata"].get("ownerReferences").is_some();
    assert_eq!([1, 2, 3, 4].map(owners), [false, false, true, false], "only an owner that lives keeps its uid");
    assert!(all.documents[1].comments[0].contains("Deployment o is removed"), "{:?}", all.documents[1].comments);
    // Without a newer snapshot nothing is known to live.
    let alone = select(candidates(), Options::default(), None);
    assert_eq!(names(&alone), ["Deployment web/d", "Pod web/q", "Pod web/s"]);
    assert!(alone.documents[1].comments[0].contains("--deleted-since is needed"));
}

#[test]
fn what_the_server_sets_is_removed() {
    let object = json!({
        "apiVersion": "v1", "kind": "Service", "status": {"loadBalancer": {}},
        "spec": {"clusterIP": "10.0.0.7", "ports": []},
        "metadata": {"name": "s", "namespace": "web", "uid": "u", "resourceVersion": "7", "generation": 2,
        "selfLink": "/x", "generateName": "s-",
            "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
            "deletionGracePeriodSeconds": 0,
            "managedFields": [{}], "finalizers": ["foregroundDeletion"], "labels": {"a": "b"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}},
    });
    let done = select(
        vec![candidate("/registry/services/specs/web/s", "", "services", object)],
        Options::default(),
        Some(&cluster(&[])),
    );
    let document = &done.documents[0];
    let expected = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "s", "namespace": "web", "labels": {"a": "b"}},
        "spec": {"clusterIP": "10.0.0.7", "ports": []}});
    assert_eq!(Value::Object(document.object.clone()), expected);
    assert!(document.comments[0].contains("being deleted") && document.comments[1].contains("10.0.0.7"));
    assert_eq!(done.needed.iter().collect::<Vec<_>>(), ["the Namespace web"]);
}

#[test]
fn jobs_pods_claims_and_accounts_are_made_fit() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "web",
        "labels": {"job-name": "j", "a": "b"}},
        "spec": {"selector": {"matchLabels": {"controller-uid": "u"}},
            "template": {"metadata": {"creationTimestamp": null,
            "labels": {"controller-uid": "u", "batch.kubernetes.io/job-name": "j", "a": "b"}}}}});
    let mut ended = job.clone();
    ended["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "web"},
        "spec": {"nodeName": "n", "priority": 0,
        "volumes": [{"name": "kube-api-access-x", "projected": {}},
        {"name": "a-token-b", "secret": {"secretName": "a-token-b"}}, {"name": "own", "emptyDir": {}}],
        "containers": [{"name": "c", "volumeMounts": [{"name": "kube-api-access-x"}, {"name": "own"},
        {"name": "a-token-b"}]}]}});
    let claim = |volume: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": volume, "namespace": "web",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": volume}})
    };
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "new"},
        "spec": {"claimRef": {"name": "new", "namespace": "web", "uid": "u", "resourceVersion": "1"}}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "web"},
        "secrets": [{"name": "gone"}, {"name": "here"}]});
    let candidates = vec![
        candidate("/registry/jobs/web/j", "batch", "jobs", job),
        candidate("/registry/jobs/web/k", "batch", "jobs", ended),
        candidate("/registry/pods/web/p", "", "pods", pod),
        candidate("/registry/persistentvolumeclaims/web/new", "", "persistentvolumeclaims", claim("new")),
        candidate("/registry/persistentvolumeclaims/web/old", "", "persistentvolumeclaims", claim("old")),
        candidate("/registry/persistentvolumeclaims/web/out", "", "persistentvolumeclaims", claim("out")),
        candidate("/registry/persistentvolumes/new", "", "persistentvolumes", volume),
        candidate("/registry/serviceaccounts/web/a", "", "serviceaccounts", account),
    ];
    let now = cluster(&[
        ("/registry/namespaces/web", "n"),
        ("/registry/persistentvolumes/old", "v"),
        ("/registry/secrets/web/here", "s"),
    ]);
    let done = select(candidates, Options::default(), Some(&now));
    assert_eq!(done.left_out[&Reason::Finished], ["Job web/j"]);
    let found: BTreeMap<String, &Document> = done.documents.iter().map(|one| (name_of(&one.object), one)).collect();
    let job = &found["Job web/j"].object;
    assert_eq!(
        (&job["metadata"]["labels"], &job["spec"]),
        (&json!({"a": "b"}), &json!({"template": {"metadata": {"labels": {"a": "b"}}}}))
    );
    assert_eq!(
        found["Pod web/p"].object["spec"],
        json!({"volumes": [{"name": "own", "emptyDir": {}}], "containers": [{"name": "c",
            "volumeMounts": [{"name": "own"}]}]})
    );
    let volume =
        |name: &str| found[&format!("PersistentVolumeClaim web/{name}")].object["spec"].get("volumeName").is_some();
    assert_eq!(["new", "old", "out"].map(volume), [true, true, false]);
    assert!(found["PersistentVolumeClaim web/old"].comments[0].contains("is bound to the old claim"));
    assert!(found["PersistentVolumeClaim web/out"].comments[0].contains("empty one will be created"));
    assert_eq!(found["PersistentVolume new"].object["spec"]["claimRef"], json!({"name": "new", "namespace": "web"}));
    assert_eq!(found["ServiceAccount web/a"].object["secrets"], json!([{"name": "here"}]));
}

#[test]
fn what_others_need_comes_first() {
    let resources = [
        ("", "namespaces"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("", "serviceaccounts"),
        ("rbac.authorization.k8s.io", "roles"),
        ("", "secrets"),
        ("", "services"),
        ("apps", "deployments"),
        ("gateway.networking.k8s.io", "gateways"),
        ("", "pods"),
        ("networking.k8s.io", "ingresses"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("apiregistration.k8s.io", "apiservices"),
    ];
    let ranks = resources.map(|(group, resource)| order::rank(group, resource));
    assert!(ranks.windows(2).all(|pair| pair[0] < pair[1]), "{ranks:?}");
    assert_eq!(order::rank("example.com", "widgets"), order::CUSTOM);
    assert_ne!(order::rank("certificates.k8s.io", "certificatesigningrequests"), order::CUSTOM);
}

#[test]
fn secrets_are_only_counted_unless_wanted() {
    let secret = || {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": "s", "namespace": "web"}, "data": {"k": "c2VjcmV0"}});
        vec![candidate("/registry/secrets/web/s", "", "secrets", object)]
    };
    let without = select(secret(), Options { all: true, secrets: false }, None);
    assert_eq!((without.documents.len(), &without.left_out[&Reason::Secret]), (0, &vec!["Secret web/s".to_owned()]));
    let with = select(secret(), Options { all: false, secrets: true }, None);
    assert_eq!(with.documents[0].object["data"]["k"], "c2VjcmV0");
}

#[test]
fn definitions_become_v1() {
    let old = json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1beta1",
        "metadata": {"name": "a.b"}, "spec": {
        "group": "b", "version": "v1", "preserveUnknownFields": false, "names": {"plural": "a"}, "scope": "Namespaced",
        "validation": {"openAPIV3Schema": {"type": "object"}}, "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "c", "type": "string", "JSONPath": ".spec.c"}],
        "versions": [{"name": "v1", "served": true, "storage": true},
        {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object",
            "nullable": true}}}],
        "conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://x"},
        "conversionReviewVersions": ["v1"]}}});
    let of = |object: Value| {
        let candidates = vec![candidate(
            "/registry/apiextensions.k8s.io/customresourcedefinitions/a.b",
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            object,
        )];
        select(candidates, Options::default(), None).documents.remove(0)
    };
    let columns = json!([{"name": "c", "type": "string", "jsonPath": ".spec.c"}]);
    let new = of(old);
    assert_eq!(new.object["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(
        new.object["spec"],
        json!({"group": "b", "names": {"plural": "a"}, "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
                "subresources": {"status": {}}, "additionalPrinterColumns": columns},
            {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object",
                "nullable": true}}, "subresources": {"status": {}}, "additionalPrinterColumns": columns},
        ],
        "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://x"},
        "conversionReviewVersions": ["v1"]}}})
    );
    assert!(new.comments.is_empty(), "{:?}", new.comments);
    // As of Kubernetes 1.7: one version, no schema.
    let bare = of(json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1beta1",
            "metadata": {"name": "a.b"}, "spec": {"version": "v1"}}));
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    assert_eq!(
        bare.object["spec"]["versions"],
        json!([{"name": "v1", "served": true, "storage": true, "schema": schema}])
    );
    assert_eq!(bare.comments.len(), 1);
}
