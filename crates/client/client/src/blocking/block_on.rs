//! Runs a future on the calling thread. Over the blocking driver it is ready when first polled, unless the call
//! waits for another call of the process (a connection, a replay slot): then the thread sleeps until it is its turn.

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
    // The usual case makes no waker.
    if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return value;
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        // Also now and then unasked: the thread that tells late waiters may wait for a server itself (I8).
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
    fn a_future_that_is_woken_by_another_thread_goes_on() {
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
