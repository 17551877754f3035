//! Labels of branches: words that say what a disk is good for, as `ssd` or `raid`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Bytes of a label.
const BYTES_MAX: usize = 32;
/// Labels of one branch.
pub(crate) const LABELS_MAX: usize = 16;

/// A label: 1 to 32 letters, digits, `-`, `_` and `.`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label(Box<str>);

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Label {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if text.is_empty() || text.len() > BYTES_MAX || !text.bytes().all(is_valid) {
            return Err(format!(
                "\"{text}\" is no label; try: 1 to {BYTES_MAX} letters, digits, - _ ."
            ));
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for Label {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.0.into()
    }
}
