//! Any bytes as etcd's database, through every `plimsoll etcd` command that reads one: no panic, no hang, no runaway
//! memory.
//!
//! The first byte chooses the command, the rest is the file. Checksums of the meta pages are made right, else no change
//! to them would ever get further than that.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll::Io;
use std::io::sink;
use std::sync::OnceLock;

const COMMANDS: [&[&str]; 13] = [
    &["check"],
    &["usage"],
    &["usage", "--by", "owner"],
    &["usage", "--by", "manager"],
    &["usage", "--by", "name-prefix"],
    &["usage", "--by", "label:app"],
    &["usage", "--by", "kind"],
    &["usage", "--keys-only"],
    &["top"],
    &["flame", "-o", "folded"],
    &["history"],
    &["pages"],
    &["split"],
];

/// FNV-1a of 64 bits, as bbolt sums its meta pages up.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Makes the meta page at `at` valid, if one could be there.
fn seal(file: &mut [u8], at: usize) {
    if let Some(meta) = file.get_mut(at + 16..at + 80) {
        meta[..4].copy_from_slice(&0xED0C_DAED_u32.to_le_bytes());
        let sum = fnv(&meta[..56]);
        meta[56..].copy_from_slice(&sum.to_le_bytes());
    }
}

/// A file of this process, in memory where there is such a folder.
fn path() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let folder = if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
        folder.join(format!("plimsoll-fuzz-{}.db", std::process::id())).to_string_lossy().into_owned()
    })
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    let mut file = bytes.to_vec();
    let size = file.get(24..28).and_then(|four| four.try_into().ok()).map_or(4096, u32::from_le_bytes) as usize;
    if choice & 0x80 == 0 {
        seal(&mut file, 0);
        seal(&mut file, size);
    }
    if std::fs::write(path(), &file).is_err() {
        return;
    }
    let command = COMMANDS[usize::from(choice & 0x7F) % COMMANDS.len()];
    let form: &[&str] = if command[0] == "flame" { &[] } else { &["-o", "json"] };
    let args = [&["plimsoll", "etcd"], command, &[path(), "--threads", "1", "--progress", "never"], form].concat();
    let mut io = Io { out: Box::new(sink()), err: Box::new(sink()), ..Io::process() };
    plimsoll::run(args.iter().map(Into::into), &mut io);
});
