//! A measured value and its target.

pub mod ratio;

use braid_testbed::stats::Summary;

/// The limit that a value must reach or not exceed.
#[derive(Clone, PartialEq, Debug)]
pub enum Target {
    /// At most this; the string explains the limit.
    AtMost(f64, String),
    /// At least this; the string explains the limit.
    AtLeast(f64, String),
}

impl Target {
    /// Whether `value` reaches the target. NaN never does.
    pub fn holds(&self, value: f64) -> bool {
        match self {
            Self::AtMost(limit, _) => value <= *limit,
            Self::AtLeast(limit, _) => value >= *limit,
        }
    }

    /// The limit.
    pub fn limit(&self) -> f64 {
        match self {
            Self::AtMost(limit, _) | Self::AtLeast(limit, _) => *limit,
        }
    }

    /// `<=` or `>=`.
    pub fn sign(&self) -> &'static str {
        match self {
            Self::AtMost(..) => "<=",
            Self::AtLeast(..) => ">=",
        }
    }

    /// The explanation of the limit.
    pub fn reason(&self) -> &str {
        match self {
            Self::AtMost(_, reason) | Self::AtLeast(_, reason) => reason,
        }
    }
}

/// A summary and its target, if it has one.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// What was measured.
    pub summary: Summary,
    /// The target.
    pub target: Option<Target>,
}

impl Value {
    /// Whether the median reaches the target; `None` without one.
    pub fn holds(&self) -> Option<bool> {
        self.target.as_ref().map(|bar| bar.holds(self.summary.median))
    }
}

/// One line of the report.
#[derive(Clone, PartialEq, Debug)]
pub struct Measure {
    /// Stable: `row.what`.
    pub name: String,
    /// The unit of the values.
    pub unit: &'static str,
    /// Over plain connections, or where connections do not matter.
    pub plain: Value,
    /// The same over TLS.
    pub tls: Option<Value>,
    /// The command that measures it.
    pub command: String,
}

impl Measure {
    /// A value without a target.
    pub fn new(name: impl Into<String>, unit: &'static str, summary: Summary) -> Self {
        Self {
            name: name.into(),
            unit,
            plain: Value { summary, target: None },
            tls: None,
            command: String::new(),
        }
    }

    /// Sets the limit that it must not exceed.
    pub fn at_most(mut self, limit: f64, reason: impl Into<String>) -> Self {
        self.plain.target = Some(Target::AtMost(limit, reason.into()));
        self
    }

    /// Sets the limit that it must reach.
    pub fn at_least(mut self, limit: f64, reason: impl Into<String>) -> Self {
        self.plain.target = Some(Target::AtLeast(limit, reason.into()));
        self
    }

    /// Adds the value over TLS.
    pub fn beside_tls(mut self, summary: Option<Summary>) -> Self {
        self.tls = summary.map(|summary| Value { summary, target: None });
        self
    }

    /// Adds the value over TLS, which may be `factor` times the plain one.
    pub fn beside_tls_at_most(mut self, summary: Option<Summary>, factor: f64) -> Self {
        let bar = Target::AtMost(factor * self.plain.summary.median, format!("{factor} x plain"));
        self.tls = summary.map(|summary| Value { summary, target: Some(bar) });
        self
    }

    /// Sets the command that measures it.
    pub fn made_by(mut self, command: &str) -> Self {
        self.command = command.to_owned();
        self
    }

    /// Both values, with their names in JSON and in messages.
    pub fn values(&self) -> impl Iterator<Item = (String, &Value)> {
        let tls = self.tls.iter().map(|value| (format!("{}.tls", self.name), value));
        std::iter::once((self.name.clone(), &self.plain)).chain(tls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(median: f64) -> Measure {
        Measure::new("row.what", "s", Summary { median, min: 0.0, max: 1000.0 })
    }

    #[test]
    fn a_bar_holds_up_to_its_limit_and_not_beyond() {
        assert_eq!(measure(2.0).at_most(2.0, "").plain.holds(), Some(true));
        assert_eq!(measure(2.0001).at_most(2.0, "").plain.holds(), Some(false));
        assert_eq!(measure(2.0).at_least(2.0, "").plain.holds(), Some(true));
        assert_eq!(measure(1.9999).at_least(2.0, "").plain.holds(), Some(false));
    }

    #[test]
    fn it_is_the_median_that_is_held_against_the_bar() {
        assert_eq!(
            measure(1.0).at_most(2.0, "").plain.holds(),
            Some(true),
            "though the largest sample is 1000"
        );
    }

    #[test]
    fn without_a_bar_nothing_is_said() {
        assert_eq!(measure(1.0).plain.holds(), None);
    }

    #[test]
    fn not_a_number_keeps_no_bar() {
        assert!(!Target::AtMost(1.0, String::new()).holds(f64::NAN));
        assert!(!Target::AtLeast(1.0, String::new()).holds(f64::NAN));
    }

    #[test]
    fn tls_is_held_against_the_plain_value() {
        let beside = |tls| measure(1.0).beside_tls_at_most(Some(Summary::once(tls)), 2.5);
        assert_eq!(beside(2.5).tls.unwrap().holds(), Some(true));
        assert_eq!(beside(2.6).tls.unwrap().holds(), Some(false));
    }
}
