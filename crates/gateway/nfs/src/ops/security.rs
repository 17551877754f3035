//! SECINFO and SECINFO_NO_NAME: which security flavours a file may be accessed with.

use braid_nfs_wire::nfs4::NfsResult;
use braid_nfs_wire::nfs4::args::{GssService, Oid, SecInfoArgs, SecInfoNoNameArgs, SecInfoStyle};
use braid_nfs_wire::nfs4::results::{GssInfo, SecInfo, SecInfoResult};
use braid_nfs_wire::rpc::auth::{AUTH_NONE, AUTH_SYS};
use braid_share::Share;
use bytes::Bytes;

use super::walk;
use crate::compound::CompoundState;
use crate::config::Security;
use crate::export::Node;
use crate::ops::names::check_name;

/// Kerberos 5, 1.2.840.113554.1.2.2, without tag and length. RFC 4121 1.
const KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];

/// SECINFO. RFC 8881 18.29.
pub async fn sec_info<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: SecInfoArgs,
) -> NfsResult<SecInfoResult> {
    check_name(&args.name)?;
    let found = walk::child(state, &args.name).await?;
    let found = security_of(state, &found);
    // RFC 8881 2.6.3.1.1.8: the current file handle is consumed.
    state.clear_current();
    Ok(flavours(&found))
}

/// SECINFO_NO_NAME. RFC 8881 18.45.
pub async fn sec_info_no_name<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: SecInfoNoNameArgs,
) -> NfsResult<SecInfoResult> {
    let found = match args.style {
        SecInfoStyle::CurrentFh => security_of(state, state.current()?),
        // RFC 8881 18.45.3: the root has no parent.
        _ => security_of(state, &walk::parent(state).await?),
    };
    // RFC 8881 18.45.3: the current file handle is consumed.
    state.clear_current();
    Ok(flavours(&found))
}

/// Flavours with which a node may be accessed, best first.
fn security_of<S: Share>(state: &CompoundState<'_, S>, node: &Node) -> Vec<Security> {
    match node {
        Node::Pseudo(_) => state.server.exports.pseudo_security(),
        Node::File(file) => file.export.config().security.clone(),
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
