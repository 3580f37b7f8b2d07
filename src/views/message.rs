//! A message to an owner as text: for mail and stdout, and for Slack. The words are in `templates/`, and can be
//! replaced.
//!
//! Values come from whoever may label a namespace. They are made harmless before a template sees them, so no template
//! can forget it.

use super::text::plain;
use crate::model::alert::{Alert, EpisodeNews, Gauge, GuardEvent, Key, Level, Message, Templates};
use crate::model::quantity::Quantity;
use crate::model::quota::{form, rejected};
use crate::model::time::{self, MINUTE, Micros};
use crate::model::units::{duration, percent, signed_percent};
use minijinja::{Environment, UndefinedBehavior};
use serde_json::{Value, json};

/// Alerts that a text names; further ones are counted.
const MAX_ALERTS_NAMED: usize = 40;

/// Characters of a value that are shown.
const MAX_VALUE_CHARS: usize = 200;

/// A message as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The subject of a mail: one line.
    pub subject: String,
    /// Text for mail and stdout.
    pub text: String,
    /// Text for Slack, in its markup.
    pub slack: String,
}

/// Writes a message by these templates, or by those built in. The error says which template, and what is wrong with it.
pub fn render(message: &Message, templates: &Templates) -> Result<Rendered, String> {
    let of = |own: &Option<String>, default: &'static str| own.clone().unwrap_or_else(|| default.to_owned());
    let [subject, text, slack] = if !message.episodes.is_empty() {
        let own = [
            include_str!("templates/episode_subject.txt"),
            include_str!("templates/episode_text.txt"),
            include_str!("templates/episode_slack.txt"),
        ];
        own.map(str::to_owned)
    } else if message.deeds.is_empty() {
        [
            of(&templates.subject, include_str!("templates/subject.txt")),
            of(&templates.text, include_str!("templates/text.txt")),
            of(&templates.slack, include_str!("templates/slack.txt")),
        ]
    } else {
        // Those that can be replaced are about quotas.
        let own = [
            include_str!("templates/guard_subject.txt"),
            include_str!("templates/guard_text.txt"),
            include_str!("templates/guard_slack.txt"),
        ];
        own.map(str::to_owned)
    };
    let mail = values(message, |text| plain(&cut(text)).into_owned());
    let subject = fill("subject", &subject, &mail)?;
    Ok(Rendered {
        // A subject is one line whatever its template has.
        subject: plain(&subject.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned(),
        text: fill("text", &text, &mail)?,
        slack: fill("slack", &slack, &values(message, |text| for_slack(&cut(text))))?,
    })
}

fn cut(text: &str) -> String {
    if text.chars().count() <= MAX_VALUE_CHARS {
        return text.to_owned();
    }
    text.chars().take(MAX_VALUE_CHARS).chain(['…']).collect()
}

fn fill(name: &str, template: &str, values: &Value) -> Result<String, String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // A line with a tag alone is no line of the text.
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    let mut text = environment.render_str(template, values).map_err(|error| format!("template {name}: {error:#}"))?;
    text.truncate(text.trim_end().len());
    text.push('\n');
    Ok(text)
}

/// Text in which nothing means anything to Slack, nor to what takes its messages: no mention, no link, no markup.
pub fn for_slack(text: &str) -> String {
    let mut out = String::new();
    for c in plain(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // Mattermost mentions by the sign alone.
            '@' => out.push('＠'),
            '`' => out.push('ˋ'),
            '*' => out.push('∗'),
            '~' => out.push('∼'),
            c => out.push(c),
        }
    }
    out
}

