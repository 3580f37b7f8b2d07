//! The history store on disks of this machine: a full one, and one that may not be written. Mounts need root, or user
//! namespaces for everybody.

use crate::store_lab::{check_full, import, many_lines, points};
use crate::support::{feed, folder, hermetic, write};
use std::process::Command;

#[test]
fn a_full_disk_is_told_and_costs_nothing_that_was_acknowledged() {
    let home = folder();
    let csv = write(home.path(), "in.csv", many_lines(50, 1_000));
    // A disk of 400 KiB, and a copy of the store that lies on it.
    let (disk, copy) = (home.path().join("disk"), home.path().join("copy"));
    std::fs::create_dir(&disk).unwrap();
    let on_disk = format!(
        "mount -t tmpfs -o size=400k none {d} && {program} record import {csv} --store {d}/s --batch 500 -v; echo \
         code $?; cp -a {d}/s {c}",
        d = disk.display(),
        program = env!("CARGO_BIN_EXE_plimsoll"),
        c = copy.display()
    );
    let mut command = hermetic(Command::new("unshare"), home.path());
    command.args(["-rm", "bash", "-c", &on_disk]);
    check_full(&feed(command, b""), &csv, &copy, "No space left");
}

#[test]
fn a_store_that_may_not_be_written_stays_as_it_is_and_can_be_read() {
    let home = folder();
    let csv = write(home.path(), "in.csv", many_lines(3, 400));
    let store = home.path().join("s").to_str().unwrap().to_owned();
    import(&csv, &store, &[]).exits(0);
    let before = points(&store);
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let line = format!(
        "mount --bind {store} {store} && mount -o remount,bind,ro {store} && {program} record import {csv} --store \
         {store}; echo code $?"
    );
    let mut command = hermetic(Command::new("unshare"), home.path());
    command.args(["-rm", "bash", "-c", &line]);
    let ran = feed(command, b"");
    ran.did_not_panic();
    assert!(
        ran.stdout.contains("code 3")
            && ran.stderr.contains("Read-only")
            && ran.stderr.contains("the store is unchanged"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    assert_eq!(points(&store), before);
}
