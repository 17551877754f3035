//! Create a regular file without a name (`O_TMPFILE`). It is an orphan from the start, and is
//! removed with its last open unless it gets a name before (`link.rs`).

use std::sync::Arc;

use braid_layout::Layout;
use braid_types::{Failure, FileIndex, Status};

use super::create;
use super::open::{self, OpenArgs};
use crate::acl::NewMode;
use crate::identity::Call;
use crate::key;
use crate::namespace::Namespace;
use crate::nfs4_permissions::permit_add;
use crate::record::{DirectoryDefault, Inode, Outcome};
use crate::tx::Op;

impl Namespace {
    /// Creates an open file without a name, as if it were created in `directory`: it has the group,
    /// layout and permissions of a file there. `place` as in [`crate::CreateArgs`].
    pub fn create_unnamed<P, L>(
        &self,
        call: &Call<'_>,
        directory: FileIndex,
        mode: impl Into<NewMode>,
        open: OpenArgs,
        place: P,
    ) -> Result<Arc<Inode>, Failure>
    where
        P: FnOnce(Option<&DirectoryDefault>, FileIndex) -> Result<L, Failure>,
        L: Into<Arc<Layout>>,
    {
        let mode = mode.into();
        let outcome = self.change(call, Op::CreateUnnamed, directory, |tx| {
            let parent = tx.directory(directory)?;
            permit_add(call.who, &parent, false)?;
            let mut inode = create::regular(tx, call, &parent, mode, place)?;
            (inode.nlink, inode.unnamed) = (0, true);
            open::add_open(tx, &mut inode, open)?;
            tx.batch.put(key::orphan(inode.file), vec![1]);
            Ok(Outcome::Created(tx.put_inode(inode)))
        })?;
        outcome.inode().ok_or_else(|| Status::Internal.into())
    }
}
