//! Setting owner, group and access control list. MS-SMB2 3.3.5.21.3.

use braid_share::{AttributeChanges, Share, ShareClient};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::sd::SecurityDescriptor;
use braid_smb_wire::smb2::query_info::SecurityInformation;
use bytes::Bytes;

use super::Change;
use crate::security;
use crate::status::failed;

impl<S: Share> Change<'_, S> {
    /// Sets parts of the security descriptor, all or none.
    pub(super) async fn security(
        &self,
        parts: SecurityInformation,
        sent: Bytes,
    ) -> Result<(), NtStatus> {
        self.open.needs(needed_access(parts).0)?;
        // Files have neither an audit list nor labels.
        let kept = SecurityInformation::OWNER
            .with(SecurityInformation::GROUP)
            .with(SecurityInformation::DACL);
        if parts.without(kept) != SecurityInformation::default() {
            return Err(NtStatus::NOT_SUPPORTED);
        }
        let sent = SecurityDescriptor::from_bytes(sent);
        let sent = sent.map_err(|_| NtStatus::INVALID_SECURITY_DESCR)?;
        let known = self.attributes().await?;
        let change = security::change(&known, &sent, parts)?;
        // To set the owner that a file has, no right to give it away is needed.
        let changes = AttributeChanges {
            uid: change.uid.filter(|uid| *uid != known.uid),
            gid: change.gid.filter(|gid| *gid != known.gid),
            ..AttributeChanges::none()
        };
        let (client, who, file) = (self.client, self.who, self.open.file);
        let set = match change.list {
            Some(list) => client.set_attributes_and_acl(who, file, changes, &list).await,
            None if changes == AttributeChanges::none() => return Ok(()),
            None => client.set_attributes(who, file, changes).await,
        };
        set.map(drop).map_err(failed)
    }
}

/// The access that an open needs to set parts of the security descriptor.
fn needed_access(parts: SecurityInformation) -> AccessMask {
    let needs = [
        (SecurityInformation::OWNER, AccessMask::WRITE_OWNER),
        (SecurityInformation::GROUP, AccessMask::WRITE_OWNER),
        (SecurityInformation::LABEL, AccessMask::WRITE_OWNER),
        (SecurityInformation::DACL, AccessMask::WRITE_DAC),
        (SecurityInformation::SACL, AccessMask::ACCESS_SYSTEM_SECURITY),
    ];
    let needed = needs.into_iter().filter(|(part, _)| parts.has(*part));
    needed.fold(AccessMask::default(), |all, (_, access)| all.with(access))
}
