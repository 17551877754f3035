//! Memory that the host of a virtual machine has allocated.
//!
//! A host takes back memory that its guest has had free for some seconds (free page reporting), and
//! the guest pays for the next first touch of such a page: 2.4 s/GiB on one machine, 0.06 where the
//! page had just been freed. The first subject after a pause would pay that for the page cache of
//! all. Therefore free memory is touched and freed again before a sample that fills new pages, for
//! every subject alike.

use std::fs;

const GIB: u64 = 1 << 30;
/// More than one sample uses of the page cache of a client or of the servers.
const BYTES_MAX: u64 = 3 * GIB;
/// In blocks that the allocator returns to the system immediately.
const PIECE: usize = 64 << 20;
const PAGE: usize = 4096;

/// Touches free memory, up to [`BYTES_MAX`], and frees it. It evicts nothing from the page cache.
pub fn touch_free_memory() {
    let bytes = bytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default());
    let mut pieces = Vec::new();
    for _ in 0..bytes / PIECE as u64 {
        let mut piece = vec![0u8; PIECE];
        piece.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
        pieces.push(std::hint::black_box(piece));
    }
}

/// How much to touch: three quarters of the free memory, the rest is for other processes meanwhile.
fn bytes(meminfo: &str) -> u64 {
    let free = meminfo.lines().find_map(|line| {
        line.strip_prefix("MemFree:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    (free.unwrap_or(0) * 1024 / 4 * 3).min(BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quarters_of_free_memory_are_touched_up_to_the_need() {
        assert_eq!(
            bytes("MemTotal:  9 kB\nMemFree:   2097152 kB\nMemAvailable: 99999999 kB\n"),
            3 * GIB / 2
        );
        assert_eq!(bytes("MemFree:   25165824 kB\n"), BYTES_MAX);
        assert_eq!(bytes(""), 0);
    }
}
