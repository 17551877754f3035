//! Delegations of a client. Its callbacks are those of [`NfsCallbacks`](super::NfsCallbacks).

use braid_nfs_wire::nfs4::{
    ArgOp, FileHandle, NfsStatus, ResOp, ShareAccess, ShareDeny, StateId, WantedDelegation,
    args::{DelegReturnArgs, OpenArgs, OpenClaim, OpenHow},
    results::OpenDelegation,
};

use super::{
    mount::{NfsFile, NfsMount, put, state_owner, text},
    session::{NfsError, unexpected},
};

impl NfsMount {
    /// Opens a file to read it, or to read and write it, and wants the delegation for that: the
    /// open, and the delegation's state id if it was granted.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn open_delegated(
        &mut self,
        dir: &FileHandle,
        name: &str,
        write: bool,
    ) -> Result<(NfsFile, Option<StateId>), NfsError> {
        let (access, wanted) = match write {
            true => (ShareAccess::BOTH, WantedDelegation::Write),
            false => (ShareAccess::READ, WantedDelegation::Read),
        };
        let share_access = access | ShareAccess(wanted.code());
        let (owner, claim) = (state_owner("opens"), OpenClaim::Null(text(name)));
        let (share_deny, how) = (ShareDeny::NONE, OpenHow::NoCreate);
        let open = OpenArgs { seqid: 0, share_access, share_deny, owner, how, claim };
        let mut results = self.session.run(&[put(dir), ArgOp::Open(open), ArgOp::GetFh])?;
        let (Some(ResOp::GetFh(Ok(handle))), Some(ResOp::Open(Ok(opened)))) =
            (results.pop(), results.pop())
        else {
            return Err(unexpected(&ResOp::Illegal(NfsStatus::Ok)));
        };
        let file = NfsFile { handle: handle.handle, open: opened.state_id, locks: None };
        let delegation = match opened.delegation {
            OpenDelegation::Read(read) => Some(read.state_id),
            OpenDelegation::Write(write) => Some(write.state_id),
            _ => None,
        };
        Ok((file, delegation))
    }

    /// DELEGRETURN.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn return_delegation(&mut self, file: &NfsFile, state_id: StateId) -> Result<(), NfsError> {
        let give_back = ArgOp::DelegReturn(DelegReturnArgs { state_id });
        self.session.run(&[put(&file.handle), give_back]).map(drop)
    }
}
