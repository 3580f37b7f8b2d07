//! The independent model of who is to be notified of what and when (`tests/oracle/alerts_model.py`).

use crate::support::{feed, python, root};
use serde_json::Value;
use std::process::Command;

/// Asks the model.
pub(crate) fn model(what: &[&str], input: &Value) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/alerts_model.py")).args(what);
    let ran = feed(command, input.to_string().as_bytes());
    assert_eq!(ran.code, Some(0), "the model failed: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Numbers that look like chance, and are the same each time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// An alert of Alertmanager: owner, namespace, severity.
pub(crate) fn shown(alert: &Value) -> String {
    let label = |name: &str| alert["labels"][name].as_str().unwrap().to_owned();
    assert_eq!(
        (label("alertname"), label("site"), label("cluster")),
        ("PlimsollQuota".into(), "lab".into(), "lab".into())
    );
    assert_eq!(alert["generatorURL"], format!("https://dash.example.org/{}", label("namespace")));
    format!("{} {} {}", label("owner"), label("namespace"), label("severity"))
}
