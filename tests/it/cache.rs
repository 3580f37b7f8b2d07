//! Roll-ups that are kept across runs: what they answer is what the logs say, which are not read again.

use crate::support::{Ran, feed, folder, hermetic, plimsoll, python, root, sample, sample_bytes, write};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const INSTANCES: [&str; 2] = ["apiserver-0", "apiserver-1"];

/// A sample's logs as they lie on an apiserver's disk.
fn unpacked(name: &str, to: &Path) -> String {
    for file in logs_of(name) {
        let bytes = sample_bytes(&format!("{name}/{file}"));
        write(to, file.trim_end_matches(".zst"), bytes);
    }
    if let Ok(bundle) = fs::read(format!("{}/bundle.yaml", sample(name))) {
        write(to, "bundle.yaml", bundle);
    }
    to.to_str().unwrap().to_owned()
}

/// The logs of a sample.
fn logs_of(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(sample(name))];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().unwrap().to_str().unwrap().starts_with("audit") {
                found.push(path.strip_prefix(sample(name)).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    assert!(!found.is_empty(), "{name}");
    found
}

/// A command with a cache of its own, in which logs of any size are worth a place.
fn cached(command: &[&str], cache: &Path) -> Ran {
    let with = ["--cache", cache.to_str().unwrap(), "--cache-from", "1", "-v"];
    plimsoll(&[command, &with].concat())
}

/// Whether a run says that its answer came from the cache.
fn is_from_cache(ran: &Ran) -> bool {
    ran.stderr.contains("answered from a roll-up")
}

/// What a command prints, but for when.
#[track_caller]
fn answer(ran: &Ran) -> Value {
    let mut answer = ran.json(0);
    for name in ["generated_at", "written"] {
        answer.as_object_mut().unwrap().remove(name);
    }
    answer
}

/// Folders that count: whoever is killed between `entry.json` and the last renaming leaves a `making-…` that is whole.
fn entries(cache: &Path) -> Vec<PathBuf> {
    let Ok(all) = fs::read_dir(cache) else { return Vec::new() };
    let paths = all.map(|entry| entry.unwrap().path());
    let is_named = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("rollup-");
    paths.filter(is_named).filter(|path| path.join("entry.json").is_file()).collect()
}

fn listed(cache: &Path) -> Value {
    plimsoll(&["cache", "ls", "--cache", cache.to_str().unwrap(), "-o", "json"]).json(0)
}

/// Bytes that a command reads of files below a folder, as strace counts them; and what it prints.
fn traced(command: &[&str], cache: &Path, below: &str) -> (u64, Value) {
    let home = folder();
    let mut run = hermetic(Command::new(python()), home.path());
    run.arg(root().join("tests/oracle/reads.py")).arg(env!("CARGO_BIN_EXE_plimsoll")).args(command);
    run.args(["--cache", cache.to_str().unwrap(), "--cache-from", "1"]);
    let ran = feed(run, b"");
    assert_eq!(ran.code, Some(0), "strace: {}; run .ci/setup first", ran.stderr);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    let read = answer["read"].as_object().unwrap();
    let bytes = read.iter().filter(|(path, _)| path.starts_with(below)).map(|(_, bytes)| bytes.as_u64().unwrap()).sum();
    (bytes, serde_json::from_str(answer["output"].as_str().unwrap()).unwrap())
}

#[test]
fn what_is_kept_answers_as_the_log_does() {
    for name in ["list-storm", "overload-restart", "quiet", "drain"] {
        let (home, caches) = (folder(), folder());
        let log = unpacked(name, home.path());
        for (number, command) in [
            &["clients", &log, "-o", "json"][..],
            &["balance", &log, "-o", "json"],
            &["compare", &log, &log, "-o", "json"],
            &["clients", &log, "--since", "2020-01-01", "--until", "2040-01-01", "-o", "json"],
            &["traffic", &log, "--by", "agent,resource", "-o", "json"],
            &["traffic", &log, "--by", "group", "--where", "resource=pods", "-o", "json"],
            &["report", &log, "-o", "json"],
        ]
        .into_iter()
        .enumerate()
        {
            let cache = caches.path().join(number.to_string());
            let of_log = plimsoll(&[command, &["--no-cache"]].concat());
            let mut makes = command.to_vec();
            if command[0] == "traffic" {
                // It never makes a roll-up for the cache's sake.
                let first = cached(command, &cache);
                assert_eq!(answer(&first), answer(&of_log), "{name}: {command:?}");
                assert!(!is_from_cache(&first) && entries(&cache).is_empty(), "{name}: {command:?}");
                makes = vec!["clients", &log, "-o", "json"];
            } else if command.contains(&"--since") {
                makes = vec!["clients", &log, "-o", "json"];
            }
            let first = cached(&makes, &cache);
            if makes == command {
                assert_eq!(answer(&first), answer(&of_log), "{name}: {command:?}, first");
            }
            let second = cached(command, &cache);
            assert_eq!(answer(&second), answer(&of_log), "{name}: {command:?}, second");
            // Where a window is no more than a part of the log, it is read.
            if command[0] != "report" {
                assert!(!is_from_cache(&first), "{}", first.stderr);
                assert!(is_from_cache(&second), "{name}: {command:?}: {}", second.stderr);
                assert_eq!(entries(&cache).len(), 1, "{name}: {command:?}");
            }
        }
    }
}

#[test]
fn what_might_not_be_the_same_is_read_from_the_log() {
    let (home, cache) = (folder(), folder());
    let log = unpacked("list-storm", home.path());
    cached(&["clients", &log], cache.path()).exits(0);
    for command in [
        &["clients", &log, "--where", "agent=kubectl"][..],
        &["clients", &log, "--since", "2026-11-20T09:22:00Z"],
        &["clients", &log, "--dedupe", "always"],
        &["traffic", &log, "--by", "user"],
        &["traffic", &log, "--by", "verb,resource"],
        &["traffic", &log, "--by", "agent", "--series"],
        &["guard", "events", &log],
        &["balance", &format!("{log}/audit/apiserver-0")],
    ] {
        let ran = cached(&[command, &["-o", "json"]].concat(), cache.path());
        assert!(!is_from_cache(&ran), "{command:?}: {}", ran.stderr);
        assert_eq!(answer(&ran), answer(&plimsoll(&[command, &["-o", "json", "--no-cache"]].concat())), "{command:?}");
    }
    // Nor where nobody wants it, or the log is small.
    let ran = cached(&["clients", &log, "--no-cache"], cache.path());
    assert!(!is_from_cache(&ran));
    let small = plimsoll(&["clients", &log, "-v", "--cache", cache.path().to_str().unwrap()]);
    assert!(!is_from_cache(&small) && small.code == Some(0));
    // What is read once, or lies in an archive, is not kept.
    let before = entries(cache.path()).len();
    let args = ["clients", "-", "--cache", cache.path().to_str().unwrap(), "--cache-from", "1"];
    let bytes = fs::read(format!("{log}/audit/apiserver-1/audit.log")).unwrap();
    crate::support::run(&args, &[], &bytes).exits(0);
    let tar = home.path().join("logs.tar");
    assert!(Command::new("tar").args(["-cf", tar.to_str().unwrap(), "-C", &log, "audit"]).status().unwrap().success());
    cached(&["clients", tar.to_str().unwrap()], cache.path()).exits(0);
    assert_eq!(entries(cache.path()).len(), before);
}

#[test]
fn what_was_read_is_not_read_again() {
    let (home, cache) = (folder(), folder());
    let log = unpacked("list-storm", home.path());
    let size: u64 = INSTANCES.iter().map(|of| fs::metadata(format!("{log}/audit/{of}/audit.log")).unwrap().len()).sum();
    let below = format!("{log}/audit");
    let command = ["clients", &log, "-o", "json"];
    let (first, of_log) = traced(&command, cache.path(), &below);
    assert!(first >= size, "{first} of {size}");
    let (second, of_cache) = traced(&command, cache.path(), &below);
    assert!(second < 2_000_000 && second * 8 < size, "{second} of {size}");
    assert_eq!(of_cache, of_log);
    // Whoever asks.
    let (other, _) = traced(&["balance", &log, "-o", "json"], cache.path(), &below);
    assert!(other < 2_000_000, "{other} of {size}");
}

/// The time of each line, and where it ends.
fn lines_of(log: &[u8]) -> Vec<(String, usize)> {
    let mut end = 0;
    let mut line = |line: &[u8]| {
        end += line.len();
        let event: Value = serde_json::from_slice(line).unwrap();
        (event["stageTimestamp"].as_str().unwrap().to_owned(), end)
    };
    log.split_inclusive(|byte| *byte == b'\n').map(&mut line).collect()
}

#[test]
fn of_a_log_that_grows_only_the_rest_is_read() {
    let (home, cache) = (folder(), folder());
    let all: Vec<Vec<u8>> =
        INSTANCES.iter().map(|of| sample_bytes(&format!("list-storm/audit/{of}/audit.log.zst"))).collect();
    let ends: Vec<_> = all.iter().map(|bytes| lines_of(bytes)).collect();
    let path = |of: usize| home.path().join("audit").join(INSTANCES[of]).join("audit.log");
    // All that was written up to a moment, and a part of the line behind it.
    let reached = |of: usize, now: &str, more: usize| {
        let whole = ends[of].iter().take_while(|(at, _)| at.as_str() < now).last().map_or(0, |(_, end)| *end);
        (whole + more).min(all[of].len())
    };
    let log = home.path().to_str().unwrap();
    let command = ["clients", log, "-o", "json"];
    let mut before = 0;
    let moments =
        ["2026-11-20T09:20:30", "2026-11-20T09:21:41.5", "2026-11-20T09:22:13", "2026-11-20T09:24:00", "2027"];
    for (round, now) in moments.into_iter().enumerate() {
        let mut size = 0;
        for (of, bytes) in all.iter().enumerate() {
            let to = reached(of, now, if of == 0 { 77 } else { 0 });
            write(home.path(), path(of).strip_prefix(home.path()).unwrap().to_str().unwrap(), &bytes[..to]);
            size += to as u64;
        }
        let (read, of_cache) = traced(&command, cache.path(), log);
        let of_log = plimsoll(&[&command[..], &["--no-cache"]].concat()).json(0);
        assert_eq!(of_cache, of_log, "up to {now}");
        if round > 0 {
            assert!(read < size - before + 2_000_000, "{read} of {}, {size} in all", size - before);
            assert!(is_from_cache(&cached(&command, cache.path())), "up to {now}");
        }
        before = size;
        // One entry stands for all of it but the line that is being written.
        let answer = listed(cache.path());
        let covers = answer["rows"][0]["covers"].as_u64().unwrap();
        assert!(
            answer["rows"].as_array().unwrap().len() == 1 && covers + 77 >= size && covers <= size,
            "{answer}, {size}"
        );
    }
    // It is rotated, and goes on in a new file.
    let (first, rest) = all[0].split_at(reached(0, "2026-11-20T09:23:00", 0));
    let (old, new) = (path(0).with_file_name("audit-2026-11-20T09-23-00.000.log"), path(0));
    let cache = folder();
    write(
        home.path(),
        path(1).strip_prefix(home.path()).unwrap().to_str().unwrap(),
        &all[1][..reached(1, "2026-11-20T09:23:00", 0)],
    );
    fs::write(&new, first).unwrap();
    cached(&command, cache.path()).exits(0);
    fs::rename(&new, &old).unwrap();
    fs::write(&new, rest).unwrap();
    fs::write(path(1), &all[1]).unwrap();
    let ran = cached(&command, cache.path());
    assert!(is_from_cache(&ran), "{}", ran.stderr);
    assert_eq!(answer(&ran), answer(&plimsoll(&[&command[..], &["--no-cache"]].concat())));
}

#[test]
fn a_log_that_is_another_one_is_read_anew() {
    let (home, caches) = (folder(), folder());
    let bytes = sample_bytes("list-storm/audit/apiserver-0/audit.log.zst");
    let log = home.path().join("audit.log");
    let path = log.to_str().unwrap();
    let lines = lines_of(&bytes);
    let half = lines[lines.len() / 2].1;
    // Same length: the user of an event near the end is another one.
    let mut other_tail = bytes.clone();
    let at = memchr::memmem::rfind(&bytes, b"\"system:").unwrap() + 2;
    other_tail[at] = b'z';
    let mut other_head = bytes.clone();
    let first = memchr::memmem::find(&bytes, b"\"system:").unwrap() + 2;
    other_head[first] = b'z';
    let longer = [&bytes[..], &bytes[..half]].concat();
    let cases: [(&str, &[u8], &[u8]); 5] = [
        ("another end", &bytes, &other_tail),
        ("another first line", &bytes, &other_head),
        ("truncated", &bytes, &bytes[..half]),
        ("another log", &bytes[..half], &bytes[half..]),
        ("what it gained lies before what is kept", &bytes, &longer),
    ];
    for (number, (what, before, after)) in cases.into_iter().enumerate() {
        let cache = caches.path().join(number.to_string());
        fs::write(&log, before).unwrap();
        cached(&["clients", path], &cache).exits(0);
        assert!(is_from_cache(&cached(&["clients", path], &cache)), "{what}");
        fs::write(&log, after).unwrap();
        let ran = cached(&["clients", path, "-o", "json"], &cache);
        assert!(!is_from_cache(&ran), "{what}: {}", ran.stderr);
        assert_eq!(answer(&ran), answer(&plimsoll(&["clients", path, "--no-cache", "-o", "json"])), "{what}");
        // It takes the place of what was kept.
        let again = cached(&["clients", path, "-o", "json"], &cache);
        assert_eq!((answer(&again), entries(&cache).len()), (answer(&ran), 1), "{what}");
    }
}

#[test]
fn losses_are_told_again() {
    let (home, cache) = (folder(), folder());
    let mut bytes = sample_bytes("list-storm/audit/apiserver-0/audit.log.zst");
    let end = lines_of(&bytes)[100].1;
    bytes.splice(end..end, b"{\"kind\":\"Event\"\n".iter().copied());
    let log = write(home.path(), "audit.log", &bytes);
    let command = ["clients", &log, "-o", "json"];
    let of_log = plimsoll(&[&command[..], &["--no-cache"]].concat());
    for is_second in [false, true] {
        let ran = cached(&command, cache.path());
        assert_eq!((ran.code, is_from_cache(&ran)), (Some(3), is_second), "{}", ran.stderr);
        assert_eq!(ran.json(3), of_log.json(3));
        assert!(ran.stderr.contains("audit.log:102: line is not a complete JSON object"), "{}", ran.stderr);
    }
    // By the name that it has now.
    let moved = home.path().join("moved.log");
    fs::rename(&log, &moved).unwrap();
    let ran = cached(&["clients", moved.to_str().unwrap(), "-o", "json"], cache.path());
    assert!(is_from_cache(&ran) && ran.stderr.contains("moved.log:102: line"), "{}", ran.stderr);
}

#[test]
fn what_is_kept_is_the_users_alone_and_is_bounded() {
    let (home, outer) = (folder(), folder());
    let cache = outer.path().join("new/cache");
    let log = unpacked("quiet", home.path());
    let bytes = fs::read(format!("{log}/audit/apiserver-0/audit.log")).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    fs::create_dir_all(&cache).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
    write(&cache, "rollup-mine/notes.txt", "mine");
    let ask = |number: usize, size: &str| {
        let log =
            write(home.path(), &format!("{number}/audit.log"), text.replace("apiserver", &format!("apiserve{number}")));
        let ran = cached(&["clients", &log, "--cache-size", size], &cache);
        ran.exits(0);
        (log, ran)
    };
    ask(0, "1GB");
    let one = listed(&cache)["totals"]["bytes"].as_u64().unwrap();
    let mut folders = vec![cache.clone()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            if path.ends_with("rollup-mine") {
                continue;
            }
            assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
            if path.is_dir() { folders.push(path) } else { files += 1 }
        }
    }
    assert!(files > 10, "{files}");
    // Two fit; the one that was used last stays.
    let limit = (one * 5 / 2).to_string();
    ask(1, &limit);
    assert!(is_from_cache(&ask(0, &limit).1));
    ask(2, &limit);
    let answer = listed(&cache);
    let logs: Vec<&str> = answer["rows"].as_array().unwrap().iter().map(|row| row["log"].as_str().unwrap()).collect();
    let home = home.path().to_str().unwrap();
    assert_eq!(logs.len(), 2, "{answer}");
    assert!(
        logs.contains(&format!("{home}/0/audit.log").as_str())
            && logs.contains(&format!("{home}/2/audit.log").as_str()),
        "{logs:?}"
    );
    assert!(answer["totals"]["bytes"].as_u64().unwrap() <= one * 5 / 2);
    // What is larger than the bound is not kept at all.
    ask(3, "1000");
    assert_eq!(entries(&cache).len(), 2);
    // Nothing but what it made is removed.
    let cleared = plimsoll(&["cache", "clear", "--cache", cache.to_str().unwrap(), "-o", "json"]).json(0);
    assert_eq!(cleared["totals"]["entries"], 2);
    let left: Vec<_> = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["rollup-mine"]);
    assert_eq!(fs::read_to_string(cache.join("rollup-mine/notes.txt")).unwrap(), "mine");
    let none = plimsoll(&["cache", "ls", "--no-cache"]);
    assert_eq!(none.code, Some(2), "{}", none.stderr);
}

