//! The message of a task that cannot take part: it has no open file, or invalid arguments.

use braid_layout::Request;
use braid_types::{FileIndex, FileOffset, Status};

use super::{
    CollectiveOptions,
    outcome::{Outcome, first_failure},
    task_request::TaskRequest,
};
use crate::error::{Error, Result};

/// The message in place of the task's request.
pub(crate) fn announce_refusal(error: &Error) -> Vec<u8> {
    let refusal = TaskRequest {
        readiness: Outcome::of(Err(error)),
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
pub(crate) fn first_refusal(all: &[Vec<u8>]) -> Error {
    let all = all.iter().map(|bytes| TaskRequest::from_bytes(bytes)).collect::<Result<Vec<_>>>();
    let outcome = all.and_then(|all| first_failure(all.iter().map(|task| &task.readiness)));
    outcome.err().unwrap_or_else(|| Error::new(Status::Internal, "no task refused"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_see_the_refusal_of_the_lowest_rank() {
        let of = |why: &str| announce_refusal(&Error::new(Status::PermissionDenied, why));
        let willing = TaskRequest {
            readiness: Outcome::done(1),
            ..TaskRequest::from_bytes(&of("")).unwrap()
        };
        let error = first_refusal(&[willing.to_bytes(), of("first"), of("second")]);
        assert_eq!((error.status(), error.why()), (Status::PermissionDenied, "task 1: first"));
    }
}
