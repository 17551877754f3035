//! The outcome of one task's part, as it is sent to the other tasks.

use braid_types::Status;
use braid_wire::{Decoder, Wire, WireError};

use crate::error::{Error, Result};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Outcome {
    bytes: u64,
    failure: Option<Failed>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Failed {
    status: Status,
    why: String,
    server: Option<String>,
}

/// Longer reasons are shortened to this length.
const WHY_BYTES_MAX: usize = 4096;

impl Outcome {
    pub(super) fn done(bytes: u64) -> Self {
        Self { bytes, failure: None }
    }

    pub(super) fn of(result: Result<u64, &Error>) -> Self {
        match result {
            Ok(bytes) => Self::done(bytes),
            Err(error) => {
                let mut why = error.why().to_owned();
                why.truncate(why.floor_char_boundary(WHY_BYTES_MAX));
                let failure = Failed {
                    status: error.status(),
                    why,
                    server: error.server().map(str::to_owned),
                };
                Self { bytes: 0, failure: Some(failure) }
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_done(&self) -> bool {
        self.failure.is_none()
    }

    /// Whether independent calls may still succeed.
    pub(super) fn passes(&self) -> bool {
        use Status as S;
        self.failure.as_ref().is_none_or(|failed| {
            matches!(
                failed.status,
                S::TryAgain
                    | S::Cancelled
                    | S::NotServing
                    | S::Unreachable
                    | S::ConnectionLost
                    | S::StaleGeneration
                    | S::StaleEpoch
                    | S::UnknownHandle
                    | S::BadCapability
                    | S::NoSession
                    | S::AuthenticationFailed
                    | S::LimitExceeded
                    | S::Exists
                    | S::UnknownMessage
                    | S::Unsupported
                    | S::WrongRole
            )
        })
    }

    /// The failure, as every task reports it.
    pub(super) fn error(&self, rank: usize) -> Error {
        let (status, why, server) = match &self.failure {
            Some(Failed { status, why, server }) => (*status, why.as_str(), server.as_deref()),
            None => (Status::Internal, "no failure", None),
        };
        let error = Error::new(status, format!("task {rank}: {why}"));
        match server {
            Some(server) => error.at(server),
            None => error,
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.bytes.encode(out);
        let failure = self.failure.as_ref();
        failure
            .map(|failed| (failed.status, (failed.why.clone(), failed.server.clone())))
            .encode(out);
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        let bytes = Wire::decode(from)?;
        let failure: Option<(Status, (String, Option<String>))> = Wire::decode(from)?;
        let failure = failure.map(|(status, (why, server))| Failed { status, why, server });
        Ok(Self { bytes, failure })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut from = Decoder::new(bytes);
        let decoded = Self::decode(&mut from).and_then(|outcome| from.finish().map(|()| outcome));
        decoded.map_err(|error| other_step("the outcome of its part", error))
    }
}

/// A task sent a message that does not belong to this step of the call.
pub(super) fn other_step(what: &str, error: WireError) -> Error {
    let why = format!("a task of the group did not send {what}: {error}");
    Error::new(Status::Invalid, why)
        .with_hint("the same calls in the same order in every task, of the same version")
}

/// The failure of the lowest rank that has one.
pub(super) fn first_failure<'o>(outcomes: impl Iterator<Item = &'o Outcome>) -> Result<()> {
    match outcomes.enumerate().find(|(_, outcome)| !outcome.is_done()) {
        Some((rank, outcome)) => Err(outcome.error(rank)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_survives_its_way_and_names_task_and_server() {
        for outcome in [
            Outcome::done(7),
            Outcome::of(Err(&Error::new(Status::NoSpace, "full").at("I/O daemon 3"))),
            Outcome::of(Err(&Error::new(Status::TryAgain, "ö".repeat(5000)))),
        ] {
            assert_eq!(Outcome::from_bytes(&outcome.to_bytes()).unwrap(), outcome);
        }
        let failed = Outcome::of(Err(&Error::new(Status::NoSpace, "full").at("I/O daemon 3")));
        assert_eq!(failed.error(2).to_string(), "task 2: full (I/O daemon 3); try: braid df");
        assert!(!failed.passes());
        assert_eq!(Outcome::from_bytes(&[1, 2]).unwrap_err().status(), Status::Invalid);
    }
}
