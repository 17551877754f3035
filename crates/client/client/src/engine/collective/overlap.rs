//! Whether two tasks access the same byte of the file.

use braid_layout::{Distribution, Layout, NextExtent, PartSet, Request};
use braid_types::{FileIndex, IodId, limits::FILE_BYTES_MAX};

use super::{
    CollectiveOptions,
    outcome::{Outcome, first_failure},
    task_request::TaskRequest,
};
use crate::error::Result;

/// The message of a task that only asks whether tasks overlap.
pub(crate) fn announce_part(request: Request) -> Vec<u8> {
    let part = TaskRequest {
        readiness: Outcome::done(0),
        id: [0; 16],
        file: FileIndex(0),
        session: 0,
        is_write: false,
        is_plain: false,
        options: CollectiveOptions::default(),
        request,
    };
    part.to_bytes()
}

/// The answer. `all` contains the messages of all tasks, by rank.
///
/// # Errors
/// The failure of the lowest rank that has refused.
pub(crate) fn parts_overlap(all: &[Vec<u8>]) -> Result<bool> {
    let all = all.iter().map(|bytes| TaskRequest::from_bytes(bytes)).collect::<Result<Vec<_>>>()?;
    first_failure(all.iter().map(|task| &task.readiness))?;
    overlap(all.iter())
}

/// Whether two of these tasks access the same byte of the file.
pub(super) fn overlap<'t>(tasks: impl Iterator<Item = &'t TaskRequest>) -> Result<bool> {
    let requests: Vec<Request> = tasks.map(|task| task.request.clone()).collect();
    let whole = Layout::one(Distribution::Single, [IodId(1)]).map()?;
    let mut sweep = whole.union_of(&requests, &PartSet::first(1), FILE_BYTES_MAX)?;
    loop {
        match sweep.next_within(u64::MAX, &mut usize::MAX.clone()) {
            NextExtent::End => return Ok(sweep.take_overlaps()),
            _ if sweep.take_overlaps() => return Ok(true),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use braid_layout::View;
    use braid_types::Status;

    use super::{super::announce_refusal, *};
    use crate::error::Error;

    #[test]
    fn parts_overlap_in_a_common_byte_and_a_refusal_is_shared() {
        let part = |offset: u64| {
            announce_part(Request { view: View::strided(offset, 8, 24), start: 0, bytes: 800 })
        };
        assert!(!parts_overlap(&[part(0), part(16), part(8)]).unwrap());
        assert!(parts_overlap(&[part(0), part(16), part(15)]).unwrap());
        let refusal = announce_refusal(&Error::new(Status::PermissionDenied, "not I"));
        assert_eq!(
            parts_overlap(&[part(0), refusal]).unwrap_err().status(),
            Status::PermissionDenied
        );
    }
}
