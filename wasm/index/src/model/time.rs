//! Times as microseconds since the start of 1970 in UTC, and their ISO 8601 texts.

/// The microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// The unit in which numbers count a time since the start of 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Seconds. A float may have a fraction.
    Second,
    /// Milliseconds. A float may have a fraction.
    Millisecond,
    /// Microseconds, only as integers.
    #[default]
    Microsecond,
}

impl Unit {
    /// Every unit with its name in schemas.
    pub const NAMES: [(&'static str, Unit); 3] =
        [("second", Unit::Second), ("millisecond", Unit::Millisecond), ("microsecond", Unit::Microsecond)];

    /// Returns the unit with this name.
    pub fn named(name: &[u8]) -> Option<Unit> {
        Self::NAMES.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, unit)| *unit)
    }

    /// Returns the name of this unit in schemas.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, unit)| *unit == self).map_or("", |(name, _)| name)
    }

    /// Returns the number of microseconds in this unit.
    pub fn micros(self) -> i64 {
        match self {
            Unit::Second => 1_000_000,
            Unit::Millisecond => 1_000,
            Unit::Microsecond => 1,
        }
    }

    /// Converts an integer of this unit to microseconds. Returns `None` if they overflow 64 bits.
    pub fn of_integer(self, integer: i64) -> Option<i64> {
        integer.checked_mul(self.micros())
    }

    /// Converts a float of this unit to the nearest microsecond. Returns `None` if the result overflows 64 bits, or if the
    /// unit is the microsecond.
    ///
    /// ```
    /// use be_tree_index::model::time::{parse, Unit};
    ///
    /// assert_eq!(Unit::Second.of_float(1300475167.096535), parse(b"2011-03-18T19:06:07.096535Z"));
    /// assert_eq!(Unit::Second.of_float(1e300), None);
    /// ```
    pub fn of_float(self, float: f64) -> Option<i64> {
        let micros = (float * self.micros() as f64).round();
        // 2^63 is exact as a float, but `i64::MAX` is not.
        let fits = micros >= i64::MIN as f64 && micros < -(i64::MIN as f64);
        (fits && self != Unit::Microsecond).then_some(micros as i64)
    }
}

/// Parses a time: a date; or a date, `T` or a space, and a time of day with an optional fraction and an optional offset.
/// Without an offset it is UTC, and a date alone is the start of the day. Digits after the sixth of a fraction are ignored.
/// Returns `None` if the text is not such a time.
///
/// A second 60 is a leap second. RFC 3339 (5.7) allows it at the end of months that have one: at 23:59:60 in UTC on 30 June
/// or 31 December, of any year. It equals the next second, as in POSIX.
///
/// ```
/// use be_tree_index::model::time::{parse, text};
///
/// assert_eq!(parse(b"1970-01-02"), Some(86_400_000_000));
/// assert_eq!(parse(b"2026-01-01T01:30:00.25+01:30"), parse(b"2026-01-01 00:00:00.250Z"));
/// assert_eq!(parse(b"2026-02-29"), None);
/// assert_eq!(parse(b"2017-01-01T08:59:60+09:00"), parse(b"2017-01-01"));
/// assert_eq!(parse(b"2016-12-31T12:00:60Z"), None);
/// assert_eq!(text(-1), "1969-12-31T23:59:59.999999Z");
/// ```
pub fn parse(text: &[u8]) -> Option<i64> {
    read(text)?.micros()
}

/// Returns whether `text` is a time except that its leap second is at a wrong place.
pub fn is_misplaced_leap_second(text: &[u8]) -> bool {
    let as_59 = |time: Time| Time { second: 59, ..time }.micros();
    read(text).is_some_and(|time| time.second == 60 && time.micros().is_none() && as_59(time).is_some())
}

/// The parts of a time. Only the date and the offset are checked.
#[derive(Clone, Copy, Debug)]
struct Time {
    /// The days since 1970.
    days: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    /// The offset from UTC in seconds, positive to the east.
    offset: i64,
}

