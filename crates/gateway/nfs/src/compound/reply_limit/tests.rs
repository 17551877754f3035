use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use braid_nfs_wire::nfs4::StateId;
use braid_nfs_wire::nfs4::args::ReadArgs;

use super::*;

fn read(count: u32) -> ArgOp {
    ArgOp::Read(ReadArgs { state_id: StateId::ANONYMOUS, offset: 0, count })
}

/// The result of a future that need not wait.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[test]
fn first_read_waits_for_memory_and_further_ones_do_not() {
    let (connection, server) = (Arc::new(Semaphore::new(10_000)), Arc::new(Semaphore::new(15_000)));
    let limits = [&connection, &server];
    let mut first = ReplyMemory::default();
    assert_eq!(now(first.reserve(&read(8000), 1 << 20, limits)), Some(Ok(())));
    assert_eq!(now(first.reserve(&read(8000), 1 << 20, limits)), Some(Err(NfsStatus::Delay)));
    let mut second = ReplyMemory::default();
    assert_eq!(now(second.reserve(&read(8000), 1 << 20, limits)), None);
    // Less than a page is not counted, nor what the reply cannot have.
    assert_eq!(now(second.reserve(&read(100), 1 << 20, limits)), Some(Ok(())));
    assert_eq!(now(second.reserve(&read(u32::MAX), 100, limits)), Some(Ok(())));
    drop(first);
    assert_eq!(now(second.reserve(&read(8000), 1 << 20, limits)), Some(Ok(())));
    assert_eq!((connection.available_permits(), server.available_permits()), (2000, 7000));
}
