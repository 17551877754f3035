//! What is known of a file, and under which promise it may be remembered.

use std::sync::Arc;

use braid_client::Attributes;

use crate::promise::Promise;

/// Attributes, and under what they may be remembered.
#[derive(Clone, Debug)]
pub struct Known {
    /// The attributes.
    pub attributes: Attributes,
    /// What may be remembered, if it is handed out by [`crate::Vfs::hand_out`].
    pub keep: Keep,
}

/// What a name leads to.
#[derive(Clone, Debug)]
pub enum Looked {
    /// A file.
    Found(Known),
    /// Nothing.
    Absent(Keep),
}

/// The promises under which a name and attributes may be remembered until they are recalled.
#[derive(Clone, Debug, Default)]
pub struct Keep {
    /// For the name, or that it is absent.
    pub(crate) name: Option<Arc<Promise>>,
    /// For the attributes.
    pub(crate) attributes: Option<Arc<Promise>>,
}

/// What may be remembered now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The name, or that it is absent.
    pub name: bool,
    /// The attributes.
    pub attributes: bool,
}

impl Known {
    /// True now, and perhaps not at the next moment.
    pub(crate) fn now(attributes: Attributes) -> Self {
        Self { attributes, keep: Keep::default() }
    }
}
