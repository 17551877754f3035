//! The identity of the process at the other end of a Unix socket, according to the kernel.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::net::UnixStream,
};

use braid_wire::message::types::Identity;

/// The largest `/proc/PID/status`: with the kernel's maximum of groups (65,536 of up to 11
/// characters).
const STATUS_BYTES_MAX: u64 = 1 << 20;

/// User, group and groups of the process that connected.
pub(super) fn identity(stream: &UnixStream) -> io::Result<Identity> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    let (uid, gid) = (u64::from(peer.uid.as_raw()), u64::from(peer.gid.as_raw()));
    // A process that has ended, or is in another PID namespace, keeps only its user and group.
    let groups = groups(peer.pid.as_raw_nonzero().get(), uid, gid).unwrap_or_default();
    Ok(Identity { uid, gid, groups, checked: false })
}

fn groups(pid: i32, uid: u64, gid: u64) -> io::Result<Vec<u64>> {
    let mut status = String::new();
    File::open(format!("/proc/{pid}/status"))?
        .take(STATUS_BYTES_MAX)
        .read_to_string(&mut status)?;
    Ok(groups_in(&status, uid, gid))
}

/// The groups in a status file, if it belongs to a process with this effective user and group: the
/// process may have died, and its number may belong to another process now.
fn groups_in(status: &str, uid: u64, gid: u64) -> Vec<u64> {
    let numbers = |name: &str| -> Vec<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default()
            .split_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect()
    };
    // real, effective, saved, file system (proc_pid_status(5))
    let is_same = numbers("Uid:").get(1) == Some(&uid) && numbers("Gid:").get(1) == Some(&gid);
    if is_same { numbers("Groups:") } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_taken_from_the_right_process_only() {
        let status =
            "Name:\tx\nUid:\t5\t1000\t5\t5\nGid:\t6\t100\t6\t6\nFDSize:\t64\nGroups:\t4 24 100 \n";
        assert_eq!(groups_in(status, 1000, 100), [4, 24, 100]);
        assert_eq!(groups_in(status, 5, 100), [0u64; 0], "the effective user is another");
        assert_eq!(groups_in(status, 1000, 6), [0u64; 0], "the effective group is another");
        assert_eq!(groups_in("", 1000, 100), [0u64; 0]);
    }
}
