//! READDIR. RFC 8881 18.23.

use braid_nfs_wire::nfs4::args::ReadDirArgs;
use braid_nfs_wire::nfs4::results::{DirEntry, ReadDirResult};
use braid_nfs_wire::nfs4::{
    Attributes as NfsAttributes, Bitmap, EncodedAttributes, FileHandle, NfsResult, NfsStatus,
    Verifier, attribute,
};
use braid_share::{Attributes, Identity, Share, ShareClient, StatFsReply};
use bytes::Bytes;

use crate::attributes::{add_costly, of_file, of_node, of_pseudo, space_of};
use crate::compound::CompoundState;
use crate::export::{ExportedFile, Node, PseudoNode};
use crate::ops::filehandle::handle_of;
use crate::status::nfs_status;

/// Cookies are valid permanently, so their verifier never changes.
const VERIFIER: Verifier = Verifier([0; 8]);
/// Bytes of a result without entries: verifier, end of the list, eof.
const EMPTY_BYTES: usize = 16;
/// Bytes of an entry besides name and attributes: its mark, cookie, length of the name.
const ENTRY_BYTES: usize = 16;
/// Bytes of one reply, whatever the client asks for (I9).
const REPLY_BYTES_MAX: usize = 256 << 10;
/// Attributes that need no more than the entry.
const OF_ENTRY: Bitmap = Bitmap::of(&[attribute::TYPE, attribute::FILEID, attribute::RDATTR_ERROR]);

/// READDIR.
pub async fn read_dir<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: ReadDirArgs,
) -> NfsResult<ReadDirResult> {
    // RFC 8881 18.23.3: cookies 1 and 2 are reserved.
    if matches!(args.cookie, 1 | 2) {
        return Err(NfsStatus::BadCookie);
    }
    if args.cookie != 0 && args.verifier != VERIFIER {
        return Err(NfsStatus::NotSame);
    }
    if (args.max_count as usize) < EMPTY_BYTES {
        return Err(NfsStatus::TooSmall);
    }
    let space = (args.max_count as usize).min(REPLY_BYTES_MAX).min(state.reply_space);
    let mut page =
        Page { entries: Vec::new(), left: space.saturating_sub(EMPTY_BYTES), full: false };
    let end = match state.current()? {
        Node::Pseudo(node) => list_pseudo(state, *node, &args, &mut page).await?,
        Node::File(dir) => list_directory(state, dir, &args, &mut page).await?,
    };
    // RFC 8881 18.23.3: not even one entry fits.
    if page.full && page.entries.is_empty() {
        return Err(NfsStatus::TooSmall);
    }
    Ok(ReadDirResult { verifier: VERIFIER, entries: page.entries, eof: end && !page.full })
}

struct Page {
    entries: Vec<DirEntry>,
    left: usize,
    full: bool,
}

impl Page {
    /// Adds an entry, if it fits.
    fn push(&mut self, cookie: u64, name: Bytes, attributes: EncodedAttributes) -> bool {
        let padded = |bytes: usize| bytes.div_ceil(4) * 4;
        // A bitmap of up to three words, with its length and that of the values.
        let bytes = ENTRY_BYTES + padded(name.len()) + 20 + padded(attributes.values.len());
        if bytes > self.left {
            self.full = true;
            return false;
        }
        self.left -= bytes;
        self.entries.push(DirEntry { cookie, name, attributes });
        true
    }
}

/// Whether these were the last entries.
async fn list_pseudo<S: Share>(
    state: &CompoundState<'_, S>,
    node: PseudoNode,
    args: &ReadDirArgs,
    page: &mut Page,
) -> NfsResult<bool> {
    let server = state.server;
    for entry in server.exports.pseudo(node).entries_after(args.cookie) {
        let address = state.caller.address;
        let child = server.exports.enter(&server.share, entry.node, address).await;
        let attributes = match child {
            Ok(Node::Pseudo(child)) => of_pseudo(state, child, &args.attributes),
            // A client that may not use an export does not see it.
            Err(NfsStatus::Access) => continue,
            Ok(child) => match of_node(state, &child, &args.attributes).await {
                Ok(attributes) => attributes,
                Err(status) => error_attribute(&args.attributes, status)?,
            },
            Err(status) => error_attribute(&args.attributes, status)?,
        };
        if !page.push(entry.cookie, Bytes::copy_from_slice(entry.name.as_bytes()), attributes) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// RFC 8881 18.23.3: with `rdattr_error` an entry says why it has no other attributes; without it
/// the whole READDIR fails.
fn error_attribute(requested: &Bitmap, status: NfsStatus) -> NfsResult<EncodedAttributes> {
    if !requested.has(attribute::RDATTR_ERROR) {
        return Err(status);
    }
    let attributes = NfsAttributes { rdattr_error: Some(status), ..NfsAttributes::default() };
    Ok(attributes.to_encoded(requested))
}

async fn list_directory<S: Share>(
    state: &CompoundState<'_, S>,
    dir: &ExportedFile,
    args: &ReadDirArgs,
    page: &mut Page,
) -> NfsResult<bool> {
    let (client, who): (_, &Identity) = (state.share_client()?, state.who());
    let needs_attributes = !args.attributes.without(OF_ENTRY).is_empty();
    let space = space_of(state, dir, &args.attributes).await?;
    let bytes = u32::try_from(page.left).unwrap_or(u32::MAX);
    let listing = client.list(who, dir.file, args.cookie, bytes, needs_attributes).await;
    let listing = listing.map_err(|error| nfs_status(error.status()))?;
    for entry in listing.entries {
        let address = state.caller.address;
        // A client that may not use a nested export does not see it.
        let Ok(child) = state.server.exports.cross(dir, &entry.name, entry.file, address) else {
            continue;
        };
        let attributes = match entry.attributes {
            Some(known) => {
                match encode(state, &child, &known, space.as_ref(), &args.attributes).await {
                    Ok(attributes) => attributes,
                    Err(status) => error_attribute(&args.attributes, status)?,
                }
            }
            None if needs_attributes => {
                // It was removed since the directory was read.
                error_attribute(&args.attributes, NfsStatus::NoEnt)?
            }
            None => NfsAttributes {
                file_type: Some(crate::attributes::file_type(entry.kind)),
                fileid: Some(entry.file.0),
                rdattr_error: Some(NfsStatus::Ok),
                ..NfsAttributes::default()
            }
            .to_encoded(&args.attributes),
        };
        if !page.push(entry.cookie, entry.name.into(), attributes) {
            return Ok(false);
        }
    }
    Ok(listing.end)
}

async fn encode<S: Share>(
    state: &CompoundState<'_, S>,
    child: &ExportedFile,
    known: &Attributes,
    space: Option<&StatFsReply>,
    requested: &Bitmap,
) -> NfsResult<EncodedAttributes> {
    let handle = if requested.has(attribute::FILEHANDLE) {
        handle_of(state.server, &Node::File(child.clone()))
    } else {
        FileHandle::default()
    };
    let mut all = of_file(state, child, known, space, handle);
    add_costly(state, known, &mut all, requested).await?;
    Ok(all.to_encoded(requested))
}