impl Time {
    /// Returns the microseconds since 1970, or `None` if a part is out of range.
    fn micros(self) -> Option<i64> {
        let Time { days, hour, minute, second, micros, offset } = self;
        let is_time = hour < 24 && minute < 60 && second <= 60 && (0..1_000_000).contains(&micros);
        let seconds = days * (DAY / 1_000_000) + (hour * 60 + minute) * 60 + second - offset;
        // A leap second equals the first second of the next minute.
        (is_time && (second < 60 || begins_half_year(seconds))).then(|| seconds * 1_000_000 + micros)
    }
}

/// Returns whether a time in seconds is the beginning of 1 January or 1 July.
fn begins_half_year(seconds: i64) -> bool {
    let day = DAY / 1_000_000;
    seconds.rem_euclid(day) == 0 && matches!(date(seconds.div_euclid(day)), [_, 1 | 7, 1])
}

fn read(text: &[u8]) -> Option<Time> {
    let mut rest = text;
    let year = digits(&mut rest, 4)?;
    literal(&mut rest, b'-')?;
    let month = digits(&mut rest, 2)?;
    literal(&mut rest, b'-')?;
    let day = digits(&mut rest, 2)?;
    let days = from_date(year, month, day)?;
    if rest.is_empty() {
        return Some(Time { days, hour: 0, minute: 0, second: 0, micros: 0, offset: 0 });
    }
    let (b'T' | b't' | b' ') = *rest.split_off_first()? else { return None };
    let hour = digits(&mut rest, 2)?;
    literal(&mut rest, b':')?;
    let minute = digits(&mut rest, 2)?;
    let (mut second, mut micros) = (0, 0);
    if rest.first() == Some(&b':') {
        rest.split_off_first();
        second = digits(&mut rest, 2)?;
        if let Some(b'.' | b',') = rest.first() {
            rest.split_off_first();
            micros = fraction(&mut rest)?;
        }
    }
    let offset = 60 * offset(rest)?;
    Some(Time { days, hour, minute, second, micros, offset })
}

/// Converts a calendar date, a time of day with microseconds, and an offset from UTC in seconds. Returns `None` if they are
/// not a time of the years 0 to 9999.
pub fn of_parts(date: [i64; 3], time: [i64; 3], micros: i64, offset: i64) -> Option<i64> {
    let [year, month, day] = date;
    let is_small = (0..=9999).contains(&year) && time.iter().all(|part| (0..=60).contains(part));
    let offset = Some(offset).filter(|offset| is_small && offset.abs() <= 86_400)?;
    let [hour, minute, second] = time;
    Time { days: from_date(year, month, day)?, hour, minute, second, micros, offset }.micros()
}

/// Parses an offset that takes up all of `text`.
fn offset(mut text: &[u8]) -> Option<i64> {
    let sign = match *text {
        [] | [b'Z' | b'z'] => return Some(0),
        [b'+', ..] => 1,
        [b'-', ..] => -1,
        _ => return None,
    };
    text.split_off_first();
    let hours = digits(&mut text, 2)?;
    if text.first() == Some(&b':') {
        text.split_off_first();
    }
    let minutes = if text.is_empty() { 0 } else { digits(&mut text, 2)? };
    (text.is_empty() && hours < 24 && minutes < 60).then_some(sign * (60 * hours + minutes))
}

fn literal(rest: &mut &[u8], byte: u8) -> Option<()> {
    (*rest.split_off_first()? == byte).then_some(())
}

/// Takes `count` digits.
fn digits(rest: &mut &[u8], count: usize) -> Option<i64> {
    let (digits, behind) = rest.split_at_checked(count)?;
    *rest = behind;
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| 10 * number + i64::from(digit - b'0')))
}

/// Takes the digits of a fraction, one or more, and returns it in microseconds.
fn fraction(rest: &mut &[u8]) -> Option<i64> {
    let len = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, behind) = rest.split_at(len);
    *rest = behind;
    let micros = (0..6).fold(0, |micros, i| 10 * micros + digits.get(i).map_or(0, |digit| i64::from(digit - b'0')));
    (len > 0).then_some(micros)
}

