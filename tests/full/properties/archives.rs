//! Every command says of an archive what it says of the folder that was packed.

use crate::archive_lab::{pack, says_the_same};
use crate::support::{folder, sample};

#[test]
fn every_command_reads_an_archive_as_it_reads_the_folder() {
    let home = folder();
    let archive = home.path().join("a.tar.zst");
    pack("list-storm", &archive, "--zstd");
    let commands: &[&[&str]] = &[
        &["report", "SOURCE"],
        &["traffic", "SOURCE", "--by", "verb,user"],
        &["traffic", "SOURCE", "--from", "metrics"],
        &["clients", "SOURCE"],
        &["balance", "SOURCE"],
        &["guard", "events", "SOURCE"],
        &["quota", "propose", "SOURCE"],
        &["controllers", "SOURCE"],
        &["heap", "top", "SOURCE"],
        &["memory", "show", "SOURCE"],
        &["etcd", "usage", "SOURCE"],
        &["etcd", "check", "SOURCE"],
        &["etcd", "health", "SOURCE"],
        &["etcd", "usage", "SOURCE/etcd/before.db.zst"],
        &["compare", "SOURCE", "SOURCE"],
    ];
    says_the_same(archive.to_str().unwrap(), &sample("list-storm"), commands);
}
