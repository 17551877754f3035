//! The message of a task that cannot take part: it has no open file, or invalid arguments.

use braid_layout::Request;
use braid_types::{FileIndex, FileOffset, Status};

use super::{
    CollectiveOptions,
    announcement::Announcement,
    outcome::{Outcome, first_failure},
};
use crate::error::{Error, Result};

/// The message in place of the task's request.
pub(crate) fn announce_refusal(error: &Error) -> Vec<u8> {
    let refusal = Announcement {
        verdict: Outcome::of(Err(error)),
        id: [0; 16],
        file: FileIndex(0),
        session: 0,
        is_write: false,
        is_plain: false,
        options: CollectiveOptions::default(),
        request: Request::contiguous(FileOffset(0), 0),
    };
    refusal.to_bytes()
}

/// The error of the call in every task. `all` contains the messages of all tasks, by rank.
pub(crate) fn refused_by(all: &[Vec<u8>]) -> Error {
    let all = all.iter().map(|bytes| Announcement::from_bytes(bytes)).collect::<Result<Vec<_>>>();
    let outcome = all.and_then(|all| first_failure(all.iter().map(|task| &task.verdict)));
    outcome.err().unwrap_or_else(|| Error::new(Status::Internal, "no task refused"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_see_the_refusal_of_the_lowest_rank() {
        let of = |why: &str| announce_refusal(&Error::new(Status::PermissionDenied, why));
        let willing = Announcement {
            verdict: Outcome::done(1),
            ..Announcement::from_bytes(&of("")).unwrap()
        };
        let error = refused_by(&[willing.to_bytes(), of("first"), of("second")]);
        assert_eq!((error.status(), error.why()), (Status::PermissionDenied, "task 1: first"));
    }
}