#[test]
fn a_damaged_entry_is_removed_and_the_log_is_read() {
    let (home, cache) = (folder(), folder());
    let log = unpacked("quiet", home.path());
    let command = ["clients", &log, "-o", "json"];
    let of_log = answer(&plimsoll(&[&command[..], &["--no-cache"]].concat()));
    for name in ["rollup/traffic.parquet", "rollup/clients.parquet", "rollup/manifest.json", "entry.json"] {
        for is_cut in [true, false] {
            assert!(!is_from_cache(&cached(&command, cache.path())), "{name}");
            let entry = entries(cache.path()).remove(0);
            let file = OpenOptions::new().read(true).write(true).open(entry.join(name)).unwrap();
            let size = file.metadata().unwrap().len();
            if is_cut {
                file.set_len(size / 2).unwrap();
            } else {
                // A digit becomes another one, or a byte another one.
                let mut text = vec![0; size as usize];
                file.read_exact_at(&mut text, 0).unwrap();
                let at = size as usize / 2 + text[size as usize / 2..].iter().position(u8::is_ascii_digit).unwrap_or(0);
                let byte = if text[at] == b'7' { b'8' } else { b'7' };
                file.write_all_at(&[byte], at as u64).unwrap();
            }
            let ran = cached(&command, cache.path());
            assert_eq!(answer(&ran), of_log, "{name}");
            assert!(!is_from_cache(&ran) && ran.stderr.contains("damaged entry"), "{name}: {}", ran.stderr);
            assert!(!entry.exists() && entries(cache.path()).len() == 1, "{name}");
            plimsoll(&["cache", "clear", "--cache", cache.path().to_str().unwrap()]).exits(0);
        }
    }
    // A file that is missing.
    cached(&command, cache.path()).exits(0);
    fs::remove_file(entries(cache.path())[0].join("rollup/pulse.parquet")).unwrap();
    assert_eq!(answer(&cached(&command, cache.path())), of_log);
}

