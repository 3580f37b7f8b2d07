//! What a deletion brings with it: objects that the audit log does not name, counted by the changes that the store
//! reports to the apiservers' watch caches.

use super::candidates::Operation;
use super::signals::{Deviation, Signal};
use super::vitals::{Course, Vital, Vitals};
use crate::analysis::robust::median;
use crate::model::cause::Source;
use crate::model::time::{Micros, SECOND};

/// The store changes so many times as often as usual while what belongs to something is deleted.
const MIN_TIMES: f64 = 4.0;
/// Deletions that bring fewer changes than this with them are small.
const MIN_CHANGES: f64 = 500.0;
/// The first of them come within this time, in µs: the namespace controller watches namespaces, and starts at once.
const BEGINS: Micros = 30 * SECOND;

/// Adds to operations how many objects changed with them, and gives the times in which they did.
pub(super) fn counted(operations: &mut [Operation], vitals: Option<&Vitals>) -> Vec<Deviation> {
    // Every apiserver receives every change: the one with the most pages shows the course best.
    let course = vitals.and_then(|vitals| vitals.of(Vital::StoreChanges).max_by_key(|course| course.points.len()));
    let Some(course) = course else { return Vec::new() };
    let baseline = median(&mut course.points.iter().map(|point| point.value).collect::<Vec<f64>>()).unwrap_or(0.0);
    let mut all: Vec<Deviation> = Vec::new();
    for operation in operations {
        let Some((deviation, changes)) = burst(operation.at, course, baseline) else { continue };
        operation.objects = operation.objects.max(changes);
        if !all.iter().any(|own| own.span.1 == deviation.span.1) {
            all.push(deviation);
        }
    }
    all
}

/// The burst of changes that begins with an operation, and how many there are.
fn burst(at: Micros, course: &Course, baseline: f64) -> Option<(Deviation, f64)> {
    let is_more = |value: f64| value >= MIN_TIMES * baseline.max(0.1);
    let behind = course.points.iter().filter(|point| point.span.1 > at);
    let mut behind = behind.skip_while(|point| !is_more(point.value) && point.span.0 < at + BEGINS).peekable();
    let first = behind.peek()?;
    if first.span.0 >= at + BEGINS {
        return None;
    }
    let (mut changes, mut seconds, mut to) = (0.0, 0.0, at);
    for point in behind.take_while(|point| is_more(point.value)) {
        changes += (point.value - baseline) * point.count;
        seconds += point.count;
        to = point.span.1;
    }
    (changes >= MIN_CHANGES).then(|| {
        let deviation = Deviation {
            signal: Signal::Cascade,
            source: Source::Metrics,
            span: (at, to),
            slack: to - at,
            level: baseline + changes / seconds,
            baseline,
            weight: changes,
        };
        (deviation, changes)
    })
}
