//! EXCHANGE_ID. RFC 8881 18.35.

use braid_nfs_wire::nfs4::args::{ExchangeIdArgs, StateProtectArgs, StateProtectOps};
use braid_nfs_wire::nfs4::results::{ExchangeIdResult, StateProtectResult};
use braid_nfs_wire::nfs4::{
    Bitmap, ExchangeIdFlags, ImplementationId, NfsResult, NfsStatus, NfsTime, OpNumber, SequenceId,
    ServerOwner,
};
use braid_share::Share;
use bytes::Bytes;

use crate::compound::CompoundState;
use crate::rpc::Caller;
use crate::state::clients::{ExchangeRequest, Protection};

/// Operations that a client may protect with its machine credential. Linux asks for these.
const ENFORCEABLE: Bitmap = Bitmap::of(&[
    OpNumber::BindConnToSession.code(),
    OpNumber::ExchangeId.code(),
    OpNumber::CreateSession.code(),
    OpNumber::DestroySession.code(),
    OpNumber::DestroyClientId.code(),
]);
/// Operations that the machine credential may be used for in the place of a user's: those that end
/// state of a user whose ticket has expired. This server does not tie them to a principal.
const ALLOWABLE: Bitmap = Bitmap::of(&[
    OpNumber::Close.code(),
    OpNumber::OpenDowngrade.code(),
    OpNumber::LockUnlock.code(),
    OpNumber::DelegReturn.code(),
    OpNumber::LayoutReturn.code(),
    OpNumber::TestStateId.code(),
    OpNumber::FreeStateId.code(),
    OpNumber::Write.code(),
    OpNumber::Commit.code(),
]);

/// EXCHANGE_ID: which client this is.
pub async fn exchange_id<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: ExchangeIdArgs,
) -> NfsResult<ExchangeIdResult> {
    check_flags(args.flags, state.minor_version)?;
    let protection = protection(&args.state_protect, state.caller)?;
    let request = ExchangeRequest {
        owner: args.client_owner.owner_id,
        verifier: args.client_owner.verifier,
        update: args.flags.contains(ExchangeIdFlags::UPD_CONFIRMED_REC_A),
        protection,
    };
    let server = state.server;
    let now = server.now();
    let exchanged = server.clients().exchange_id(&request, &state.caller.principal, now)?;
    if let Some(removed) = exchanged.removed {
        server.end_client(removed).await;
    }
    let mut flags = pnfs_role(state);
    if exchanged.confirmed {
        flags |= ExchangeIdFlags::CONFIRMED_R;
    }
    Ok(ExchangeIdResult {
        client_id: exchanged.client.id(),
        sequence_id: SequenceId(exchanged.sequence),
        flags,
        state_protect: protection_result(exchanged.client.protection()),
        server_owner: ServerOwner {
            minor_id: 0,
            major_id: Bytes::copy_from_slice(server.config.server_owner.as_bytes()),
        },
        server_scope: server.scope.clone(),
        implementation: Some(ImplementationId {
            domain: Bytes::from_static(b"braidfs.org"),
            name: Bytes::from_static(concat!("BraidFS ", env!("CARGO_PKG_VERSION")).as_bytes()),
            date: NfsTime::default(),
        }),
    })
}

/// RFC 8881 18.35.3: undefined bits, and bits of results only, are refused.
fn check_flags(flags: ExchangeIdFlags, minor_version: u32) -> NfsResult<()> {
    use ExchangeIdFlags as Flags;
    let mut defined = Flags::SUPP_MOVED_REFER
        | Flags::SUPP_MOVED_MIGR
        | Flags::BIND_PRINC_STATEID
        | Flags::MASK_PNFS
        | Flags::UPD_CONFIRMED_REC_A;
    if minor_version >= 2 {
        // RFC 7862 14.1.
        defined |= Flags::SUPP_FENCE_OPS;
    }
    if flags.without(defined) == Flags::empty() { Ok(()) } else { Err(NfsStatus::Inval) }
}

/// RFC 8881 13.1: a server has at least one role. Linux refuses the roles MDS and NON_PNFS
/// together.
fn pnfs_role<S: Share>(state: &CompoundState<'_, S>) -> ExchangeIdFlags {
    if state.server.exports.all().iter().any(|export| export.config().pnfs) {
        ExchangeIdFlags::USE_PNFS_MDS
    } else {
        ExchangeIdFlags::USE_NON_PNFS
    }
}

fn protection(args: &StateProtectArgs, caller: &Caller) -> NfsResult<Protection> {
    match args {
        StateProtectArgs::None => Ok(Protection::None),
        StateProtectArgs::MachineCredential(ops) => {
            // RFC 8881 18.35.3: only with RPCSEC_GSS and integrity or privacy.
            let unknown = ops.must_enforce.without(ENFORCEABLE);
            if !caller.has_integrity() || !unknown.is_empty() {
                return Err(NfsStatus::Inval);
            }
            Ok(Protection::MachineCredential {
                enforced: ops.must_enforce,
                allowed: ops.must_allow & ALLOWABLE,
            })
        }
        // RFC 8881 18.35.3: none of the algorithms is supported.
        StateProtectArgs::Ssv(_) => Err(NfsStatus::EncrAlgUnsupp),
    }
}

fn protection_result(protection: &Protection) -> StateProtectResult {
    match protection {
        Protection::None => StateProtectResult::None,
        Protection::MachineCredential { enforced, allowed } => {
            StateProtectResult::MachineCredential(StateProtectOps {
                must_enforce: *enforced,
                must_allow: *allowed,
            })
        }
    }
}
