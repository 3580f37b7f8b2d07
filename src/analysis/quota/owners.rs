//! Whose a namespace is.

use crate::analysis::dims::account;
use crate::model::alert::{Config, Owner};
use crate::model::objects::Namespace;
use std::collections::BTreeMap;

/// Who owns `namespace`: the first owner of the configuration with a pattern for it; else whom its labels and
/// annotations name ([`named`]); else nobody, which is the empty name.
pub fn of(config: &Config, namespaces: &BTreeMap<String, Namespace>, namespace: &str) -> String {
    if let Some(owner) =
        config.owners.iter().find(|owner| owner.namespaces.iter().any(|pattern| matches(pattern, namespace)))
    {
        return owner.name.clone();
    }
    let Some(known) = namespaces.get(namespace) else { return String::new() };
    named(&config.owner_keys, known).cloned().unwrap_or_default()
}

/// Whom a namespace's labels and annotations name: keys in their order, a label before an annotation; and where there
/// is none of them, the same with a domain in front of it (`example.com/team` is a `team`).
pub fn named<'n>(keys: &[String], namespace: &'n Namespace) -> Option<&'n String> {
    let both = [&namespace.labels, &namespace.annotations];
    let exact = |key: &String| both.iter().find_map(|all| all.get(key).filter(|name| !name.is_empty()));
    let with_domain = |key: &String| {
        let is_its = |found: &str| found.rsplit_once('/').is_some_and(|(_, last)| last == key);
        let mut all = both.iter().flat_map(|all| all.iter());
        all.find(|(found, name)| is_its(found) && !name.is_empty()).map(|(_, name)| name)
    };
    keys.iter().find_map(exact).or_else(|| keys.iter().find_map(with_domain))
}

/// Who owns a user: whoever owns a service account's namespace; of others nobody.
pub fn of_user(config: &Config, namespaces: &BTreeMap<String, Namespace>, user: &str) -> String {
    account(user).map(|(namespace, _)| of(config, namespaces, namespace)).unwrap_or_default()
}

/// The owner of that name: as configured, else the default under that name.
pub fn resolve(config: &Config, name: &str) -> Owner {
    let known = config.owners.iter().find(|owner| owner.name == name);
    let mut owner = known.unwrap_or(&config.default).clone();
    if !name.is_empty() {
        name.clone_into(&mut owner.name);
    }
    owner
}

/// The addresses of an owner: its own, else `fallback`, in which `{owner}` is its name. A name that could turn an
/// address into another is not put in: such addresses are left out.
pub fn addresses(owner: &Owner, fallback: &[String]) -> Vec<String> {
    if !owner.to.is_empty() {
        return owner.to.clone();
    }
    let is_plain = !owner.name.is_empty()
        && owner.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && !owner.name.contains("..")
        && !owner.name.starts_with('.')
        && !owner.name.ends_with('.');
    let filled = fallback.iter().filter(|address| is_plain || !address.contains("{owner}"));
    filled.map(|address| address.replace("{owner}", &owner.name)).collect()
}

/// Whether a name matches a pattern in which `*` is any text and `?` any character.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                // The last star takes one more.
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::alert::{Templates, Thresholds};
    use std::time::Duration;

    fn owner(name: &str, patterns: &[&str]) -> Owner {
        let namespaces = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        Owner {
            name: name.into(),
            namespaces,
            channels: vec!["mail".into()],
            to: vec![],
            hours: None,
            critical_any_time: true,
        }
    }

    fn config() -> Config {
        Config {
            cluster: String::new(),
            thresholds: Thresholds { warn: 0.8, critical: 0.95, days: None },
            repeat: Duration::ZERO,
            keep: Duration::ZERO,
            owner_keys: vec!["team".into(), "example.org/owner".into()],
            channels: vec![],
            owners: vec![owner("pay", &["pay-*", "billing"]), owner("all-test", &["*-test"])],
            default: owner("nobody", &[]),
            templates: Templates::default(),
        }
    }

    #[test]
    fn patterns_come_first_then_labels_then_annotations() {
        let mut namespaces = BTreeMap::new();
        let mut add = |name: &str, label: &str, annotation: &str| {
            let namespace = Namespace {
                name: name.into(),
                labels: if label.is_empty() { [].into() } else { [("team".to_owned(), label.to_owned())].into() },
                annotations: [("example.org/owner".to_owned(), annotation.to_owned())].into(),
            };
            namespaces.insert(name.into(), namespace);
        };
        add("pay-eu", "web", "");
        add("shop", "web", "x");
        add("search", "", "find");
        add("none", "", "");
        let config = config();
        let of = |name: &str| of(&config, &namespaces, name);
        assert_eq!((of("pay-eu"), of("shop"), of("search")), ("pay".into(), "web".into(), "find".into()));
        assert_eq!((of("none"), of("unknown"), of("a-test")), (String::new(), String::new(), "all-test".into()));
        assert_eq!(resolve(&config, "").name, "nobody");
        assert_eq!(resolve(&config, "web").name, "web");
        assert_eq!(resolve(&config, "pay").namespaces.len(), 2);
    }

    #[test]
    fn a_name_can_not_redirect_mail() {
        let to = ["{owner}@example.org".to_owned(), "ops@example.org".to_owned()];
        assert_eq!(addresses(&owner("pay", &[]), &to), ["pay@example.org", "ops@example.org"]);
        for bad in ["", "x@evil.example, a", "a\r\nBcc: b", "a b", "..", "<a>"] {
            assert_eq!(addresses(&owner(bad, &[]), &to), ["ops@example.org"], "{bad:?}");
        }
    }

    #[test]
    fn stars_and_marks() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("a?c", "abc", true),
            ("*-*-x", "a-b-c-x", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
