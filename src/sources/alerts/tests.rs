use super::*;

const WHOLE: &str = r#"
cluster: prod
warn: 75%
critical: 90%
days: 14
repeat: 12h
owner-keys: [team]
channels:
  pages: { alertmanager: { url: "http://am:9093", user: plimsoll, password-env: AM_PASSWORD, hold: 3h, labels: { site: eu } } }
  mail: { smtp: { server: mail.example.org, from: "plimsoll <plimsoll@example.org>", to: ["{owner}@example.org"] } }
  chat: { slack: { url-file: slack-url } }
  hook: { webhook: { url: "https://hooks.example.org/x", key-file: key, token-file: token } }
  log: { stdout: {} }
default:
  channels: [mail, log]
  hours: { zone: Europe/Berlin, from: "09:00", to: "17:00" }
owners:
  - name: pay
    namespaces: ["pay-*"]
    channels: [pages, chat]
    hours: { zone: America/New_York, days: Sun-Thu, from: "22:00", to: "06:30" }
    critical-any-time: false
  - { name: web, namespaces: [shop], hours: always, to: [web@example.org] }
"#;

fn read_text(text: &str) -> Result<Config, Problem> {
    parse(text, Path::new("conf"))
}

#[test]
fn everything_is_read() {
    let config = read_text(WHOLE).unwrap();
    assert_eq!(config.thresholds, Thresholds { warn: 0.75, critical: 0.9, days: Some(14.0) });
    assert_eq!((config.repeat, config.keep), (Duration::from_secs(43_200), Duration::from_secs(14 * 86_400)));
    let kinds: Vec<String> =
        config.channels.iter().map(|channel| format!("{}={}", channel.name, channel.way.kind())).collect();
    assert_eq!(kinds, ["chat=slack", "hook=webhook", "log=stdout", "mail=smtp", "pages=alertmanager"]);
    let ChannelKind::Smtp { port, tls, .. } = &config.channels[3].way else { panic!() };
    assert_eq!((*port, *tls), (587, Tls::Starttls));
    assert_eq!(config.channels[0].way, ChannelKind::Slack { url: Url::Secret(Secret::File("conf/slack-url".into())) });
    let [pay, web] = &config.owners[..] else { panic!() };
    let hours = pay.hours.as_ref().unwrap();
    assert_eq!((hours.days, hours.from, hours.to), ([true, true, true, true, false, false, true], 1320, 390));
    assert!(!pay.critical_any_time && web.critical_any_time && web.hours.is_none());
    assert_eq!(web.channels, ["mail", "log"]);
    assert_eq!(config.default.hours.as_ref().unwrap().days, [true, true, true, true, true, false, false]);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (from, to, expected) in [
        ("cluster: prod", "clustr: prod", "unknown field `clustr`"),
        ("warn: 75%", "warn: 95%", "critical must not be below warn"),
        ("warn: 75%", "warn: much", "warn: 'much' is not a share"),
        ("repeat: 12h", "repeat: 12", "repeat: '12' is not a time"),
        ("days: 14", "days: -1", "days: a number"),
        ("Europe/Berlin", "Europe/Berln", "default: hours: zone: 'Europe/Berln' is not a time zone"),
        ("Sun-Thu", "Sun-Xyz", "owners: number 1 (pay): hours: days: 'Sun-Xyz'"),
        ("\"22:00\"", "\"25:00\"", "from: '25:00' is not a time of a day"),
        ("\"22:00\"", "\"06:30\"", "must differ"),
        ("channels: [pages, chat]", "channels: [pager]", "no channel 'pager'; use one of: chat hook log mail pages"),
        ("channels: [pages, chat]", "channels: []", "nobody would be notified"),
        ("name: web", "name: pay", "owners: number 2 (pay): the name is already in use"),
        ("name: web, ", "", "an owner requires a name"),
        ("stdout: {}", "stdout: {}, slack: { url: \"http://a\" }", "channels: log: use one of"),
        ("log: {", "\"l g\": {", "channels: 'l g'"),
        ("to: [\"{owner}@example.org\"]", "to: []", "add 'to'"),
        ("web@example.org", "web", "'web' is not an address"),
        ("password-env: AM_PASSWORD, ", "", "require each other"),
        ("http://am:9093", "am:9093", "channels: pages: url: must begin"),
        ("from: \"plimsoll", "tls: none, user: a, password-env: B, from: \"plimsoll", "in the clear"),
        ("from: \"plimsoll", "tls: maybe, from: \"plimsoll", "tls: unknown variant `maybe`"),
        ("key-file: key,", "key-file: key, key-env: KEY,", "key-file and key-env"),
        ("hours: always", "hours: never", "or write always"),
        ("default:", "defaults:", "unknown field `defaults`"),
    ] {
        assert!(WHOLE.contains(from), "{from}");
        let error = read_text(&WHOLE.replacen(from, to, 1)).expect_err(to);
        assert!(error.to_string().contains(expected), "{to}: {error}");
    }
    assert!(
        read(Path::new("/nowhere/alerts.yaml"))
            .unwrap_err()
            .to_string()
            .starts_with("/nowhere/alerts.yaml: can't read")
    );
}

#[test]
fn times_of_a_day() {
    for (text, expected) in [
        ("00:00", Some(0)),
        ("24:00", Some(1440)),
        ("24:01", None),
        ("9:00", None),
        ("09:60", None),
        ("+9:00", None),
        ("", None),
    ] {
        assert_eq!(minute(text), expected, "{text}");
    }
}
