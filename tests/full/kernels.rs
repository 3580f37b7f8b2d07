//! `plimsoll memory` on cgroup v2: Debian kernels in emulated machines, with a small root file system that holds the
//! program, `kernels.sh`, and what `samples/reclaim` runs. What the script prints comes back over the serial line.

use crate::support::{folder, root, sample};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const MIB: f64 = 1048576.0;

/// The emulated machines.
#[derive(Clone, Copy)]
enum Machine {
    /// All that the script does, with Debian's kernel: 6.1.
    Whole,
    /// Only what its swappiness does, with the kernel of Debian's backports: 6.12.
    Newer,
}

fn kernel(machine: Machine) -> (PathBuf, PathBuf) {
    let folder = match machine {
        Machine::Whole => "target/cloud-kernel",
        Machine::Newer => "target/cloud-kernel-backports",
    };
    let found = |pattern: &str| {
        glob::glob(root().join(folder).join(pattern).to_str().unwrap()).unwrap().next().and_then(Result::ok)
    };
    match (found("boot/vmlinuz-*"), found("lib/modules/*/kernel/drivers/block/brd.ko")) {
        (Some(kernel), Some(brd)) => (kernel, brd),
        _ => panic!("no kernel in {folder}: run .ci/setup --full kernels first"),
    }
}

fn succeeds(command: &mut Command) {
    let output =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; run .ci/setup --full kernels first"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Puts a program and the libraries that `ldd` names into the file system.
fn install(program: &Path, at: &Path) {
    fs::create_dir_all(at.join("bin")).unwrap();
    fs::copy(program, at.join("bin").join(program.file_name().unwrap())).unwrap();
    let listed = Command::new("ldd").arg(program).output().unwrap();
    for path in String::from_utf8_lossy(&listed.stdout).split_whitespace().filter(|word| word.starts_with('/')) {
        let to = at.join(&path[1..]);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(path, to).unwrap();
    }
}

/// A program on the `PATH`.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    places
        .find(|place| place.is_file())
        .unwrap_or_else(|| panic!("no {name} on the PATH: run .ci/setup --full kernels first"))
}

/// The words of the unit's ExecStart, and of the DaemonSet's container.
fn samples() -> (Vec<String>, Vec<String>) {
    let unit = fs::read_to_string(sample("reclaim/plimsoll-reclaim.service")).unwrap();
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("an ExecStart");
    let manifest = fs::read_to_string(sample("reclaim/daemonset.yaml")).unwrap();
    let manifest: Value = serde_yaml_ng::from_str(&manifest).unwrap();
    let container = &manifest["spec"]["template"]["spec"]["containers"][0];
    let words = |list: &Value| {
        list.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // What the container sees below /host is the machine's root: the script does the same.
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/host");
    assert_eq!(manifest["spec"]["template"]["spec"]["volumes"][0]["hostPath"]["path"], "/");
    (line.split(' ').map(str::to_owned).collect(), [words(&container["command"]), words(&container["args"])].concat())
}

fn boot(machine: Machine) -> BTreeMap<String, String> {
    let (kernel, brd) = kernel(machine);
    let place = folder();
    let tree = place.path().join("root");
    let plimsoll = Path::new(env!("CARGO_BIN_EXE_plimsoll"));
    install(plimsoll, &tree);
    // Debug information is not needed there, and takes time to unpack.
    succeeds(Command::new("strip").arg(tree.join("bin/plimsoll")));
    install(&program("strace"), &tree);
    // A process that is called so, and does nothing.
    install(&program("sleep"), &tree);
    fs::rename(tree.join("bin/sleep"), tree.join("bin/kube-apiserver")).unwrap();
    fs::copy("/bin/busybox", tree.join("bin/busybox"))
        .unwrap_or_else(|error| panic!("busybox: {error}; run .ci/setup --full kernels first"));
    fs::copy(brd, tree.join("brd.ko")).unwrap();
    fs::copy(root().join("tests/full/kernels.sh"), tree.join("init")).unwrap();
    for name in ["dev", "proc", "sys", "tmp", "run", "usr/local/bin"] {
        fs::create_dir_all(tree.join(name)).unwrap();
    }
    std::os::unix::fs::symlink("/bin/plimsoll", tree.join("usr/local/bin/plimsoll")).unwrap();
    let (unit, container) = samples();
    fs::write(tree.join("unit.words"), unit.join(" ")).unwrap();
    fs::write(tree.join("daemonset.words"), container.join(" ")).unwrap();
    let packed = place.path().join("initramfs");
    let pack = format!("cd {:?} && find . | cpio -o -H newc --quiet > {:?}", tree, packed);
    succeeds(Command::new("sh").args(["-c", &pack]));
    let only = match machine {
        Machine::Whole => "",
        Machine::Newer => " only=swappiness",
    };
    let text = emulated(&kernel, &packed, only);
    assert!(text.contains("\n@@@ end"), "the machine did not come to the end:\n{text}");
    let sections = text.split("\n@@@ ").skip(1).filter_map(|section| section.split_once('\n'));
    sections.map(|(name, body)| (name.trim().to_owned(), body.to_owned())).collect()
}

/// Runs an emulated machine until it is switched off; what it printed.
fn emulated(kernel: &Path, packed: &Path, only: &str) -> String {
    let mut command = Command::new("timeout");
    // Debian 12's emulator spoils the flags of an interrupt right behind CMPXCHG16B, of which kernel 6.12 dies at every
    // second start. Without that instruction it takes a lock.
    command.args([
        "400",
        "qemu-system-x86_64",
        "-accel",
        "tcg",
        "-cpu",
        "qemu64,-cx16",
        "-m",
        "1024",
        "-smp",
        "1",
        "-nographic",
        "-no-reboot",
        "-nodefaults",
    ]);
    command.args([
        "-serial",
        "stdio",
        "-append",
        &format!("console=ttyS0 quiet panic=-1 rdinit=/init{only}"),
        "-kernel",
    ]);
    command.arg(kernel).arg("-initrd").arg(packed);
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("qemu: {error}; run .ci/setup --full kernels first"));
    String::from_utf8_lossy(&output.stdout).replace('\r', "") + &String::from_utf8_lossy(&output.stderr)
}

