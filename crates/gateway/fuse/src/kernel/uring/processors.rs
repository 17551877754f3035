//! The processors that need a queue: all possible ones of the machine, since the kernel selects the
//! queue by the number of the caller's processor.

use std::io;

const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// The number of queues.
pub(super) fn possible() -> io::Result<u16> {
    let no_list = || io::Error::other(format!("{POSSIBLE} is not a list of processors"));
    count(std::fs::read_to_string(POSSIBLE)?.trim()).ok_or_else(no_list)
}

/// How many processors a list such as `0-3` or `0,2-3` names.
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
    fn there_is_a_queue_for_each_possible_processor() {
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
