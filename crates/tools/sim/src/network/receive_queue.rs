//! The client's side of a connection: replies that have arrived, and the tasks that wait for them.

use std::{collections::BTreeMap, sync::Mutex, task::Waker};

use braid_wire::{FrameFlags, FrameHeader};

use super::host::parse;
use crate::world::lock;

/// What has arrived at the client's end.
#[derive(Debug, Default)]
pub(crate) struct ReceiveQueue(Mutex<QueueState>);

#[derive(Debug, Default)]
struct QueueState {
    /// Why nothing more will arrive.
    broken: Option<String>,
    calls: BTreeMap<u64, ReceivedCall>,
    waker: Vec<Waker>,
}

/// A call that waits or is answered.
#[derive(Debug, Default)]
pub(crate) struct ReceivedCall {
    pub(crate) payload: Vec<u8>,
    /// Header and body of the final frame.
    pub(crate) end: Option<(FrameHeader, Vec<u8>)>,
}

impl ReceiveQueue {
    /// A call was sent: its frames are stored from now on.
    pub(crate) fn expect(&self, request_id: u64) {
        lock(&self.0).calls.insert(request_id, ReceivedCall::default());
    }

    /// The caller no longer waits for the call.
    pub(crate) fn forget(&self, request_id: u64) {
        lock(&self.0).calls.remove(&request_id);
    }

    /// The reply, if it is complete, or why there will be none.
    pub(crate) fn take(&self, request_id: u64) -> Option<Result<ReceivedCall, String>> {
        let mut state = lock(&self.0);
        if state.calls.get(&request_id).is_some_and(|call| call.end.is_some()) {
            return state.calls.remove(&request_id).map(Ok);
        }
        state.broken.clone().map(Err)
    }

    /// Wakes `waker` when something arrives.
    pub(crate) fn wait(&self, waker: &Waker) {
        let mut state = lock(&self.0);
        if !state.waker.iter().any(|known| known.will_wake(waker)) {
            state.waker.push(waker.clone());
        }
    }

    /// A frame arrived.
    pub(crate) fn arrive(&self, frame: &[u8]) {
        let wakers = {
            let mut state = lock(&self.0);
            let Some((header, body, payload)) = parse(frame) else {
                state.broken.get_or_insert_with(|| "its bytes are not a frame".to_owned());
                return;
            };
            let Some(call) = state.calls.get_mut(&header.request_id) else { return };
            call.payload.extend_from_slice(payload);
            if header.flags == FrameFlags::FINAL {
                call.end = Some((header, body.to_vec()));
            }
            std::mem::take(&mut state.waker)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The connection has ended.
    pub(crate) fn break_off(&self, why: &str) {
        let wakers = {
            let mut state = lock(&self.0);
            state.broken.get_or_insert_with(|| why.to_owned());
            std::mem::take(&mut state.waker)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}
