//! What is wrong with controllers, schedulers and elections. (Thresholds and their reasons: docs/findings.md.)

mod leaders;
mod pods;
mod queues;
mod scheduler;
mod throttling;

pub(super) use leaders::on_elections;
pub(super) use pods::{on_classes, on_untried};
pub(super) use queues::on_queues;
pub(super) use scheduler::on_schedulers;
pub(super) use throttling::{is_held, on_calls};

use crate::analysis::metrics::facts::Instance;
use crate::model::report::{Finding, Severity};
use crate::model::time::Micros;
use crate::model::units::duration;
use serde_json::Value;

/// What is said, before it is said of whom.
struct Draft {
    id: &'static str,
    severity: Severity,
    confidence: f64,
    summary: String,
    /// An object; members that are null are left out.
    evidence: Value,
    remedy: String,
}

impl Draft {
    /// Of this subject, seen from when to when.
    fn about(self, subject: &[(&str, &str)], seen: (Micros, Micros)) -> Finding {
        Finding::new(self.id, self.severity, subject)
            .confidence(self.confidence)
            .seen(seen)
            .summary(self.summary)
            .evidence(self.evidence)
            .remedy(self.remedy)
    }

    /// Of a process, or of something of it.
    fn of(self, instance: &Instance, part: (&str, &str)) -> Finding {
        let subject = [("cluster", instance.cluster.as_str()), ("instance", &instance.name), part];
        self.about(&subject, (instance.from, instance.to))
    }
}

/// Milliseconds in words.
fn ms(millis: f64) -> String {
    duration((millis * 1e3) as Micros)
}

/// Seconds in words.
fn seconds(seconds: f64) -> String {
    ms(seconds * 1e3)
}
