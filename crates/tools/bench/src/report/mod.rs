//! The printed report, and the exit code.

pub mod json;
pub mod table;

use std::process::ExitCode;

use crate::measure::Measure;

/// Names each missed target if `check`; returns the exit code.
pub fn verdict(check: bool, measures: &[Measure]) -> ExitCode {
    let broken = broken(measures);
    if !check {
        return ExitCode::SUCCESS;
    }
    broken.iter().for_each(|complaint| eprintln!("bench: {complaint}"));
    ExitCode::from(exit_code(&broken))
}

/// 1 if a target is missed.
fn exit_code(broken: &[String]) -> u8 {
    u8::from(!broken.is_empty())
}

/// A sentence for each missed target.
fn broken(measures: &[Measure]) -> Vec<String> {
    let mut complaints = Vec::new();
    for measure in measures {
        for (name, value) in measure.values() {
            if let (Some(bar), Some(false)) = (&value.target, value.holds()) {
                complaints.push(format!(
                    "{name} misses its target: {} {unit}, the target is {} {} {unit} ({}); try: {}",
                    short(value.summary.median),
                    bar.sign(),
                    short(bar.limit()),
                    bar.reason(),
                    measure.command,
                    unit = measure.unit,
                ));
            }
        }
    }
    complaints
}

/// Three or four significant digits.
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => thousands(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_testbed::stats::Summary;

    fn measure(value: f64) -> Measure {
        Measure::new("row.what", "us", Summary::once(value))
            .at_most(10.0, "2 x 5")
            .made_by("cargo xtask bench core row")
    }

    #[test]
    fn a_bar_that_does_not_hold_exits_1_and_is_named() {
        let complaints = broken(&[measure(9.0), measure(11.0)]);
        assert_eq!(complaints.len(), 1);
        assert!(
            complaints[0].starts_with(
                "row.what misses its target: 11.0 us, the target is <= 10.0 us (2 x 5)"
            )
        );
        assert_eq!(exit_code(&complaints), 1);
    }

    #[test]
    fn a_bar_over_tls_is_named_as_such() {
        let slow = measure(9.0).beside_tls_at_most(Some(Summary::once(90.0)), 2.5);
        assert!(broken(&[slow])[0].starts_with("row.what.tls misses its target"));
    }

    #[test]
    fn when_all_hold_the_exit_is_0() {
        assert_eq!(
            exit_code(&broken(&[measure(10.0), Measure::new("free", "s", Summary::once(1.0))])),
            0
        );
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.1234, "0.123"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1234.5, "1,234"),
        ];
        cases.into_iter().for_each(|(value, text)| assert_eq!(short(value), text));
        assert_eq!(short(1_234_567.0), "1,234,567");
        assert_eq!(short(0.0), "0");
    }
}
