//! What is known of a file, and whether it may be remembered.

use braid_client::Attributes;

/// Attributes, and how long they are good.
#[derive(Clone, Debug)]
pub struct Known {
    /// The attributes.
    pub attributes: Attributes,
    /// Whether they and the name they were found under may be remembered until a recall says otherwise.
    pub cacheable: bool,
}

/// What a name leads to.
#[derive(Clone, Debug)]
pub enum Looked {
    /// A file.
    Found(Known),
    /// Nothing.
    Absent {
        /// Whether that may be remembered until a recall says otherwise.
        cacheable: bool,
    },
}

impl Known {
    /// True now.
    pub(crate) fn now(attributes: Attributes) -> Self {
        Self { attributes, cacheable: false }
    }
}
