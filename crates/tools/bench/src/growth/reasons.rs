//! Why a curve grows faster than its size, as far as the reason is known; printed with the finding.

/// Series without an entry have no known reason.
const REASONS: &[(&str, &str, &str)] = &[
    (
        "daemons",
        "read",
        "a call of 16 MiB is a request to each daemon, and each daemon a process more: below \
            linear in the requests",
    ),
    (
        "daemons",
        "rewrite",
        "a call of 16 MiB is a request to each daemon, and each daemon a process more: below \
            linear in the requests",
    ),
    (
        "daemons",
        "small_file",
        "every daemon is asked to remove the file's part, once for a batch of files: far below \
            linear",
    ),
    ("daemons", "idle", "noise: some ms of CPU in a second, of all daemons together"),
    ("stripes", "read", "a call of 4 MiB is a request to each part: below linear in the requests"),
    (
        "stripes",
        "rewrite",
        "a call of 4 MiB is a request to each part: below linear in the requests",
    ),
    (
        "stripes",
        "wide_file",
        "64 daemons are 64 processes that take turns on one processor; nearly all of the rise is \
            theirs; not profiled",
    ),
    (
        "clients",
        "read",
        "256 clients are 1,024 connections with a thread at each end on the processors of one \
            machine; no function grows",
    ),
    (
        "clients",
        "write",
        "256 clients are 1,024 connections with a thread at each end on the processors of one \
            machine; no function grows",
    ),
    (
        "clients",
        "stat",
        "256 clients are 1,024 connections with a thread at each end on the processors of one \
            machine; no function grows",
    ),
    ("clients", "idle", "noise: some ms of CPU in a second, of all clients together"),
    (
        "directory",
        "list",
        "a step, not a slope: beyond 262,144 inodes the metadata server reads from its base, and \
            others lose their place",
    ),
    (
        "directory",
        "mount_stat",
        "a step, not a slope: a listing of over 131,072 names brings no attributes for the rest, \
            which are asked for one by one",
    ),
    (
        "directory",
        "mount_stat_again",
        "steps, not a slope: more names than the processor's caches hold; and a mount remembers \
            262,144 at most, and asks for each of the others twice",
    ),
    (
        "pieces",
        "read_list",
        "1,000 pieces lie in 2 MiB of the file, which the processor's caches hold, 10,000 in 20 \
            MiB; then it stays",
    ),
    (
        "pieces",
        "write_list",
        "1,000 pieces lie in 2 MiB of the file, which the processor's caches hold, 10,000 in 20 \
            MiB; then it stays",
    ),
    (
        "pieces",
        "read_view",
        "1,000 pieces lie in 2 MiB of the file, which the processor's caches hold, 10,000 in 20 \
            MiB; then it stays",
    ),
];

/// The known reason for a series of a curve.
pub fn of(curve: &str, series: &str) -> &'static str {
    let known = REASONS.iter().find(|(of, name, _)| (*of, *name) == (curve, series));
    known.map_or("not known; try: perf record on the daemons", |(_, _, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growth::PLANS;

    #[test]
    fn a_reason_is_of_a_curve_that_is_there_and_what_has_none_is_said() {
        assert!(REASONS.iter().all(|(curve, ..)| PLANS.iter().any(|plan| plan.name == *curve)));
        assert!(of("directory", "list").starts_with("a step"));
        assert!(of("directory", "create").starts_with("not known"));
    }
}
