//! Where a file ends, while this mount is alone with it and knows: appends go there without a
//! question.

use super::FileData;
use crate::mutex::lock;

impl FileData {
    /// The offset of an append of `bytes` bytes, if it is known. From now on the file ends behind
    /// them. The end becomes unknown when they or bytes before them are lost, which may happen
    /// before the append returns.
    pub(crate) fn begin_append(&self, bytes: u64) -> Option<u64> {
        let known = &mut lock(&self.state).end;
        let end = (*known)?;
        *known = Some(end.saturating_add(bytes));
        Some(end)
    }

    /// Sets where the file ends. `None`: not known.
    pub(crate) fn set_end(&self, end: Option<u64>) {
        lock(&self.state).end = end;
    }

    /// Bytes were written up to this offset.
    pub(crate) fn extend_end(&self, end: u64) {
        let known = &mut lock(&self.state).end;
        *known = known.map(|known| known.max(end));
    }
}

#[cfg(test)]
mod tests {
    use braid_client::FileIndex;

    use super::*;
    use crate::consistency::Consistency;

    #[test]
    fn appends_follow_each_other_without_asking_the_server() {
        let data = FileData::new(FileIndex(7), Consistency::Posix);
        assert_eq!(data.begin_append(5), None, "not known yet");
        data.set_end(Some(10));
        assert_eq!((data.begin_append(5), data.begin_append(1)), (Some(10), Some(15)));
    }

    #[test]
    fn bytes_lost_during_an_append_leave_the_end_unknown() {
        let data = FileData::new(FileIndex(7), Consistency::Posix);
        data.set_end(Some(10));
        assert_eq!(data.begin_append(5), Some(10));
        // `MountCaches::record_loss`, of the background flush before it.
        data.set_end(None);
        // The append returns.
        data.extend_end(15);
        assert_eq!(data.begin_append(1), None, "behind the file's end there would be zeros");
    }
}
