//! Changes of attributes. A change of the size is an intent (I5).

use std::sync::Arc;

use braid_meta::{
    AttributeChanges as StoredChanges, Inode, IntentKind, Principal, SetTime as StoredTime,
    lease::{LeaseMode, LeaseOf},
};
use braid_types::{Failure, FileIndex, Status, Timestamp};
use braid_wire::message::mds::{
    AttributeChanges, MdsRequest, SetAttributes, SetAttributesAndAcl, SetAttributesAndBirth,
    SetTime,
};

use crate::{
    call::{Call, CallOutcome},
    convert,
    core::MdsCore,
    lease::{claimed, delegation_of, names_of},
};

/// setuid and setgid.
pub(super) const SET_IDS: u32 = 0o6000;

impl MdsCore {
    pub(super) fn set_attributes(&self, call: Call, r: &SetAttributes) -> CallOutcome {
        let inode = match self.file_at(&call, &r.at, r.follow) {
            Ok(inode) => inode,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let again = MdsRequest::SetAttributes(r.clone());
        if only_drops_privileges(&r.changes) && !self.namespace.has_privileges(&inode) {
            return self.reply_with_attributes(call, inode, || again, |attributes| attributes);
        }
        self.change_attributes(call, inode, &r.changes, More::default(), again)
    }

    pub(super) fn set_attributes_and_acl(
        &self,
        call: Call,
        r: &SetAttributesAndAcl,
    ) -> CallOutcome {
        match self.file_at(&call, &r.at, false) {
            Ok(inode) => {
                let again = MdsRequest::SetAttributesAndAcl(r.clone());
                let more = More { list: Some(&r.nfs4_acl), btime: None };
                self.change_attributes(call, inode, &r.changes, more, again)
            }
            Err(failure) => CallOutcome::Fail(call, failure),
        }
    }

    pub(super) fn set_attributes_and_birth(
        &self,
        call: Call,
        r: &SetAttributesAndBirth,
    ) -> CallOutcome {
        match self.file_at(&call, &r.at, false) {
            Ok(inode) => {
                let again = MdsRequest::SetAttributesAndBirth(r.clone());
                let more = More { list: None, btime: Some(r.btime) };
                self.change_attributes(call, inode, &r.changes, more, again)
            }
            Err(failure) => CallOutcome::Fail(call, failure),
        }
    }

    fn change_attributes(
        &self,
        call: Call,
        inode: Arc<Inode>,
        changes: &AttributeChanges,
        more: More<'_>,
        again: MdsRequest,
    ) -> CallOutcome {
        let mut needs: Vec<_> = names_of(&inode).into_iter().collect();
        // A list changes the execute bit of the group, on which setgid depends.
        let keeps_set_ids = more.list.is_some() && u32::from(inode.mode) & SET_IDS != 0;
        let data = match (changes.mode, changes.bytes) {
            (Some(mode), _) if mode & SET_IDS != 0 => given_set_ids(&inode),
            _ if keeps_set_ids => given_set_ids(&inode),
            (_, Some(_)) => Some((LeaseOf::Data(inode.file), LeaseMode::Shared)),
            _ => None,
        };
        needs.extend(data);
        needs.extend(delegation_of(&inode));
        let call = claimed!(self.claim(call, &needs));
        let others = match stored(changes, more) {
            Ok(others) => others,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        match changes.bytes {
            Some(size) => self.set_size(call, inode, size.0, others, again),
            None => {
                let changed = self.set_others(&call, &inode, changes, &others);
                match changed {
                    Ok(inode) => {
                        self.reply_with_attributes(call, inode, || again, |attributes| attributes)
                    }
                    Err(failure) => CallOutcome::Fail(call, failure),
                }
            }
        }
    }

    /// The other attributes are changed with the begin of the intent, in one batch.
    fn set_size(
        &self,
        call: Call,
        inode: Arc<Inode>,
        size: u64,
        others: StoredChanges,
        request: MdsRequest,
    ) -> CallOutcome {
        if self.is_size_changing(inode.file) {
            return CallOutcome::Gate(call, inode.file);
        }
        let file = inode.file;
        let opened =
            call.session.is_some_and(|session| self.namespace.writers(file).contains(&session));
        let allowed = if opened {
            Ok(())
        } else {
            self.namespace.access(&call.who, file, braid_meta::Want::WRITE)
        };
        // Refused before anything is recorded, since no daemon could carry it out.
        let fits = allowed.and_then(|()| self.file_bytes_max(&inode, size).map(drop));
        if let Err(failure) = fits {
            return CallOutcome::Fail(call, failure);
        }
        // A truncate by a user who is held to permissions drops set-id bits, also where the mode
        // does not allow writes any more.
        let drop_set_ids = others.drop_set_ids && call.who.bypasses_permissions();
        let others = StoredChanges { drop_set_ids, drop_capabilities: false, ..others };
        let replay = call.replay();
        let again = request.clone();
        let kind = IntentKind::Truncate { size };
        self.start_intent(
            call,
            file,
            kind,
            opened,
            &others.clone(),
            replay,
            request,
            move |core, call, done| {
                let done = core.set_times_after(&call, done, &others);
                match done {
                    // Nobody wrote while the gate was closed: the size is the requested one.
                    IntentOutcome::Finished(inode) => {
                        CallOutcome::from(call, Ok(convert::attributes(&inode)))
                    }
                    IntentOutcome::AlreadyFinished(inode) => {
                        core.reply_with_attributes(call, inode, || again, |attributes| attributes)
                    }
                }
            },
        )
    }

    fn set_others(
        &self,
        call: &Call,
        inode: &Arc<Inode>,
        changes: &AttributeChanges,
        others: &StoredChanges,
    ) -> Result<Arc<Inode>, Failure> {
        let root = braid_meta::Identity::root();
        let mut change = self.change(call);
        if others.nfs4_acl.is_none()
            && only_drops_privileges(changes)
            && call
                .session
                .is_some_and(|session| self.namespace.writers(inode.file).contains(&session))
        {
            // A session that has the file open for writing may write, whatever the mode is now.
            change.who = &root;
        }
        let changed = self.namespace.setattr(&change, inode.file, others)?;
        if changes.mtime.is_some() && changed.size_in_objects {
            self.state().sizes.time_was_set(inode.file, change.now);
        }
        Ok(changed)
    }

    /// Sets requested times after a truncate, which sets the times itself when it is finished.
    fn set_times_after(
        &self,
        call: &Call,
        done: IntentOutcome,
        changes: &StoredChanges,
    ) -> IntentOutcome {
        let StoredChanges { atime, mtime, .. } = *changes;
        let (IntentOutcome::Finished(inode), Some(StoredTime::To(_))) = (&done, mtime) else {
            return done;
        };
        let root = braid_meta::Identity::root();
        let change = braid_meta::Call { who: &root, replay: None, ..self.change(call) };
        match self.namespace.setattr(
            &change,
            inode.file,
            &StoredChanges { atime, mtime, ..StoredChanges::default() },
        ) {
            Ok(inode) => IntentOutcome::Finished(inode),
            Err(failure) => {
                crate::core::report("setting a time after a truncate", &failure);
                done
            }
        }
    }

    /// Makes a file empty, for O_TRUNC.
    pub(super) fn make_empty(
        &self,
        call: Call,
        file: FileIndex,
        request: MdsRequest,
        then: impl FnOnce(&Self, Call, Arc<Inode>) -> CallOutcome + Send + 'static,
    ) -> CallOutcome {
        if self.is_size_changing(file) {
            return CallOutcome::Gate(call, file);
        }
        match self.namespace.getattr(file) {
            // The record of a file from before a restart may lack a mark, and objects, that a loss
            // of power took.
            Ok(inode)
                if inode.size == 0
                    && !inode.size_in_objects
                    && inode.parts.is_empty()
                    && self.namespace.is_created_in_this_epoch(file) =>
            {
                then(self, call, inode)
            }
            Ok(_) => {
                let kind = IntentKind::Truncate { size: 0 };
                self.start_intent(
                    call,
                    file,
                    kind,
                    false,
                    &StoredChanges::default(),
                    None,
                    request,
                    |core, call, done| then(core, call, done.inode()),
                )
            }
            Err(failure) => CallOutcome::Fail(call, failure),
        }
    }

    /// Begins an intent behind the file's gate and calls `then` when it is finished. ADR 0004
    /// numbers the steps.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn start_intent(
        &self,
        call: Call,
        file: FileIndex,
        kind: IntentKind,
        opened: bool,
        changes: &StoredChanges,
        replay: Option<braid_meta::Replay>,
        request: MdsRequest,
        then: impl FnOnce(&Self, Call, IntentOutcome) -> CallOutcome + Send + 'static,
    ) -> CallOutcome {
        let Some(me) = self.arc() else {
            return CallOutcome::Fail(call, Status::NotServing.into());
        };
        if !self.close_gate(file) {
            return CallOutcome::Gate(call, file);
        }
        let change = braid_meta::Call { replay, ..self.change(&call) };
        let begun = self
            .namespace
            .begin_intent_changing(&change, file, kind, opened, changes)
            .and_then(|intent| {
                // For a retry the store returns the recorded intent, which may be finished already.
                let stands = self
                    .namespace
                    .intent(file)?
                    .is_some_and(|standing| standing.generation == intent.generation);
                Ok((intent, stands))
            });
        match begun {
            Ok((intent, true)) => {
                me.run_intent(
                    intent,
                    Box::new(move |core, outcome| {
                        let flow = match outcome {
                            Ok(inode) => then(core, call, IntentOutcome::Finished(inode)),
                            Err(failure) => CallOutcome::Fail(call, failure),
                        };
                        core.settle(flow, request);
                    }),
                );
                CallOutcome::Pending
            }
            Ok((_, false)) => {
                self.open_gate(file);
                match self.namespace.getattr(file) {
                    Ok(inode) => then(self, call, IntentOutcome::AlreadyFinished(inode)),
                    Err(failure) => CallOutcome::Fail(call, failure),
                }
            }
            Err(failure) => {
                self.open_gate(file);
                CallOutcome::Fail(call, failure)
            }
        }
    }
}

/// The outcome of an intent: the inode as the intent left it, or the present inode if the intent
/// was done for an earlier try of the same call.
pub(super) enum IntentOutcome {
    Finished(Arc<Inode>),
    AlreadyFinished(Arc<Inode>),
}

impl IntentOutcome {
    pub(super) fn inode(self) -> Arc<Inode> {
        match self {
            Self::Finished(inode) | Self::AlreadyFinished(inode) => inode,
        }
    }
}

/// Changes that only some messages have.
#[derive(Clone, Copy, Default)]
struct More<'a> {
    /// The access control list.
    list: Option<&'a [u8]>,
    /// The time of creation.
    btime: Option<Timestamp>,
}

