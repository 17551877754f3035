//! Records what processes do to a directory, from outside. No storage call of a daemon, its engine
//! or a C library can be missed, because the kernel reports each.
//!
//! ```text
//!   strace -f -o FILE COMMAND     COMMAND and all that it starts; data in full
//!      │ text, a line for each entry or exit
//!   calls      lines of one call put together
//!      │
//!   replay     descriptors and paths -> History: changes of nodes and names, syncs, marks,
//!              in the order of the kernel
//! ```
//!
//! 1. A change counts from the exit of its call. A sync covers the changes whose calls had returned
//!    before the sync was entered.
//! 2. An unknown call on a recorded file is an error, never ignored (I10).
//! 3. The replayed history must equal the real disk at the end, byte for byte: `Tree::differences`.
//! 4. A writable shared mapping of a recorded file is an error: no trace shows stores through it.

mod calls;
mod descriptors;
mod replay;
mod text;

use std::{
    ffi::OsStr,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

pub(crate) use replay::READERS_TABLE;

use crate::disk::History;

/// More data in one call is an error: far above the windows of the daemons, far below the memory of
/// the machine.
const BYTES_PER_CALL_MAX: usize = 64 << 20;

/// Every call that may change a file, a name or a descriptor.
const CALLS: &[&str] = &[
    "open,openat,openat2,creat,close,close_range,dup,dup2,dup3,fcntl,lseek,read,readv,chdir",
    "write,pwrite64,writev,pwritev,pwritev2,sendfile,splice,copy_file_range",
    "ftruncate,truncate,fallocate,fsync,fdatasync,syncfs,sync",
    "rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir",
    "mkdir,mkdirat,mknod,mknodat,setxattr,lsetxattr,fsetxattr",
    "removexattr,lremovexattr,fremovexattr",
    "chmod,fchmod,fchmodat,mmap,io_uring_setup,clone,clone3,fork,vfork,execve",
];

/// Why nothing can be recorded here, if so: `strace` is missing or may not trace.
pub fn missing() -> Option<String> {
    let trial = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "true"])
        .stdin(Stdio::null())
        .output();
    match trial {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!(
            "strace cannot trace here: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => {
            Some(format!("strace cannot be started ({error}); try: sudo apt-get install strace"))
        }
    }
}

/// Runs `program` and everything it starts under the recorder; the trace goes to `trace`.
pub fn record(trace: &Path, program: &Path, arguments: &[&OsStr]) -> Result<()> {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-xx", "--seccomp-bpf", "-e", "signal=none", "-e", "raw=read,readv"]);
    strace.arg("-s").arg(BYTES_PER_CALL_MAX.to_string());
    strace.arg("-e").arg(format!("trace={}", CALLS.join(",")));
    strace.arg("-o").arg(trace).arg("--").arg(program).args(arguments).stdin(Stdio::null());
    let status = strace.status().context("starting strace; try: sudo apt-get install strace")?;
    ensure!(status.success(), "the recorded program failed: {status}");
    Ok(())
}

/// The recorded events below `root`, which was empty when the recording began. Lines written to the
/// file `marks`, outside `root`, become marks between the events.
pub fn read(trace: &Path, root: &Path, marks: &Path) -> Result<History> {
    let text = std::fs::read(trace).with_context(|| format!("reading {}", trace.display()))?;
    if text.is_empty() {
        bail!("{} is empty: nothing was traced", trace.display());
    }
    let calls = calls::parse(&text)?;
    replay::replay(&calls, root, marks)
}
