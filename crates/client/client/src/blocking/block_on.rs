//! Runs a future on the calling thread. With the blocking driver a future is ready at its first
//! poll, unless the call waits for another call of the process (for a connection or a replay slot).
//! Then the thread sleeps until it may go on.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use crate::engine::TICK;

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    // Most futures are ready now and need no waker.
    if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return value;
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        // Also wakes up periodically: the service thread, which ends expired waits, may itself be
        // waiting for a server (I8).
        thread::park_timeout(TICK);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_future_woken_by_another_thread_continues() {
        let polls = AtomicU32::new(0);
        let value =
            block_on(std::future::poll_fn(|context| match polls.fetch_add(1, Ordering::Relaxed) {
                0 | 1 => {
                    let waker = context.waker().clone();
                    thread::spawn(move || waker.wake());
                    Poll::Pending
                }
                _ => Poll::Ready(7),
            }));
        assert_eq!(value, 7);
    }
}
