//! Attributes, permissions and listings.

use braid_types::{FileIndex, Status, nfs4_acl::Nfs4Acl};

use super::session::{Client, Session};
use crate::{
    AttributeChanges, Attributes, Error, FileKind, Identity, Listing, Result, Timestamp,
    acl_of_mode,
};

/// The permission bits that a call can ask for: read, write, execute or search.
const ACCESS_BITS: [u8; 3] = [4, 2, 1];
/// Permission to write a file.
const WRITE: u8 = 2;
/// Search permission.
const SEARCH: u8 = 1;
/// Nanoseconds of a time are below this.
const NANOS_END: u32 = 1_000_000_000;

/// The extended attribute that shows a file's NFSv4 access control list.
const NFS4_ACL: &[u8] = b"system.nfs4_acl";

/// Refuses a time that the server would take for a violation of the protocol.
fn check_time(time: Option<Timestamp>) -> Result<()> {
    if time.is_some_and(|time| time.nanos >= NANOS_END) {
        return Err(Error::new(Status::Invalid, "a time with a billion nanoseconds or more"));
    }
    Ok(())
}

fn check_times(changes: &AttributeChanges) -> Result<()> {
    let given = [&changes.atime, &changes.mtime].into_iter().flatten();
    given.map(|set| set.time).try_for_each(check_time)
}

/// The server lets a session that has the file open for writing set the size. Here the session has
/// many users, and only the one that has it open may: through the open.
async fn check_size(user: &Client, file: FileIndex, changes: &AttributeChanges) -> Result<()> {
    if changes.bytes.is_some() { user.access(file, WRITE).await } else { Ok(()) }
}

impl Session {
    pub(super) async fn set_attributes(
        &self,
        who: &Identity,
        file: FileIndex,
        changes: AttributeChanges,
    ) -> Result<Attributes> {
        check_times(&changes)?;
        self.run_as(who, async |user: Client| {
            check_size(&user, file, &changes).await?;
            user.set_attributes(file, false, changes).await
        })
        .await
    }

    pub(super) async fn set_attributes_and_birth(
        &self,
        who: &Identity,
        file: FileIndex,
        changes: AttributeChanges,
        btime: Timestamp,
    ) -> Result<Attributes> {
        check_times(&changes)?;
        check_time(Some(btime))?;
        self.run_as(who, async |user: Client| {
            check_size(&user, file, &changes).await?;
            user.set_attributes_and_birth(file, changes, btime).await
        })
        .await
    }

    pub(super) async fn set_attributes_and_acl(
        &self,
        who: &Identity,
        file: FileIndex,
        changes: AttributeChanges,
        list: &Nfs4Acl,
    ) -> Result<Attributes> {
        check_times(&changes)?;
        self.run_as(who, async |user: Client| {
            check_size(&user, file, &changes).await?;
            user.set_attributes_and_acl(file, changes, list.to_xdr()).await
        })
        .await
    }

    pub(super) async fn nfs4_acl(&self, who: &Identity, known: &Attributes) -> Result<Nfs4Acl> {
        if known.kind == FileKind::Symlink {
            return Err(Error::new(Status::Unsupported, "a symbolic link has no list"));
        }
        // An access control list is one of the extended attributes.
        if !known.has_xattrs {
            return Ok(acl_of_mode(known));
        }
        let (file, is_directory) = (known.file, known.kind == FileKind::Directory);
        let value = self.run_as(who, async |user: Client| user.xattr(file, NFS4_ACL).await).await?;
        Nfs4Acl::from_xdr(&value, is_directory)
            .map_err(|why| Error::new(Status::Internal, format!("a list: {why:?}")))
    }

    /// The wanted permissions that a user has. One call if these are all; otherwise one more for
    /// each bit, at the same time.
    pub(super) async fn access(&self, who: &Identity, file: FileIndex, wanted: u8) -> Result<u8> {
        self.run_as(who, async |user: Client| {
            if wanted == 0 {
                return user.lstat(file).await.map(|_| 0);
            }
            if is_allowed(&user, file, wanted).await? {
                return Ok(wanted);
            }
            let bits = ACCESS_BITS.map(|bit| wanted & bit);
            if bits.contains(&wanted) {
                return Ok(0);
            }
            let asked = tokio::join!(
                is_allowed(&user, file, bits[0]),
                is_allowed(&user, file, bits[1]),
                is_allowed(&user, file, bits[2]),
            );
            let allowed = [asked.0?, asked.1?, asked.2?];
            Ok(bits.into_iter().zip(allowed).map(|(bit, yes)| if yes { bit } else { 0 }).sum())
        })
        .await
    }

    /// As [`Session::access`], for a file whose attributes were just read. Without an access
    /// control list the mode decides, and no call is made: a mount's kernel decides in the same
    /// way.
    pub(super) async fn access_of(
        &self,
        who: &Identity,
        known: &Attributes,
        wanted: u8,
    ) -> Result<u8> {
        // An access control list is one of the extended attributes.
        if known.has_xattrs {
            return self.access(who, known.file, wanted).await;
        }
        Ok(wanted & permitted(who, known))
    }

    pub(super) async fn list(
        &self,
        who: &Identity,
        dir: FileIndex,
        cookie: u64,
        bytes_max: u32,
        with_attributes: bool,
    ) -> Result<Listing> {
        self.run_as(who, async |user: Client| {
            let page = user.read_directory(dir, cookie, bytes_max, with_attributes).await?;
            let mut listing = Listing { entries: page.entries, end: page.end };
            if with_attributes {
                self.fill_in(&user, dir, &mut listing).await?;
            }
            Ok(listing)
        })
        .await
    }

    /// Asks for the attributes that the listing lacks: those of files that another session writes,
    /// or that are being truncated. Without search permission there are none.
    async fn fill_in(&self, user: &Client, dir: FileIndex, listing: &mut Listing) -> Result<()> {
        let is_complete = listing.entries.iter().all(|entry| entry.attributes.is_some());
        if is_complete || !is_allowed(user, dir, SEARCH).await? {
            return Ok(());
        }
        for entry in &mut listing.entries {
            if entry.attributes.is_some() {
                continue;
            }
            match self.client().lstat(entry.file).await {
                Ok(attributes) => entry.attributes = Some(attributes),
                // It was removed in the meantime.
                Err(error) if error.status() == Status::StaleHandle => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The permissions that the mode gives to a user: read (4), write (2), execute or search (1). The
/// first class that matches decides (POSIX 4.7), as in `permit` of the metadata server.
fn permitted(who: &Identity, known: &Attributes) -> u8 {
    if who.uid == 0 || who.checked {
        // Root executes what anybody may execute, and searches every directory.
        let executes = known.kind == FileKind::Directory || known.mode & 0o111 != 0;
        return 6 | u8::from(executes);
    }
    let shift = match () {
        () if who.uid == known.uid => 6,
        () if who.gid == known.gid || who.groups.contains(&known.gid) => 3,
        () => 0,
    };
    (known.mode >> shift & 7) as u8
}

/// Whether a user has all of these permissions.
async fn is_allowed(user: &Client, file: FileIndex, mask: u8) -> Result<bool> {
    if mask == 0 {
        return Ok(false);
    }
    match user.access(file, mask).await {
        Ok(()) => Ok(true),
        Err(error) if error.status() == Status::PermissionDenied => Ok(false),
        Err(error) => Err(error),
    }
}