/// All changes but the size, in the types of the namespace.
fn stored(changes: &AttributeChanges, more: More<'_>) -> Result<StoredChanges, Failure> {
    Ok(StoredChanges {
        mode: changes
            .mode
            .map(|mode| u16::try_from(mode).map_err(|_| Status::Invalid))
            .transpose()?,
        owner: changes.uid.map(Principal::posix),
        group: changes.gid.map(Principal::posix),
        atime: changes.atime.as_ref().map(time),
        mtime: changes.mtime.as_ref().map(time),
        btime: more.btime,
        nfs4_acl: more.list.map(<[u8]>::to_vec),
        flags: changes.flags,
        drop_set_ids: changes.drop_set_ids,
        drop_capabilities: changes.drop_capabilities,
    })
}

fn only_drops_privileges(changes: &AttributeChanges) -> bool {
    let AttributeChanges { drop_set_ids, drop_capabilities, .. } = *changes;
    (drop_set_ids || drop_capabilities)
        && *changes
            == AttributeChanges { drop_set_ids, drop_capabilities, ..AttributeChanges::none() }
}

/// What giving a file setuid, setgid or capabilities needs: that no other session writes it while
/// it takes the file to have none.
pub(super) fn given_set_ids(inode: &Inode) -> Option<(LeaseOf, LeaseMode)> {
    inode.layout.is_some().then_some((LeaseOf::Data(inode.file), LeaseMode::Write))
}

fn time(set: &SetTime) -> StoredTime {
    set.time.map_or(StoredTime::Now, StoredTime::To)
}
