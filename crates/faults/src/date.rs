//! The three forms of an HTTP date (RFC 9110, section 5.6.7).

const WEEKDAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

struct Parts {
    year: i64,
    month: &'static str,
    day: i64,
    weekday: &'static str,
    time: String,
}

/// Seconds since 1970 in the calendar, by the days of a 400-year era that begins in March.
fn parts(seconds: i64) -> Parts {
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = (from_march + 2) % 12;
    Parts {
        year: year_of_era + era * 400 + i64::from(from_march >= 10),
        month: MONTHS[month as usize],
        day: of_year - (153 * from_march + 2) / 5 + 1,
        weekday: WEEKDAYS[days.rem_euclid(7) as usize],
        time: format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60),
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
pub(crate) fn http_date(seconds: i64) -> String {
    let Parts { year, month, day, weekday, time } = parts(seconds);
    format!("{}, {day:02} {month} {year} {time} GMT", &weekday[..3])
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
pub(crate) fn rfc850(seconds: i64) -> String {
    let Parts { year, month, day, weekday, time } = parts(seconds);
    format!("{weekday}, {day:02}-{month}-{:02} {time} GMT", year.rem_euclid(100))
}

/// `Sun Nov  6 08:49:37 1994`
pub(crate) fn asctime(seconds: i64) -> String {
    let Parts { year, month, day, weekday, time } = parts(seconds);
    format!("{} {month} {day:2} {time} {year}", &weekday[..3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_example_in_its_three_forms() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(rfc850(784_111_777), "Sunday, 06-Nov-94 08:49:37 GMT");
        assert_eq!(asctime(784_111_777), "Sun Nov  6 08:49:37 1994");
    }

    #[test]
    fn leap_days_and_the_turn_of_years() {
        assert_eq!(http_date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(-1), "Wed, 31 Dec 1969 23:59:59 GMT");
        assert_eq!(http_date(1_798_761_599), "Thu, 31 Dec 2026 23:59:59 GMT");
    }
}
