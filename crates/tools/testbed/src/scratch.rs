//! Where tests put files that need no real disk.

use std::path::PathBuf;

/// A file system in memory with extended attributes, if there is one; otherwise the temporary
/// directory.
pub fn scratch() -> PathBuf {
    const MEMORY: &str = "/dev/shm";
    let has_attributes = |dir: &str| {
        let probe = PathBuf::from(dir).join(format!("braid-probe-{}", std::process::id()));
        let set = std::fs::write(&probe, "").is_ok()
            && rustix::fs::setxattr(
                &probe,
                "user.braid.probe",
                b"1",
                rustix::fs::XattrFlags::empty(),
            )
            .is_ok();
        let _ = std::fs::remove_file(&probe);
        set
    };
    if has_attributes(MEMORY) { MEMORY.into() } else { std::env::temp_dir() }
}
