//! The judge: an in-memory file system that knows what it does not know.
//!
//! ```text
//!   names   a set of possible worlds: a call whose fate is not known forks them, what is seen prunes them
//!   data    for each byte the values that it may have, for each size the stretch that it may lie in
//! ```
//!
//! A run fails when nothing that the model holds possible explains what a client saw. The model is never too
//! strict: where it cannot follow (calls that overlap, losses of power) it widens what is possible.

pub mod data;
pub mod names;

/// What a client saw that no rule allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which rule: `I5`, `I7` and so on.
    pub rule: &'static str,
    /// What was seen and what was possible.
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
