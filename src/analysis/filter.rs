//! `--where`: what to count.

use super::dims::{Dim, EventContext};
use crate::model::event::Timed;
use crate::model::problem::Problem;
use regex::Regex;
use std::str::FromStr;

/// Dimensions whose values never hold a comma.
const WITHOUT_COMMAS: [&str; 7] = ["verb", "resource", "group", "subresource", "namespace", "code", "stage"];

/// One condition on one dimension.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter<D = Dim> {
    /// The dimension.
    pub dim: D,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
    Is(String),
    IsNot(String),
    Matches(Regex),
    MatchesNot(Regex),
    Above(String),
    AtLeast(String),
    Below(String),
    AtMost(String),
}

impl PartialEq for Test {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Is(a), Self::Is(b))
            | (Self::IsNot(a), Self::IsNot(b))
            | (Self::Above(a), Self::Above(b))
            | (Self::AtLeast(a), Self::AtLeast(b))
            | (Self::Below(a), Self::Below(b))
            | (Self::AtMost(a), Self::AtMost(b)) => a == b,
            (Self::Matches(a), Self::Matches(b)) | (Self::MatchesNot(a), Self::MatchesNot(b)) => {
                a.as_str() == b.as_str()
            }
            _ => false,
        }
    }
}

impl Filter {
    /// Whether the event is to be counted.
    pub fn accepts(&self, event: &Timed<'_, '_>, known: EventContext<'_>) -> bool {
        match self.dim {
            Dim::FlowSchema => self.holds(known.flow.schema),
            Dim::PriorityLevel => self.holds(known.flow.level),
            dim => self.holds(&dim.of(event, known)),
        }
    }
}

impl<D> Filter<D> {
    /// Whether the condition holds for a value of its dimension.
    pub fn holds(&self, value: &str) -> bool {
        match &self.test {
            Test::Is(text) => value == text.as_str(),
            Test::IsNot(text) => value != text.as_str(),
            Test::Matches(regex) => regex.is_match(value),
            Test::MatchesNot(regex) => !regex.is_match(value),
            Test::Above(text) => compare(value, text).is_gt(),
            Test::AtLeast(text) => !value.is_empty() && compare(value, text).is_ge(),
            Test::AtMost(text) => !value.is_empty() && compare(value, text).is_le(),
            Test::Below(text) => !value.is_empty() && compare(value, text).is_lt(),
        }
    }
}

/// As numbers where both are, else as text.
fn compare(a: &str, b: &str) -> std::cmp::Ordering {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a.total_cmp(&b),
        _ => a.cmp(b),
    }
}

impl<D: FromStr<Err = Problem>> FromStr for Filter<D> {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let form = "a condition is DIM=VALUE, DIM!=VALUE, DIM=~REGEX, DIM!~REGEX, DIM>VALUE, DIM>=VALUE, DIM<VALUE or \
                    DIM<=VALUE";
        let at = text
            .find(['=', '!', '>', '<'])
            .ok_or_else(|| Problem::setting(format!("'{text}' holds no operator")).hint(form))?;
        let (name, rest) = text.split_at(at);
        let dim = name.trim().parse()?;
        let regex = |pattern: &str| {
            let wrong = |why| Problem::setting(format!("'{pattern}' is not a regular expression: {why}"));
            Regex::new(pattern.trim()).map_err(wrong)
        };
        let name = name.trim();
        let plain = |value: &str| {
            let value = value.trim();
            if WITHOUT_COMMAS.contains(&name) && value.contains(',') {
                let any = value.split(',').map(str::trim).collect::<Vec<&str>>().join("|");
                let hint = format!("for any of several write {name}=~'^({any})$'");
                return Err(Problem::setting(format!("no {name} holds a comma, as '{value}' does")).hint(hint));
            }
            if name == "code" && !value.is_empty() && value.parse::<u16>().is_err() {
                return Err(Problem::setting(format!("'{value}' is no code, such as 404")));
            }
            Ok(value.to_owned())
        };
        let test = if let Some(value) = rest.strip_prefix("=~") {
            Test::Matches(regex(value)?)
        } else if let Some(value) = rest.strip_prefix("!~") {
            Test::MatchesNot(regex(value)?)
        } else if let Some(value) = rest.strip_prefix("!=") {
            Test::IsNot(plain(value)?)
        } else if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
            Test::Is(plain(value)?)
        } else if let Some(value) = rest.strip_prefix(">=") {
            Test::AtLeast(plain(value)?)
        } else if let Some(value) = rest.strip_prefix("<=") {
            Test::AtMost(plain(value)?)
        } else if let Some(value) = rest.strip_prefix('>') {
            Test::Above(plain(value)?)
        } else if let Some(value) = rest.strip_prefix('<') {
            Test::Below(plain(value)?)
        } else {
            return Err(Problem::setting(format!("'{text}': {form}")));
        };
        Ok(Self { dim, test })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_no_request_can_have_is_refused() {
        let parsed = |text: &str| text.parse::<Filter>().map_err(|problem| problem.to_string());
        for text in ["verb=get,list", "resource!=pods,nodes", "code>=abc", "code=4xx", "code=404,429"] {
            assert!(parsed(text).is_err(), "{text}");
        }
        assert!(parsed("verb=get,list").unwrap_err().contains("verb=~'^(get|list)$'"));
        for text in ["verb=~'get,list'", "agent=a,b", "user=a,b", "code>=400", "code=", "code=~^4"] {
            assert!(parsed(text).is_ok(), "{text}");
        }
        assert!(parsed("code>=400").unwrap().holds("404") && !parsed("code>=400").unwrap().holds("200"));
    }
}
