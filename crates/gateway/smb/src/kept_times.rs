//! Times that the operations of an open do not change. MS-FSA 2.1.5.15.2, MS-FSCC 2.4.7.
//!
//! A client that sets LastWriteTime keeps it: later writes through the same open do not change it
//! (`Open.UserSetModificationTime`). -1 means the same without setting it, -2 takes it back.
//!
//! Of the other times nothing has to be kept: a read changes no LastAccessTime here, nothing but a
//! client changes CreationTime, and ChangeTime is the file system's own.

use std::sync::atomic::{AtomicBool, Ordering};

use braid_share::{AttributeChanges, Identity, SetTime, Share, ShareClient};
use braid_smb_wire::NtStatus;
use braid_smb_wire::filetime::TimeChange;
use braid_smb_wire::fscc::SetBasic;
use tokio::sync::{Mutex, MutexGuard};

use crate::open::FileOpen;
use crate::status::failed;
use crate::streams::data::OpenData;
use crate::streams::shared::granted;

/// Whether an open keeps the time of the last write.
#[derive(Debug, Default)]
pub struct KeptTimes {
    write: AtomicBool,
    /// Held from reading the time to setting it again, so that of two writes of the open none takes
    /// the time of the other for that of the file.
    one_at_a_time: Mutex<()>,
}

impl KeptTimes {
    /// Notes which times a client has set.
    pub fn note(&self, basic: &SetBasic) {
        match basic.last_write {
            TimeChange::Keep => {}
            TimeChange::Thaw => self.write.store(false, Ordering::Release),
            TimeChange::Freeze | TimeChange::Set(_) => self.write.store(true, Ordering::Release),
        }
    }

    /// Waits for other changes of the bytes, if the time of the last write is kept; `None` if not.
    async fn keep_write(&self) -> Option<MutexGuard<'_, ()>> {
        match self.write.load(Ordering::Acquire) {
            true => Some(self.one_at_a_time.lock().await),
            false => None,
        }
    }
}

impl<S: Share> FileOpen<S> {
    /// Changes the bytes, and leaves the file the time of the last write if the open keeps it.
    /// Another client may write between the two calls for that: its time is lost.
    ///
    /// # Errors
    /// Those of the change and of the share.
    pub async fn keeping_times<T>(
        &self,
        client: &S::Client,
        who: &Identity,
        data: &OpenData<S>,
        change: impl Future<Output = Result<T, NtStatus>>,
    ) -> Result<T, NtStatus> {
        // A write to a stream changes no time of its file but that of the last change.
        let kept = match self.stream {
            Some(_) => None,
            None => self.kept_times.keep_write().await,
        };
        let Some(_kept) = kept else { return change.await };
        let time = Some(data.attributes().await.map_err(failed)?.mtime);
        let changed = change.await?;
        let mtime = Some(SetTime { time });
        let changes = AttributeChanges { mtime, ..AttributeChanges::none() };
        client.set_attributes(&granted(who), self.file, changes).await.map_err(failed)?;
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use braid_smb_wire::filetime::FileTime;

    use super::*;

    #[tokio::test]
    async fn a_time_is_kept_once_it_is_set_or_frozen_until_it_is_thawed() {
        let (kept, set) = (KeptTimes::default(), TimeChange::Set(FileTime(7)));
        assert!(kept.keep_write().await.is_none());
        for (change, is_kept) in [
            (TimeChange::Freeze, true),
            (TimeChange::Keep, true),
            (TimeChange::Thaw, false),
            (TimeChange::Keep, false),
            (set, true),
        ] {
            kept.note(&SetBasic { last_write: change, ..SetBasic::default() });
            kept.note(&SetBasic { creation: set, ..SetBasic::default() });
            assert_eq!(kept.keep_write().await.is_some(), is_kept, "{change:?}");
        }
    }
}