/// Boots each machine once for all tests; what the script printed, by section.
fn printed(machine: Machine) -> &'static BTreeMap<String, String> {
    static PRINTED: [OnceLock<BTreeMap<String, String>>; 2] = [const { OnceLock::new() }; 2];
    PRINTED[machine as usize].get_or_init(|| boot(machine))
}

#[track_caller]
fn on(machine: Machine, name: &str) -> &'static str {
    let sections = printed(machine);
    sections.get(name).unwrap_or_else(|| panic!("the script printed no section {name}: {:?}", sections.keys()))
}

#[track_caller]
fn section(name: &str) -> &'static str {
    on(Machine::Whole, name)
}

/// The report in a text; kernel messages may stand around it.
#[track_caller]
fn parsed(text: &str) -> Value {
    let start = text.find('{').unwrap_or_else(|| panic!("{text}"));
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    values.next().unwrap_or_else(|| panic!("{text}")).unwrap_or_else(|bad| panic!("{bad}: {text}"))
}

#[track_caller]
fn report(name: &str) -> Value {
    parsed(section(name))
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field}: {row}"))
}

/// What was written to a file, by strace's account: text, and what came of it.
fn written(trace: &str) -> Vec<(&str, &str)> {
    trace.lines().filter_map(|line| Some((line.split('"').nth(1)?, line.rsplit_once(" = ")?.1))).collect()
}

#[test]
fn verdicts_are_right_on_v2() {
    for (name, verdict) in
        [("cache", "cache-full-reclaimable"), ("anon", "anon-pressure"), ("thrash", "cache-thrashing")]
    {
        let row = &report(name)["rows"][0];
        assert_eq!((&row["verdict"], &row["version"]), (&verdict.into(), &"v2".into()), "{name}: {row}");
        assert_eq!(number(row, "limit"), 64.0 * MIB, "{name}");
        // 64 pages per CPU are charged ahead; the sums of memory.stat are up to 2 s old.
        assert!(number(row, "unexplained").abs() < 4.0 * MIB, "{name}: {row}");
        assert!(!row["pressure"].is_null(), "{name}");
    }
    assert!(number(&report("thrash")["rows"][0], "psi_some") > 0.0);
}

