//! One line of a metrics page that holds a sample: `name{label="value",…} value [timestamp] [# exemplar]`.

use super::Dialect;
use crate::model::sample::{Exemplar, Label, PageText};
use crate::model::walk::string_end;

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What was expected, or what is not allowed.
    pub what: &'static str,
    /// Where in the line, in bytes.
    pub at: usize,
}

/// Labels that a sample may have: each is compared with all before it.
const MAX_LABELS: usize = 1024;

const NAME: u8 = 1;
const LABEL: u8 = 2;
const FIRST: u8 = 4;

/// Which characters names may hold.
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => NAME | LABEL | FIRST,
            b'0'..=b'9' => NAME | LABEL,
            b':' => NAME,
            _ => 0,
        };
        byte += 1;
    }
    class
};

/// Whether a name may stand without quotes.
pub(super) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name[0].is_ascii_digit() && name.iter().all(|byte| CLASS[*byte as usize] & NAME != 0)
}

/// A line, taken apart; its labels are in the vector that was handed in.
#[derive(Debug)]
pub struct Parts<'p> {
    /// The metric's name.
    pub name: PageText<'p>,
    /// Name and labels as they stand in the line.
    pub series: &'p [u8],
    pub value: f64,
    /// Unix seconds.
    pub timestamp: Option<f64>,
    pub exemplar: Option<Exemplar<'p>>,
}

/// Takes a line apart. It has no newline and is not blank; in text pages it has no blanks in front.
#[inline]
pub fn parse<'p>(line: &'p [u8], dialect: Dialect, labels: &mut Vec<Label<'p>>) -> Result<Parts<'p>, Fault> {
    labels.clear();
    let mut at = run(line, 0, NAME);
    let mut name = PageText::new(&line[..at], false);
    if at > 0 && line[0].is_ascii_digit() {
        return Err(Fault { what: "a metric's name does not begin with a digit", at: 0 });
    }
    if dialect == Dialect::Text {
        at = blanks(line, at);
    }
    if line.get(at) == Some(&b'{') {
        let quoted;
        (at, quoted) = label_set(line, at + 1, dialect, labels, name.raw().is_empty())?;
        name = quoted.unwrap_or(name);
    }
    if name.raw().is_empty() {
        return Err(Fault { what: "no metric's name", at: 0 });
    }
    let series = line[..at].trim_ascii_end();
    let (text, start, mut at) = field(line, at, dialect)?;
    let value = number(text).ok_or(Fault { what: "the value is not a number", at: start })?;
    let mut timestamp = None;
    if at < line.len() && !is_exemplar(line, at, dialect) {
        let (text, start, end) = field(line, at, dialect)?;
        if !text.is_empty() || dialect == Dialect::OpenMetrics {
            timestamp = Some(time(text, dialect).ok_or(Fault { what: "the timestamp is not a number", at: start })?);
        }
        at = end;
    }
    let mut exemplar = None;
    if is_exemplar(line, at, dialect) {
        exemplar = Some(self::exemplar(line, at + 3)?);
    } else if at < line.len() && !line[at..].iter().all(|b| matches!(b, b' ' | b'\t') && dialect == Dialect::Text) {
        return Err(Fault { what: "more than a value and a timestamp", at: blanks(line, at) });
    }
    Ok(Parts { name, series, value, timestamp, exemplar })
}

/// The index of the first byte from `at` on that is not of a class.
#[inline]
fn run(line: &[u8], mut at: usize, class: u8) -> usize {
    while at < line.len() && CLASS[line[at] as usize] & class != 0 {
        at += 1;
    }
    at
}

#[inline]
fn blanks(line: &[u8], mut at: usize) -> usize {
    while matches!(line.get(at), Some(b' ' | b'\t')) {
        at += 1;
    }
    at
}

/// The labels behind `{`: the index behind `}`, and the metric's name if it stands among them in quotes.
#[inline]
fn label_set<'p>(
    line: &'p [u8],
    mut at: usize,
    dialect: Dialect,
    labels: &mut Vec<Label<'p>>,
    nameless: bool,
) -> Result<(usize, Option<PageText<'p>>), Fault> {
    let skip = |at| if dialect == Dialect::Text { blanks(line, at) } else { at };
    let mut metric = None;
    loop {
        at = skip(at);
        let start = at;
        let name = match line.get(at) {
            Some(b'}') => {
                let trailing_comma = line[at - 1] == b',';
                if trailing_comma && dialect == Dialect::OpenMetrics {
                    return Err(Fault { what: "a comma before }", at });
                }
                return Ok((at + 1, metric));
            }
            Some(b'"') => {
                let (text, end) = quoted(line, at)?;
                at = end;
                text
            }
            _ => {
                at = run(line, at, LABEL);
                if at == start || line[start].is_ascii_digit() {
                    return Err(Fault { what: "no label name", at: start });
                }
                PageText::new(&line[start..at], false)
            }
        };
        at = skip(at);
        if line.get(at) == Some(&b'=') {
            at = skip(at + 1);
            let (value, end) = quoted(line, at)?;
            at = end;
            let label = Label { name, value };
            if labels.len() == MAX_LABELS {
                return Err(Fault { what: "more than 1,024 labels", at: start });
            }
            if labels.iter().any(|other| other.name.raw() == label.name.raw()) {
                return Err(Fault { what: "a label name twice", at: start });
            }
            labels.push(label);
        } else if line[start] == b'"' && metric.is_none() && nameless && labels.is_empty() {
            metric = Some(name);
        } else {
            return Err(Fault { what: "no = after a label name", at });
        }
        at = skip(at);
        match line.get(at) {
            Some(b',') => at += 1,
            Some(b'}') => {}
            _ => return Err(Fault { what: "labels that do not end in }", at }),
        }
    }
}

