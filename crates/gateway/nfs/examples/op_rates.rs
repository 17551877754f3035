//! Rates of two usual compounds through one gateway on loopback: LOOKUP with GETATTR, and OPEN and
//! CLOSE of a new file. Metadata server, I/O daemons, gateway and clients are in one process.
//!
//! ```console
//! cargo run -p braid-nfs --example op_rates -- CLIENTS SECONDS
//! ```

#![allow(dead_code, unused_imports)]

#[path = "../tests/it/client.rs"]
mod client;
#[path = "../tests/it/cluster.rs"]
mod cluster;
#[path = "../tests/it/mount.rs"]
mod mount;
#[path = "../tests/it/server.rs"]
mod server;

use std::time::{Duration, Instant};

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;

use crate::cluster::GatewayOfCluster;
use crate::mount::{Mount, OpenFile, OpenOp, close, look_up, open, put};

/// What Linux asks for after most operations.
const ATTRIBUTES: Bitmap = Bitmap::of(&[
    attribute::TYPE,
    attribute::CHANGE,
    attribute::SIZE,
    attribute::FSID,
    attribute::FILEID,
    attribute::MODE,
    attribute::NUMLINKS,
    attribute::OWNER,
    attribute::OWNER_GROUP,
    attribute::SPACE_USED,
    attribute::TIME_ACCESS,
    attribute::TIME_METADATA,
    attribute::TIME_MODIFY,
]);

fn get_attr() -> ArgOp {
    ArgOp::GetAttr(GetAttrArgs { attributes: ATTRIBUTES })
}

async fn connect(gateway: &GatewayOfCluster, number: usize) -> Mount {
    let mut connection = gateway.connect().await;
    connection.minor_version = 2;
    let session = connection.session(&format!("client {number}")).await;
    let mut mount = Mount { connection, session };
    let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
    assert_eq!(mount.status([complete]).await, NfsStatus::Ok);
    mount
}

async fn look_up_and_get_attr(mount: &mut Mount, dir: &FileHandle) {
    let ops = [put(dir), look_up("file"), ArgOp::GetFh, get_attr()];
    assert_eq!(mount.status(ops).await, NfsStatus::Ok);
}

async fn open_and_close(mount: &mut Mount, dir: &FileHandle, name: &str) {
    let opening = open(name, ShareAccess::BOTH, ShareDeny::NONE).create();
    let access = ArgOp::Access(AccessArgs { access: AccessBits::READ | AccessBits::MODIFY });
    let opened = mount.run([put(dir), opening, ArgOp::GetFh, access, get_attr()]).await;
    match &opened.results[2..4] {
        [ResOp::Open(Ok(opened)), ResOp::GetFh(Ok(handle))] => {
            let file = OpenFile { handle: handle.handle.clone(), id: opened.state_id };
            assert_eq!(mount.status(file.op(close(file.id))).await, NfsStatus::Ok);
        }
        other => panic!("{other:?}"),
    }
}

/// Runs all clients for a time, each in its own directory: operations per second.
async fn rate(mounts: &mut [(Mount, FileHandle)], time: Duration, creating: bool) -> f64 {
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for (mount, dir) in mounts.iter_mut() {
        tasks.push(async move {
            let mut done = 0_u64;
            while begun.elapsed() < time {
                match creating {
                    true => open_and_close(mount, dir, &format!("new {done}")).await,
                    false => look_up_and_get_attr(mount, dir).await,
                }
                done += 1;
            }
            done
        });
    }
    let mut done = 0;
    // Each task in turn would run one client at a time.
    let mut running: Vec<_> = tasks.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        running.retain_mut(|task| match task.as_mut().poll(context) {
            std::task::Poll::Ready(count) => {
                done += count;
                false
            }
            std::task::Poll::Pending => true,
        });
        if running.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done as f64 / begun.elapsed().as_secs_f64()
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a number"));
    let (clients, seconds) = (args.next().unwrap_or(1), args.next().unwrap_or(5));
    let gateway = GatewayOfCluster::start(false).await;
    let mut mounts = Vec::new();
    for number in 0..clients as usize {
        let mut mount = connect(&gateway, number).await;
        let dir = mount.make_directory(&format!("dir {number}")).await;
        open_and_close(&mut mount, &dir, "file").await;
        mounts.push((mount, dir));
    }
    let time = Duration::from_secs(seconds);
    for (name, creating) in [("LOOKUP+GETATTR", false), ("OPEN+CLOSE of a new file", true)] {
        let rate = rate(&mut mounts, time, creating).await;
        println!("{name}, {clients} clients: {rate:.0}/s");
    }
}
