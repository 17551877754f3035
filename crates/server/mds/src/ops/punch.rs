//! Punching a hole: an intent, like a truncate (I5).

use braid_meta::{
    AttributeChanges, IntentKind,
    lease::{LeaseMode, LeaseOf},
};
use braid_types::{Failure, Status};
use braid_wire::message::mds::{MdsRequest, PunchHole};

use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
    lease::{claimed, names_of},
};

impl MdsCore {
    pub(super) fn punch_hole(&self, call: Call, r: &PunchHole) -> CallOutcome {
        let open =
            call.session.is_some_and(|session| self.namespace.writers(r.file).contains(&session));
        if !open {
            let why = "the session does not have the file open for writing";
            return CallOutcome::Fail(call, Failure::new(Status::Invalid, why));
        }
        let mut needs = vec![(LeaseOf::Data(r.file), LeaseMode::Shared)];
        needs.extend(self.namespace.getattr(r.file).ok().and_then(|inode| names_of(&inode)));
        let call = claimed!(self.claim(call, &needs));
        if self.is_size_changing(r.file) {
            return CallOutcome::Gate(call, r.file);
        }
        let kind = IntentKind::Punch { offset: r.offset.0, bytes: r.bytes.0 };
        let replay = call.replay();
        let request = MdsRequest::PunchHole(r.clone());
        let again = request.clone();
        self.start_intent(
            call,
            r.file,
            kind,
            true,
            &AttributeChanges::default(),
            replay,
            request,
            move |core, call, done| {
                core.reply_with_attributes(call, done.inode(), || again, |attributes| attributes)
            },
        )
    }
}