#[test]
fn a_cache_that_can_not_be_written_is_told_once() {
    let home = folder();
    let log = unpacked("quiet", home.path());
    // A file in place of the folder.
    let cache = write(home.path(), "file", "mine");
    let ran = cached(&["clients", &log, "-o", "json"], Path::new(&cache));
    assert_eq!(answer(&ran), answer(&plimsoll(&["clients", &log, "--no-cache", "-o", "json"])));
    assert_eq!(ran.stderr.matches("can't be kept").count(), 1, "{}", ran.stderr);
    assert_eq!(fs::read_to_string(&cache).unwrap(), "mine");
    // Without a home there is no cache.
    let mut run = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    run.env_clear().args(["clients", &log, "-v", "--cache-from", "1"]);
    let ran = feed(run, b"");
    assert_eq!((ran.code, ran.stderr.contains("kept")), (Some(0), false), "{}", ran.stderr);
    // By the usual place, and by what the environment names.
    let mut run = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
    run.args(["clients", &log, "--cache-from", "1"]);
    feed(run, b"").exits(0);
    assert_eq!(entries(&home.path().join(".cache/plimsoll")).len(), 1);
    let other = home.path().join("xdg");
    let ran = crate::support::run(
        &["clients", &log],
        &[("XDG_CACHE_HOME", other.to_str().unwrap()), ("PLIMSOLL_CACHE_FROM", "1")],
        b"",
    );
    ran.exits(0);
    assert_eq!(entries(&other.join("plimsoll")).len(), 1);
    let config = write(
        home.path(),
        "config.toml",
        format!("cache = {:?}\ncache-from = \"1\"\n", home.path().join("configured")),
    );
    plimsoll(&["clients", &log, "--config", &config]).exits(0);
    assert_eq!(entries(&home.path().join("configured")).len(), 1);
}

