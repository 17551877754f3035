//! SECINFO and SECINFO_NO_NAME: which security flavours a file may be accessed with.

use braid_nfs_wire::nfs4::args::{GssService, Oid, SecInfoArgs, SecInfoNoNameArgs, SecInfoStyle};
use braid_nfs_wire::nfs4::results::{GssInfo, SecInfo, SecInfoResult};
use braid_nfs_wire::nfs4::{NfsResult, NfsStatus};
use braid_nfs_wire::rpc::auth::{AUTH_NONE, AUTH_SYS};
use braid_share::{FileKind, Share, ShareClient};
use bytes::Bytes;

use crate::compound::CompoundState;
use crate::config::Security;
use crate::export::Node;
use crate::status::nfs_status;

/// Kerberos 5, 1.2.840.113554.1.2.2, without tag and length. RFC 4121 1.
const KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];

/// SECINFO. RFC 8881 18.29.
pub async fn sec_info<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: SecInfoArgs,
) -> NfsResult<SecInfoResult> {
    check_name(&args.name)?;
    let exports = &state.server.exports;
    let found = match state.current()? {
        Node::Pseudo(node) => {
            let child = exports.pseudo(*node).child(&args.name).ok_or(NfsStatus::NoEnt)?;
            match exports.export_at(child) {
                Some(export) => export.config().security.clone(),
                None => exports.pseudo_security(),
            }
        }
        Node::File(dir) => {
            let found = state.share_client()?.look_up(state.who(), dir.file, &args.name).await;
            let found = found.map_err(|error| nfs_status(error.status()))?;
            exports.cross(&dir.export, found.file).export.config().security.clone()
        }
    };
    // RFC 8881 2.6.3.1.1.8: the current file handle is consumed.
    state.clear_current();
    Ok(flavours(&found))
}

/// SECINFO_NO_NAME. RFC 8881 18.45.
pub async fn sec_info_no_name<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: SecInfoNoNameArgs,
) -> NfsResult<SecInfoResult> {
    let exports = &state.server.exports;
    let node = state.current()?;
    let found = match (args.style, node) {
        (SecInfoStyle::CurrentFh, Node::File(file)) => file.export.config().security.clone(),
        (SecInfoStyle::CurrentFh, Node::Pseudo(_)) => exports.pseudo_security(),
        (_, Node::Pseudo(node)) => {
            // RFC 8881 18.45.3: the root has no parent.
            let parent = exports.pseudo(*node).parent.ok_or(NfsStatus::NoEnt)?;
            match exports.export_at(parent) {
                Some(export) => export.config().security.clone(),
                None => exports.pseudo_security(),
            }
        }
        (_, Node::File(file)) => {
            let attributes = state.share_client()?.attributes(state.who(), file.file).await;
            let attributes = attributes.map_err(|error| nfs_status(error.status()))?;
            if attributes.kind != FileKind::Directory {
                return Err(NfsStatus::NotDir);
            }
            if file.export.is_root(file.file) {
                let above = exports.above(&file.export).ok_or(NfsStatus::NoEnt)?;
                match exports.export_at(above) {
                    Some(export) => export.config().security.clone(),
                    None => exports.pseudo_security(),
                }
            } else {
                file.export.config().security.clone()
            }
        }
    };
    // RFC 8881 18.45.3: the current file handle is consumed.
    state.clear_current();
    Ok(flavours(&found))
}

fn check_name(name: &[u8]) -> NfsResult<()> {
    match name {
        b"" => Err(NfsStatus::Inval),
        b"." | b".." => Err(NfsStatus::BadName),
        name if name.len() > 255 => Err(NfsStatus::NameTooLong),
        name if name.contains(&b'/') || name.contains(&0) => Err(NfsStatus::BadChar),
        _ => Ok(()),
    }
}

fn flavours(security: &[Security]) -> SecInfoResult {
    // Without exports there is only the pseudo file system, which any caller may read.
    if security.is_empty() {
        return SecInfoResult(vec![SecInfo::Flavour(AUTH_SYS), SecInfo::Flavour(AUTH_NONE)]);
    }
    let kerberos = |service| {
        let oid = Oid { der: Bytes::from_static(KERBEROS) };
        SecInfo::Gss(GssInfo { oid, quality: 0, service })
    };
    let flavour = |security: &Security| match security {
        Security::Sys => SecInfo::Flavour(AUTH_SYS),
        Security::Krb5 => kerberos(GssService::None),
        Security::Krb5i => kerberos(GssService::Integrity),
        Security::Krb5p => kerberos(GssService::Privacy),
    };
    SecInfoResult(security.iter().map(flavour).collect())
}
