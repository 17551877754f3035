//! The models: in-memory file systems that also represent what is unknown.
//!
//! ```text
//!   names   a set of possible trees: unknown outcomes add some, observations remove some
//!   data    the values that each byte may have, and the range that the size may lie in
//! ```
//!
//! A run fails when nothing that the model considers possible explains what a client saw. The model
//! is never too strict: where it cannot follow (calls that overlap, losses of power) it widens what
//! is possible.

pub mod data;
pub mod names;

/// What a client saw although no rule allows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The rule: `I5`, `I7` and so on.
    pub rule: &'static str,
    /// What was seen, and what was possible.
    pub what: String,
}

impl Violation {
    /// A violation of a rule.
    pub fn new(rule: &'static str, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} violated: {}", self.rule, self.what)
    }
}
