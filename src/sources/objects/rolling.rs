//! How many pods come and go at once while a new version of a workload rolls out.

use serde::Deserialize;
use serde_json::Value;

/// `rollingUpdate` of a Deployment or DaemonSet.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Rolling {
    max_surge: Option<Value>,
    max_unavailable: Option<Value>,
}

impl Rolling {
    /// How many more than `replicas` there may be, and how many fewer. A percentage of more is rounded up, of fewer
    /// down, and both are never 0, as the deployment controller has it.
    pub(super) fn bounds(&self, replicas: u64, [more, fewer]: [&str; 2]) -> [u64; 2] {
        let of = |value: &Option<Value>, default: &str, round: fn(u64, u64) -> u64| {
            let part = |text: &str| Some(round(replicas * text.strip_suffix('%')?.parse::<u64>().ok()?, 100));
            match value {
                Some(Value::Number(number)) => number.as_u64().unwrap_or(0),
                Some(Value::String(text)) => part(text).or_else(|| text.parse().ok()).unwrap_or(0),
                _ => part(default).unwrap_or(0),
            }
        };
        let surge = of(&self.max_surge, more, u64::div_ceil);
        let unavailable = of(&self.max_unavailable, fewer, |part, whole| part / whole);
        [surge, if surge == 0 { unavailable.max(1) } else { unavailable }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_deployment_controller() {
        let of = |text: &str, replicas| serde_json::from_str::<Rolling>(text).unwrap().bounds(replicas, ["25%", "25%"]);
        assert_eq!(of("{}", 8), [2, 2]);
        assert_eq!(of("{}", 3), [1, 0]);
        assert_eq!(of(r#"{"maxSurge": 0, "maxUnavailable": "10%"}"#, 5), [0, 1]);
        assert_eq!(of(r#"{"maxSurge": "3", "maxUnavailable": 0}"#, 5), [3, 0]);
    }
}
