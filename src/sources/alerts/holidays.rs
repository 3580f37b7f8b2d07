//! Days on which nobody works: a date on each line, or an iCalendar file with events that last whole days.

use crate::model::problem::Problem;
use jiff::civil::Date;
use std::collections::BTreeSet;
use std::path::Path;

/// The longest file.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Days that one event may last.
const LASTS: usize = 366;

/// Reads a file; errors name the line.
pub(super) fn read(path: &Path) -> Result<BTreeSet<Date>, Problem> {
    if std::fs::metadata(path)?.len() > MAX_FILE_BYTES {
        return Err(Problem::setting("too large for a list of holidays"));
    }
    let text = std::fs::read_to_string(path)?;
    if text.trim_start_matches('\u{feff}').trim_start().starts_with("BEGIN:VCALENDAR") {
        calendar(&text)
    } else {
        lines(&text)
    }
}

/// A date each, `#` begins a comment.
fn lines(text: &str) -> Result<BTreeSet<Date>, Problem> {
    let mut dates = BTreeSet::new();
    for (number, line) in text.lines().enumerate() {
        let date = line.split('#').next().unwrap_or_default().trim();
        if !date.is_empty() {
            let parsed = date.parse().map_err(|_| {
                Problem::setting(format!("line {}: '{date}' is not a date", number + 1)).hint("write 2026-12-25")
            })?;
            dates.insert(parsed);
        }
    }
    Ok(dates)
}

/// Events of iCalendar (RFC 5545) that have dates, not times. What recurs is refused: which dates that means is not
/// known here.
fn calendar(text: &str) -> Result<BTreeSet<Date>, Problem> {
    // Long lines are folded: a line that begins with white space goes on with the one before.
    let mut unfolded: Vec<(usize, String)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        match (line.strip_prefix([' ', '\t']), unfolded.last_mut()) {
            (Some(rest), Some((_, last))) => last.push_str(rest),
            _ => unfolded.push((number + 1, line.to_owned())),
        }
    }
    let mut dates = BTreeSet::new();
    let (mut within, mut first, mut until) = (false, None, None);
    for (number, line) in &unfolded {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let (name, value) = (name.split(';').next().unwrap_or_default().to_ascii_uppercase(), value.trim());
        match name.as_str() {
            "BEGIN" if value == "VEVENT" => (within, first, until) = (true, None, None),
            "DTSTART" if within => first = date(value),
            "DTEND" if within => until = date(value),
            "RRULE" | "RDATE" if within && first.is_some() => {
                return Err(Problem::setting("recurring events are not supported")
                    .at(format!("line {number}"))
                    .hint("export the calendar with each date"));
            }
            "END" if value == "VEVENT" => {
                within = false;
                // DTEND is the day after the last. An event with times is none of whole days.
                if let Some(first) = first {
                    let last = until.and_then(|until| until.yesterday().ok()).unwrap_or(first);
                    let days = first.series(jiff::Span::new().days(1)).take(LASTS);
                    dates.extend(days.take_while(|day| *day <= last.max(first)));
                }
            }
            _ => {}
        }
    }
    Ok(dates)
}

/// `20261225`; `None` for what has a time.
fn date(text: &str) -> Option<Date> {
    if text.len() != 8 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Date::new(text[..4].parse().ok()?, text[4..6].parse().ok()?, text[6..].parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(dates: &BTreeSet<Date>) -> String {
        dates.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn dates_and_comments() {
        assert_eq!(
            shown(&lines("# 2026\n2026-12-25 # Christmas\n\n 2026-01-01\r\n").unwrap()),
            "2026-01-01 2026-12-25"
        );
        assert!(lines("2026-01-01\n2026-13-01\n").unwrap_err().to_string().starts_with("line 2: '2026-13-01'"));
    }

    #[test]
    fn events_of_whole_days() {
        let text = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261224\r\n\
            DTEND;VALUE=DATE:20261227\r\nSUMMARY:Christ\r\n mas\r\nEND:VEVENT\r\n\
                    BEGIN:VEVENT\r\nDTSTART;VALUE=D\r\n ATE:20260501\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\n\
                    DTSTART:20260102T100000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
        assert_eq!(shown(&calendar(text).unwrap()), "2026-05-01 2026-12-24 2026-12-25 2026-12-26");
        let recurs = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20260101\nRRULE:FREQ=YEARLY\nEND:VEVENT\n";
        assert!(calendar(recurs).unwrap_err().to_string().starts_with("line 4"));
        let endless =
            "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:00010101\nDTEND;VALUE=DATE:99990101\nEND:VEVENT\n";
        assert_eq!(calendar(endless).unwrap().len(), LASTS);
    }
}
