//! Each question is written as the command line that asks it: parsed, it is the same question again.

use super::Cli;
use crate::cli::{Context, Io, Settings};
use crate::model::question::*;
use crate::model::report::Severity;
use crate::model::time::{DAY, HOUR, MINUTE, Micros, SECOND};
use clap::{CommandFactory, FromArgMatches};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const NOW: Micros = 1_795_166_249_000_000;

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

/// Flags that are not part of a question: what is live, how long it is followed, where a Prometheus is, what is written
/// besides; and `--at` and `--episode` of `compare`, which stand for the two windows that the
/// question has.
const NO_PART: &[&str] = &[
    "follow",
    "contexts",
    "every",
    "for",
    "live",
    "kubeconfig",
    "context",
    "as",
    "as-group",
    "request-timeout",
    "prometheus",
    "max-samples",
    "query",
    "queries-file",
    "match",
    "bearer-token-file",
    "basic-auth-file",
    "bearer-token",
    "basic-auth",
    "ca-file",
    "header",
    "query-timeout",
    "give-up",
    "state",
    "owner",
    "kustomize",
    "compare --at",
    "compare --episode",
    "guard events --alerts",
    "quota check --step",
    "quota propose --step",
    "quota lint --step",
];

/// Questions in which each field differs from its default; several of a command where its flags exclude one another.
fn all() -> Vec<Question> {
    let bounds = (Some(NOW - HOUR), Some(NOW - 1));
    let at = Some(NOW - MINUTE);
    // A moment ends what is looked at.
    let since = (bounds.0, None);
    let source = "a b/it's.db".to_owned();
    let sources = texts(&["-", "x y", "https://127.0.0.1:1/metrics"]);
    let prefix = Some("/registry".to_owned());
    let quotas = QuotaSources { sources: sources.clone(), at, bounds: since, namespaces: texts(&["web", "b"]) };
    let what = HeapWhat {
        sample_type: Some("alloc_space".into()),
        focus: Some("a|b c".into()),
        ignore: Some("-x".into()),
        show_from: Some("^main".into()),
        instance: Some("10.0.0.1:6443".into()),
    };
    let traffic = Traffic {
        sources: sources.clone(),
        by: texts(&["user", "agent"]),
        filters: texts(&["verb=list", "-odd", "user!~^system:"]),
        from: Some(Kind::Audit),
        health: false,
        bounds,
        series: true,
        interval: Some(90 * SECOND),
        baseline: Vec::new(),
        k8s_version: Some("v1.34".into()),
        flow_schemas: texts(&["f.yaml"]),
    };
    let clients = Clients {
        sources: sources.clone(),
        filters: texts(&["agent=x"]),
        seats: false,
        objects: Some(source.clone()),
        bounds,
        k8s_version: Some("1.33".into()),
        emit: Emit {
            form: Some(Form::Fence),
            clients: texts(&["system:serviceaccount:a:b"]),
            shares: Some(0),
            force: true,
            server_seats: Some(600),
            ramp: Some(3),
            gateway: Some(GatewayName::Envoy),
            flow_schemas: texts(&["f.yaml", "g"]),
        },
    };
    let propose = QuotaPropose {
        source: quotas.clone(),
        peak: PeakOf::P999,
        headroom: 0.35,
        min_duration: HOUR,
        without_spikes: true,
        project_label: Some("team".into()),
        resources: texts(&["pods"]),
        allow_decrease: true,
        limit_range: true,
        ..QuotaPropose::default()
    };
    vec![
        Question::Traffic(traffic.clone()),
        Question::Traffic(Traffic {
            series: false,
            interval: None,
            health: true,
            from: Some(Kind::Metrics),
            ..traffic.clone()
        }),
        Question::Traffic(Traffic { series: false, interval: None, baseline: texts(&["before/"]), ..traffic }),
        Question::Clients(clients.clone()),
        Question::Clients(Clients { seats: true, objects: None, emit: Emit::default(), ..clients }),
        Question::Balance(Balance {
            sources: sources.clone(),
            filters: texts(&["user=x"]),
            within: 7 * SECOND,
            bounds,
        }),
        Question::Compare(Compare {
            before: "a".into(),
            after: Some("-b".into()),
            windows: [(None, Some(NOW)), (Some(NOW + 1), Some(NOW + SECOND))],
            filters: texts(&["user=x"]),
            at_least: 0.12,
            fail_on_increase: texts(&["rps=10%", "clients.rps=30%"]),
        }),
        Question::Controllers(Controllers { sources: sources.clone(), at, bounds: since }),
        Question::Controllers(Controllers { sources: sources.clone(), at: None, bounds }),
        Question::GuardEvents(GuardEvents {
            sources: sources.clone(),
            bounds,
            filters: texts(&["user=bob"]),
            kinds: texts(&["delete-namespace", "delete-crd"]),
            severity: Some(Severity::Warning),
            window: 5 * SECOND,
            owner_keys: texts(&["team"]),
            databases: Some(["a.db".into(), "b.db".into()]),
        }),
        Question::EtcdUsage(EtcdUsage {
            source: source.clone(),
            at,
            prefix: prefix.clone(),
            by: KeysBy::Label("app.kubernetes.io/name".into()),
            keys_only: true,
            quota_bytes: Some(1 << 33),
        }),
        Question::EtcdFlame(EtcdFlame {
            source: source.clone(),
            at,
            prefix: prefix.clone(),
            weight: Weight::Revisions,
            diff: Some("old.db".into()),
        }),
        Question::EtcdTop(EtcdTop { source: source.clone(), at, prefix: prefix.clone() }),
        Question::EtcdHistory(EtcdHistory {
            source: source.clone(),
            at,
            prefix: prefix.clone(),
            by: HistoryBy::Resource,
        }),
        Question::EtcdPages(EtcdPages { source: source.clone(), at, prefix: prefix.clone() }),
        Question::EtcdCheck(EtcdCheck { source: source.clone(), at, prefix: prefix.clone(), no_trailer: true }),
        Question::EtcdDiff(EtcdDiff {
            before: source.clone(),
            after: Some("b".into()),
            prefix: prefix.clone(),
            objects: true,
        }),
        Question::EtcdSplit(EtcdSplit { source, at, prefix }),
        Question::EtcdHealth(EtcdHealth { sources: sources.clone(), bounds }),
        Question::MemoryShow(MemoryShow {
            sources: sources.clone(),
            at,
            recursive: true,
            over: Duration::from_millis(1500),
            metrics: texts(&["m"]),
            heap: texts(&["h"]),
            root: "/host".into(),
            pids: vec![1, 2],
            units: texts(&["etcd.service"]),
            components: texts(&["etcd"]),
            host_memory: Some(1 << 36),
        }),
        Question::HeapTop(HeapTop { sources: sources.clone(), at, by: StacksBy::Package, what: what.clone() }),
        Question::HeapFlame(HeapFlame { sources: sources.clone(), at, diff: Some("old".into()), what: what.clone() }),
        Question::HeapDiff(HeapDiff { sources: texts(&["a", "b"]), by: StacksBy::Line, what }),
        Question::QuotaPropose(propose.clone()),
        Question::QuotaPropose(QuotaPropose {
            project_label: None,
            project_annotation: Some("team".into()),
            ..propose.clone()
        }),
        Question::QuotaPropose(QuotaPropose { project_label: None, projects: Some("p.yaml".into()), ..propose }),
        Question::QuotaPropose(QuotaPropose {
            source: quotas.clone(),
            api: true,
            clients: 3,
            server_seats: Some(900),
            flow_schemas: texts(&["f"]),
            ..QuotaPropose::default()
        }),
        Question::QuotaCheck(QuotaCheck {
            source: quotas.clone(),
            warn: Some(0.7),
            critical: Some(0.925),
            days: Some(14.5),
            owner_keys: texts(&["team"]),
            alerts: Some("alerts.yaml".into()),
        }),
        Question::QuotaPropose(QuotaPropose {
            source: QuotaSources { at: None, bounds, ..quotas.clone() },
            ..QuotaPropose::default()
        }),
        Question::QuotaCheck(QuotaCheck {
            source: QuotaSources { at: None, bounds, ..quotas.clone() },
            ..QuotaCheck::default()
        }),
        Question::QuotaLint(QuotaLint {
            source: QuotaSources { at: None, bounds, ..quotas.clone() },
            owner_keys: Vec::new(),
        }),
        Question::QuotaLint(QuotaLint { source: quotas, owner_keys: texts(&["a", "b"]) }),
        Question::Forecast(Forecast {
            sources: texts(&["history", "a.csv"]),
            at,
            bounds: since,
            namespaces: texts(&["web"]),
            select: texts(&["a{b=\"c d\"}"]),
            step: Some(900 * SECOND),
            horizon: 2 * DAY,
            season: Some(vec![DAY, 7 * DAY]),
            events: Some("e.csv".into()),
            limits: texts(&["queue_depth=10k", "a.*=8Gi"]),
            limits_file: Some("l.csv".into()),
            etcd_quota: Some(8_589_934_592.0),
            warn_within: 14 * DAY,
            critical_within: 2 * DAY,
            additions: texts(&["web:+200 pods", "+50 nodes"]),
            nodes: Some(1200),
            from: Some(NOW + DAY),
            points: true,
            chart: Some(3),
            ended: true,
            name: Some("x".into()),
        }),
        Question::Forecast(Forecast { sources: texts(&["history"]), bounds, ..Forecast::default() }),
        #[cfg(feature = "history")]
        Question::Fleet(Fleet { sources: texts(&["eu=a b", "x=-y", "clusters/"]), bounds, to: Some("1.37".into()) }),
        Question::Report(Report {
            sources: texts(&["bundle/", "a b"]),
            bounds,
            window: Some((NOW - 120 * SECOND, NOW - MINUTE)),
            title: Some("Outage of 20 November".into()),
            owner: Some("platform".into()),
            history: texts(&["store"]),
            templates: texts(&["t.html"]),
            redact: true,
        }),
    ]
}