/// What templates are given; `safe` makes a text harmless.
fn values(message: &Message, safe: impl Fn(&str) -> String) -> Value {
    let one = |alert: &Alert| {
        let gauge = &alert.gauge;
        json!({
            "namespace": safe(&gauge.key.namespace),
            "quota": safe(&gauge.key.quota),
            "resource": safe(&gauge.key.resource),
            "used": safe(&gauge.used),
            "hard": safe(&gauge.hard),
            "percent": gauge.share.map(percent),
            "level": alert.level.name(),
            "worst": alert.worst.name(),
            "is_new": alert.is_new(),
            "since": moment(alert.since),
            "ended": alert.ended.map(moment),
            "trend": safe(&trend(alert)),
            "full_at": gauge.full_at.map(|at| moment(at)[..10].to_owned()),
            "proposed": gauge.raise().map(&safe),
            "effect": safe(&effect(gauge)),
            "as_of": gauge.taken.map(|taken| as_of(taken, message.at)),
        })
    };
    json!({
        "id": message.id,
        "owner": safe(if message.owner.is_empty() { "nobody" } else { &message.owner }),
        "cluster": safe(&message.cluster),
        "reason": message.reason.name(),
        "level": message.level.or(message.over.iter().map(|alert| alert.level).max()).map(Level::name),
        "at": moment(message.at),
        "count": message.alerts.len() + message.deeds.len(),
        "alerts": message.alerts.iter().take(MAX_ALERTS_NAMED).map(one).collect::<Vec<_>>(),
        "more": (message.alerts.len() + message.deeds.len()).saturating_sub(MAX_ALERTS_NAMED),
        "deeds": message.deeds.iter().take(MAX_ALERTS_NAMED).map(|deed| event_values(deed, &safe)).collect::<Vec<_>>(),
        "episodes": message.episodes.iter().map(|own| episode(own, &safe)).collect::<Vec<_>>(),
        "over": message.over.iter().take(MAX_ALERTS_NAMED).map(one).collect::<Vec<_>>(),
        "commands": commands(message),
    })
}

/// A dangerous operation for a template.
fn event_values(deed: &GuardEvent, safe: &impl Fn(&str) -> String) -> Value {
    let who = if deed.impersonated.is_empty() {
        deed.user.clone()
    } else {
        format!("{} as {}", deed.user, deed.impersonated)
    };
    json!({
        "level": deed.level.name(),
        "kind": deed.kind,
        "who": safe(&who),
        "what": safe(&deed.what),
        "outcome": safe(&deed.outcome),
        "agent": safe(&deed.agent),
        "source": safe(&deed.source),
        "namespaces": safe(&deed.namespaces.join(", ")),
        "stopped_by": deed.stopped_by,
        "audit_id": safe(&deed.audit_id),
        "count": deed.count,
        "at": second(deed.at),
        "last": second(deed.last),
    })
}

/// An episode for a template.
fn episode(own: &EpisodeNews, safe: &impl Fn(&str) -> String) -> Value {
    json!({
        "id": own.id,
        "grade": own.grade,
        "level": own.level.name(),
        "from": second(own.from),
        "to": second(own.to),
        "lasted": duration(own.to - own.from),
        "is_over": own.is_over,
        "is_worse": own.is_worse,
        "headline": safe(&own.headline),
        "cause": own.cause,
        "user": safe(&own.user),
        "step": safe(&own.step),
    })
}

/// `2026-11-20 09:17:24 UTC`.
fn second(at: Micros) -> String {
    format!("{} UTC", time::second(at))
}

/// `2026-11-20 09:17 UTC`.
fn moment(at: Micros) -> String {
    let text = time::format(at);
    format!("{} {} UTC", text.get(..10).unwrap_or_default(), text.get(11..16).unwrap_or_default())
}

/// How a resource goes.
pub fn trend(alert: &Alert) -> String {
    let Some(per_week) = alert.gauge.per_week else { return "not enough history for a trend".to_owned() };
    let amount = Quantity::measured(per_week.abs(), form(&alert.gauge.key.resource)).map(shortened).unwrap_or_default();
    let share = alert.gauge.per_week_share.map(|share| format!(" ({})", signed_percent(share))).unwrap_or_default();
    match per_week {
        0.0 => "flat".to_owned(),
        more if more > 0.0 => format!("{amount} more per week{share}"),
        _ => format!("{amount} less per week{share}"),
    }
}

/// To three digits or so: a trend is no more exact.
fn shortened(quantity: Quantity) -> String {
    quantity.rounded_up(false).to_string()
}

/// What happens, or will, where nothing is done: for people who never heard of plimsoll.
fn effect(gauge: &Gauge) -> String {
    let what = rejected(&gauge.key.resource);
    let rest = match what.as_str() {
        "pods" => ", and rollouts stop; running pods are not affected",
        _ => "; what exists is not affected",
    };
    match gauge.left() {
        Some(left) => format!("{left} left; new {what} that need more are denied (403, exceeded quota){rest}"),
        None => format!("nothing left; new {what} are denied now (403, exceeded quota){rest}"),
    }
}

/// When a number was seen, and how long that is before the message.
fn as_of(taken: Micros, sent: Micros) -> String {
    match sent - taken {
        age if age >= MINUTE => format!("{}, {} before this message", moment(taken), duration(age - age % MINUTE)),
        _ => moment(taken),
    }
}

/// For each alert that a larger limit helps, what shows the change, and what makes it: of this one resource alone, with
/// kubectl alone. Only names that are names: others could be anything in a shell.
fn commands(message: &Message) -> Vec<String> {
    message.alerts.iter().filter_map(|alert| command(&alert.gauge)).take(MAX_ALERTS_NAMED).flatten().collect()
}