#[test]
fn whoever_is_killed_leaves_nothing_that_counts() {
    let (home, cache) = (folder(), folder());
    let log = unpacked("list-storm", home.path());
    let of_log = answer(&plimsoll(&["clients", &log, "--no-cache", "-o", "json"]));
    let start = || {
        let mut run = hermetic(Command::new(env!("CARGO_BIN_EXE_plimsoll")), home.path());
        run.args(["clients", &log, "-o", "json", "--cache-from", "1", "--cache", cache.path().to_str().unwrap()]);
        run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut seed = 7u64;
    let mut was_making = 0;
    for round in 0..24 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child = start();
        // Some as soon as they have begun to write, some at any time.
        if round % 2 == 0 {
            let is_making = || {
                let names = fs::read_dir(cache.path()).into_iter().flatten().filter_map(Result::ok);
                names.map(|entry| entry.path()).any(|path| {
                    path.file_name().unwrap().to_str().unwrap().starts_with("making-")
                        && path.join("rollup").is_dir()
                        && fs::metadata(&path).is_ok_and(|meta| {
                            meta.modified().is_ok_and(|at| at.elapsed().unwrap_or_default() < Duration::from_secs(1))
                        })
                })
            };
            while child.try_wait().unwrap().is_none() && !is_making() {
                std::thread::sleep(Duration::from_millis(1));
            }
        } else {
            std::thread::sleep(Duration::from_millis(seed >> 33 & 0xff));
        }
        let _ = child.kill();
        child.wait().unwrap();
        let left = fs::read_dir(cache.path()).into_iter().flatten().filter_map(Result::ok);
        was_making += left.filter(|entry| entry.file_name().to_str().unwrap().starts_with("making-")).count();
        let ran = cached(&["clients", &log, "-o", "json"], cache.path());
        assert_eq!(answer(&ran), of_log);
        assert!(entries(cache.path()).len() == 1);
        // For the next one to make.
        fs::remove_file(entries(cache.path())[0].join("entry.json")).unwrap();
    }
    assert!(was_making > 0, "nobody was killed while writing");
    // What they left goes.
    plimsoll(&["cache", "clear", "--cache", cache.path().to_str().unwrap()]).exits(0);
    let left: Vec<_> = fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_str().unwrap().starts_with("rollup-")), "{left:?}");
}

