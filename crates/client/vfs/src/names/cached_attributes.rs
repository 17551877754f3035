//! Attributes and lookups as they are returned to a gateway, with the leases that cover them.

use std::sync::Arc;

use braid_client::Attributes;

use crate::names::names_lease::NamesLease;

/// Attributes, and the leases under which they may be cached.
#[derive(Clone, Debug)]
pub struct CachedAttributes {
    /// The attributes.
    pub attributes: Attributes,
    /// The leases under which they may be cached, if the reply is written by
    /// [`crate::Vfs::reply_cacheable`].
    pub leases: CachingLeases,
}

/// The result of a lookup.
#[derive(Clone, Debug)]
pub enum LookupResult {
    /// The name leads to a file.
    Found(CachedAttributes),
    /// The name does not exist.
    Absent(CachingLeases),
}

/// The leases under which a name and attributes may be cached until a recall.
#[derive(Clone, Debug, Default)]
pub struct CachingLeases {
    /// For the name, or its absence.
    pub(crate) name: Option<Arc<NamesLease>>,
    /// For the attributes.
    pub(crate) attributes: Option<Arc<NamesLease>>,
}

/// What of a reply may be cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cacheable {
    /// The name, or its absence.
    pub name: bool,
    /// The attributes.
    pub attributes: bool,
}

impl CachedAttributes {
    /// Attributes that are not cacheable.
    pub(crate) fn uncacheable(attributes: Attributes) -> Self {
        Self { attributes, leases: CachingLeases::default() }
    }
}
