use super::*;
use crate::model::sample::PageText;
use proptest::prelude::*;

/// Name, labels and value of every sample, and every problem.
fn all(page: &str) -> (Vec<String>, Vec<Problem>) {
    let (mut samples, mut problems) = (Vec::new(), Vec::new());
    let show = |text: PageText<'_>| text.decode().into_owned();
    read(
        page.as_bytes(),
        |s| {
            let labels: Vec<String> = s.labels.iter().map(|l| format!("{}={}", show(l.name), show(l.value))).collect();
            samples.push(format!(
                "{}[{}] {}{}",
                show(s.name),
                labels.join("|"),
                s.value,
                s.timestamp.map_or(String::new(), |t| format!(" @{t}"))
            ));
        },
        |p| problems.push(p),
    );
    (samples, problems)
}

#[test]
fn values_that_other_parsers_cut_are_whole() {
    let (samples, problems) =
        all("a{b=\"x}y\",c=\"p,q\",d=\"r=s\",e=\"\\\"\\\\\\n\"} 1.5e3 1700000000123\nb:c +Inf\n d\t-2 \n");
    assert_eq!(samples, ["a[b=x}y|c=p,q|d=r=s|e=\"\\\n] 1500 @1700000000.123", "b:c[] inf", "d[] -2"]);
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn names_may_be_quoted() {
    let (samples, problems) =
        all("{\"http.requests\",code=\"200\"} 1\n{\"only\"} 2\na{\"x.y\"=\"z\"} 3\n# TYPE \"http.requests\" counter\n");
    assert_eq!(samples, ["http.requests[code=200] 1", "only[] 2", "a[x.y=z] 3"]);
    assert_eq!(problems.len(), 1, "the TYPE comes behind its samples");
}

#[test]
fn what_is_no_sample_is_named_with_its_place() {
    for (line, column) in [
        ("a{b=\"c\" 1", 9),
        ("a{b=\"c} 1", 6),
        ("a{b=c} 1", 5),
        ("a{b} 1", 4),
        ("a{b=\"1\",b=\"2\"} 1", 9),
        ("a{c=\"1\",b=\"2\",c=\"3\"} 1", 15),
        ("a x", 3),
        ("a", 2),
        ("1a 2", 1),
        ("a 1 2 3", 7),
        ("a 1 2.5", 5),
        ("a 1_000", 3),
        ("a 0x1p-2", 3),
        ("<html>", 1),
    ] {
        let (samples, problems) = all(&format!("ok 1\n{line}\nok2 2\n"));
        assert_eq!(samples, ["ok[] 1", "ok2[] 2"], "{line}");
        assert_eq!(
            (problems[0].kind, problems[0].line, problems[0].offset),
            (ProblemKind::Line, 2, 5),
            "{line}: {problems:?}"
        );
        assert!(problems[0].detail.ends_with(&format!("(column {column})")), "{line}: {problems:?}");
    }
}

#[test]
fn a_page_that_ends_too_early_is_noticed() {
    for (page, line) in [
        ("a 1\nb 2", 2),
        ("a 1\nb{c=\"", 2),
        ("# TYPE a counter\na_total 1\n", 2),
        ("h_bucket{le=\"1\"} 1\nh_bucket{le=\"2\"} 1\n", 2),
    ] {
        let (_, problems) = all(page);
        assert_eq!(
            problems.iter().map(|p| (p.kind, p.line)).collect::<Vec<_>>(),
            [(ProblemKind::CutOff, line)],
            "{page}"
        );
    }
    assert!(all("h_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 1\n").1.is_empty());
}

#[test]
fn families_and_series_stand_once() {
    let page = "# TYPE a counter\n# HELP a x\na{b=\"1\"} 1\na{b=\"1\"} 2\n# TYPE a gauge\n# HELP a y\na{b=\"2\"} \
         3\nc_bucket{le=\"+Inf\"} 1\n# TYPE c histogram\n";
    let (samples, problems) = all(page);
    assert_eq!(samples, ["a[b=1] 1", "a[b=2] 3", "c_bucket[le=+Inf] 1"]);
    let kinds: Vec<_> = problems.iter().map(|p| (p.kind, p.line)).collect();
    assert_eq!(
        kinds,
        [
            (ProblemKind::Repeated, 4),
            (ProblemKind::Described, 5),
            (ProblemKind::Described, 6),
            (ProblemKind::Described, 9)
        ]
    );
}

#[test]
fn open_metrics_repeats_nothing_either() {
    let (samples, problems) = all("a{b=\"1\"} 1\na{b=\"1\"} 2\nc 1 1.5\nc 2 2.5\n# EOF\n");
    assert_eq!(samples, ["a[b=1] 1", "c[] 1 @1.5", "c[] 2 @2.5"]);
    assert_eq!(problems.iter().map(|p| (p.kind, p.line)).collect::<Vec<_>>(), [(ProblemKind::Repeated, 2)]);
}

#[test]
fn open_metrics_has_exemplars_units_and_an_end() {
    let page = "# TYPE a_seconds counter\n# UNIT a_seconds seconds\n# HELP a_seconds x\na_seconds_total{b=\"1\"} 1.0 \
         1.5 # {trace=\"x\"} 0.5 1.25\na_seconds_created{b=\"1\"} 9 1.5\n# EOF\n";
    let (samples, problems) = all(page);
    assert_eq!(samples, ["a_seconds_total[b=1] 1 @1.5", "a_seconds_created[b=1] 9 @1.5"]);
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn what_stands_behind_the_end_is_left_out() {
    for (page, lines) in [("a 1\n# EOF\nb 2\n", &[3][..]), ("a 1\n# EOF\n# HELP b x\nb 2\n# EOF\n", &[3, 4, 5])] {
        let (samples, problems) = all(page);
        assert_eq!(samples, ["a[] 1"], "{page}");
        let expected: Vec<_> = lines.iter().map(|line| (ProblemKind::Line, *line)).collect();
        assert_eq!(problems.iter().map(|p| (p.kind, p.line)).collect::<Vec<_>>(), expected, "{page}");
    }
}

#[test]
fn counts_are_whole_and_bounds_are_numbers() {
    for (line, fine) in [
        ("h_bucket{le=\"1\"} 1", true),
        ("h_bucket{le=\"1e+05\"} 1", true),
        ("h_bucket{le=\"1.0\"} 0.5", false),
        ("h_bucket{le=\"+INF\"} 1", false),
        ("h_bucket{le=\"x\"} 1", false),
    ] {
        let (samples, problems) = all(&format!("# TYPE h histogram\n{line}\nh_bucket{{le=\"+Inf\"}} 1\n# EOF\n"));
        assert_eq!((samples.len(), problems.is_empty()), (2, fine), "{line}: {problems:?}");
    }
}

#[test]
fn a_comment_may_hold_any_bytes() {
    let mut problems = Vec::new();
    let summary = read(b"# HELP a caf\xe9\na 1\nb{c=\"\xe9\"} 2\n", |_| {}, |p| problems.push(p.line));
    assert_eq!((summary.samples, problems), (1, vec![3]));
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A name, labels with names that differ, a value, a timestamp.
type Written = (String, Vec<(String, String)>, f64, Option<i64>);

fn samples() -> impl Strategy<Value = Vec<Written>> {
    let name = "[a-zA-Z_:][a-zA-Z0-9_:]{0,20}";
    let label = ("[a-zA-Z_][a-zA-Z0-9_]{0,10}", any::<String>());
    let labels = prop::collection::vec(label, 0..6).prop_map(|mut labels| {
        labels.sort();
        labels.dedup_by(|a, b| a.0 == b.0);
        labels
    });
    let value = prop_oneof![any::<f64>(), any::<u32>().prop_map(f64::from), Just(f64::INFINITY), Just(f64::NAN)];
    let stamp = prop::option::of(-1_000_000_000_000_000i64..1_000_000_000_000_000);
    prop::collection::vec((name, labels, value, stamp), 0..20)
}

proptest! {
    #[test]
    fn what_is_written_is_read(samples in samples(), blanks in "[ \t]{1,3}") {
        let mut page = String::new();
        for (name, labels, value, stamp) in &samples {
            let labels: Vec<String> = labels.iter().map(|(n, v)| format!("{n}=\"{}\"", escape(v))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let value = match value {
                v if v.is_nan() => "NaN".to_owned(),
                v if v.is_infinite() => if *v > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() },
                v => format!("{v:e}"),
            };
            let stamp = stamp.map_or(String::new(), |s| format!("{blanks}{s}"));
            page += &format!("{name}{labels}{blanks}{value}{stamp}\n");
        }
        let mut reader = Reader::new(page.as_bytes(), Dialect::Text);
        for (name, labels, value, stamp) in &samples {
            let Some(Item::Sample(s)) = reader.next() else { panic!("no sample in {page}") };
            prop_assert_eq!(&s.name.decode(), name);
            let read: Vec<(String, String)> = s.labels.iter().map(|l| (l.name.decode().into_owned(),
                l.value.decode().into_owned())).collect();
            prop_assert_eq!(&read, labels);
            prop_assert!(s.value.to_bits() == value.to_bits() || s.value.is_nan() && value.is_nan());
            prop_assert_eq!(s.timestamp, stamp.map(|ms| ms as f64 / 1e3));
        }
        prop_assert!(reader.next().is_none());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(prop_oneof![any::<u8>(),
        prop::sample::select(b"ab{}=\"\\,# \n1.e+TYPEOF".to_vec())], 0..200)) {
        for page in [bytes.clone(), [&bytes[..], b"\n# EOF\n"].concat()] {
            let summary = read(&page, |_| {}, |_| {});
            prop_assert!(summary.lines <= page.len() as u64);
        }
    }
}
