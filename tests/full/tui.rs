//! The terminal UI: apiservers that fail in every way and come back, and how little it does when nothing happens.

use crate::lab::Lab;
use crate::screen::{Screen, page};
use crate::support::{folder, python, root, sample, sample_bytes, write};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn live_apiservers_that_fail_and_come_back() {
    // Healthy, then each fault until it is seen, and healthy again.
    let cases = [
        ("@500@", "500"),
        ("@403@", "403"),
        ("@401@", "401"),
        ("@hang-up@", "without an answer"),
        ("@cut@", "broke off"),
        ("@429@", "429"),
        ("@stuck@", "3"),
    ];
    std::thread::scope(|scope| {
        for (fault, words) in cases {
            scope.spawn(move || it_fails_and_comes_back(fault, words));
        }
    });
}

fn it_fails_and_comes_back(fault: &str, words: &str) {
    let home = folder();
    let pages: Vec<String> =
        (0..3u64).map(|n| write(home.path(), &format!("page-{n}.txt"), page(1_000 + 100 * n))).collect();
    // Answers of 429 and 503 are tried again at once, four times at most.
    let sequence = [&pages[..2], &vec![fault.to_owned(); 4], &pages[2..]].concat().join(",");
    let lab = Lab::start(&[&sequence, &pages[0]]);
    let kubeconfig = lab.kubeconfig();
    let words_of =
        ["--kubeconfig", kubeconfig.to_str().unwrap(), "--context", "lab", "--every", "1s", "--request-timeout", "3s"];
    let screen = Screen::start(&format!("live-{}", fault.trim_matches('@')), (160, 24), &words_of, home.path());
    let text = screen.until("it fails", |text| text.contains("fails since"));
    assert!(text.contains(&lab.name("a")) && text.contains("1 of 2 sources fail"), "{fault}: {text}");
    assert!(text.to_lowercase().contains(words), "{fault}: it is said why: {text}");
    assert!(!text.contains("sesame"), "no token on the screen: {text}");
    screen.shows("2 sources answer");
    screen.keys(&["0"]);
    let text = screen.shows("it is back");
    assert!(text.to_lowercase().contains(words), "the log remembers: {text}");
    screen.keys(&["q"]);
    screen.is_sane();
    let entries = std::fs::read_dir(home.path()).unwrap().filter_map(Result::ok);
    let left: Vec<_> = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("plimsoll-")).collect();
    assert!(left.is_empty(), "what was kept to look back at is removed: {left:?}");
}

#[test]
fn it_is_there_at_once_and_quiet_when_nothing_happens() {
    let out = Command::new(python())
        .arg(root().join("tests/oracle/tui.py"))
        .args([env!("CARGO_BIN_EXE_plimsoll"), "tui", &sample("list-storm")])
        .output()
        .unwrap();
    let reported: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&out.stderr)));
    // The fastest of five: other tests run beside this one.
    assert!(reported["first_frame_ms"].as_f64().unwrap() <= 150.0, "{reported}");
    assert!(reported["idle_bytes_per_s"].as_f64().unwrap() <= 20_000.0, "{reported}");
    assert!(reported["idle_cpu_share"].as_f64().unwrap() <= 0.02, "{reported}");
}

#[test]
fn live_and_idle_it_takes_less_than_a_fiftieth_of_a_core() {
    let home = folder();
    let pages: Vec<String> = (0..2)
        .map(|number| {
            let name = ["apiserver-0", "apiserver-1"][number];
            write(
                home.path(),
                &format!("{name}.txt"),
                sample_bytes(&format!("list-storm/metrics/{name}/1795166306.txt.zst")),
            )
        })
        .collect();
    let lab = Lab::start(&[&pages[0], &pages[1]]);
    let kubeconfig = lab.kubeconfig();
    let screen = Screen::start(
        "idle",
        (200, 50),
        &["--kubeconfig", kubeconfig.to_str().unwrap(), "--context", "lab"],
        home.path(),
    );
    screen.shows("2 sources answer");
    let ticks = || -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", screen.process())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    // Connecting and the first pages are not idle.
    std::thread::sleep(Duration::from_secs(3));
    let (before, began) = (ticks(), Instant::now());
    std::thread::sleep(Duration::from_secs(30));
    let share = (ticks() - before) as f64 / 100.0 / began.elapsed().as_secs_f64();
    assert!(share < 0.02, "{share}");
    screen.keys(&["q"]);
    screen.is_sane();
}
