//! Messages that metadata servers and I/O daemons both understand.

use std::sync::atomic::Ordering;

use braid_types::{Failure, Status};
use braid_wire::{
    WireError, encode_failure, encode_success,
    message::{CommonRequest, DaemonStatusReply},
};

use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
};

impl MdsCore {
    pub(crate) fn common(&self, request: Result<CommonRequest, WireError>) -> Vec<u8> {
        match request {
            Ok(CommonRequest::Ping(_)) => encode_success(&()),
            // Nothing to cancel: a call of this server is short, or its wait is bounded.
            Ok(CommonRequest::Cancel(_)) => encode_success(&()),
            Ok(CommonRequest::DaemonStatus(_)) => encode_success(&self.daemon_status()),
            Ok(_) => encode_failure(&Status::UnknownMessage.into()),
            Err(error) => encode_failure(&Failure::new(Status::Malformed, error.to_string())),
        }
    }

    fn daemon_status(&self) -> DaemonStatusReply {
        DaemonStatusReply {
            uptime_seconds: self.now().saturating_sub(self.started).as_secs(),
            connections: self.counters.connections.load(Ordering::Relaxed),
            calls: self.counters.calls.load(Ordering::Relaxed),
            errors: self.counters.errors.load(Ordering::Relaxed),
            bytes_read: 0,
            bytes_written: 0,
            memory_bytes: crate::metrics::resident_bytes(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

pub(super) fn not_understood(call: Call) -> CallOutcome {
    CallOutcome::Fail(call, Status::UnknownMessage.into())
}
