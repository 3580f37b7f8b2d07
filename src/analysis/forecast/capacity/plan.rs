//! What is to be added: `web:+200 pods`, `+20 nodes`, from when on.

use crate::model::problem::Problem;
use crate::model::quantity::Quantity;
use crate::model::time::{self, Micros};
use crate::model::units::grouped;

/// More, or less, of something.
#[derive(Debug, Clone, PartialEq)]
pub struct Addition {
    /// The namespace; empty for what has none.
    pub namespace: String,
    /// The resource as quotas name it: `pods`, `count/jobs.batch`, `requests.cpu`; or `nodes`.
    pub what: String,
    /// How much more; negative: less.
    pub amount: f64,
    /// As it was written.
    pub text: String,
}

/// What is to happen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// What is added.
    pub additions: Vec<Addition>,
    /// How many nodes there will be, with all that they carry.
    pub nodes: Option<u64>,
    /// From when on; `None`: from the end of the history on.
    pub from: Option<Micros>,
}

impl Plan {
    /// Reads what is to be added. The error names what can't be read and the form that it should have.
    pub fn parse(additions: &[String], nodes: Option<u64>, from: Option<Micros>) -> Result<Self, Problem> {
        if nodes == Some(0) {
            return Err(Problem::setting("a cluster without nodes has no capacity").at("--nodes 0"));
        }
        if let Some(nodes) = nodes.filter(|nodes| *nodes > MAX_NODES as u64) {
            return Err(Problem::setting(TOO_MANY).at(format!("--nodes {nodes}")));
        }
        if from.is_some() && additions.is_empty() && nodes.is_none() {
            return Err(Problem::setting("--from requires --add or --nodes"));
        }
        let additions: Vec<Addition> = additions.iter().map(|text| addition(text)).collect::<Result<_, _>>()?;
        if nodes.is_some() && additions.iter().any(|one| one.what == "nodes") {
            return Err(Problem::setting("--nodes and --add nodes both set the number of nodes").hint("use one"));
        }
        Ok(Self { additions, nodes, from })
    }

    /// Whether nothing is to happen.
    pub fn is_empty(&self) -> bool {
        self.additions.is_empty() && self.nodes.is_none()
    }

    /// In words: `web:+200 pods, from 2026-12-01`.
    pub fn words(&self) -> String {
        let mut words: Vec<String> = self.additions.iter().map(|one| one.text.clone()).collect();
        words.extend(self.nodes.map(|nodes| format!("{} nodes", grouped(nodes))));
        let from = self
            .from
            .map_or(String::new(), |from| format!(" from {}", time::format(from).get(..10).unwrap_or_default()));
        words.join(", ") + &from
    }
}

/// More nodes than any cluster has.
const MAX_NODES: f64 = 1e6;
const TOO_MANY: &str = "no cluster has more than a million nodes";

/// Reads `[NAMESPACE:]+N WHAT`.
fn addition(text: &str) -> Result<Addition, Problem> {
    let wrong = |why: &str| {
        Problem::setting(why.to_owned())
            .at(format!("--add '{text}'"))
            .hint("write '[NAMESPACE:]+N WHAT', such as 'web:+200 pods' or '+20 nodes'")
    };
    let (namespace, rest) = text.rsplit_once(':').unwrap_or_default();
    let rest = if namespace.is_empty() { text.trim_start_matches(':') } else { rest };
    let (amount, what) =
        rest.trim().split_once(char::is_whitespace).ok_or_else(|| wrong("a number and a name are needed"))?;
    let (what, namespace) = (what.trim(), namespace.trim());
    if !amount.starts_with(['+', '-']) {
        return Err(wrong("begin with + or -"));
    }
    let (sign, digits) = amount.split_at(1);
    let size = digits.parse::<Quantity>().map_err(|_| wrong("not a valid number"))?.value();
    let what = match what {
        "pod" | "count/pods" => "pods",
        "node" => "nodes",
        "cpu" | "memory" | "ephemeral-storage" => {
            return Err(wrong("name requests or limits: requests.cpu, limits.memory"));
        }
        other => other,
    };
    if what.is_empty() || what.contains(char::is_whitespace) {
        return Err(wrong("a name has no spaces"));
    }
    match (what, namespace.is_empty()) {
        ("nodes", false) => return Err(wrong("nodes have no namespace")),
        ("nodes", true) | (_, false) => {}
        (_, true) => return Err(wrong("a namespace is required")),
    }
    if size == 0.0 {
        return Err(wrong("the amount is 0"));
    }
    if what == "nodes" && size > MAX_NODES {
        return Err(wrong(TOO_MANY));
    }
    let amount = if sign == "-" { -size } else { size };
    Ok(Addition { namespace: namespace.to_owned(), what: what.to_owned(), amount, text: text.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_are_read_or_refused_with_a_reason() {
        let read = |text: &str| {
            Plan::parse(&[text.to_owned()], None, None).map(|plan| {
                let one = &plan.additions[0];
                (one.namespace.clone(), one.what.clone(), one.amount)
            })
        };
        assert_eq!(read("web:+200 pods"), Ok(("web".into(), "pods".into(), 200.0)));
        assert_eq!(read(" web : -5 count/jobs.batch "), Ok(("web".into(), "count/jobs.batch".into(), -5.0)));
        assert_eq!(read("+20 nodes"), Ok(("".into(), "nodes".into(), 20.0)));
        assert_eq!(read("web:+1500m requests.cpu"), Ok(("web".into(), "requests.cpu".into(), 1.5)));
        for (text, why) in [
            ("web:200 pods", "begin with + or -"),
            ("+200 pods", "a namespace is required"),
            ("web:+2 nodes", "nodes have no namespace"),
            ("web:+x pods", "not a valid number"),
            ("web:+5", "a number and a name"),
            ("web:+0 pods", "the amount is 0"),
            ("web:+5 cpu", "requests.cpu"),
            ("", "a number and a name"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
        assert!(Plan::parse(&[], Some(0), None).is_err());
        assert!(Plan::parse(&[], None, Some(5)).is_err());
        assert!(Plan::parse(&["+2 nodes".into()], Some(5), None).is_err());
        let plan = Plan::parse(&["web:+200 pods".into()], Some(1200), Some(1_796_083_200_000_000)).unwrap();
        assert_eq!(plan.words(), "web:+200 pods, 1,200 nodes from 2026-12-01");
    }
}
