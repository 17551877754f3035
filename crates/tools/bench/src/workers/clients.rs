//! Many clients of one process, each with its own connections and thread.

use std::{io::stdin, thread};

use anyhow::{Context, Result, anyhow, bail, ensure};
use braid_client::{Client, File, OpenOptions, TlsPolicy};

use crate::{args::ClientsArgs, daemons::connect};

/// Bytes of a read or write.
pub const CALL_BYTES: usize = 4096;
/// Bytes of each client's file.
pub const FILE_BYTES: u64 = 256 << 10;

/// The file of a client.
pub fn path(client: u32) -> String {
    format!("/clients/f{client}")
}

struct One {
    file: File,
    path: String,
    // Dropped after the file.
    client: Client,
}

/// Executes each line of its input and answers `done`: `connect`, `read N`, `write N`, `stat N`, N
/// by each client.
pub fn run(args: &ClientsArgs) -> Result<()> {
    let mut clients: Vec<One> = Vec::new();
    println!("ready");
    for line in stdin().lines() {
        let line = line?;
        let (what, count) = line.split_once(' ').unwrap_or((line.as_str(), "0"));
        let count: u64 = count.parse().with_context(|| format!("how many in {line:?}"))?;
        match what {
            "connect" => {
                clients = (args.first..args.first + args.count)
                    .map(|n| One::connect(args, n))
                    .collect::<Result<_>>()?
            }
            "read" => all(&clients, |one| one.read(count))?,
            "write" => all(&clients, |one| one.write(count))?,
            "stat" => all(&clients, |one| one.stat(count))?,
            _ => bail!("unknown command {line:?}"),
        }
        println!("done");
    }
    Ok(())
}

/// Runs `work` for all at the same time.
fn all(clients: &[One], work: impl Fn(&One) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = clients.iter().map(|one| scope.spawn(move || work(one))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}

impl One {
    /// Connects, and presents the capability to every daemon of its file.
    fn connect(args: &ClientsArgs, number: u32) -> Result<Self> {
        let client = connect(&args.mds, &args.key, TlsPolicy::default())?;
        let path = path(number);
        let file = client.open(path.as_str(), &OpenOptions::new().read(true).write(true))?;
        let one = Self { file, path, client };
        let mut buffer = vec![0; FILE_BYTES as usize];
        ensure!(one.file.read_at(&mut buffer, 0)? == buffer.len(), "{} is too short", one.path);
        Ok(one)
    }

    fn read(&self, count: u64) -> Result<()> {
        let mut buffer = [0; CALL_BYTES];
        for at in 0..count {
            ensure!(
                self.file.read_at(&mut buffer, place(at))? == CALL_BYTES,
                "{} was read short",
                self.path
            );
        }
        Ok(())
    }

    fn write(&self, count: u64) -> Result<()> {
        (0..count)
            .try_for_each(|at| self.file.write_at(&[0x5a; CALL_BYTES], place(at)).map(drop))
            .map_err(Into::into)
    }

    fn stat(&self, count: u64) -> Result<()> {
        (0..count)
            .try_for_each(|_| self.client.stat(self.path.as_str()).map(drop))
            .map_err(Into::into)
    }
}

/// An offset in a file: all daemons in turn, in an irregular order within them.
fn place(at: u64) -> u64 {
    let mixed = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    mixed % (FILE_BYTES / CALL_BYTES as u64) * CALL_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_whole_calls_within_the_file_and_cover_it() {
        let places: std::collections::BTreeSet<u64> = (0..1000).map(place).collect();
        assert!(
            places
                .iter()
                .all(|at| at % CALL_BYTES as u64 == 0 && at + CALL_BYTES as u64 <= FILE_BYTES)
        );
        assert_eq!(places.len() as u64, FILE_BYTES / CALL_BYTES as u64);
    }
}
