//! A mount that continues in the background when it is ready.
//!
//! ```text
//!   braid mount DIR ── starts ──> braid mount DIR   (BRAID_MOUNT_READY set; stdout is a pipe)
//!        | waits for a line                | connects, reads the root, mounts
//!        |<──────────── "ready …" ─────────| then: session of its own, no terminal
//!     exit 0                               | serves until it is unmounted
//!        |<──────────── end of file: it failed, has printed why; this process exits with its code
//! ```

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Command, ExitCode, Stdio},
};

use crate::output::Fault;

/// Environment variable of the background process.
const MARK: &str = "BRAID_MOUNT_READY";
const READY: &str = "ready";

/// Whether this is the background process.
pub fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts this command again in the background. Returns what it reports of itself when it is ready,
/// or the exit code of a failure that it has printed.
pub fn start() -> Result<Result<String, ExitCode>, Fault> {
    let fail = |e: std::io::Error| Fault::failed("starting the mount in the background", e);
    let mut command = Command::new(std::env::current_exe().map_err(fail)?);
    let mut given = std::env::args_os();
    // The program name matters: it may be the helper of mount(8).
    command.arg0(given.next().unwrap_or_else(|| "braid".into())).args(given).env(MARK, "1");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(fail)?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(fail)?;
    }
    if let Some(said) = line.trim_end().strip_prefix(READY) {
        return Ok(Ok(said.trim_start().to_owned()));
    }
    let ended = child.wait().map_err(fail)?;
    Ok(Err(ExitCode::from(ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))))
}

/// Reports to the waiting process that the mount is ready. Then leaves the terminal and the working
/// directory.
pub fn ready(said: &str) -> Result<(), Fault> {
    let fail = |e: std::io::Error| Fault::failed("continuing in the background", e);
    writeln!(std::io::stdout(), "{READY} {said}").map_err(fail)?;
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").map_err(fail)?;
    rustix::stdio::dup2_stdout(&null).map_err(|e| fail(e.into()))?;
    rustix::stdio::dup2_stderr(&null).map_err(|e| fail(e.into()))?;
    // Fails for the leader of a process group, which has no terminal to leave.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/").map_err(fail)?;
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(())
}
