//! A directory listing as an iterator.

use braid_net::Blocking;
use braid_wire::message::types::DirectoryEntry;

use super::block_on;
use crate::{engine, error::Result};

/// The entries of a directory, fetched as they are needed.
pub struct Listing(pub(super) engine::Listing<Blocking>);

impl Iterator for Listing {
    type Item = Result<DirectoryEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        block_on(self.0.next())
    }
}
