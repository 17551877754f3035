//! The SMB gateway of a union (docs/union.md, "SMB").

use std::path::Path;

use braid_client::settings::SmbSection;
use braid_union_share::UnionShare;

use super::{Gateway, section_for, users_path_in};
use crate::output::Fault;

/// Serves a union, whose metadata is in `meta`, on an address. Without shares, all of it.
///
/// # Errors
/// As for [`Gateway::start`].
pub fn start(
    share: UnionShare,
    meta: &Path,
    listen: &str,
    shares: &[String],
) -> Result<Gateway, Fault> {
    let section = SmbSection { users_file: Some(users_path_in(meta)), ..SmbSection::default() };
    let section = section_for(section, listen, shares, "union")?;
    let (gateway, smb) = Gateway::prepare(&section)?;
    gateway.serve(&section, smb, async move || Ok(share))
}
