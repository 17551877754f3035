//! Until when a certificate is valid (RFC 5280 4.1.2.5): rustls does not check a server's own.

use std::time::Duration;

/// ASN.1 tags. X.690 8.
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const EXPLICIT_0: u8 = 0xa0;

/// The times of a certificate in DER, since 1970: not before, not after. `None` if it is malformed.
pub fn validity(certificate: &[u8]) -> Option<(Duration, Duration)> {
    let mut outer = Der(certificate);
    let mut certificate = Der(outer.element(SEQUENCE)?);
    let mut body = Der(certificate.element(SEQUENCE)?);
    if body.0.first() == Some(&EXPLICIT_0) {
        body.element(EXPLICIT_0)?;
    }
    body.element(INTEGER)?;
    // The algorithm of the signature, and the issuer.
    body.element(SEQUENCE)?;
    body.element(SEQUENCE)?;
    let mut times = Der(body.element(SEQUENCE)?);
    Some((times.time()?, times.time()?))
}

/// DER that is left.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next element, which must have this tag.
    fn element(&mut self, expected: u8) -> Option<&'a [u8]> {
        let (tag, content) = self.any()?;
        (tag == expected).then_some(content)
    }

    fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // X.690 8.1.3.5: the number of bytes of the length follows.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    fn time(&mut self) -> Option<Duration> {
        let (tag, text) = self.any()?;
        let text = std::str::from_utf8(text).ok()?;
        // RFC 5280 4.1.2.5: seconds are there, and the zone is Z.
        let digits = text.strip_suffix('Z')?;
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number = |from: usize, to: usize| digits.get(from..to)?.parse::<i64>().ok();
        let (year, rest) = match (tag, digits.len()) {
            // RFC 5280 4.1.2.5.1: two digits are of 1950 to 2049.
            (UTC_TIME, 12) => {
                let year = number(0, 2)?;
                (year + if year < 50 { 2000 } else { 1900 }, 2)
            }
            (GENERALIZED_TIME, 14) => (number(0, 4)?, 4),
            _ => return None,
        };
        let part = |index: usize| number(rest + 2 * index, rest + 2 * index + 2);
        let days = days_since_1970(year, part(0)?, part(1)?);
        let seconds = ((days * 24 + part(2)?) * 60 + part(3)?) * 60 + part(4)?;
        // A certificate that is valid since before 1970 is valid since 1970.
        Some(Duration::from_secs(seconds.max(0) as u64))
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin with March, so that a leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (date, days) in [
            ((1970, 1, 1), 0),
            ((2000, 2, 29), 11_016),
            ((2000, 3, 1), 11_017),
            ((2026, 11, 27), 20_784),
            ((2100, 3, 1), 47_541),
        ] {
            assert_eq!(days_since_1970(date.0, date.1, date.2), days, "{date:?}");
        }
    }

    #[test]
    fn times_of_both_kinds_are_read_and_others_refused() {
        let time =
            |tag: u8, text: &str| Der(&[&[tag, text.len() as u8], text.as_bytes()].concat()).time();
        assert_eq!(time(UTC_TIME, "700101000001Z"), Some(Duration::from_secs(1)));
        assert_eq!(time(GENERALIZED_TIME, "19700102000000Z"), Some(Duration::from_secs(86_400)));
        assert_eq!(time(UTC_TIME, "491231235959Z"), Some(Duration::from_secs(2_524_607_999)));
        for text in ["", "Z", "7001010000Z", "700101000001", "70010100000xZ", "7001010000010Z"] {
            assert_eq!(time(UTC_TIME, text), None, "{text}");
        }
    }

    #[test]
    fn certificate_that_ends_early_is_malformed() {
        assert_eq!(validity(&[]), None);
        assert_eq!(validity(&[SEQUENCE, 0x84, 1, 1, 1, 1]), None);
        assert_eq!(validity(&[SEQUENCE, 4, SEQUENCE, 2, INTEGER, 9]), None);
    }
}
