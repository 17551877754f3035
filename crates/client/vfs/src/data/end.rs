//! Where a file ends, as long as this mount is alone with it and knows: appends go there without asking.

use super::Data;
use crate::files::lock;

impl Data {
    /// Where an append of so many bytes goes, if that is known. From now on the file is known to end behind them, until they are lost, or
    /// what is before them: a run may fail at any moment, before the append returns, too.
    pub(crate) fn begin_append(&self, bytes: u64) -> Option<u64> {
        let known = &mut lock(&self.state).end;
        let end = (*known)?;
        *known = Some(end.saturating_add(bytes));
        Some(end)
    }

    /// Notes where the file ends now, for as long as this mount is alone with it; `None`: nobody knows.
    pub(crate) fn ends_at(&self, end: Option<u64>) {
        lock(&self.state).end = end;
    }

    /// Bytes were written up to there.
    pub(crate) fn written_to(&self, end: u64) {
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
    fn appends_follow_each_other_without_a_question() {
        let data = Data::new(FileIndex(7), Consistency::Posix);
        assert_eq!(data.begin_append(5), None, "nobody has asked");
        data.ends_at(Some(10));
        assert_eq!((data.begin_append(5), data.begin_append(1)), (Some(10), Some(15)));
    }

    #[test]
    fn what_is_lost_while_an_append_is_under_way_leaves_its_end_unknown() {
        let data = Data::new(FileIndex(7), Consistency::Posix);
        data.ends_at(Some(10));
        assert_eq!(data.begin_append(5), Some(10));
        // `Holder::lost`, of the flight before it.
        data.ends_at(None);
        // The append returns.
        data.written_to(15);
        assert_eq!(data.begin_append(1), None, "behind the file's end there would be zeros");
    }
}
