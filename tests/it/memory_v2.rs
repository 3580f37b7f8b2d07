//! `plimsoll memory` on cgroup v2: a Debian kernel in an emulated machine, with a small root file system that holds the
//! program and `memory_v2.sh`. What the script prints comes back over the serial line.

use crate::support::{folder, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const MIB: f64 = 1048576.0;

fn kernel() -> (PathBuf, PathBuf) {
    let found =
        |pattern: &str| glob::glob(root().join("target/cloud-kernel").join(pattern).to_str().unwrap()).unwrap().next().and_then(Result::ok);
    match (found("boot/vmlinuz-*"), found("lib/modules/*/kernel/drivers/block/brd.ko")) {
        (Some(kernel), Some(brd)) => (kernel, brd),
        _ => panic!("no kernel in target/cloud-kernel: run .ci/setup first"),
    }
}

fn succeeds(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; run .ci/setup first"));
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

/// Boots once for all tests; what the script printed, by section.
fn printed() -> &'static BTreeMap<String, String> {
    static PRINTED: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    PRINTED.get_or_init(|| {
        let (kernel, brd) = kernel();
        let place = folder();
        let tree = place.path().join("root");
        install(Path::new(env!("CARGO_BIN_EXE_plimsoll")), &tree);
        // Debug information is not needed there, and takes time to unpack.
        succeeds(Command::new("strip").arg(tree.join("bin/plimsoll")));
        fs::copy("/bin/busybox", tree.join("bin/busybox")).unwrap_or_else(|error| panic!("busybox: {error}; run .ci/setup first"));
        fs::copy(brd, tree.join("brd.ko")).unwrap();
        fs::copy(root().join("tests/it/memory_v2.sh"), tree.join("init")).unwrap();
        for name in ["dev", "proc", "sys", "tmp", "run"] {
            fs::create_dir_all(tree.join(name)).unwrap();
        }
        let packed = place.path().join("initramfs");
        let pack = format!("cd {:?} && find . | cpio -o -H newc --quiet > {:?}", tree, packed);
        succeeds(Command::new("sh").args(["-c", &pack]));
        let mut command = Command::new("timeout");
        command.args(["200", "qemu-system-x86_64", "-accel", "tcg", "-m", "1024", "-smp", "1", "-nographic", "-no-reboot", "-nodefaults"]);
        command
            .args(["-serial", "stdio", "-append", "console=ttyS0 quiet panic=-1 rdinit=/init", "-kernel"])
            .arg(kernel)
            .arg("-initrd")
            .arg(packed);
        let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("qemu: {error}; run .ci/setup first"));
        let text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
        assert!(text.contains("\n@@@ end"), "the machine did not come to the end:\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
        let sections = text.split("\n@@@ ").skip(1).filter_map(|section| section.split_once('\n'));
        sections.map(|(name, body)| (name.trim().to_owned(), body.to_owned())).collect()
    })
}

#[track_caller]
fn section(name: &str) -> &'static str {
    printed().get(name).unwrap_or_else(|| panic!("the script printed no section {name}: {:?}", printed().keys()))
}

/// The report in a section; kernel messages may stand around it.
#[track_caller]
fn report(name: &str) -> Value {
    let text = section(name);
    let start = text.find('{').unwrap_or_else(|| panic!("{name}: {text}"));
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    values.next().unwrap_or_else(|| panic!("{name}: {text}")).unwrap_or_else(|bad| panic!("{name}: {bad}: {text}"))
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field}: {row}"))
}

#[test]
fn verdicts_are_right_on_v2() {
    for (name, verdict) in [("cache", "cache-full-reclaimable"), ("anon", "anon-pressure"), ("thrash", "cache-thrashing")] {
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
    let row = &report("high")["rows"][0];
    assert_eq!(row["method"], "memory.high");
    assert!(number(row, "freed") > 10.0 * MIB, "{row}");
    for after in ["after reclaim", "after high", "after sigint", "after sigkill and repair"] {
        // memory.high, memory.max, and whether the process lives on.
        assert_eq!(section(after).lines().next(), Some("max 67108864 alive"), "{after}");
    }
    assert!(section("after sigint").contains("restored: /sys/fs/cgroup/signal/memory.high is 41943040"), "by the run after SIGKILL");
}
