//! Throughput of reading metrics pages: `cargo bench --bench metrics`.

#![expect(clippy::expect_used, reason = "a benchmark without its input can only stop")]

use divan::Bencher;
use divan::counter::BytesCount;
use plimsoll::sources::exposition::{Dialect, Item, Reader, read};
use std::sync::LazyLock;

/// An apiserver's page of 3.7 MB.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    let packed =
        std::fs::read("samples/list-storm/metrics/apiserver-0/1795166741.txt.zst").expect("run in the repository");
    String::from_utf8(zstd::decode_all(packed.as_slice()).expect("the sample is whole")).expect("it is text")
});

fn main() {
    divan::main();
}

/// Line by line: names, labels, values.
#[divan::bench]
fn reader(bencher: Bencher) {
    bencher.counter(BytesCount::of_str(&*PAGE)).bench(|| {
        let mut reader = Reader::new(PAGE.as_bytes(), Dialect::Text);
        let mut sum = 0.0;
        while let Some(item) = reader.next() {
            if let Item::Sample(sample) = item {
                sum += sample.value + sample.labels.len() as f64;
            }
        }
        sum
    });
}

/// With all that is checked on a page.
#[divan::bench]
fn page(bencher: Bencher) {
    bencher.counter(BytesCount::of_str(&*PAGE)).bench(|| {
        let mut sum = 0.0;
        let summary = read(PAGE.as_bytes(), |sample| sum += sample.value, |_| {});
        (summary, sum)
    });
}

/// The crate `prometheus-parse`.
#[divan::bench(sample_count = 5)]
fn prometheus_parse(bencher: Bencher) {
    bencher.counter(BytesCount::of_str(&*PAGE)).bench(|| {
        let lines = PAGE.lines().map(|line| Ok(line.to_owned()));
        prometheus_parse::Scrape::parse(lines).expect("it reads the sample").samples.len()
    });
}
