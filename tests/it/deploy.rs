//! `samples/deploy`: what would run in a cluster is what the program takes, and what it may read is what it reads.

use crate::lab::Lab;
use crate::serve::Serving;
use crate::support::{folder, kustomization, plimsoll, root, sample, write};
use plimsoll::app::Cli;
use plimsoll::sources::alerts;
use serde_json::Value;
use std::collections::BTreeSet;

/// All objects of the kustomization.
fn objects() -> Vec<Value> {
    kustomization(&root().join("samples/deploy"))
}

fn of_kind<'o>(objects: &'o [Value], kind: &str) -> Vec<&'o Value> {
    let found: Vec<&Value> = objects.iter().filter(|object| object["kind"] == kind).collect();
    assert!(!found.is_empty(), "there is no {kind}");
    found
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_runs_is_what_the_program_takes() {
    let objects = objects();
    let mut commands = 0;
    let jobs = of_kind(&objects, "CronJob").into_iter().map(|job| &job["spec"]["jobTemplate"]);
    for owner in jobs.chain(of_kind(&objects, "DaemonSet")).chain(of_kind(&objects, "Deployment")) {
        let pod = &owner["spec"]["template"]["spec"];
        for container in pod["containers"].as_array().unwrap() {
            let words = [texts(&container["command"]), texts(&container["args"])].concat();
            let parsed = Cli::parser().try_get_matches_from(&words);
            assert!(parsed.is_ok(), "{words:?}: {}", parsed.unwrap_err());
            commands += 1;
            assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true, "{words:?}");
            // Each path of the command line lies on a volume.
            let mounts: Vec<&str> = container["volumeMounts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|mount| mount["mountPath"].as_str().unwrap())
                .collect();
            for path in words
                .iter()
                .filter_map(|word| word.split_once('='))
                .map(|(_, path)| path)
                .filter(|path| path.starts_with('/'))
            {
                assert!(mounts.iter().any(|mount| path.starts_with(mount)), "{path} is on no volume");
            }
        }
        let volumes: BTreeSet<&str> =
            pod["volumes"].as_array().unwrap().iter().map(|volume| volume["name"].as_str().unwrap()).collect();
        let mounts = pod["containers"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|container| container["volumeMounts"].as_array().unwrap());
        assert_eq!(mounts.map(|mount| mount["name"].as_str().unwrap()).collect::<BTreeSet<_>>(), volumes);
    }
    assert_eq!(commands, 5);
}

