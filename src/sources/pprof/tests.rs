//! Profiles made by hand, broken in every way, and bytes of chance.

use super::recognise::{begins_like_one, is_other_text};
use super::*;
use crate::model::stacks::SampleType;
use proptest::prelude::*;

fn number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A number in a message.
fn n(field: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    number(field << 3, &mut out);
    number(value, &mut out);
    out
}

/// Bytes in a message.
fn b(field: u64, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    number(field << 3 | 2, &mut out);
    number(bytes.as_ref().len() as u64, &mut out);
    out.extend(bytes.as_ref());
    out
}

fn sample(locations: &[u64], values: &[u64]) -> Vec<u8> {
    let mut packed = [Vec::new(), Vec::new()];
    locations.iter().for_each(|id| number(*id, &mut packed[0]));
    values.iter().for_each(|value| number(*value, &mut packed[1]));
    b(2, [b(1, &packed[0]), b(2, &packed[1])].concat())
}

fn location(id: u64, function: u64) -> Vec<u8> {
    b(4, [n(1, id), n(3, 0x1000 + id), b(4, [n(1, function), n(2, 7)].concat())].concat())
}

fn function(id: u64, name: u64) -> Vec<u8> {
    b(5, [n(1, id), n(2, name), n(4, 4), n(5, 3)].concat())
}

fn texts(texts: &[&str]) -> Vec<u8> {
    texts.iter().flat_map(|text| b(6, text)).collect()
}

/// The parts of a good profile: main calls f.
fn parts() -> Vec<Vec<u8>> {
    vec![
        b(1, [n(1, 1), n(2, 2)].concat()),
        sample(&[1, 2], &[10]),
        sample(&[2], &[5]),
        location(1, 1),
        location(2, 2),
        function(1, 3),
        function(2, 5),
        texts(&["", "inuse_space", "bytes", "f", "a.go", "main"]),
        n(9, 1_795_166_606_000_000_000),
    ]
}

/// What the reader makes of the bytes when they come `piece` by `piece`.
fn in_pieces(bytes: &[u8], piece: usize) -> Result<Stacks, Fault> {
    let mut reading = Reading::default();
    bytes.chunks(piece).for_each(|bytes| reading.go_on(bytes));
    reading.finish()
}

fn decode(bytes: &[u8]) -> Result<Stacks, Fault> {
    in_pieces(bytes, usize::MAX / 2)
}

fn broken(bytes: &[u8]) -> String {
    Broken(decode(bytes).unwrap_err()).to_string()
}

/// A good profile with one part replaced.
fn with(part: usize, by: Vec<u8>) -> Vec<u8> {
    let mut parts = parts();
    parts[part] = by;
    parts.concat()
}

#[test]
fn a_profile_is_read() {
    let stacks = decode(&parts().concat()).unwrap();
    assert_eq!(stacks.types, [SampleType { name: "inuse_space".into(), unit: "bytes".into() }]);
    assert_eq!((stacks.samples(), stacks.total(0), stacks.at), (2, 15, Some(1_795_166_606_000_000)));
    let names: Vec<&str> =
        stacks.stack(0).iter().flat_map(|l| stacks.frames_of(*l)).map(|frame| stacks.name(*frame)).collect();
    assert_eq!(names, ["f", "main"]);
    assert_eq!((stacks.file(stacks.frames[0]), stacks.frames[0].line, stacks.functions[0].start_line), ("a.go", 7, 3));
}

#[test]
fn numbers_may_come_one_by_one_and_ids_in_any_order() {
    let loose = b(2, [n(1, 1), n(1, 2), n(2, 10)].concat());
    assert_eq!(decode(&with(1, loose)).unwrap(), decode(&parts().concat()).unwrap());
    let mut turned = parts();
    turned.swap(3, 4);
    turned.swap(5, 6);
    let stacks = decode(&turned.concat()).unwrap();
    assert_eq!(stacks.name(stacks.frames_of(stacks.stack(1)[0])[0]), "main");
}

#[test]
fn large_numbers_are_as_good_as_small_ones() {
    for id in [3, 1 << 31, 1 << 32, u64::MAX] {
        let mut far = parts();
        let place = b(4, [n(1, id), n(3, 0x1001), b(4, [n(1, id), n(2, 7)].concat())].concat());
        (far[1], far[3], far[5]) = (sample(&[id, 2], &[10]), place, function(id, 3));
        assert_eq!(decode(&far.concat()).unwrap(), decode(&parts().concat()).unwrap());
        for (part, by, expected) in [
            (1, sample(&[id], &[10]), format!("(sample 1) references location {id}, which")),
            (3, location(1, id), format!("references function {id}, which")),
            (5, function(1, id.max(6)), format!("references string {} as a function", id.max(6))),
        ] {
            let message = broken(&with(part, by));
            assert!(message.contains(&expected), "{message}");
        }
    }
}

