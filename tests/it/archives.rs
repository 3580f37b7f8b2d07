//! Archives as sources: what a command says of one is what it says of the folder that was packed.

use crate::archive_lab::{pack, says_the_same};
use crate::support::{Ran, feed, folder, hermetic, sample};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the program where `home` is.
fn plimsoll_in(home: &Path, args: &[&str]) -> Ran {
    let mut command = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home);
    command.args(args).current_dir(home);
    feed(command, b"")
}

#[test]
fn an_archive_of_each_form_is_read_as_the_folder_is() {
    let home = folder();
    for (archive, with) in [("a.tar.zst", "--zstd"), ("b.tgz", "--gzip"), ("c.tar", "--format=gnu")] {
        let archive = home.path().join(archive);
        pack("list-storm", &archive, with);
        // tests/full asks all commands.
        let commands: [&[&str]; 3] = [
            &["traffic", "SOURCE", "--by", "verb,user"],
            &["traffic", "SOURCE", "--from", "metrics"],
            &["etcd", "usage", "SOURCE/etcd/before.db.zst"],
        ];
        says_the_same(archive.to_str().unwrap(), &sample("list-storm"), &commands);
    }
}

#[test]
fn nothing_is_left_of_what_was_unpacked() {
    let home = folder();
    let temporary = home.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let archive = home.path().join("bundle.tar.zst");
    pack("quiet", &archive, "--zstd");
    // One that was killed: its lock is free.
    let left = temporary.join("plimsoll-unpacked-1-1");
    fs::create_dir(&left).unwrap();
    fs::write(left.join(".lock"), "").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["traffic", archive.to_str().unwrap()]).env("TMPDIR", &temporary);
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "left behind");
}

#[test]
fn a_hostile_archive_writes_nowhere_else_and_damage_is_told() {
    let home = folder();
    let script = r#"
import io, sys, tarfile
with tarfile.open(sys.argv[1], "w") as tar:
    def add(name, text, kind=tarfile.REGTYPE, link=""):
        info = tarfile.TarInfo(name); info.size = len(text); info.type = kind; info.linkname = link
        tar.addfile(info, io.BytesIO(text))
    add("../escaped.log", b"x")
    add("/tmp/escaped-plimsoll.log", b"x")
    add("link", b"", tarfile.SYMTYPE, "/etc")
    add("link/escaped.log", b"x")
    add("hard", b"", tarfile.LNKTYPE, "/etc/passwd")
    add("pipe", b"", tarfile.FIFOTYPE)
    add("audit.log", open(sys.argv[2], "rb").read())
    add("audit.log", open(sys.argv[2], "rb").read())
"#;
    let event = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a","stage":"ResponseComplete","requestURI":"/api/v1/pods","verb":"list","user":{"username":"jane"},"objectRef":{"resource":"pods"},"responseStatus":{"code":200},"stageTimestamp":"2026-11-20T09:00:00.000000Z"}"#;
    let (log, archive) = (home.path().join("event"), home.path().join("hostile.tar"));
    fs::write(&log, format!("{event}\n")).unwrap();
    let made = Command::new("python3").args(["-c", script]).arg(&archive).arg(&log).status().unwrap();
    assert!(made.success());
    let answer = plimsoll_in(home.path(), &["traffic", "hostile.tar", "-o", "json"]).json(0);
    assert_eq!(answer["totals"]["requests"], 1, "{}", answer["totals"]);
    assert_eq!(answer["inputs"][0]["path"], "hostile.tar/audit.log");
    assert!(!home.path().join("escaped.log").exists() && !Path::new("/tmp/escaped-plimsoll.log").exists());
    // Cut off: an error that names it, and no half of an answer.
    let whole = fs::read(&archive).unwrap();
    fs::write(home.path().join("cut.tar"), &whole[..whole.len() / 3]).unwrap();
    let ran = plimsoll_in(home.path(), &["traffic", "cut.tar"]);
    ran.exits(3);
    assert!(ran.stderr.contains("cut.tar"), "{}", ran.stderr);
}
