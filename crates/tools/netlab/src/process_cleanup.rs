//! Cleans up after a process, however it ends.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Runs a `sh` script when it is dropped, and also when this program is killed: a shell waits for
/// the end of a pipe.
#[derive(Debug)]
pub struct ProcessCleanup {
    shell: Child,
}

impl ProcessCleanup {
    /// Prepares `script` with these arguments. Each of its commands may fail.
    pub fn new(script: &str, arguments: &[&str]) -> Result<Self> {
        let script = format!("read -r never || true\n{script}");
        let mut command = Command::new("sh");
        command.args(["-uc", &script, "sh"]).args(arguments).env("LC_ALL", "C");
        // In its own process group: Ctrl-C at the terminal ends this program, but must not end the
        // cleanup.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { shell: command.spawn().context("running sh")? })
    }
}

impl Drop for ProcessCleanup {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
