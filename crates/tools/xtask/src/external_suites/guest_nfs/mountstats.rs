//! `/proc/self/mountstats`, the counters of the kernel's NFS client for each mount.
//!
//! The kernel counts READ, WRITE and COMMIT at data servers with those at the metadata server. But
//! `xprt:` is the connection to the metadata server alone: what it sent beyond the other operations
//! is READ, WRITE and COMMIT through the metadata server. LAYOUTGET is mostly not counted: it is
//! part of the compound of OPEN.

use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;
use std::fmt;

/// `pnfs=` of a mount with the layout type of files (RFC 8881 13).
const FILES: &str = "LAYOUT_NFSV4_1_FILES";
/// Operations that go to data servers by a layout.
const DATA: [&str; 3] = ["READ", "WRITE", "COMMIT"];
/// What the kernel shows for a mount without layouts.
const NOT_CONFIGURED: &str = "not configured";

/// The counters of one mount.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MountStats {
    /// The layout driver.
    layout: String,
    /// Bytes that came from servers and went to servers, by any way.
    bytes_read: u64,
    bytes_written: u64,
    /// Reads and writes that went by a layout.
    layout_reads: u64,
    layout_writes: u64,
    /// Calls that were sent to the metadata server.
    sends: u64,
    /// Calls by operation; [`DATA`] to all servers.
    calls: BTreeMap<String, u64>,
}

impl MountStats {
    /// The counters of the mount on `point`.
    pub fn parse(text: &str, point: &str) -> Result<Self> {
        let headline = format!(" mounted on {point} with fstype nfs4 ");
        let mut lines = text.lines().skip_while(|line| !line.contains(&headline)).skip(1);
        let mut stats = Self::default();
        for line in lines.by_ref().take_while(|line| !line.starts_with("device ")) {
            let Some((name, rest)) = line.trim().split_once(':') else { continue };
            let numbers = || -> Vec<u64> {
                rest.split_whitespace().filter_map(|word| word.parse().ok()).collect()
            };
            match name {
                "nfsv4" => stats.layout = layout(rest).context("no `pnfs=` in mountstats")?,
                "bytes" => match numbers().as_slice() {
                    [_, _, _, _, read, written, ..] => {
                        (stats.bytes_read, stats.bytes_written) = (*read, *written)
                    }
                    _ => anyhow::bail!("mountstats: {line}"),
                },
                "events" => match numbers().as_slice() {
                    [.., reads, writes] => {
                        (stats.layout_reads, stats.layout_writes) = (*reads, *writes)
                    }
                    _ => anyhow::bail!("mountstats: {line}"),
                },
                // tcp: port, bind, connect, connect time, idle, sends, receives, ...
                "xprt" => match numbers().get(5) {
                    Some(sends) => stats.sends += sends,
                    None => anyhow::bail!("mountstats: {line}"),
                },
                name if name
                    .bytes()
                    .all(|letter| letter.is_ascii_uppercase() || letter == b'_') =>
                {
                    stats.calls.extend(numbers().first().map(|count| (name.to_owned(), *count)));
                }
                _ => {}
            }
        }
        ensure!(!stats.layout.is_empty(), "mountstats has no NFSv4 mount on {point}");
        Ok(stats)
    }

    /// Whether the server offers layouts and the client has a driver for them.
    pub fn has_layouts(&self) -> bool {
        self.layout != NOT_CONFIGURED
    }

    /// Checks that at least `bytes` went to data servers and as many came back, and nothing through
    /// the metadata server.
    pub fn check_all_by_layouts(&self, bytes: u64) -> Result<()> {
        ensure!(self.layout == FILES, "the mount has pnfs={}, not {FILES}", self.layout);
        ensure!(self.layout_writes > 0, "no write went by a layout");
        ensure!(self.layout_reads > 0, "no read went by a layout");
        ensure!(self.calls("GETDEVICEINFO") > 0, "the client asked for no device");
        let calls = self.data_calls_to_metadata_server();
        ensure!(calls == 0, "{calls} calls of READ, WRITE or COMMIT went to the metadata server");
        ensure!(self.bytes_written >= bytes, "only {} bytes were written", self.bytes_written);
        ensure!(self.bytes_read >= bytes, "only {} bytes were read", self.bytes_read);
        Ok(())
    }

