//! The attribute `acl`: lists of BraidFS as those of RFC 8881 6.2, and those that clients set.
//!
//! The metadata server stores and enforces lists (ADR 0043). `dacl` and `sacl` are not supported:
//! their flags of automatic inheritance have no place to be stored.

use braid_nfs_wire::nfs4::{Ace as WireAce, AceFlags, AceMask, AceType, NfsResult, NfsStatus};
use braid_share::Attributes;
use braid_share::nfs4_acl::{ACES_MAX, Ace, AceKind, AclError, Nfs4Acl, PosixView, Who, ace_flag};
use braid_share::{Share, ShareClient, Status};
use bytes::Bytes;
use tokio::time::timeout;

use crate::compound::CompoundState;
use crate::names::{LOOKUP_WAIT, NameKind, Names};
use crate::status::nfs_status;

/// The list of a file whose attributes were just read; `None` for a symbolic link, which has none.
///
/// # Errors
/// Those of the share.
pub async fn of_file<S: Share>(
    state: &CompoundState<'_, S>,
    known: &Attributes,
) -> NfsResult<Option<Vec<WireAce>>> {
    match state.share_client()?.nfs4_acl(state.who(), known).await {
        Ok(list) => Ok(Some(to_wire(&state.server.names, &list).await)),
        Err(error) if error.status() == Status::Unsupported => Ok(None),
        Err(error) => Err(nfs_status(error.status())),
    }
}

/// The list that means the same as the mode of a directory of the pseudo file system. Nobody is
/// named in it.
pub fn of_pseudo(mode: u16) -> Vec<WireAce> {
    let aces = Nfs4Acl::from_posix(&PosixView::of_mode(mode), true, 0);
    aces.iter().map(|ace| wire_ace(ace, ace.who.to_text().into())).collect()
}

/// A list in a message. If the names take too long, it has numbers.
pub async fn to_wire(names: &Names, list: &Nfs4Acl) -> Vec<WireAce> {
    if let Ok(named) = timeout(LOOKUP_WAIT, with_names(names, list)).await {
        return named;
    }
    list.aces().iter().map(|ace| wire_ace(ace, ace.who.to_text().into())).collect()
}

async fn with_names(names: &Names, list: &Nfs4Acl) -> Vec<WireAce> {
    let mut aces = Vec::with_capacity(list.aces().len());
    for ace in list.aces() {
        let who = match ace.who {
            Who::User(id) => names.text(NameKind::User, id).await,
            Who::Group(id) => names.text(NameKind::Group, id).await,
            special => special.to_text().into(),
        };
        aces.push(wire_ace(ace, who));
    }
    aces
}

fn wire_ace(ace: &Ace, who: Bytes) -> WireAce {
    let ace_type = match ace.kind {
        AceKind::Allow => AceType::ALLOW,
        AceKind::Deny => AceType::DENY,
    };
    let flags = AceFlags(u32::from(ace.flags | ace.who.message_flag()));
    WireAce { ace_type, flags, mask: AceMask(ace.mask), who }
}

/// The list in a message, as that of a directory: the metadata server removes the inheritance of
/// other files.
///
/// # Errors
/// `FBIG` for too many entries, as Linux's server; `ATTRNOTSUPP` for entries that audit; `INVAL`
/// for undefined flags and permissions; those of [`Names::number`].
pub async fn from_wire(names: &Names, aces: &[WireAce]) -> NfsResult<Nfs4Acl> {
    if aces.len() > ACES_MAX {
        return Err(NfsStatus::FBig);
    }
    let read = timeout(LOOKUP_WAIT, read_aces(names, aces)).await;
    // What was found is cached, so that another try goes further.
    let list = read.map_err(|_| NfsStatus::Delay)??;
    Nfs4Acl::new(list, true).map_err(|error| match error {
        AclError::TooLong => NfsStatus::FBig,
        _ => NfsStatus::Inval,
    })
}

async fn read_aces(names: &Names, aces: &[WireAce]) -> NfsResult<Vec<Ace>> {
    let mut list = Vec::with_capacity(aces.len());
    for ace in aces {
        let kind = match ace.ace_type {
            AceType::ALLOW => AceKind::Allow,
            AceType::DENY => AceKind::Deny,
            // RFC 8881 6.2.1.1: `aclsupport` has ALLOW and DENY only.
            _ => return Err(NfsStatus::AttrNotSupp),
        };
        let flags = u8::try_from(ace.flags.0).map_err(|_| NfsStatus::Inval)?;
        let is_group = flags & ace_flag::IDENTIFIER_GROUP != 0;
        // RFC 8881 6.2.1.4: INHERITED has a meaning in `dacl` and `sacl` only.
        let flags = flags & !(ace_flag::IDENTIFIER_GROUP | ace_flag::INHERITED);
        let who = who(names, &ace.who, is_group).await?;
        list.push(Ace { kind, flags, mask: ace.mask.0, who });
    }
    Ok(list)
}

/// RFC 8881 6.2.1.5. The special names that depend on how a caller reached the server, such as
/// `NETWORK@`, are names of nobody here.
async fn who(names: &Names, text: &[u8], is_group: bool) -> NfsResult<Who> {
    match text {
        b"OWNER@" => Ok(Who::Owner),
        b"GROUP@" => Ok(Who::OwningGroup),
        b"EVERYONE@" => Ok(Who::Everyone),
        _ if text.ends_with(b"@") => Err(NfsStatus::BadOwner),
        _ if is_group => names.number(NameKind::Group, text).await.map(Who::Group),
        _ => names.number(NameKind::User, text).await.map(Who::User),
    }
}