#[test]
fn the_configuration_is_read() {
    let objects = objects();
    let folder = folder();
    for map in of_kind(&objects, "ConfigMap") {
        for (name, text) in map["data"].as_object().unwrap() {
            write(folder.path(), name, text.as_str().unwrap());
        }
    }
    let object = alerts::read(&root().join("samples/deploy/alerts.yaml")).unwrap_err();
    assert!(object.what.contains("a ConfigMap of Kubernetes") && object.to_string().contains("jsonpath"), "{object}");
    let config = alerts::read(&folder.path().join("alerts.yaml")).unwrap();
    assert_eq!((config.channels.len(), config.owners.len()), (4, 2));
    assert_eq!(config.default.hours.unwrap().holidays.len(), 3);
    // The document's own example, as well.
    let document = std::fs::read_to_string(root().join("docs/alerts.md")).unwrap();
    let example = document
        .split("```yaml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("docs/alerts.md has an example");
    write(folder.path(), "document.yaml", example);
    let config = alerts::read(&folder.path().join("document.yaml")).unwrap();
    assert!(config.channels.len() >= 5, "the example has every channel");
}

/// A path as RBAC names it: group, resource, namespace.
fn resource(path: &str) -> (String, String, String) {
    let path = path.split('?').next().unwrap();
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (group, rest) = if parts[0] == "api" { ("", &parts[2..]) } else { (parts[1], &parts[3..]) };
    match rest {
        ["namespaces", namespace, resource, ..] => (group.to_owned(), (*resource).to_owned(), (*namespace).to_owned()),
        rest => (group.to_owned(), rest[0].to_owned(), String::new()),
    }
}

/// A path without its query.
fn path_of(path: &str) -> String {
    path.split('?').next().unwrap().to_owned()
}

/// What a service account may list, by group, resource and namespace; and the paths that it may get.
fn allowed(objects: &[Value], account: &str) -> (BTreeSet<(String, String, String)>, BTreeSet<String>) {
    let (mut lists, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for binding in [of_kind(objects, "ClusterRoleBinding"), of_kind(objects, "RoleBinding")].concat() {
        if !binding["subjects"].as_array().unwrap().iter().any(|subject| subject["name"] == account) {
            continue;
        }
        let namespace = binding["metadata"]["namespace"].as_str().unwrap_or_default();
        let roles = of_kind(objects, binding["roleRef"]["kind"].as_str().unwrap());
        let role = roles
            .iter()
            .find(|role| role["metadata"]["name"] == binding["roleRef"]["name"])
            .expect("the role is there");
        for rule in role["rules"].as_array().unwrap() {
            if rule["nonResourceURLs"].is_array() {
                assert_eq!(texts(&rule["verbs"]), ["get"], "{role}");
                paths.extend(texts(&rule["nonResourceURLs"]));
                continue;
            }
            let is_review = texts(&rule["resources"]).iter().all(|resource| resource.ends_with("reviews"));
            assert_eq!(texts(&rule["verbs"]), [if is_review { "create" } else { "list" }], "{role}");
            for group in texts(&rule["apiGroups"]) {
                lists.extend(
                    texts(&rule["resources"])
                        .into_iter()
                        .map(|resource| (group.clone(), resource, namespace.to_owned())),
                );
            }
        }
    }
    (lists, paths)
}

#[test]
fn what_may_be_read_is_what_is_read() {
    let page = sample("quiet/metrics/apiserver-0/1795167937.txt.zst");
    let place = folder();
    let store = place.path().join("store");
    let record = ["record", "--once", "--store", store.to_str().unwrap()];
    // What `plimsoll-propose` runs, as the account of `plimsoll-record`.
    let propose = ["quota", "propose", store.to_str().unwrap(), "--live"];
    for (account, args, is_all) in [
        ("plimsoll-alert", &["quota", "check"][..], true),
        ("plimsoll-record", &record, true),
        ("plimsoll-record", &propose, false),
        ("plimsoll-serve", &["serve", "--cluster", "--review-access"], true),
    ] {
        let lab = Lab::start(&[&page, &page]);
        let kubeconfig = lab.kubeconfig();
        let cluster = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--context", "full"];
        if args.contains(&"serve") {
            // It goes on until somebody stops it; whom seats belong to is what it asks last.
            let serving = Serving::start(&[&args[1..], &cluster].concat());
            serving.wait_shown("sesame-sre", |series| {
                series.keys().any(|name| name.starts_with("plimsoll_client_seats{"))
            });
        } else {
            // The stand-in has no such objects: what counts is what it is asked.
            plimsoll(&[args, &cluster].concat()).did_not_panic();
        }
        let asked = lab
            .requests("/")
            .iter()
            .map(|request| request["path"].as_str().unwrap().to_owned())
            .collect::<BTreeSet<_>>();
        let is_of_api = |path: &&String| path.starts_with("/api/v1/") || path.starts_with("/apis/");
        let lists: BTreeSet<_> = asked.iter().filter(is_of_api).map(|path| resource(path)).collect();
        // Anybody may ask for the version.
        let paths: BTreeSet<String> =
            asked.iter().filter(|path| !is_of_api(path) && *path != "/version").map(|path| path_of(path)).collect();
        let (may_list, may_get) = allowed(&objects(), account);
        let beyond: Vec<_> = lists.difference(&may_list).collect();
        assert!(beyond.is_empty(), "{account} may not list {beyond:?}");
        assert!(!lists.is_empty() && paths.is_subset(&may_get), "{account} may not get {paths:?}");
        if is_all {
            assert_eq!((lists, paths), (may_list, may_get), "{account}");
        }
    }
}
