//! Attributes and lookups as they are returned to a gateway, with the leases that cover them.

use std::sync::Arc;

use braid_client::Attributes;

use crate::names::names_lease::Promise;

/// Attributes, and the leases under which they may be cached.
#[derive(Clone, Debug)]
pub struct Known {
    /// The attributes.
    pub attributes: Attributes,
    /// The leases under which they may be cached, if the reply is written by
    /// [`crate::Vfs::reply_cacheable`].
    pub keep: Keep,
}

/// The result of a lookup.
#[derive(Clone, Debug)]
pub enum Looked {
    /// The name leads to a file.
    Found(Known),
    /// The name does not exist.
    Absent(Keep),
}

/// The leases under which a name and attributes may be cached until a recall.
#[derive(Clone, Debug, Default)]
pub struct Keep {
    /// For the name, or its absence.
    pub(crate) name: Option<Arc<Promise>>,
    /// For the attributes.
    pub(crate) attributes: Option<Arc<Promise>>,
}

/// What of a reply may be cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The name, or its absence.
    pub name: bool,
    /// The attributes.
    pub attributes: bool,
}

impl Known {
    /// Attributes that are not cacheable.
    pub(crate) fn now(attributes: Attributes) -> Self {
        Self { attributes, keep: Keep::default() }
    }
}
