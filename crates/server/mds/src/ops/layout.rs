//! Layouts: shows them, and sets the default of a directory or the layout of a file that was never
//! written.

use std::sync::Arc;

use braid_meta::Inode;
use braid_types::{Failure, Status};
use braid_wire::message::{
    mds::{LayoutSet, LayoutShow, LayoutShowReply},
    types::LayoutHint,
};

use crate::{
    call::{Call, CallOutcome},
    convert,
    core::MdsCore,
    lease::{claimed, delegation_of, layout, names_of},
    placement,
};

impl MdsCore {
    pub(super) fn layout_show(&self, call: Call, r: &LayoutShow) -> CallOutcome {
        let shown = self.file_at(&call, &r.at, true).and_then(|inode| self.show(&inode));
        CallOutcome::from(call, shown)
    }

    fn show(&self, inode: &Inode) -> Result<LayoutShowReply, Failure> {
        let directory = if inode.is_directory() { inode.file } else { inode.parent };
        let default = match self.namespace.directory_default(directory) {
            Ok(default) => default,
            // The parent is a hint: that directory may be removed.
            Err(failure)
                if matches!(failure.status, Status::StaleHandle | Status::NotDirectory) =>
            {
                None
            }
            Err(failure) => return Err(failure),
        };
        let wish = default.as_ref().map_or_else(LayoutHint::none, convert::wish);
        let layout = inode.layout.as_deref().cloned();
        Ok(LayoutShowReply {
            layout,
            layout_hint: wish,
            existing_parts: inode.parts.as_bytes().to_vec(),
        })
    }

    pub(super) fn layout_set(&self, call: Call, r: &LayoutSet) -> CallOutcome {
        let inode = match self.file_at(&call, &r.at, true) {
            Ok(inode) => inode,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let mut needs: Vec<_> = names_of(&inode).into_iter().chain(delegation_of(&inode)).collect();
        needs.extend(inode.layout.as_ref().map(|_| layout(inode.file)));
        let call = claimed!(self.claim(call, &needs));
        let set = Ok(inode).and_then(|inode| {
            if inode.is_directory() {
                self.set_default(&call, &inode, &r.layout_hint)
            } else {
                self.set_layout(&call, &inode, &r.layout_hint)
            }
        });
        CallOutcome::from(call, set)
    }

    fn set_default(&self, call: &Call, inode: &Inode, wish: &LayoutHint) -> Result<(), Failure> {
        let none = *wish == LayoutHint::none();
        placement::check_default(wish)?;
        let default = (!none).then(|| convert::default(wish));
        self.namespace.set_directory_default(&self.change(call), inode.file, default.as_ref())
    }

    fn set_layout(
        &self,
        call: &Call,
        inode: &Arc<Inode>,
        wish: &LayoutHint,
    ) -> Result<(), Failure> {
        let default = self.namespace.directory_default(inode.parent).unwrap_or(None);
        let iods = self.state().cluster.candidates();
        let layout = self.place(&iods, default.as_ref(), wish, inode.owner.id)?;
        self.namespace
            .set_layout(&self.change(call), inode.file, Arc::unwrap_or_clone(layout))
            .map(drop)
    }
}
