//! `Retry-After` (RFC 9110 §10.2.3) in both its forms.

use core::time::Duration;

/// Longer waits are cut to this many seconds.
const MAX_SECONDS: u64 = i32::MAX as u64;

/// How far a `Date` may be from the local clock and still be what a date in `Retry-After` is measured against.
const SANE_SKEW: u64 = 24 * 60 * 60;

/// The wait that a `Retry-After` value asks for, counted from receipt. `None`: the value is unusable and counts as
/// absent.
///
/// Usable are one or more digits (seconds; saturating at 2^31 − 1) and the three forms of an HTTP-date (RFC 9110
/// §5.6.7). A date is measured against the response's `Date` where that is within a day of the local clock, else
/// against the local clock; a past date is no wait. `now` is the local clock in seconds since 1970.
///
/// ```
/// use std::time::Duration;
/// use oncebox_policy::retry_after;
///
/// assert_eq!(retry_after(b"120", None, 0), Some(Duration::from_secs(120)));
/// assert_eq!(retry_after(b"1.5", None, 0), None);
/// let (value, date) = (b"Sun, 06 Nov 1994 08:49:37 GMT", b"Sun, 06 Nov 1994 08:49:07 GMT");
/// assert_eq!(retry_after(value, Some(date), 784_111_700), Some(Duration::from_secs(30)));
/// ```
pub fn retry_after(value: &[u8], date: Option<&[u8]>, now: u64) -> Option<Duration> {
    let value = value.trim_ascii();
    if !value.is_empty() && value.iter().all(u8::is_ascii_digit) {
        let seconds = value.iter().fold(0_u64, |n, d| (n * 10 + u64::from(d - b'0')).min(MAX_SECONDS));
        return Some(Duration::from_secs(seconds));
    }
    let at = http_date(value, now)?;
    let reference = date
        .and_then(|date| http_date(date.trim_ascii(), now))
        .filter(|date| date.abs_diff(now) <= SANE_SKEW)
        .unwrap_or(now);
    Some(Duration::from_secs(at.saturating_sub(reference).min(MAX_SECONDS)))
}