#[test]
fn reclaim_on_v2_frees_cache_and_changes_no_limit() {
    let row = &report("reclaim")["rows"][0];
    assert_eq!(row["method"], "memory.reclaim");
    assert!(number(row, "freed") > 20.0 * MIB, "{row}");
    // This kernel takes no swappiness: asked once, then without.
    let writes = written(section("reclaim writes"));
    assert_eq!(writes[0], ("4194304 swappiness=0", "-1 EINVAL (Invalid argument)"), "{writes:?}");
    assert!(writes.len() > 3 && writes[1..].iter().all(|(text, _)| !text.contains("swappiness")), "{writes:?}");
    let row = &report("high")["rows"][0];
    assert_eq!(row["method"], "memory.high");
    assert!(number(row, "freed") > 10.0 * MIB, "{row}");
    for after in ["after reclaim", "after high"] {
        // memory.high, memory.max, and whether the process lives on.
        assert_eq!(section(after).lines().next(), Some("max 67108864 alive"), "{after}");
    }
}

#[test]
fn a_signal_in_mid_step_leaves_the_limit_as_it_was_on_v2() {
    for write in [2, 3] {
        let interrupted = section(&format!("sigint at {write}"));
        assert_eq!(interrupted.lines().next(), Some("max 67108864 alive, code 0, 0 notes"), "{interrupted}");
        assert!(interrupted.contains("--- SIGINT"), "{interrupted}");
        let killed = section(&format!("sigkill at {write}"));
        assert!(
            killed.contains("+++ killed by SIGKILL +++") && killed.contains("alive, code 137, 1 notes"),
            "{killed}"
        );
        let next = section(&format!("next run after sigkill at {write}"));
        if write == 3 {
            // Killed while the limit was low, which it then was.
            let low = written(killed)[1].0;
            assert!(killed.starts_with(&format!("{low} 67108864 ")), "{killed}");
            assert!(next.contains(&format!("restored: /sys/fs/cgroup/signal/memory.high is {low}")), "{next}");
        }
        let after = section(&format!("after next run {write}"));
        assert_eq!(after.lines().next(), Some("max 67108864 alive"), "{after}");
    }
}

#[test]
fn the_daemon_reclaims_when_cache_passes_its_high_mark_on_v2() {
    let mut sizes = section("daemon").lines();
    assert!(sizes.next().unwrap().starts_with("0 lines at 2"), "nothing is done below the mark: {}", section("daemon"));
    for _ in 0..2 {
        let usage: f64 = sizes.next().unwrap().parse().unwrap();
        assert!(usage <= 0.83 * 64.0 * MIB, "{}", section("daemon"));
    }
    let lines = sizes
        .next()
        .and_then(|line| line.strip_prefix("code 0, max 67108864 alive, ")?.strip_suffix(" lines")?.parse().ok());
    assert!(lines.is_some_and(|lines: u32| lines >= 2), "{}", section("daemon"));
}

#[test]
fn what_the_samples_run_reclaims_on_v2() {
    for what in ["unit", "daemonset"] {
        let before: f64 = section(&format!("before {what}")).trim().parse().unwrap();
        assert!(before > 0.9 * 64.0 * MIB, "{what}: {before}");
        let text = section(what);
        assert_eq!(text.lines().next(), Some("code 0, max 67108864 alive, 1 lines"), "{what}: {text}");
        let row = &parsed(text)["rows"][0];
        assert_eq!((&row["path"], &row["method"]), (&"/kube".into(), &"memory.reclaim".into()));
        assert!(number(row, "usage_after") <= 0.83 * 64.0 * MIB, "{what}: {row}");
    }
}

#[test]
fn swappiness_spares_anonymous_memory_where_the_kernel_takes_it() {
    let text = |name| on(Machine::Newer, name);
    let row = parsed(text("mixed"))["rows"][0].clone();
    assert!(number(&row, "freed") > 16.0 * MIB && number(&row, "anon_before") > 24.0 * MIB, "{row}");
    let writes = written(text("mixed writes"));
    assert!(
        writes.len() > 2
            && writes.iter().all(|(text, result)| text.ends_with(" swappiness=0") && !result.starts_with('-')),
        "{writes:?}"
    );
    // Nothing was swapped, though there was something to swap: the kernel did so when asked without.
    let swap: Vec<f64> = text("mixed swap").lines().take(2).map(|line| line.parse().unwrap()).collect();
    assert!(swap[0] == 0.0 && swap[1] > 4.0 * MIB, "{swap:?}");
}
