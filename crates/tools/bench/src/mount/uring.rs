//! FUSE over io_uring: whether the kernel offers it, and the switch.

use std::fs;

use anyhow::{Context, Result};
use braid_testbed::cleanup::Cleanup;

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// The message when it is off.
pub const HINT: &str = "FUSE over io_uring is off: no rows of it; \
    try: --io-uring, or as root (Linux 6.14 or newer): \
                        echo Y > /sys/module/fuse/parameters/enable_uring";

/// Whether a mount that requests it gets it.
pub fn is_offered() -> bool {
    fs::read_to_string(SWITCH).is_ok_and(|word| word.trim() == "Y")
}

/// Enables it until the result is dropped or this program ends; `None` when it is on already.
pub fn switch_on() -> Result<Option<Cleanup>> {
    if is_offered() {
        return Ok(None);
    }
    let failed = || {
        format!(
            "enable FUSE over io_uring; try: as root, Linux 6.14 or newer, modprobe fuse ({SWITCH})"
        )
    };
    let before = fs::read_to_string(SWITCH).with_context(failed)?;
    let back = Cleanup::new("echo \"$1\" > \"$2\"", &[before.trim(), SWITCH])?;
    fs::write(SWITCH, "Y").with_context(failed)?;
    Ok(Some(back))
}