#[test]
fn several_at_once_do_not_harm_one_another() {
    let (home, cache) = (folder(), folder());
    let log = unpacked("quiet", home.path());
    let of_log = answer(&plimsoll(&["clients", &log, "--no-cache", "-o", "json"]));
    for _ in 0..3 {
        std::thread::scope(|scope| {
            let runs: Vec<_> =
                (0..4).map(|_| scope.spawn(|| cached(&["clients", &log, "-o", "json"], cache.path()))).collect();
            // One removes what the others make.
            scope.spawn(|| plimsoll(&["cache", "clear", "--cache", cache.path().to_str().unwrap()]).exits(0).code);
            for run in runs {
                assert_eq!(answer(&run.join().unwrap()), of_log);
            }
        });
    }
    let ran = cached(&["clients", &log, "-o", "json"], cache.path());
    assert_eq!(answer(&ran), of_log);
    assert!(is_from_cache(&cached(&["clients", &log, "-o", "json"], cache.path())));
}

#[test]
fn what_is_listed_is_what_there_is() {
    let (home, cache) = (folder(), folder());
    let log = unpacked("list-storm", home.path());
    cached(&["clients", &log], cache.path()).exits(0);
    let answer = listed(cache.path());
    let size: u64 = INSTANCES.iter().map(|of| fs::metadata(format!("{log}/audit/{of}/audit.log")).unwrap().len()).sum();
    let window = plimsoll(&["traffic", &log, "-o", "json"]).json(0)["window"].clone();
    let row = &answer["rows"][0];
    assert_eq!((&row["covers"], &row["from"], &row["to"]), (&size.into(), &window["from"], &window["to"]));
    let mut bytes = 0;
    let mut folders = entries(cache.path());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path)
            } else {
                bytes += File::open(path).unwrap().metadata().unwrap().len()
            }
        }
    }
    assert_eq!((&row["bytes"], &answer["totals"]["bytes"]), (&bytes.into(), &bytes.into()));
    assert!(row["age"].as_f64().unwrap() < 600.0, "{row}");
    for form in ["table", "wide", "csv", "markdown", "yaml"] {
        let ran = plimsoll(&["cache", "ls", "--cache", cache.path().to_str().unwrap(), "-o", form]);
        ran.exits(0);
        assert!(ran.stdout.contains("apiserver-0"), "{form}: {}", ran.stdout);
    }
}