/// The text between the quotes at `at`, and the index behind the second.
#[inline]
fn quoted(line: &[u8], at: usize) -> Result<(PageText<'_>, usize), Fault> {
    if line.get(at) != Some(&b'"') {
        return Err(Fault { what: "no quote before a label value", at });
    }
    let open = at + 1;
    // JSON knows the same quotes and backslashes; what it does not allow (tabs, say) is looked at byte by byte.
    if let Some(end) = string_end(line, open) {
        return Ok((PageText::new(&line[open..end.at], end.escaped), end.at + 1));
    }
    let mut at = open;
    let mut escaped = false;
    loop {
        match line.get(at) {
            Some(b'"') => return Ok((PageText::new(&line[open..at], escaped), at + 1)),
            Some(b'\\') => {
                escaped = true;
                at += 2;
            }
            Some(_) => at += 1,
            None => return Err(Fault { what: "a label value that does not end", at: open }),
        }
    }
}

/// The next field behind its separator: its text, where it starts and ends.
#[inline]
fn field(line: &[u8], at: usize, dialect: Dialect) -> Result<(&[u8], usize, usize), Fault> {
    let start = match dialect {
        Dialect::Text => blanks(line, at),
        Dialect::OpenMetrics if line.get(at) == Some(&b' ') => at + 1,
        Dialect::OpenMetrics => return Err(Fault { what: "no single blank between fields", at }),
    };
    let mut end = start;
    while end < line.len() && !matches!(line[end], b' ' | b'\t') {
        end += 1;
    }
    Ok((&line[start..end], start, end))
}

fn is_exemplar(line: &[u8], at: usize, dialect: Dialect) -> bool {
    // A page whose `# EOF` was cut off is read as text, which has none.
    line[at..].starts_with(b" # {") || dialect == Dialect::OpenMetrics && line[at..].starts_with(b" # ")
}

/// `{labels} value [timestamp]` behind ` # `.
fn exemplar(line: &[u8], at: usize) -> Result<Exemplar<'_>, Fault> {
    let dialect = Dialect::OpenMetrics;
    if line.get(at) != Some(&b'{') {
        return Err(Fault { what: "an exemplar without labels", at });
    }
    let mut labels = Vec::new();
    let (at, _) = label_set(line, at + 1, dialect, &mut labels, false)?;
    let (text, start, mut at) = field(line, at, dialect)?;
    let value = number(text).ok_or(Fault { what: "the exemplar's value is not a number", at: start })?;
    let mut timestamp = None;
    if at < line.len() {
        let (text, start, end) = field(line, at, dialect)?;
        timestamp =
            Some(time(text, dialect).ok_or(Fault { what: "the exemplar's timestamp is not a number", at: start })?);
        at = end;
    }
    if at < line.len() {
        return Err(Fault { what: "text after an exemplar", at });
    }
    Ok(Exemplar { labels, value, timestamp })
}

/// A number as Go's `ParseFloat` reads decimal ones.
#[inline]
pub fn number(text: &[u8]) -> Option<f64> {
    if text.len() <= 15 && !text.is_empty() {
        let mut whole = 0u64;
        let mut digits = true;
        for &b in text {
            digits &= b.is_ascii_digit();
            whole = whole.wrapping_mul(10).wrapping_add(u64::from(b.wrapping_sub(b'0')));
        }
        if digits {
            return Some(whole as f64);
        }
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Unix seconds: whole milliseconds in text pages, seconds in OpenMetrics.
fn time(text: &[u8], dialect: Dialect) -> Option<f64> {
    match dialect {
        Dialect::Text => std::str::from_utf8(text).ok()?.parse::<i64>().ok().map(|ms| ms as f64 / 1e3),
        Dialect::OpenMetrics => number(text).filter(|seconds| seconds.is_finite()),
    }
}
