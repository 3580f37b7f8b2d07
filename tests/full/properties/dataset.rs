//! Datasets whose build is killed at any time.

use crate::support::{feed, folder, python, root, sample_bytes, write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Kills, spread over all of the time that a build takes.
const KILLS: u32 = 100;

fn build(log: &str, to: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["dataset", "build", log, "--to", to.to_str().unwrap()]).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn a_build_that_is_killed_a_hundred_times_equals_one_in_peace() {
    let home = folder();
    let one = sample_bytes("list-storm/audit/apiserver-0/audit.log.zst");
    let log = write(home.path(), "audit.log", one.repeat(8));
    let quiet = home.path().join("quiet");
    let started = Instant::now();
    assert!(build(&log, &quiet).status().unwrap().success());
    let took = started.elapsed();
    let same = |killed: &Path, kill: u32| {
        let compared = Command::new("diff").arg("-r").args([&quiet, killed]).output().unwrap();
        assert!(compared.status.success(), "killed {kill}: {}", String::from_utf8_lossy(&compared.stdout));
    };
    let killed = home.path().join("killed");
    for kill in 1..=KILLS {
        let mut running = build(&log, &killed).spawn().unwrap();
        std::thread::sleep(took.mul_f64(f64::from(kill) / f64::from(KILLS)));
        // It may be done already.
        let _ = running.kill();
        running.wait().unwrap();
        // Some are killed once more before they may go on.
        if kill % 3 != 0 {
            assert!(build(&log, &killed).status().unwrap().success());
            same(&killed, kill);
            std::fs::remove_dir_all(&killed).unwrap();
        }
    }
    assert!(build(&log, &killed).status().unwrap().success());
    same(&killed, KILLS);
    let mut oracle = Command::new(python());
    oracle.arg(root().join("tests/oracle/dataset.py")).arg(&killed).arg(format!("{log}=,"));
    let ran = feed(oracle, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}
