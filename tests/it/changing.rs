//! Files that change between being found and being read, or while they are: they shrink, grow, or go.

use crate::support::{folder, sample_bytes};
use plimsoll::inputs::rollup::roll_up;
use plimsoll::model::input::LossKind;
use plimsoll::sources::audit::pass::Outcome;
use plimsoll::sources::find::audit_logs;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Finds a log of the quiet sample, does `change` to its file, and reads it.
fn changed(change: impl FnOnce(&std::path::Path)) -> (Vec<u8>, Outcome) {
    let log = sample_bytes("quiet/audit/apiserver-0/audit.log.zst");
    let folder = folder();
    let path = folder.path().join("audit.log");
    std::fs::write(&path, &log).unwrap();
    let found = audit_logs(&[path.display().to_string()]);
    assert!(found.errors.is_empty());
    change(&path);
    let (_, outcome) = roll_up(found.streams, 2, &());
    (log, outcome)
}

fn lines(log: &[u8]) -> u64 {
    log.iter().filter(|&&b| b == b'\n').count() as u64
}

#[test]
fn a_file_that_shrinks_is_read_as_far_as_it_goes_and_said_so() {
    const LEFT: usize = 2_500_000;
    let (log, outcome) =
        changed(|path| OpenOptions::new().write(true).open(path).unwrap().set_len(LEFT as u64).unwrap());
    let whole = lines(&log[..LEFT]);
    assert!(outcome.total().total() >= whole, "{} of {whole}", outcome.total().total());
    let shrunk = outcome.losses.iter().find(|loss| loss.kind == LossKind::Shrunk).unwrap();
    assert!(shrunk.offset >= LEFT as u64, "{shrunk:?}");
    let message = shrunk.to_string();
    assert!(message.contains("audit.log") && message.contains(&format!("{LEFT} now")), "{message}");
}

#[test]
fn a_file_that_grows_is_read_to_where_it_ended() {
    let (log, outcome) = changed(|path| {
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s").unwrap();
    });
    assert_eq!(outcome.total().total(), lines(&log));
    assert_eq!(outcome.losses, []);
}

#[test]
fn a_file_that_is_gone_is_said_to_be() {
    let (_, outcome) = changed(|path| std::fs::remove_file(path).unwrap());
    assert_eq!(outcome.total().total(), 0);
    assert_eq!(outcome.losses.len(), 1);
    assert_eq!(outcome.losses[0].kind, LossKind::Io);
}

/// A mapped file of which the end goes away. strace stops the program right behind the mapping.
#[test]
fn a_database_that_is_cut_while_it_is_mapped_ends_with_a_message() {
    let folder = folder();
    let (path, trace) = (folder.path().join("snapshot.db"), folder.path().join("trace"));
    fs::write(&path, sample_bytes("quiet/etcd/after.db.zst")).unwrap();
    let mut command = Command::new("strace");
    command.arg("-o").arg(&trace).arg("-P").arg(&path).args([
        "-e",
        "trace=mmap",
        "-e",
        "inject=mmap:signal=SIGSTOP:when=1",
    ]);
    command.args([env!("CARGO_BIN_EXE_plimsoll"), "etcd", "usage"]).arg(&path);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let tracer = command.spawn().unwrap_or_else(|error| panic!("strace: {error}; run .ci/setup first"));
    let until = Instant::now() + Duration::from_secs(60);
    while !fs::read_to_string(&trace).is_ok_and(|text| text.contains("stopped by SIGSTOP")) {
        assert!(Instant::now() < until, "it was not stopped: {:?}", fs::read_to_string(&trace));
        std::thread::sleep(Duration::from_millis(20));
    }
    OpenOptions::new().write(true).open(&path).unwrap().set_len(20_000).unwrap();
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", tracer.id())).unwrap();
    assert!(Command::new("kill").args(["-CONT", children.trim()]).status().unwrap().success());
    let output = tracer.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(3) && printed.contains("the database shrank while it was read"),
        "{:?}: {printed}",
        output.status
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
}
