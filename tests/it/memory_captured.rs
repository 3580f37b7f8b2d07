//! `plimsoll memory show` on copies of cgroup files, compared with an independent account (tests/oracle/memory.py).

use crate::support::{feed, folder, plimsoll, python, root, run, sample, write};
use serde_json::Value;
use std::process::Command;

/// Compares every number that the oracle gives for a file of sections.
#[track_caller]
fn agrees(path: &str, host: Option<u64>) -> Value {
    let host = host.map(|host| host.to_string());
    let mut args = vec!["memory", "show", path, "-o", "json"];
    args.extend(host.iter().flat_map(|host| ["--host-memory", host.as_str()]));
    let report = plimsoll(&args).json(0);
    let row = report["rows"][0].clone();
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/memory.py")).arg(path).args(host);
    let ran = feed(command, b"");
    assert_eq!(ran.code, Some(0), "the oracle failed: {}", ran.stderr);
    let oracle: Value = serde_json::from_str(&ran.stdout).unwrap();
    for (field, expected) in oracle.as_object().unwrap() {
        assert_eq!(row[field].as_f64(), expected.as_f64(), "{path}: {field}: {} and {expected}", row[field]);
    }
    row
}

#[test]
fn every_captured_sample_is_accounted_for() {
    let mut files = 0;
    for bundle in ["quiet", "list-storm", "overload-restart"] {
        let folder = sample(&format!("{bundle}/cgroup/kube-apiserver-0"));
        // Each tenth: they follow one another every 5 s.
        let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path().to_str().unwrap().to_owned());
        for file in all.enumerate().filter(|(number, _)| number % 10 == 0).map(|(_, file)| file) {
            let row = agrees(&file, Some(8 << 30));
            assert_eq!(row["version"], "v1");
            // Its kernel memory was not captured; it is small.
            assert!(row["unexplained"].as_f64().unwrap().abs() < 16e6, "{row}");
            files += 1;
        }
    }
    assert!(files >= 15, "{files}");
}

#[test]
fn documented_forms_of_many_kernels_are_accounted_for() {
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(sample("cgroup-forms")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "txt") {
            continue;
        }
        let row = agrees(path.to_str().unwrap(), None);
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let version = name.split('-').next().unwrap();
        assert_eq!(row["version"], version, "{name}");
        // 64 pages for each of up to 64 CPUs may be charged and not yet counted.
        assert!(row["unexplained"].as_f64().unwrap().abs() <= 64.0 * 64.0 * 4096.0, "{name}: {row}");
        seen.push(version.to_owned());
    }
    for version in ["v1", "v2", "hybrid"] {
        assert!(seen.iter().any(|own| own == version), "{version}");
    }
}

#[test]
fn what_is_absent_is_absent_and_what_is_unknown_is_shown() {
    let text = "== memory.stat\nanon 1048576\nfile 4194304\nshmem 0\nactive_file 2097152\ninactive_file \
         2097152\nfrobnicated 42\n== memory.current\n6291456\n== memory.max\n8388608\n";
    let report = run(&["memory", "show", "-", "-o", "json"], &[], text.as_bytes()).json(0);
    let row = &report["rows"][0];
    for absent in
        ["sock", "slab_reclaimable", "kernel_stack", "kernel", "swap", "peak", "psi_some", "file_dirty", "oom_kills"]
    {
        assert!(row[absent].is_null(), "{absent}: {row}");
    }
    assert_eq!(
        (&row["unknown"]["frobnicated"], &row["unexplained"], &row["shmem"]),
        (&42.into(), &1048576.into(), &0.into())
    );
    let text = run(&["memory", "show", "-"], &[], text.as_bytes());
    assert!(text.stdout.contains("frobnicated 42"), "{}", text.stdout);
}

