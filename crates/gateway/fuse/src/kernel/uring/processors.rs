//! The processors that a queue is needed for: all that the machine may ever have, since the kernel picks the
//! queue by the number of the one that the caller runs on.

use std::io;

const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// How many queues there are.
pub(super) fn possible() -> io::Result<u16> {
    let no_list = || io::Error::other(format!("{POSSIBLE} is not a list of processors"));
    count(std::fs::read_to_string(POSSIBLE)?.trim()).ok_or_else(no_list)
}

/// Of a list as `0-3` or `0,2-3`: how many it names.
fn count(list: &str) -> Option<u16> {
    list.split(',').try_fold(0, |sum: u16, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_queue_for_each_processor_that_is_possible() {
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("0-1"), Some(2));
        assert_eq!(count("0,2-7"), Some(7));
        assert_eq!(count("0-3,9"), Some(5));
        for wrong in ["", "0-", "x", "3-1", "0-70000"] {
            assert_eq!(count(wrong), None, "{wrong}");
        }
        assert!(possible().unwrap() >= 1);
    }
}
