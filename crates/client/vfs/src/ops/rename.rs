//! Renaming, atomic to every observer (I7).

use braid_client::{FileIndex, RenameMode, Status};

use super::name;
use crate::{error::Result, vfs::Vfs};

impl Vfs {
    /// Renames; what happens to something that has the new name is in `mode`.
    ///
    /// # Errors
    /// Of `rename(2)`; the cluster refuses or is not reached.
    pub fn rename(&self, from: (FileIndex, &[u8]), to: (FileIndex, &[u8]), mode: RenameMode) -> Result<()> {
        let promises = [from.0, to.0].map(|directory| self.holder.held_promise(directory));
        let _removing = self.holder.cache.removing([from.0, to.0]);
        let _removing = self.holder.late.removing(&[from.0, to.0]);
        let done = self.client().rename((from.0, name(from.1)?), (to.0, name(to.1)?), mode);
        if done.as_ref().is_err_and(|error| error.server().is_none() || is_open_question(error.status())) {
            // Whether it was done is not known: neither name is.
            self.holder.cache.change_name(from.0, from.1);
            self.holder.cache.change_name(to.0, to.1);
        }
        done?;
        let exchanges = mode == RenameMode::Exchange;
        for file in self.holder.cache.rename(from, to, exchanges, &promises) {
            self.holder.drop_attributes(file);
        }
        Ok(())
    }
}

/// Whether a failure leaves open what became of the call.
fn is_open_question(status: Status) -> bool {
    matches!(status, Status::Unreachable | Status::ConnectionLost | Status::TryAgain | Status::Internal)
}