#[test]
fn damaged_copies_are_told_with_their_place() {
    let place = folder();
    let path = write(place.path(), "bad.txt", "== memory.stat\nanon 1048576\nfile -3\n== memory.current\nmuch\n");
    let ran = plimsoll(&["memory", "show", &path]);
    assert!(
        ran.exits(3).stderr.contains("memory.stat:2: 'file -3'") && ran.stderr.contains("memory.current:1: 'much'"),
        "{}",
        ran.stderr
    );
    let path = write(place.path(), "other.txt", "hello\n");
    assert!(plimsoll(&["memory", "show", &path]).exits(3).stderr.contains("no cgroup memory files"));
    assert!(plimsoll(&["memory", "show", &sample("quiet/etcd")]).exits(3).stderr.contains("no cgroup memory files"));
}

#[test]
fn a_machine_below_a_root_is_read_like_this_one() {
    let place = folder();
    let at = |name: &str, text: &str| write(place.path(), name, text);
    at("proc/meminfo", "MemTotal:       1048576 kB\n");
    at("sys/fs/cgroup/cgroup.controllers", "memory\n");
    at("sys/fs/cgroup/memory.stat", "anon 10485760\nfile 20971520\ninactive_file 10485760\nactive_file 10485760\n");
    let pod = "sys/fs/cgroup/kubepods.slice/kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444455556666.slice";
    let container = format!("{pod}/cri-containerd-feedc0ffee1234567890.scope");
    for (folder, limit) in [("sys/fs/cgroup/kubepods.slice", "max"), (pod, "104857600"), (&container, "max")] {
        at(
            &format!("{folder}/memory.stat"),
            "anon 10485760\nfile 20971520\nshmem 0\ninactive_file 10485760\nactive_file 10485760\n",
        );
        at(&format!("{folder}/memory.current"), "31457280\n");
        at(&format!("{folder}/memory.max"), &format!("{limit}\n"));
    }
    at("proc/77/cmdline", "/usr/local/bin/kube-apiserver\0--v=2\0");
    at("proc/77/cgroup", &format!("0::/{}\n", container.trim_start_matches("sys/fs/cgroup/")));
    let root = place.path().to_str().unwrap();
    let show = |more: &[&str]| {
        plimsoll(&[&["memory", "show", "--root", root, "--over", "0s", "-o", "json"], more].concat()).json(0)
    };
    for by in [
        &["--component", "kube-apiserver"][..],
        &["--pid", "77"],
        &["feedc0ffee12"],
        &["--unit", "cri-containerd-feedc0ffee1234567890"],
    ] {
        let report = show(by);
        let row = &report["rows"][0];
        assert!(row["path"].as_str().unwrap().ends_with("feedc0ffee1234567890.scope"), "{by:?}: {row}");
        assert_eq!(row["limit"], 104857600, "the pod's limit counts for its container");
        assert!(row["limit_by"].as_str().unwrap().ends_with("444455556666.slice"));
        assert_eq!(row["working_set"], 31457280 - 10485760);
    }
    assert_eq!(show(&["0a1b2c3d-1111-2222-3333-444455556666"])["rows"][0]["limit"], 104857600);
    let top = show(&["/"]);
    assert_eq!((&top["rows"][0]["usage"], &top["rows"][0]["limit_by"]), (&31457280.into(), &"host".into()));
    let tree = show(&["/", "--recursive"]);
    assert_eq!(tree["rows"].as_array().unwrap().len(), 4);
}

