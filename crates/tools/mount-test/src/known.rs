//! Cases that are known not to hold yet, each with the reason. The whole suite skips them and says so; `--only NAME` runs them.

/// Names, and why.
const OPEN: &[(&str, &str)] = &[
    ("fsx::two_mounts", PAGES),
    ("mapped::what_another_mount_wrote_is_in_the_mapping", PAGES),
    ("mapped::what_another_mount_cut_off_is_gone_from_the_mapping", PAGES),
    ("history::two_mounts", APPENDS),
];

const PAGES: &str = "open: pages that a mapping, sendfile or copy_file_range put into a kernel's memory are not recalled when \
                     another mount writes: the data leases of files are not in the mount yet (docs/consistency.md)";
const APPENDS: &str = "open: an append is alone against the appends of other mounts, not against their writes and \
                       truncates: the data leases of files are not in the mount yet (docs/consistency.md)";

/// Why a case is not run with the others.
pub fn open(name: &str) -> Option<&'static str> {
    OPEN.iter().find(|(case, _)| *case == name).map(|(_, why)| *why)
}