/// Seconds since 1970 of an HTTP-date in any of its three forms. `now` settles the century of a two-digit year: a
/// date more than 50 years ahead is in the past (RFC 9110 §5.6.7). Dates before 1970 count as 1970.
pub fn http_date(value: &[u8], now: u64) -> Option<u64> {
    imf_fixdate(value).or_else(|| rfc850(value, now)).or_else(|| asctime(value))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(text: &[u8]) -> Option<u64> {
    let [day_name, day, month, year, time, b"GMT"] = fields(text, b' ')? else { return None };
    (is_day(day_name.strip_suffix(b",")?) && day.len() == 2 && year.len() == 4).then_some(())?;
    timestamp(number(year)?, self::month(month)?, number(day)?, time)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(text: &[u8], now: u64) -> Option<u64> {
    let [day_name, date, time, b"GMT"] = fields(text, b' ')? else { return None };
    let [day, month, year] = fields(date, b'-')?;
    (LONG_DAYS.contains(&day_name.strip_suffix(b",")?) && day.len() == 2 && year.len() == 2).then_some(())?;
    let this_year = year_of(now);
    let mut year = this_year - this_year % 100 + number(year)?;
    if year > this_year + 50 {
        year -= 100;
    }
    timestamp(year, self::month(month)?, number(day)?, time)
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(text: &[u8]) -> Option<u64> {
    let (names, rest) = text.split_at_checked("Sun Nov ".len())?;
    let [day_name, month, b""] = fields(names, b' ')? else { return None };
    // Two characters: the day is padded with a space.
    let (day, rest) = rest.split_at_checked(2)?;
    let [b"", time, year] = fields(rest, b' ')? else { return None };
    (is_day(day_name) && year.len() == 4).then_some(())?;
    timestamp(number(year)?, self::month(month)?, number(day.strip_prefix(b" ").unwrap_or(day))?, time)
}

const DAYS: &[u8] = b"Mon Tue Wed Thu Fri Sat Sun";
const LONG_DAYS: [&[u8]; 7] = [b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday", b"Sunday"];
const MONTHS: &[u8] = b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";

/// Exactly N parts with one separator between each two.
fn fields<const N: usize>(text: &[u8], separator: u8) -> Option<[&[u8]; N]> {
    let mut parts = text.split(|byte| *byte == separator);
    let mut out = [&[][..]; N];
    for slot in &mut out {
        *slot = parts.next()?;
    }
    parts.next().is_none().then_some(out)
}

fn is_day(name: &[u8]) -> bool {
    place(name, DAYS).is_some()
}

fn month(name: &[u8]) -> Option<u64> {
    place(name, MONTHS).map(|place| place + 1)
}

/// The place of a name of three letters among such.
fn place(name: &[u8], names: &[u8]) -> Option<u64> {
    names.split(|byte| *byte == b' ').position(|known| known == name).map(|place| place as u64)
}

/// Digits and nothing else, no more than a year has.
fn number(digits: &[u8]) -> Option<u64> {
    (1..=4).contains(&digits.len()).then_some(())?;
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0')))
}

fn timestamp(year: u64, month: u64, day: u64, time: &[u8]) -> Option<u64> {
    let mut clock = [0; 3];
    for (slot, part) in clock.iter_mut().zip(fields::<3>(time, b':')?) {
        (part.len() == 2).then_some(())?;
        *slot = number(part)?;
    }
    let [hour, minute, second] = clock;
    // A leap second is allowed (RFC 9110 §5.6.7).
    let valid = hour < 24 && minute < 60 && second <= 60 && (1..=days_in(year, month)).contains(&day);
    valid.then_some(())?;
    if year < 1970 {
        return Some(0);
    }
    Some(days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in(year: u64, month: u64) -> u64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let before = year - 1;
    let leap_days = |y: u64| y / 4 - y / 100 + y / 400;
    let years = (year - 1970) * 365 + leap_days(before) - leap_days(1969);
    years + (1..month).map(|m| days_in(year, m)).sum::<u64>() + day - 1
}

fn year_of(now: u64) -> u64 {
    // A year's mean length in seconds; a few hours' error only matters to dates just 50 years away. HTTP-dates end with
    // the year 9999, and so does any clock that is measured against them.
    (1970 + now / 31_556_952).min(9999)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_764_460_800; // 2025-11-30

    #[test]
    fn the_three_forms_name_the_same_instant() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(http_date(text.as_bytes(), NOW), Some(784_111_777), "{text}");
        }
        assert_eq!(http_date(b"Tue Nov 16 08:49:37 1999", NOW), Some(942_742_177));
    }

    #[test]
    fn what_only_looks_like_a_date_is_none() {
        for text in [
            "",
            "soon",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun,  06 Nov 1994 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "Sun Nov  16 08:49:37 1994",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Nos, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT ä",
        ] {
            assert_eq!(http_date(text.as_bytes(), NOW), None, "{text}");
        }
    }

    #[test]
    fn leap_years_and_leap_seconds_count() {
        assert_eq!(http_date(b"Thu, 29 Feb 2024 00:00:00 GMT", NOW), Some(1_709_164_800));
        assert_eq!(http_date(b"Wed, 29 Feb 2023 00:00:00 GMT", NOW), None);
        assert_eq!(http_date(b"Sat, 31 Dec 2016 23:59:60 GMT", NOW), Some(1_483_228_800));
        assert_eq!(http_date(b"Thu, 01 Jan 1970 00:00:00 GMT", NOW), Some(0));
        assert_eq!(http_date(b"Fri, 02 Jan 1970 00:00:01 GMT", NOW), Some(86_401));
        assert_eq!(http_date(b"Wed, 31 Dec 1969 23:59:59 GMT", NOW), Some(0));
    }

    #[test]
    fn an_insane_date_header_gives_way_to_the_local_clock() {
        let at = b"Sun, 30 Nov 2025 00:01:00 GMT";
        assert_eq!(retry_after(at, Some(b"Sun, 30 Nov 2025 00:00:30 GMT"), NOW), Some(Duration::from_secs(30)));
        for insane in [&b"Sun, 30 Nov 2014 00:00:30 GMT"[..], b"garbage"] {
            assert_eq!(retry_after(at, Some(insane), NOW), Some(Duration::from_secs(60)));
        }
        assert_eq!(retry_after(at, None, NOW + 3600), Some(Duration::ZERO));
    }

    #[test]
    fn seconds_saturate_and_nothing_but_digits_counts() {
        let max = Some(Duration::from_secs(2_147_483_647));
        assert_eq!(retry_after(b"99999999999999999999999999", None, NOW), max);
        assert_eq!(retry_after(b" 7 ", None, NOW), Some(Duration::from_secs(7)));
        for bad in [&b"-1"[..], b"+1", b"1.0", b"1e3", b"0x10", b"", b"  ", b"1 2", b"\xff"] {
            assert_eq!(retry_after(bad, None, NOW), None, "{bad:?}");
        }
    }
}