#[test]
fn a_hybrid_machine_has_its_memory_in_v1_and_its_pressure_in_v2() {
    let place = folder();
    let at = |name: &str, text: &str| write(place.path(), name, text);
    let group = "system.slice/etcd.service";
    at("proc/meminfo", "MemTotal:       1048576 kB\n");
    at("proc/5/cmdline", "/usr/bin/etcd\0");
    at("proc/5/cgroup", &format!("4:memory:/{group}\n1:name=systemd:/{group}\n0::/{group}\n"));
    at("sys/fs/cgroup/unified/cgroup.controllers", "");
    at(&format!("sys/fs/cgroup/unified/{group}/cgroup.procs"), "5\n");
    at(
        &format!("sys/fs/cgroup/unified/{group}/memory.pressure"),
        "some avg10=0.00 avg60=12.50 avg300=0.00 total=99\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    );
    for folder in ["", "system.slice/", "system.slice/etcd.service/"] {
        at(
            &format!("sys/fs/cgroup/memory/{folder}memory.stat"),
            "cache 20480\nrss 40960\ntotal_cache 20480\ntotal_rss 40960\n",
        );
        at(&format!("sys/fs/cgroup/memory/{folder}memory.usage_in_bytes"), "65536\n");
        at(&format!("sys/fs/cgroup/memory/{folder}memory.limit_in_bytes"), "9223372036854771712\n");
        at(&format!("sys/fs/cgroup/memory/{folder}memory.numa_stat"), "total=15 N0=10 N1=5\n");
    }
    let root = place.path().to_str().unwrap();
    for by in [["--component", "etcd"], ["--unit", "etcd"], ["--pid", "5"]] {
        let report = plimsoll(&["memory", "show", "--root", root, by[0], by[1], "--over", "0s", "-o", "json"]).json(0);
        let row = &report["rows"][0];
        assert_eq!((&row["version"], &row["path"]), (&"hybrid".into(), &format!("/{group}").into()));
        assert_eq!((&row["anon"], &row["psi_some"], &row["limit_by"]), (&40960.into(), &Value::Null, &"host".into()));
        assert_eq!((&row["pressure"]["some"]["avg60"], &row["numa"]["total"]), (&12.5.into(), &"15 N0=10 N1=5".into()));
        assert!(row["reasons"].as_str().unwrap().contains("tasks stalled on memory 12.5% of the time"), "{row}");
    }
}

#[test]
fn a_bundle_sets_gos_heap_beside_anonymous_memory() {
    let report = plimsoll(&["memory", "show", &sample("quiet"), "-o", "json"]).json(0);
    let heap = &report["tables"]["heap"][0];
    // The last page's go_memstats_*, read with grep.
    assert_eq!(heap["path"], "kube-apiserver-0");
    let (total, released) = (heap["go_total"].as_f64().unwrap(), heap["heap_released"].as_f64().unwrap());
    assert_eq!(heap["go_held"].as_f64().unwrap(), total - released);
    let anon = heap["anon"].as_f64().unwrap();
    assert!((heap["go_held"].as_f64().unwrap() / anon - 1.0).abs() < 0.1, "Go's memory is nearly all of it: {heap}");
    assert!(report["rows"][0]["refaults_per_s"].is_number(), "the sample a minute before gives rates");
}

/// The files of a v2 group.
fn group(home: &std::path::Path, path: &str, usage: u64, limit: &str) {
    write(
        home,
        &format!("{path}/memory.stat"),
        format!("anon {}\nfile 1000000\ninactive_file 600000\nactive_file 400000\n", usage - 1_000_000),
    );
    write(home, &format!("{path}/memory.current"), format!("{usage}\n"));
    write(home, &format!("{path}/memory.max"), format!("{limit}\n"));
}

#[test]
fn copies_are_walked_like_live_trees() {
    let home = folder();
    for machine in ["a", "b"] {
        let size = if machine == "a" { 4_000_000 } else { 6_000_000 };
        for (path, part) in [
            ("kubepods", 0),
            ("kubepods/burstable", 1),
            ("kubepods/burstable/pod1", 2),
            ("kubepods/burstable/pod1/c", 3),
        ] {
            group(
                home.path(),
                &format!("{machine}/{path}"),
                size - part * 500_000,
                if part == 0 { "8388608" } else { "max" },
            );
        }
    }
    let show = |path: &str, more: &[&str]| {
        let report = plimsoll(&[&["memory", "show", path, "-o", "json"][..], more].concat()).json(0);
        let of = |row: &Value| {
            (row["path"].as_str().unwrap().to_owned(), row["depth"].as_u64().unwrap_or(0), row["limit"].as_u64())
        };
        report["rows"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let one = home.path().join("a/kubepods");
    let all: Vec<(String, u64, Option<u64>)> =
        ["kubepods", "kubepods/burstable", "kubepods/burstable/pod1", "kubepods/burstable/pod1/c"]
            .iter()
            .enumerate()
            .map(|(depth, path)| ((*path).to_owned(), depth as u64, Some(8_388_608)))
            .collect();
    assert_eq!(show(one.to_str().unwrap(), &["--recursive"]), all);
    assert_eq!(show(one.to_str().unwrap(), &[]), all[..1]);
    // Groups of one name on two machines stay with their own: the larger first.
    let both = show(home.path().to_str().unwrap(), &["--recursive"]);
    assert_eq!(both, [all.clone(), all].concat());
    let report = plimsoll(&["memory", "show", home.path().to_str().unwrap(), "--recursive", "-o", "json"]).json(0);
    let usage: Vec<u64> = report["rows"].as_array().unwrap().iter().map(|row| row["usage"].as_u64().unwrap()).collect();
    assert_eq!(usage, [6_000_000, 5_500_000, 5_000_000, 4_500_000, 4_000_000, 3_500_000, 3_000_000, 2_500_000]);
    // Copies of one group by time have rates between them.
    let series = home.path().join("series");
    for (second, refaults) in [(1_795_166_276, 5), (1_795_166_336, 50)] {
        group(&series, &format!("g/{second}"), 4_000_000, "8388608");
        let path = series.join(format!("g/{second}/memory.stat"));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}workingset_refault_file {refaults}\n")).unwrap();
    }
    let report = plimsoll(&["memory", "show", series.to_str().unwrap(), "-o", "json"]).json(0);
    let row = &report["rows"][0];
    assert_eq!((row["seconds"].as_f64(), row["refaults_per_s"].as_f64()), (Some(60.0), Some(0.75)), "{row}");
}

#[test]
fn statistics_of_one_version_beside_limits_of_the_other() {
    let home = folder();
    let stat = "cache 4194304\nrss 1048576\ninactive_file 2097152\nactive_file 2097152\n\
                total_cache 4194304\ntotal_rss 1048576\ntotal_inactive_file 2097152\ntotal_active_file 2097152\n";
    write(home.path(), "mixed/memory.stat", stat);
    write(home.path(), "mixed/memory.current", "6291456\n");
    write(home.path(), "mixed/memory.max", "8388608\n");
    let report = plimsoll(&["memory", "show", home.path().join("mixed").to_str().unwrap(), "-o", "json"]).json(0);
    let row = &report["rows"][0];
    let number = |name: &str| row[name].as_u64();
    assert_eq!(
        (number("usage"), number("limit"), number("working_set")),
        (Some(6_291_456), Some(8_388_608), Some(4_194_304)),
        "{row}"
    );
    assert!(!report.to_string().contains("no limit is known"));
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let place = folder();
    let unit = std::fs::read_to_string(sample("reclaim/plimsoll-reclaim.service")).unwrap();
    // Its program has to be there.
    let unit = unit.replace("/usr/local/bin/plimsoll", env!("CARGO_BIN_EXE_plimsoll"));
    let verified = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, text).unwrap();
        let output =
            Command::new("systemd-analyze").args(["verify", "--man=no", "--recursive-errors=no"]).arg(&path).output();
        let output = output.unwrap_or_else(|error| panic!("systemd-analyze: {error}; run .ci/setup first"));
        String::from_utf8_lossy(&output.stderr)
            .lines()
            .filter(|line| line.contains(name))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(verified("plimsoll-reclaim.service", &unit), Vec::<String>::new());
    assert!(!verified("wrong.service", &unit.replace("ProtectSystem=strict", "ProtectSystem=perhaps")).is_empty());
}