/// Returns the days from 1970 to a date of the Gregorian calendar, or `None` if there is no such date.
///
/// By Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
fn from_date(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Returns the date that is `days` after the start of 1970.
fn date(days: i64) -> [i64; 3] {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    [year + 400 * era + i64::from(month <= 2), month, day]
}

/// Returns the text of a time in UTC, or its microseconds if the year is not from 0 to 9999.
pub fn text(micros: i64) -> String {
    let [year, month, day] = date(micros.div_euclid(DAY));
    if !(0..=9999).contains(&year) {
        return micros.to_string();
    }
    let of_day = micros.rem_euclid(DAY);
    let [seconds, fraction] = [of_day / 1_000_000, of_day % 1_000_000];
    let [hour, minute, second] = [seconds / 3600, seconds / 60 % 60, seconds % 60];
    let start = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if fraction == 0 {
        format!("{start}Z")
    } else {
        format!("{start}.{fraction:06}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_has_one_date() {
        let first = from_date(0, 1, 1).unwrap();
        let last = from_date(9999, 12, 31).unwrap();
        let mut expected = [0, 1, 1];
        for days in first..=last {
            assert_eq!(date(days), expected);
            let [year, month, day] = expected;
            assert_eq!(from_date(year, month, day), Some(days));
            expected = if from_date(year, month, day + 1).is_some() {
                [year, month, day + 1]
            } else if month < 12 {
                [year, month + 1, 1]
            } else {
                [year + 1, 1, 1]
            };
        }
    }

    #[test]
    fn texts_are_read_again() {
        for micros in [0, 1, -1, 1_700_000_000_123_456, -62_167_219_200_000_000, 253_402_300_799_999_999] {
            assert_eq!(parse(text(micros).as_bytes()), Some(micros), "{}", text(micros));
        }
        assert_eq!(text(i64::MAX), i64::MAX.to_string());
        assert_eq!(text(i64::MIN), i64::MIN.to_string());
    }

    #[test]
    fn a_second_60_is_a_leap_second() {
        for (text, same) in [
            ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
            ("2016-12-31 23:59:60", "2017-01-01"),
            ("2015-06-30T23:59:60.25Z", "2015-07-01T00:00:00.25Z"),
            ("1990-12-31T15:59:60-08:00", "1991-01-01"),
            ("2017-01-01T05:29:60+05:30", "2017-01-01"),
            ("9999-12-31T23:59:60Z", "9999-12-31T23:59:60Z"),
        ] {
            assert!(parse(text.as_bytes()).is_some(), "{text}");
            assert_eq!(parse(text.as_bytes()), parse(same.as_bytes()), "{text}");
            assert!(!is_misplaced_leap_second(text.as_bytes()), "{text}");
        }
        for text in [
            "2026-04-30T10:00:60Z",
            "2016-12-31T23:58:60Z",
            "2016-12-30T23:59:60Z",
            "2016-03-31T23:59:60Z",
            "2016-12-31T23:59:60+01:00",
            "2016-12-31T00:00:60Z",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
            assert!(is_misplaced_leap_second(text.as_bytes()), "{text}");
        }
        for text in ["2016-12-31T23:59:61Z", "2016-12-31T24:59:60Z", "2016-12-31", "60", "2016-12-31T23:59:59Z"] {
            assert!(!is_misplaced_leap_second(text.as_bytes()), "{text}");
        }
        assert_eq!(of_parts([2016, 12, 31], [23, 59, 60], 0, 0), parse(b"2017-01-01"));
        assert_eq!(of_parts([2016, 12, 31], [23, 58, 60], 0, 0), None);
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in [
            "",
            "2026",
            "2026-1-01",
            "2026-13-01",
            "2026-04-31",
            "2026-04-30T",
            "2026-04-30T24:00",
            "2026-04-30T10:60",
            "2026-04-30T10:00:61",
            "2026-04-30T10:00:00.",
            "2026-04-30T10:00:00+1",
            "2026-04-30T10:00:00Zx",
            "2026-04-30x",
            "2026-04-30T10:00:00+24:00",
            "é026-04-30",
            "2026-04-3",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"2026-01-01T00:00:00.1234567Z"), parse(b"2026-01-01T00:00:00.123456"));
        assert_eq!(of_parts([2026, 1, 1], [1, 0, 0], 5, 3600), parse(b"2026-01-01T00:00:00.000005"));
        assert_eq!(of_parts([10_000, 1, 1], [0; 3], 0, 0), None);
    }
}