#[test]
fn of_faults_in_samples_the_first_is_told() {
    let place = parts()[0].len();
    let unknown = b(2, [n(2, 10), n(1, 1), n(1, 9)].concat());
    // The number of a location stands where its field begins: behind the sample's own two bytes and two fields.
    assert!(broken(&with(1, unknown.clone())).starts_with(&format!("byte {} ", place + 2 + 4)));
    let cut = b(2, [n(1, 9), vec![0x0a, 5]].concat());
    assert!(broken(&with(1, cut.clone())).contains("(sample 1) references location 9"), "before the field that is cut");
    let cut_first = b(2, [vec![0x10], vec![0xff; 10], n(1, 9)].concat());
    assert!(broken(&with(1, cut_first.clone())).contains("more than 64 bits"));
    assert!(broken(&with(1, [unknown, cut_first.clone()].concat())).contains("(sample 1) references location 9"));
    assert!(broken(&with(1, [cut_first, sample(&[9], &[10])].concat())).contains("more than 64 bits"));
    // What is wrong with a table weighs more, wherever it stands.
    let mut both = parts();
    (both[1], both[5]) = (cut, function(1, 77));
    assert!(broken(&both.concat()).contains("references string 77"));
}

#[test]
fn recursion_is_no_cycle() {
    let stacks = decode(&with(1, sample(&[1; 10_000], &[10]))).unwrap();
    assert_eq!(stacks.stack(0).len(), 10_000);
}

#[test]
fn of_many_samples_the_one_that_is_wrong_is_told() {
    // The last sample but one is another, or wrong.
    let count = 3 * 8192;
    let with_last = |last: &[u8]| {
        let samples: Vec<u8> =
            std::iter::repeat_n(sample(&[1, 2], &[10]), count - 1).flatten().chain(last.iter().copied()).collect();
        with(1, samples)
    };
    let stacks = decode(&with_last(&sample(&[2], &[7]))).unwrap();
    // One more stands behind it.
    assert_eq!((stacks.samples(), stacks.total(0)), (count + 1, 10 * (count as u64 - 1) + 7 + 5));
    assert_eq!(
        (stacks.stack(count - 2), stacks.stack(count - 1), stacks.value(count - 1, 0)),
        (&[0, 1][..], &[1][..], 7)
    );
    let bytes = with_last(&sample(&[9], &[7]));
    let place = memchr::memmem::rfind(&bytes, &sample(&[9], &[7])).unwrap();
    let message = broken(&bytes);
    assert!(
        message.starts_with(&format!("byte {} ", place + 2))
            && message.contains("(sample 24576) references location 9"),
        "{message}"
    );
    // Too much only with all others.
    let message = broken(&with_last(&sample(&[1], &[i64::MAX as u64 - 100])));
    assert!(message.contains("(sample 24576) raises the sum of inuse_space above 2^63"), "{message}");
}

#[test]
fn what_is_broken_is_told_with_its_place() {
    for (bytes, expected) in [
        (with(1, sample(&[1, 9], &[10])), "(sample 1) references location 9, which the profile does not have"),
        (with(1, sample(&[0], &[10])), "references location 0"),
        (with(1, sample(&[1], &[10, 11])), "has 2 values, but the profile 1 sample types"),
        (
            with(1, sample(&[1], &[(-5i64).cast_unsigned()])),
            "(sample 1) has a negative inuse_space: -5; if this is a difference",
        ),
        (with(1, sample(&[1], &[i64::MAX as u64])), "(sample 2) raises the sum of inuse_space above 2^63"),
        (with(1, n(2, 4)), "should be a sample but is a number"),
        (with(3, location(1, 9)), "references function 9, which the profile does not have"),
        (with(3, location(2, 1)), "is a duplicate location 2"),
        (with(3, location(0, 1)), "or has ID 0"),
        (with(5, function(2, 3)), "is a duplicate function 2"),
        (with(5, function(1, 77)), "references string 77 as a function, but the profile has 6 strings"),
        (with(0, b(1, n(1, 99))), "references string 99 as a sample type"),
        (with(7, texts(&["x", "inuse_space"])), "is the first string, which must be empty"),
        (with(8, vec![0xff; 12]), "holds a number of more than 64 bits"),
        (with(8, vec![0x33, 1]), "is not a field of a profile (wire type 3)"),
        (with(8, vec![0x32, 200, 1]), "ends within a field"),
        (parts()[3..].concat(), "there was no sample type"),
        (Vec::new(), "the profile is empty"),
    ] {
        let message = broken(&bytes);
        assert!(message.contains(expected), "{message}\nshould have: {expected}");
        assert!(message.starts_with("byte ") && message.contains("(unpacked)"), "{message}");
    }
}

