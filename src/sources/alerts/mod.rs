//! The configuration of alerts: a YAML file (docs/alerts.md). Unknown keys are errors, because a misspelt key would do
//! nothing.

mod holidays;

use crate::model::alert::{
    Calendar, Channel, ChannelKind, Config, Login, OWNER_KEYS, Owner, Secret, Templates, Thresholds, Tls, Url,
};
use crate::model::problem::{Problem, ProblemKind};
use crate::model::units::{parse_duration, parse_share};
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_yaml_ng::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// From where on usage is worth a word where nothing else is said.
pub const THRESHOLDS: Thresholds = Thresholds { warn: 0.8, critical: 0.95, days: None };

/// What still stands is said again after a day.
const REPEAT: &str = "24h";

/// What can't be delivered is given up after two weeks.
const KEEP: &str = "14d";

/// How long an alert stands in Alertmanager where no other time is configured: longer than the day between two runs of
/// a daily job.
const HOLD: &str = "25h";

/// The file's longest size.
const MAX_FILE_BYTES: u64 = 16 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    cluster: String,
    warn: Option<String>,
    critical: Option<String>,
    days: Option<f64>,
    repeat: Option<String>,
    keep: Option<String>,
    owner_keys: Option<Vec<String>>,
    templates: Option<PathBuf>,
    channels: BTreeMap<String, ChannelFile>,
    default: OwnerFile,
    #[serde(default)]
    owners: Vec<OwnerFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct OwnerFile {
    name: String,
    namespaces: Vec<String>,
    channels: Option<Vec<String>>,
    to: Vec<String>,
    hours: Option<Value>,
    critical_any_time: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct HoursFile {
    zone: String,
    days: Option<Value>,
    from: String,
    to: String,
    #[serde(default)]
    holidays: Vec<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ChannelFile {
    alertmanager: Option<AlertmanagerFile>,
    webhook: Option<WebhookFile>,
    slack: Option<SlackFile>,
    smtp: Option<SmtpFile>,
    stdout: Option<StdoutFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StdoutFile {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct AlertmanagerFile {
    url: String,
    user: Option<String>,
    password_file: Option<PathBuf>,
    password_env: Option<String>,
    token_file: Option<PathBuf>,
    token_env: Option<String>,
    hold: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    link: Option<String>,
    ca_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WebhookFile {
    url: Option<String>,
    url_file: Option<PathBuf>,
    url_env: Option<String>,
    user: Option<String>,
    password_file: Option<PathBuf>,
    password_env: Option<String>,
    token_file: Option<PathBuf>,
    token_env: Option<String>,
    key_file: Option<PathBuf>,
    key_env: Option<String>,
    ca_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SlackFile {
    url: Option<String>,
    url_file: Option<PathBuf>,
    url_env: Option<String>,
    ca_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SmtpFile {
    server: String,
    port: Option<u16>,
    #[serde(default)]
    tls: Tls,
    user: Option<String>,
    password_file: Option<PathBuf>,
    password_env: Option<String>,
    from: String,
    #[serde(default)]
    to: Vec<String>,
    ca_file: Option<PathBuf>,
}

/// The configuration where there is no file: owners by the default labels and annotations, and nobody is notified.
pub fn none() -> Config {
    let default = Owner {
        name: String::new(),
        namespaces: Vec::new(),
        channels: Vec::new(),
        to: Vec::new(),
        hours: None,
        critical_any_time: true,
    };
    Config {
        cluster: String::new(),
        thresholds: THRESHOLDS,
        repeat: Duration::ZERO,
        keep: Duration::ZERO,
        owner_keys: OWNER_KEYS.map(str::to_owned).to_vec(),
        channels: Vec::new(),
        owners: Vec::new(),
        default,
        templates: Templates::default(),
    }
}

/// The configuration that is named; where none is, [`none`].
pub fn given(path: Option<&Path>) -> Result<Config, Problem> {
    path.map_or_else(|| Ok(none()), read)
}

/// Reads the configuration. Paths in it are relative to its folder. Secrets are not read yet.
pub fn read(path: &Path) -> Result<Config, Problem> {
    let text = load(path)?;
    if text.lines().any(|line| line.trim_end() == "kind: ConfigMap") {
        return Err(Problem::setting(format!(
            "{}: a ConfigMap of Kubernetes, not the configuration in it; take that out: kubectl create \
             --dry-run=client \
             -o jsonpath='{{.data.alerts\\.yaml}}' -f {} > alerts.yaml",
            path.display(),
            path.display()
        )));
    }
    parse(&text, path.parent().unwrap_or(Path::new(""))).map_err(|problem| problem.at(path.display()))
}

fn load(path: &Path) -> Result<String, Problem> {
    let fail = |error: std::io::Error| {
        let what = format!("can't read the alerts configuration: {error}");
        Problem::new(ProblemKind::Io, what).at(path.display())
    };
    if std::fs::metadata(path).map_err(fail)?.len() > MAX_FILE_BYTES {
        let what = format!("larger than {} MiB: not an alerts configuration", MAX_FILE_BYTES >> 20);
        return Err(Problem::new(ProblemKind::TooLarge, what).at(path.display()));
    }
    std::fs::read_to_string(path).map_err(fail)
}

fn parse(text: &str, folder: &Path) -> Result<Config, Problem> {
    let file: File = serde_yaml_ng::from_str(text).map_err(|error| Problem::setting(error.to_string()))?;
    let share = |name: &str, given: Option<String>, default: f64| match given {
        None => Ok(default),
        Some(text) => parse_share(&text)
            .ok_or_else(|| Problem::setting(format!("'{text}' is not a share")).at(name).hint("write 80%")),
    };
    let time = |name: &str, given: Option<String>, default: &str| {
        let text = given.unwrap_or_else(|| default.to_owned());
        duration(&text)
            .ok_or_else(|| Problem::setting(format!("'{text}' is not a time")).at(name).hint("write 90m, 24h, 7d"))
    };
    let warn = share("warn", file.warn, THRESHOLDS.warn)?;
    let critical = share("critical", file.critical, THRESHOLDS.critical)?;
    let thresholds = thresholds(warn, critical, file.days)?;
    let mut channels = Vec::new();
    for (name, given) in file.channels {
        if name.is_empty()
            || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        {
            return Err(
                Problem::setting(format!("'{name}': a name may have letters, digits, and - _ .")).at("channels")
            );
        }
        channels.push(channel(&name, given, folder).map_err(|problem| problem.at(format!("channels: {name}")))?);
    }
    let always = Owner {
        name: String::new(),
        namespaces: Vec::new(),
        channels: channels.iter().map(|channel| channel.name.clone()).collect(),
        to: Vec::new(),
        hours: None,
        critical_any_time: true,
    };
    let default = owner(file.default, &always, &channels, folder).map_err(|problem| problem.at("default"))?;
    if !default.namespaces.is_empty() {
        return Err(Problem::setting("takes no namespaces: it gets all without an owner").at("default"));
    }
    let mut owners: Vec<Owner> = Vec::new();
    for (number, given) in file.owners.into_iter().enumerate() {
        let place = format!("owners: number {} ({})", number + 1, given.name);
        if given.name.is_empty() {
            return Err(Problem::setting("an owner requires a name").at(&place));
        }
        let mut inherited = default.clone();
        inherited.to.clear();
        let owner = owner(given, &inherited, &channels, folder).map_err(|problem| problem.at(&place))?;
        if owners.iter().any(|known| known.name == owner.name) {
            return Err(Problem::setting("the name is already in use").at(&place));
        }
        owners.push(owner);
    }
    let config = Config {
        cluster: file.cluster,
        thresholds,
        repeat: time("repeat", file.repeat, REPEAT)?,
        keep: time("keep", file.keep, KEEP)?,
        owner_keys: file.owner_keys.unwrap_or_else(|| OWNER_KEYS.map(str::to_owned).to_vec()),
        channels,
        owners,
        default,
        templates: file.templates.map(|path| templates(&folder.join(path))).transpose()?.unwrap_or_default(),
    };
    reachable(&config)?;
    Ok(config)
}

/// Thresholds that make sense together.
pub fn thresholds(warn: f64, critical: f64, days: Option<f64>) -> Result<Thresholds, Problem> {
    if critical < warn {
        return Err(Problem::setting("critical must not be below warn"));
    }
    if days.is_some_and(|days| !days.is_finite() || days < 0.0) {
        return Err(Problem::setting("a number of days, 0 or more").at("days"));
    }
    Ok(Thresholds { warn, critical, days })
}

fn duration(text: &str) -> Option<Duration> {
    parse_duration(text).and_then(|micros| u64::try_from(micros).ok()).map(Duration::from_micros)
}

/// Whoever gets mail must have an address.
fn reachable(config: &Config) -> Result<(), Problem> {
    for owner in config.owners.iter().chain([&config.default]) {
        for name in &owner.channels {
            let channel = config.channels.iter().find(|channel| channel.name == *name);
            let is_mute = channel.is_some_and(
                |channel| matches!(&channel.way, ChannelKind::Smtp { to, .. } if to.is_empty() && owner.to.is_empty()),
            );
            if is_mute {
                let who = if owner.name.is_empty() { "default" } else { owner.name.as_str() };
                return Err(Problem::setting(format!(
                    "channel {name} sends mail, but neither it nor the owner has an address"
                ))
                .at(who)
                .hint("add 'to'"));
            }
        }
    }
    Ok(())
}

fn owner(given: OwnerFile, inherited: &Owner, channels: &[Channel], folder: &Path) -> Result<Owner, Problem> {
    let names = given.channels.unwrap_or_else(|| inherited.channels.clone());
    if names.is_empty() {
        return Err(Problem::setting("none is configured, so nobody would be notified").at("channels"));
    }
    if let Some(name) = names.iter().find(|name| !channels.iter().any(|channel| channel.name == **name)) {
        let known: Vec<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
        return Err(Problem::setting(format!("no channel '{name}'"))
            .at("channels")
            .hint(format!("use one of: {}", known.join(" "))));
    }
    given.to.iter().try_for_each(|address| is_address(address)).map_err(|problem| problem.at("to"))?;
    let hours = match given.hours {
        None => inherited.hours.clone(),
        Some(Value::String(text)) if text == "always" => None,
        Some(value) => {
            let hours: HoursFile = serde_yaml_ng::from_value(value)
                .map_err(|error| Problem::setting(format!("{error}")).at("hours").hint("or write always"))?;
            Some(calendar(hours, folder).map_err(|problem| problem.at("hours"))?)
        }
    };
    Ok(Owner {
        name: given.name,
        namespaces: given.namespaces,
        channels: names,
        to: given.to,
        hours,
        critical_any_time: given.critical_any_time.unwrap_or(inherited.critical_any_time),
    })
}

/// Roughly: the mail library looks closer.
fn is_address(text: &str) -> Result<(), Problem> {
    if text.contains('@') && !text.contains(['\r', '\n']) {
        Ok(())
    } else {
        Err(Problem::setting(format!("'{text}' is not an address")))
    }
}

fn calendar(given: HoursFile, folder: &Path) -> Result<Calendar, Problem> {
    let zone = TimeZone::get(&given.zone).map_err(|_| {
        Problem::setting(format!("'{}' is not a time zone on this machine", given.zone))
            .at("zone")
            .hint("write one such as Europe/Berlin, and install tzdata if missing")
    })?;
    let days = match given.days {
        None => span("Mon-Fri").ok_or_else(|| Problem::setting("days"))?,
        Some(Value::String(text)) => {
            span(&text).ok_or_else(|| Problem::setting(format!("'{text}': write Mon-Fri, or [Mon, Wed]")).at("days"))?
        }
        Some(Value::Sequence(items)) => {
            let mut days = [false; 7];
            for item in &items {
                let day = item.as_str().and_then(weekday).ok_or_else(|| {
                    Problem::setting(format!("{item:?} is not one of Mon Tue Wed Thu Fri Sat Sun")).at("days")
                })?;
                days[day] = true;
            }
            days
        }
        Some(_) => return Err(Problem::setting("write Mon-Fri, or [Mon, Wed]").at("days")),
    };
    if !days.contains(&true) {
        return Err(Problem::setting("the list is empty").at("days"));
    }
    let minute = |name: &str, text: &str| {
        minute(text).ok_or_else(|| {
            Problem::setting(format!("'{text}' is not a time of a day")).at(name).hint("write \"09:00\", in quotes")
        })
    };
    let (from, to) = (minute("from", &given.from)?, minute("to", &given.to)?);
    if from == 1440 || to == 0 || from == to {
        return Err(Problem::setting("from and to must differ").hint("00:00 to 24:00 is a whole day"));
    }
    let mut dates = BTreeSet::new();
    for path in given.holidays {
        let path = folder.join(path);
        dates.extend(holidays::read(&path).map_err(|problem| problem.at(format!("holidays: {}", path.display())))?);
    }
    Ok(Calendar { zone, days, from, to, holidays: dates })
}

fn weekday(name: &str) -> Option<usize> {
    ["mon", "tue", "wed", "thu", "fri", "sat", "sun"].iter().position(|day| name.eq_ignore_ascii_case(day))
}

/// `Mon-Fri`, `Sat`, `Sun-Thu`.
fn span(text: &str) -> Option<[bool; 7]> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (weekday(first.trim())?, weekday(last.trim())?);
    let mut days = [false; 7];
    (0..=(last + 7 - first) % 7).for_each(|step| days[(first + step) % 7] = true);
    Some(days)
}

/// `09:30` as minutes of the day; up to `24:00`.
fn minute(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str| {
        text.parse::<u16>().ok().filter(|_| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (minutes < 60 && hours * 60 + minutes <= 1440).then_some(hours * 60 + minutes)
}

/// At most one of a file and a variable.
fn secret(
    name: &str,
    file: Option<PathBuf>,
    variable: Option<String>,
    folder: &Path,
) -> Result<Option<Secret>, Problem> {
    match (file, variable) {
        (Some(_), Some(_)) => Err(Problem::setting(format!("{name}-file and {name}-env: give only one"))),
        (Some(path), None) => Ok(Some(Secret::File(folder.join(path)))),
        (None, Some(variable)) => Ok(Some(Secret::Env(variable))),
        (None, None) => Ok(None),
    }
}

fn url(plain: Option<String>, file: Option<PathBuf>, variable: Option<String>, folder: &Path) -> Result<Url, Problem> {
    match (plain, secret("url", file, variable, folder)?) {
        (Some(_), Some(_)) => Err(Problem::setting("url, url-file and url-env: give only one")),
        (Some(url), None) => is_url(&url).map(|()| Url::Plain(url)).map_err(|problem| problem.at("url")),
        (None, Some(secret)) => Ok(Url::Secret(secret)),
        (None, None) => Err(Problem::setting("url, url-file or url-env is missing")),
    }
}

fn is_url(text: &str) -> Result<(), Problem> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    if rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace)) {
        Ok(())
    } else {
        Err(Problem::setting("must begin with https:// or http://"))
    }
}

fn login(user: Option<String>, password: Option<Secret>, token: Option<Secret>) -> Result<Option<Login>, Problem> {
    match (user, password, token) {
        (None, None, None) => Ok(None),
        (None, None, Some(token)) => Ok(Some(Login::Bearer(token))),
        (Some(user), Some(password), None) => Ok(Some(Login::Basic(user, password))),
        (_, _, Some(_)) => Err(Problem::setting("give a token, or a user with a password, not both")),
        _ => Err(Problem::setting("user and password-file (or password-env) require each other")),
    }
}

fn channel(name: &str, given: ChannelFile, folder: &Path) -> Result<Channel, Problem> {
    let ways = [
        given.alertmanager.is_some(),
        given.webhook.is_some(),
        given.slack.is_some(),
        given.smtp.is_some(),
        given.stdout.is_some(),
    ];
    if ways.iter().filter(|is_given| **is_given).count() != 1 {
        return Err(Problem::setting("use one of alertmanager, webhook, slack, smtp and stdout ('stdout: {}')"));
    }
    let (mut way, mut ca_file) = (ChannelKind::Stdout, None);
    if let Some(given) = given.alertmanager {
        is_url(&given.url).map_err(|problem| problem.at("url"))?;
        let password = secret("password", given.password_file, given.password_env, folder)?;
        let login = login(given.user, password, secret("token", given.token_file, given.token_env, folder)?)?;
        let text = given.hold.unwrap_or_else(|| HOLD.to_owned());
        let hold = duration(&text)
            .filter(|hold| !hold.is_zero())
            .ok_or_else(|| Problem::setting(format!("'{text}' is not a time")).at("hold").hint("write 25h"))?;
        given.link.as_deref().map_or(Ok(()), is_url).map_err(|problem| problem.at("link"))?;
        way = ChannelKind::Alertmanager { url: given.url, login, hold, labels: given.labels, link: given.link };
        ca_file = given.ca_file;
    } else if let Some(given) = given.webhook {
        let password = secret("password", given.password_file, given.password_env, folder)?;
        let login = login(given.user, password, secret("token", given.token_file, given.token_env, folder)?)?;
        let url = url(given.url, given.url_file, given.url_env, folder)?;
        way = ChannelKind::Webhook { url, login, key: secret("key", given.key_file, given.key_env, folder)? };
        ca_file = given.ca_file;
    } else if let Some(given) = given.slack {
        way = ChannelKind::Slack { url: url(given.url, given.url_file, given.url_env, folder)? };
        ca_file = given.ca_file;
    } else if let Some(given) = given.smtp {
        let login = match (given.user, secret("password", given.password_file, given.password_env, folder)?) {
            (None, None) => None,
            (Some(user), Some(password)) => Some((user, password)),
            _ => return Err(Problem::setting("user and password-file (or password-env) require each other")),
        };
        let is_here = matches!(given.server.as_str(), "localhost" | "::1") || given.server.starts_with("127.");
        if given.tls == Tls::None && login.is_some() && !is_here {
            return Err(Problem::setting("none would send the password in the clear")
                .at("tls")
                .hint("use starttls or implicit"));
        }
        let usual = match given.tls {
            Tls::Starttls => 587,
            Tls::Implicit => 465,
            Tls::None => 25,
        };
        is_address(&given.from).map_err(|problem| problem.at("from"))?;
        given.to.iter().try_for_each(|address| is_address(address)).map_err(|problem| problem.at("to"))?;
        let (server, port, tls, from, to) =
            (given.server, given.port.unwrap_or(usual), given.tls, given.from, given.to);
        way = ChannelKind::Smtp { server, port, tls, login, from, to };
        ca_file = given.ca_file;
    }
    Ok(Channel { name: name.to_owned(), way, ca_file: ca_file.map(|path| folder.join(path)) })
}

/// Texts in a folder, as far as they are there.
fn templates(folder: &Path) -> Result<Templates, Problem> {
    read_templates(folder).map_err(|problem| problem.at("templates"))
}

/// Reads `subject.txt`, `text.txt` and `slack.txt` in a folder, of which at least one must be there.
pub fn read_templates(folder: &Path) -> Result<Templates, Problem> {
    let one = |name: &str| match std::fs::read_to_string(folder.join(name)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Problem::setting(format!("{}: {error}", folder.join(name).display()))),
    };
    let found = Templates { subject: one("subject.txt")?, text: one("text.txt")?, slack: one("slack.txt")? };
    if found == Templates::default() {
        return Err(Problem::setting(format!(
            "{}: this folder has none of subject.txt, text.txt and slack.txt",
            folder.display()
        )));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
