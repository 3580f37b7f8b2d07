//! Working hours: whether an instant is within them, and when they begin next. Zones put their clocks forward and back;
//! what counts is the clock on the wall.

use crate::model::alert::Calendar;
use crate::model::time::Micros;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::AmbiguousOffset;

/// Days that the next opening is looked for.
const HORIZON: i32 = 800;

/// Whether somebody works at this instant.
pub fn is_open(calendar: &Calendar, at: Micros) -> bool {
    let Ok(at) = Timestamp::from_microsecond(at) else { return false };
    open(calendar, at)
}

fn open(calendar: &Calendar, at: Timestamp) -> bool {
    let wall = calendar.zone.to_datetime(at);
    let minute = wall.hour() as u16 * 60 + wall.minute() as u16;
    if calendar.from < calendar.to {
        return works(calendar, wall.date()) && (calendar.from..calendar.to).contains(&minute);
    }
    let begun_yesterday = minute < calendar.to && wall.date().yesterday().is_ok_and(|day| works(calendar, day));
    begun_yesterday || (minute >= calendar.from && works(calendar, wall.date()))
}

fn works(calendar: &Calendar, day: Date) -> bool {
    calendar.days[day.weekday().to_monday_zero_offset() as usize] && !calendar.holidays.contains(&day)
}

/// The first instant from `at` on at which somebody works: `at` itself, or the beginning of a working time. `None`
/// where there is none in two years.
///
/// Working time begins when the clock shows `from` on a working day, and where the clock is put forward over it, or
/// back into it, at that instant.
pub fn next_open(calendar: &Calendar, at: Micros) -> Option<Micros> {
    let now = Timestamp::from_microsecond(at).ok()?;
    if open(calendar, now) {
        return Some(at);
    }
    let zone = &calendar.zone;
    let from = Time::new((calendar.from / 60) as i8, (calendar.from % 60) as i8, 0, 0).ok()?;
    let mut day = zone.to_datetime(now).date().yesterday().ok()?;
    // Where clocks are changed, working time may begin at another instant than at `from`.
    let changed = zone.following(now).take(16).map(|change| change.timestamp()).find(|change| open(calendar, *change));
    for _ in 0..HORIZON {
        if works(calendar, day) {
            let found = begins(calendar, day.to_datetime(from))
                .into_iter()
                .filter(|begin| *begin > now && open(calendar, *begin))
                .min();
            if let Some(found) = found {
                return Some(changed.map_or(found, |changed| changed.min(found)).as_microsecond());
            }
            if let Some(changed) = changed.filter(|changed| zone.to_datetime(*changed).date() <= day) {
                return Some(changed.as_microsecond());
            }
        }
        day = day.tomorrow().ok()?;
    }
    None
}

/// The instants at which the clock shows `wall`: one, two where it was put back over it, none where it was put forward.
fn begins(calendar: &Calendar, wall: DateTime) -> Vec<Timestamp> {
    let offsets = match calendar.zone.to_ambiguous_timestamp(wall).offset() {
        AmbiguousOffset::Unambiguous { offset } => vec![offset],
        AmbiguousOffset::Fold { before, after } => vec![before, after],
        AmbiguousOffset::Gap { .. } => Vec::new(),
    };
    offsets.into_iter().filter_map(|offset| offset.to_timestamp(wall).ok()).collect()
}

/// Days, named as in `Mon-Fri` or `Sun-Thu`.
#[cfg(test)]
pub(crate) fn days(first: usize, last: usize) -> [bool; 7] {
    let mut days = [false; 7];
    let mut at = first % 7;
    days[at] = true;
    while at != last % 7 {
        at = (at + 1) % 7;
        days[at] = true;
    }
    days
}

/// An instant by the clock on their wall, as people say it.
pub fn wall(calendar: &Calendar, at: Micros) -> String {
    let shown = Timestamp::from_microsecond(at)
        .map(|at| at.to_zoned(calendar.zone.clone()).strftime("%a %Y-%m-%d %H:%M %Z").to_string());
    shown.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::{format, parse_any};
    use jiff::tz::TimeZone;

    fn calendar(zone: &str, from: u16, to: u16) -> Calendar {
        Calendar {
            zone: TimeZone::get(zone).unwrap(),
            days: days(0, 4),
            from,
            to,
            holidays: [Date::constant(2026, 4, 3)].into(),
        }
    }

    #[track_caller]
    fn next(calendar: &Calendar, at: &str) -> String {
        next_open(calendar, parse_any(at).unwrap()).map(format).unwrap_or_default()
    }

    #[test]
    fn weekends_holidays_and_clocks_that_change() {
        let berlin = calendar("Europe/Berlin", 9 * 60, 17 * 60);
        assert_eq!(
            next(&berlin, "2026-03-27T15:59:59Z"),
            "2026-03-27T15:59:59Z",
            "17:00 is 16:00 in UTC before the change"
        );
        assert_eq!(
            next(&berlin, "2026-03-27T16:00:00Z"),
            "2026-03-30T07:00:00Z",
            "over the weekend the clock is put forward"
        );
        assert_eq!(next(&berlin, "2026-04-02T15:00:00Z"), "2026-04-06T07:00:00Z", "Friday is a holiday");
        assert_eq!(next(&berlin, "2026-10-23T15:00:00Z"), "2026-10-26T08:00:00Z", "and back");
        let york = calendar("America/New_York", 9 * 60, 17 * 60);
        assert_eq!(next(&york, "2026-03-07T00:00:00Z"), "2026-03-09T13:00:00Z");
        assert_eq!(next(&york, "2026-10-30T21:00:00Z"), "2026-11-02T14:00:00Z");
    }

    #[test]
    fn hours_that_there_are_not_and_hours_that_there_are_twice() {
        let mut night = calendar("Europe/Berlin", 2 * 60 + 30, 4 * 60);
        night.days = [true; 7];
        assert_eq!(
            next(&night, "2026-03-29T00:00:00Z"),
            "2026-03-29T01:00:00Z",
            "there is no 02:30: it opens as the clock is put forward"
        );
        assert_eq!(next(&night, "2026-10-25T00:00:00Z"), "2026-10-25T00:30:00Z");
        assert_eq!(next(&night, "2026-10-25T01:00:00Z"), "2026-10-25T01:30:00Z", "02:00 for the second time");
    }

    #[test]
    fn nights_belong_to_the_day_on_which_they_begin() {
        let night = calendar("UTC", 22 * 60, 6 * 60);
        let open = |at: &str| is_open(&night, parse_any(at).unwrap());
        assert!(open("2026-03-28T05:59:00Z"), "the night of Friday");
        assert!(!open("2026-03-28T22:00:00Z") && !open("2026-03-30T05:00:00Z"), "the nights of Saturday and Sunday");
        assert_eq!(next(&night, "2026-03-28T06:00:00Z"), "2026-03-30T22:00:00Z");
        let always = Calendar { days: [true; 7], from: 0, to: 1440, ..night };
        assert!(is_open(&always, 0));
        let never = Calendar { days: [false; 7], ..always };
        assert_eq!(next_open(&never, 0), None);
    }
}