#[test]
fn the_text_form_is_scaled_as_pprof_does() {
    let text = "heap profile: 3: 1572864 [5: 2621440] @ heap/1048576\n\
        1: 524288 [2: 1048576] @ 0x11 0x12\n#\t0x10\ta.f+0x1f\t\t/a/f.go:12\n#\t0x11\tmain.main+0x2\t/a/main.go:3\n\n\
        2: 1048576 [3: 1572864] @ 0x21\n\n# runtime.MemStats\n# Alloc = 5\n";
    let stacks = decode(text.as_bytes()).unwrap();
    let names: Vec<&str> = stacks.types.iter().map(|kind| kind.name.as_str()).collect();
    assert_eq!(names, ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]);
    // 1 / (1 - e^-1) = 1.58197…
    assert_eq!((0..4).map(|kind| stacks.value(0, kind)).collect::<Vec<_>>(), [3, 1_658_822, 1, 829_411]);
    let frames: Vec<_> = stacks
        .stack(0)
        .iter()
        .flat_map(|l| stacks.frames_of(*l))
        .map(|f| (stacks.name(*f), stacks.file(*f), f.line))
        .collect();
    assert_eq!(frames, [("a.f", "/a/f.go", 12), ("main.main", "/a/main.go", 3)]);
    let place = stacks.locations[stacks.stack(1)[0] as usize];
    assert_eq!((place.address, stacks.frames_of(stacks.stack(1)[0]).len()), (0x20, 0));
    // Without allocations of its own there is one pair of numbers; without a rate nothing is scaled.
    let plain = decode(b"heap profile: 1: 2 [1: 2] @ heapprofile\n1: 2 [1: 2] @ 0x1\n").unwrap();
    assert_eq!((plain.types[1].name.as_str(), plain.value(0, 1)), ("space", 2));
}

#[test]
fn broken_text_is_told_with_its_line() {
    let row = |row: &str| format!("heap profile: 1: 2 [3: 4] @ heap/1048576\n{row}\n");
    for (text, expected) in [
        ("heap profile: goroutines".to_owned(), "line 1 is not a heading"),
        ("heap profile: 1: 2 [3: 4] @ cpu/7".to_owned(), "line 1 is not a heading"),
        (row("nonsense"), "line 2 is not a row"),
        (row("1: 2 [3: 4] @ 0xzz"), "line 2 has '0xzz' for an address"),
        (row("0: 2 [3: 4] @ 0x1"), "line 2 has 2 bytes in 0 objects"),
        (row("-1: -2 [3: 4] @ 0x1"), "line 2 has a negative value: -1; if this is a difference"),
        (row("99999999999999999999: 2 [3: 4] @ 0x1"), "line 2 is not a row"),
        (row("1: 2 [3: 4] @ 0x1\n#\tnonsense"), "line 3 is not a line with a function's name"),
    ] {
        let message = broken(text.as_bytes());
        assert!(message.starts_with(expected), "{message}\nshould begin: {expected}");
    }
    assert!(broken(b"heap profile: \xff").contains("is not text"));
}

#[test]
fn profiles_are_known_by_their_content() {
    assert!(begins_like_one(&parts().concat()) && begins_like_one(b"heap profile: 1: 2 [3: 4] @ heap/2"));
    assert!(begins_like_one(&parts().concat()[..40]), "a head is cut anywhere");
    for other in [
        &b""[..],
        b"# HELP x y\nx 1\n",
        b"{\"kind\":\"Event\"}",
        b"\0\0\0\0\0\0\0\0",
        b"\n\x04\x08\x01\x10\x02",
        &[0x0a; 60],
        b"goroutine profile: total 5",
    ] {
        assert!(!begins_like_one(other), "{:?}", String::from_utf8_lossy(other));
    }
    assert!(
        is_other_text(b"goroutine profile: total 5\n") && is_other_text(b"--- mutex:\n") && !is_other_text(b"text")
    );
}

/// What is read must hold together, whatever it was.
fn holds_together(stacks: &Stacks) {
    for sample in 0..stacks.samples() {
        for location in stacks.stack(sample) {
            assert!((*location as usize) < stacks.locations.len());
            for frame in stacks.frames_of(*location) {
                assert!((frame.function as usize) < stacks.functions.len());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_of_chance_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        begins_like_one(&bytes);
        if let Ok(stacks) = decode(&bytes) {
            holds_together(&stacks);
        }
    }

    #[test]
    fn damaged_profiles_never_panic(at in any::<proptest::sample::Index>(), by in any::<u8>(),
        cut in any::<proptest::sample::Index>(), again in any::<proptest::sample::Index>()) {
        let mut bytes = parts().concat();
        let (place, end) = (at.index(bytes.len()), cut.index(bytes.len()) + 1);
        bytes[place] = by;
        let other = again.index(bytes.len());
        bytes[other] ^= by;
        for bytes in [&bytes[..], &bytes[..end]] {
            let stacks = decode(bytes);
            if let Ok(stacks) = &stacks {
                holds_together(stacks);
            }
            // However it comes: the same stacks, or the same fault.
            prop_assert_eq!(in_pieces(bytes, 1 + other % 40), stacks);
        }
    }

    #[test]
    fn text_of_chance_never_panics(rows in proptest::collection::vec("(-?[0-9]{1,20}: [0-9]{1,20} \\[[0-9]{1,20}: \
         [0-9]{1,3}\\] @( 0x[0-9a-g]{1,17}){0,3}|#\t0x[0-9a-f]{1,9}(\t[a-z.+0-9]{0,9}){0,3}|.{0,20})", 0..9)) {
        let text = format!("heap profile: 1: 2 [3: 4] @ heap/1048576\n{}", rows.join("\n"));
        if let Ok(stacks) = decode(text.as_bytes()) {
            holds_together(&stacks);
        }
    }
}
