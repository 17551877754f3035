//! The requests of an open that run, by the number of their channel. MS-SMB2 3.3.5.2.10, 3.3.4.1.
//!
//! A client raises the number when it has lost a channel, and repeats what was not answered. A
//! request with an older number is late.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The requests of an open that run.
#[derive(Debug, Default)]
pub struct Channel {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Open.ChannelSequence.
    sequence: u16,
    /// Counts the changes of `sequence`, so that a number that is used once more is another one.
    changes: u64,
    /// Open.OutstandingRequestCount.
    running: usize,
    /// Open.OutstandingPreRequestCount.
    running_before: usize,
}

/// The request is older than another one that has been seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Late;

/// A request that runs, until it is dropped.
#[derive(Debug)]
pub struct Running {
    channel: Arc<Channel>,
    changes: u64,
}

impl Channel {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request with the number `sequence`; `None` in dialects without one. `is_replay`:
    /// it is a repetition.
    ///
    /// # Errors
    /// [`Late`]: WRITE, SET_INFO and IOCTL are refused, others go on without being counted.
    pub fn begin(
        self: &Arc<Self>,
        sequence: Option<u16>,
        is_replay: bool,
    ) -> Result<Running, Late> {
        let mut state = self.state();
        let sequence = sequence.unwrap_or(state.sequence);
        if sequence.wrapping_sub(state.sequence) > 0x7fff {
            return Err(Late);
        }
        if sequence != state.sequence {
            state.running_before += std::mem::take(&mut state.running);
            state.sequence = sequence;
            state.changes += 1;
        }
        if is_replay && state.running_before > 0 {
            return Err(Late);
        }
        state.running += 1;
        Ok(Running { channel: Arc::clone(self), changes: state.changes })
    }

    /// Begins once more, for another connection, after [`Channel::idle`].
    pub fn restart(&self, sequence: u16) {
        let mut state = self.state();
        state.sequence = sequence;
        state.changes += 1;
        state.running_before += std::mem::take(&mut state.running);
    }

    /// Waits until no request runs.
    pub async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            {
                let state = self.state();
                if state.running + state.running_before == 0 {
                    return;
                }
            }
            ended.await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        {
            let mut state = self.channel.state();
            match state.changes == self.changes {
                true => state.running -= 1,
                false => state.running_before -= 1,
            }
        }
        self.channel.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_number_is_late_and_the_numbers_wrap() {
        let channel = Arc::new(Channel::default());
        let begin = |sequence| channel.begin(Some(sequence), false).map(|_| ());
        for (sequence, result) in [
            (0, Ok(())),
            (0x8000, Err(Late)),
            (0xffff, Err(Late)),
            (0x7fff, Ok(())),
            (0x7ffe, Err(Late)),
            (0xfffe, Ok(())),
            (0, Ok(())),
            (0xffff, Err(Late)),
        ] {
            assert_eq!(begin(sequence), result, "{sequence:#x}");
        }
        assert!(channel.begin(None, false).is_ok());
    }

    #[test]
    fn a_repetition_waits_for_requests_of_lost_channels() {
        let channel = Arc::new(Channel::default());
        let first = channel.begin(Some(0), false).unwrap();
        assert!(channel.begin(Some(0), true).is_ok(), "none was lost");
        assert!(channel.begin(Some(1), true).is_err(), "the first one still runs");
        assert!(channel.begin(Some(1), false).is_ok(), "another request");
        drop(first);
        assert!(channel.begin(Some(1), true).is_ok());
    }

    #[test]
    fn a_number_that_comes_again_counts_apart() {
        let channel = Arc::new(Channel::default());
        let first = channel.begin(Some(0), false).unwrap();
        for sequence in [30_000, 60_000, 0] {
            channel.begin(Some(sequence), false).unwrap();
        }
        drop(first);
        let state = channel.state();
        assert_eq!((state.running, state.running_before), (0, 0));
    }

    #[tokio::test]
    async fn idle_is_when_the_last_request_has_ended() {
        let channel = Arc::new(Channel::default());
        channel.idle().await;
        let running = channel.begin(Some(0), false).unwrap();
        let waiting = tokio::spawn({
            let channel = Arc::clone(&channel);
            async move { channel.idle().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(running);
        waiting.await.unwrap();
    }
}