fn parsed(words: &[String]) -> Question {
    let mut io = Io { now: NOW, ..Io::process() };
    let settings = Settings::usual(&io).unwrap();
    let mut context = Context::new(settings, &mut io);
    let all = std::iter::once("plimsoll".to_owned()).chain(words.iter().cloned());
    let matches = Cli::parser().try_get_matches_from(all).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let cli = Cli::from_arg_matches(&matches).unwrap();
    cli.command.question(&mut context).unwrap_or_else(|error| panic!("{words:?}: {error}")).expect("a question")
}

#[test]
fn parsing_the_command_line_of_a_question_gives_the_question_back() {
    for question in all() {
        let words = question.words();
        assert_eq!(parsed(&words), question, "{words:?}");
    }
}

/// So that no flag is forgotten: each is in a question of [`all`], or said to be no part of one.
#[test]
fn every_flag_of_a_command_that_answers_questions_is_part_of_one() {
    let mut used: BTreeMap<Vec<String>, BTreeSet<String>> = BTreeMap::new();
    for question in all() {
        let words = question.words();
        let command = words.iter().take_while(|word| !word.starts_with('-')).take(2).cloned().collect::<Vec<_>>();
        let parser = Cli::command();
        let first = parser.find_subcommand(&command[0]).unwrap();
        let depth = if first.has_subcommands() { 2 } else { 1 };
        let flags = words.iter().filter_map(|word| word.strip_prefix("--")).filter(|flag| !flag.is_empty());
        let flags = flags.map(|flag| flag.split('=').next().unwrap_or_default().to_owned());
        used.entry(command[..depth].to_vec()).or_default().extend(flags);
    }
    let mut missing = Vec::new();
    for (command, used) in &used {
        let parser = Cli::command();
        let own = command.iter().fold(&parser, |parser, name| parser.find_subcommand(name).unwrap());
        let name = command.join(" ");
        for flag in own.get_arguments().filter(|arg| !arg.is_global_set()).filter_map(|arg| arg.get_long()) {
            let names = [flag.to_owned(), format!("{name} --{flag}")];
            if !used.contains(flag) && !NO_PART.iter().any(|other| names.iter().any(|name| name == other)) {
                missing.push(format!("{name} --{flag}"));
            }
        }
    }
    assert!(used.len() == 25, "{:?}", used.keys());
    assert!(missing.is_empty(), "{missing:?}");
}