fn command(gauge: &Gauge) -> Option<[String; 2]> {
    let Key { namespace, quota, resource } = &gauge.key;
    let raised = gauge.raise()?;
    let is_of = |name: &str, others: &[u8]| {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || others.contains(&byte);
        !name.is_empty()
            && name.len() <= 253
            && name.bytes().all(is_plain)
            && !name.starts_with('-')
            && !name.ends_with('-')
    };
    let is_amount = raised.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    if !is_of(namespace, b"-") || !is_of(quota, b"-.") || !is_of(resource, b"-./_") || !is_amount {
        return None;
    }
    let patch = json!({"spec": {"hard": {resource: raised}}});
    let apply = format!("kubectl -n {namespace} patch resourcequota {quota} --type=merge -p '{patch}'");
    Some([format!("{apply} --dry-run=server -o yaml | kubectl diff -f -"), apply])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::alert::Reason;

    fn alert(namespace: &str, level: Level, ended: Option<Micros>) -> Alert {
        let gauge = Gauge {
            key: Key { namespace: namespace.into(), quota: "team".into(), resource: "requests.memory".into() },
            used: "46Gi".into(),
            hard: "50Gi".into(),
            share: Some(0.92),
            per_week: Some(3.0 * 1024.0 * 1024.0 * 1024.0),
            per_week_share: Some(0.06),
            full_at: Some(1_795_166_249_000_000),
            proposed: Some("56Gi".into()),
            taken: Some(1_795_000_000_000_000 - 7_200_000_000),
        };
        Alert { gauge, level, worst: level, was: None, since: 1_795_000_000_000_000, ended }
    }

    fn message(owner: &str, alerts: Vec<Alert>, over: Vec<Alert>, reason: Reason) -> Message {
        let level = alerts.iter().map(|alert| alert.level).max();
        Message {
            id: "0".repeat(32),
            cluster: "prod".into(),
            owner: owner.into(),
            at: 0,
            reason,
            level,
            alerts,
            over,
            deeds: vec![],
            episodes: vec![],
        }
    }

    #[test]
    fn it_says_what_how_full_when_and_what_to_do() {
        let message = message(
            "pay",
            vec![alert("shop", Level::Warning, None)],
            vec![alert("old", Level::Critical, Some(1_795_000_060_000_000))],
            Reason::News,
        );
        let rendered = render(&message, &Templates::default()).unwrap();
        assert_eq!(rendered.subject, "warning: 1 quota of pay near its limit (prod)");
        for part in [
            "Quotas near their limits in prod, for pay:\n",
            "WARNING (new)  shop: requests.memory\n",
            "  full       46Gi of 50Gi, 92.0%, since 2026-11-18 11:06 UTC\n",
            "  trend      3Gi more per week (+6.0%)\n",
            "  reached    on 2026-11-20 at this trend\n",
            "  proposed   56Gi\n",
            "\nOver:\n  old: requests.memory, was critical at 46Gi of 50Gi, 2026-11-18 11:06 UTC to 2026-11-18 11:07 \
             UTC\n",
            "  effect     4Gi left; new pods that need more are denied (403, exceeded quota), and rollouts stop; \
             running pods are not affected\n",
            "\n  kubectl -n shop patch resourcequota team --type=merge -p \
             '{\"spec\":{\"hard\":{\"requests.memory\":\"56Gi\"}}}' --dry-run=server -o yaml | kubectl diff -f -\n  \
             kubectl -n shop patch resourcequota team --type=merge -p \
             '{\"spec\":{\"hard\":{\"requests.memory\":\"56Gi\"}}}'\n",
        ] {
            assert!(rendered.text.contains(part), "{part:?} is not in\n{}", rendered.text);
        }
        assert!(
            rendered.slack.contains(
                "• WARNING `shop` requests.memory: 46Gi of 50Gi (92.0%); 3Gi more per week (+6.0%), reached \
                     on 2026-11-20"
            ),
            "{}",
            rendered.slack
        );
    }

    #[test]
    fn each_reason_has_its_words() {
        let of = |alerts, over, reason| render(&message("pay", alerts, over, reason), &Templates::default()).unwrap();
        let warning = || vec![alert("a", Level::Warning, None)];
        let over = || vec![alert("a", Level::Warning, Some(1))];
        assert!(
            of(warning(), vec![], Reason::Repeat)
                .text
                .starts_with("Still near their limits in prod, as told before, for pay:\n\nWARNING")
        );
        let clear = of(vec![], over(), Reason::Clear);
        assert_eq!(clear.subject, "resolved: quotas of pay are below their thresholds again (prod)");
        assert!(
            clear.text.starts_with("Nothing of pay's is near its limit any more in prod.\n\nOver:\n"),
            "{}",
            clear.text
        );
        let missed = of(vec![], over(), Reason::News);
        assert!(
            missed.text.starts_with("Out of working hours quotas of pay were near their limits in prod."),
            "{}",
            missed.text
        );
        assert_eq!(missed.subject, "warning: quotas of pay were near their limits, and are not any more (prod)");
    }

    #[test]
    fn hostile_names_stay_text() {
        let name = "x; rm -rf / #<!channel> @all `*_~\r\nBcc: a@b\u{1b}[31m";
        let rendered = render(
            &message(name, vec![alert(name, Level::Critical, None)], vec![], Reason::News),
            &Templates::default(),
        )
        .unwrap();
        assert!(!rendered.subject.trim_end().contains(['\r', '\n', '\u{1b}']), "{}", rendered.subject);
        assert!(!rendered.text.contains(['\r', '\u{1b}']) && !rendered.text.contains("\nBcc"), "{}", rendered.text);
        assert!(!rendered.text.contains("kubectl"), "{}", rendered.text);
        assert!(
            !rendered.slack.contains("<!") && !rendered.slack.contains('@') && !rendered.slack.contains("\nBcc"),
            "{}",
            rendered.slack
        );
        let huge =
            render(&message(&"ä".repeat(1 << 20), vec![], vec![], Reason::Clear), &Templates::default()).unwrap();
        assert!(huge.text.len() < 4_000);
        let many = (0..5_000).map(|number| alert(&format!("n{number}"), Level::Warning, None)).collect();
        let many = render(&message("pay", many, vec![], Reason::News), &Templates::default()).unwrap();
        assert!(many.text.contains("\nand 4960 more: plimsoll quota check shows all\n") && many.text.len() < 40_000);
    }

    #[test]
    fn dangerous_operations_have_texts_of_their_own() {
        let deed = GuardEvent {
            at: 1_795_000_000_000_000,
            last: 1_795_000_007_000_000,
            kind: "delete-pod".into(),
            level: Level::Critical,
            user: "eve<!channel>\r\nBcc: a@b".into(),
            impersonated: String::new(),
            agent: "kubectl".into(),
            source: "10.0.0.9".into(),
            what: "deleted 120 pods: a, b, … z in shop".into(),
            outcome: "120 done".into(),
            count: 120,
            group: String::new(),
            resource: "pods".into(),
            namespaces: vec!["shop".into()],
            stopped_by: "evictions".into(),
            audit_id: "a-1".into(),
        };
        let message =
            Message { level: Some(Level::Critical), deeds: vec![deed], ..message("ops", vec![], vec![], Reason::News) };
        // Texts of quotas are not asked.
        let own = Templates { text: Some("{{ nothing }}".into()), ..Templates::default() };
        let rendered = render(&message, &own).unwrap();
        assert_eq!(
            rendered.subject,
            "critical: eve<!channel>\\r\\nBcc: a@b deleted 120 pods: a, b, … z in shop (prod)"
        );
        for part in [
            "A dangerous operation in prod:\n\nCRITICAL  eve<!channel>",
            "\n  when       2026-11-18 11:06:40 UTC to 2026-11-18 11:06:47 UTC\n  outcome    120 done so far\n  \
             by         kubectl from 10.0.0.9\n",
            "\n  in         shop\n  next time  evictions\n  audit id   a-1\n",
        ] {
            assert!(rendered.text.contains(part), "{part:?} is not in\n{}", rendered.text);
        }
        assert!(
            !rendered.slack.contains("<!") && rendered.slack.contains("\n• CRITICAL eve&lt;"),
            "{}",
            rendered.slack
        );
    }

    #[test]
    fn templates_can_be_replaced_and_tell_what_is_wrong() {
        let own = Templates { subject: Some("{{ owner }}\n has {{ count }}".into()), ..Templates::default() };
        let message = message("pay", vec![alert("a", Level::Warning, None)], vec![], Reason::News);
        assert_eq!(render(&message, &own).unwrap().subject, "pay has 1");
        for bad in ["{{ ownr }}", "{% if %}", "{{ owner | nothing }}"] {
            let error = render(&message, &Templates { text: Some(bad.into()), ..Templates::default() }).unwrap_err();
            assert!(error.starts_with("template text:"), "{error}");
        }
    }
}
