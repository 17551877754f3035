//! A client that writes by pNFS and recovers from errors as the client of Linux does.
//!
//! Invariant: a block whose bytes a COMMIT acknowledged, with the verifier of their WRITE, is not
//! written again.

use std::time::{Duration, Instant};

use braid_nfs_wire::nfs4::{NfsStatus, Verifier};
use braid_testbed::nfs::{NfsError, NfsFile, NfsLayout, NfsMount};
use bytes::Bytes;

/// Bytes of a block.
pub const BLOCK: u64 = 64 << 10;
/// How long a write may be repeated. A restart takes far less.
const RECOVERY_MAX: Duration = Duration::from_secs(90);

pub struct Writer {
    pub mount: NfsMount,
    pub file: NfsFile,
    layout: Option<NfsLayout>,
    /// Blocks that are written and not committed: offset, bytes, verifier.
    pending: Vec<(u64, Bytes, Verifier)>,
    /// How often a COMMIT had another verifier, and blocks were written again.
    pub rewritten: usize,
    /// How often another layout was needed.
    pub layouts: usize,
}

impl Writer {
    pub fn new(mut mount: NfsMount, name: &str) -> Self {
        let root = mount.root.clone();
        let file = mount.open(&root, name, true).unwrap();
        Self { mount, file, layout: None, pending: Vec::new(), rewritten: 0, layouts: 0 }
    }

    /// The bytes that `block` gets in a turn.
    pub fn content(block: u64, turn: u8) -> Bytes {
        vec![block as u8 ^ turn.wrapping_mul(31); BLOCK as usize].into()
    }

    /// Writes a block by pNFS, without COMMIT.
    pub fn write(&mut self, offset: u64, data: Bytes) {
        let verifier = self.recover(|writer| {
            let layout = writer.layout()?;
            writer.mount.direct_write((&writer.file, &layout), offset, data.clone())
        });
        self.pending.push((offset, data, verifier));
    }

    /// Commits everything, and writes again what a server may have lost.
    pub fn commit(&mut self) {
        while !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            for (offset, data, written) in pending {
                let committed = self.recover(|writer| {
                    let layout = writer.layout()?;
                    writer.mount.direct_commit(&layout, offset)
                });
                if written != committed {
                    self.rewritten += 1;
                    self.write(offset, data);
                }
            }
        }
    }

    fn layout(&mut self) -> Result<NfsLayout, NfsError> {
        if let Some(layout) = &self.layout {
            return Ok(layout.clone());
        }
        self.layouts += 1;
        let layout = self.mount.layout(&self.file, true)?;
        Ok(self.layout.insert(layout).clone())
    }

    /// Repeats a call until it succeeds, after what its error requires.
    fn recover<T>(&mut self, mut call: impl FnMut(&mut Self) -> Result<T, NfsError>) -> T {
        let started = Instant::now();
        loop {
            let error = match call(self) {
                Ok(done) => return done,
                Err(error) => error,
            };
            assert!(started.elapsed() < RECOVERY_MAX, "no recovery from {error}");
            match error.status() {
                // RFC 8881 13.7 and 13.9: the data server was restarted, or does not know the
                // layout. Its session is made again.
                None | Some(NfsStatus::BadSession | NfsStatus::DeadSession) => {
                    self.mount.data_servers.clear();
                    self.layout = None;
                    std::thread::sleep(Duration::from_millis(20));
                }
                Some(
                    NfsStatus::Stale
                    | NfsStatus::LayoutUnavailable
                    | NfsStatus::LayoutTryLater
                    | NfsStatus::BadHandle,
                ) => {
                    self.layout = None;
                    std::thread::sleep(Duration::from_millis(20));
                }
                Some(status) => panic!("{status:?} is no error to recover from"),
            }
        }
    }
}