    /// READ, WRITE and COMMIT that were sent to the metadata server.
    fn data_calls_to_metadata_server(&self) -> u64 {
        let is_other = |name: &str| !DATA.contains(&name);
        let others = self.calls.iter().filter(|(name, _)| is_other(name)).map(|(_, calls)| calls);
        self.sends.saturating_sub(others.sum())
    }

    fn calls(&self, operation: &str) -> u64 {
        self.calls.get(operation).copied().unwrap_or(0)
    }
}

/// The words of `nfsv4:` are separated by commas; `not configured` has a space.
fn layout(words: &str) -> Option<String> {
    let value = words.split(',').find_map(|word| word.trim().strip_prefix("pnfs="))?;
    Some(value.trim().to_owned())
}

impl fmt::Display for MountStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mountstats: pnfs={}, ", self.layout)?;
        write!(f, "{} MiB read and ", self.bytes_read >> 20)?;
        write!(f, "{} MiB written in all, ", self.bytes_written >> 20)?;
        write!(f, "{} reads and {} writes by layouts", self.layout_reads, self.layout_writes)?;
        let through = self.data_calls_to_metadata_server();
        write!(f, "; READ, WRITE, COMMIT through the metadata server: {through}; all calls:")?;
        let shown = ["READ", "WRITE", "COMMIT", "GETDEVICEINFO", "LAYOUTCOMMIT", "LAYOUTRETURN"];
        shown.iter().try_for_each(|name| write!(f, " {name} {}", self.calls(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELSEWHERE: &str = "device rootfs mounted on / with fstype rootfs\n\
        device 10.0.2.2:/ mounted on /mnt/other with fstype nfs4 statvers=1.1\n\
        \tnfsv4:\tbm0=0xf,sessions,pnfs=not configured,lease_time=10\n";

    /// NULL, GETDEVICEINFO, and `sends` of them and of data to the metadata server.
    fn mount(sends: u64) -> String {
        format!(
            "{ELSEWHERE}device 10.77.0.1:/ mounted on /mnt/nfs with fstype nfs4 statvers=1.1\n\
             \topts:\trw,vers=4.1\n\tage:\t9\n\
             \tnfsv4:\tbm0=0xf,bm1=0x4,acl=0x3,sessions,pnfs=LAYOUT_NFSV4_1_FILES,lease_time=10\n\
             \tevents:\t1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 7 8\n\
             \tbytes:\t268435456 268435456 0 0 268435456 268435456 65536 65536\n\
             \tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n\
             \txprt:\ttcp 0 0 2 0 0 {sends} {sends} 0 100 0 2 0 0\n\tper-op statistics\n\
             \t        NULL: 1 1 0 44 24 0 1 1 0\n\t        READ: 7 7 0 1 1 0 1 1 0\n\
             \t       WRITE: 8 8 0 0 0 0 0 0 0\n\t  GETDEVICEINFO: 1 1 0 1 1 0 1 1 0\n"
        )
    }

    #[test]
    fn data_that_went_to_data_servers_only_passes() {
        let stats = MountStats::parse(&mount(2), "/mnt/nfs").unwrap();
        assert_eq!((stats.layout_reads, stats.layout_writes), (7, 8));
        stats.check_all_by_layouts(256 << 20).unwrap();
        assert!(stats.check_all_by_layouts((256 << 20) + 1).is_err());
    }

    #[test]
    fn one_read_through_the_metadata_server_fails() {
        let stats = MountStats::parse(&mount(3), "/mnt/nfs").unwrap();
        let why = stats.check_all_by_layouts(1).unwrap_err().to_string();
        assert_eq!(why, "1 calls of READ, WRITE or COMMIT went to the metadata server");
    }

    #[test]
    fn a_mount_without_layouts_is_recognized_and_other_mounts_do_not_count() {
        let stats = MountStats::parse(&mount(2), "/mnt/other").unwrap();
        assert!(!stats.has_layouts() && stats.check_all_by_layouts(0).is_err());
        assert!(MountStats::parse(&mount(2), "/mnt/none").is_err());
    }
}
