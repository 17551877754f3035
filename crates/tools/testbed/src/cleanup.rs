//! Cleanup that runs however this program ends.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A `sh` script that runs when this is dropped, and also when this program is killed: the shell
/// waits for the end of a pipe. No process that the run started outlives it.
#[derive(Debug)]
pub struct Cleanup {
    shell: Child,
}

impl Cleanup {
    /// Prepares `script` with these arguments; each of its commands may fail.
    pub fn new(script: &str, arguments: &[&str]) -> Result<Self> {
        let script = format!("read -r never || true\n{script}");
        let mut command = Command::new("sh");
        command.args(["-uc", &script, "sh"]).args(arguments).env("LC_ALL", "C");
        // In its own process group: a Ctrl-C at the terminal ends this program, and must not end
        // the cleanup.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { shell: command.spawn().context("running sh")? })
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_cleaned_up_stays_until_the_end_and_is_gone_after_it() {
        let file = std::env::temp_dir().join(format!("braid-cleanup-{}", std::process::id()));
        std::fs::write(&file, "").unwrap();
        let cleanup = Cleanup::new("rm \"$1\"", &[file.to_str().unwrap()]).unwrap();
        assert!(file.exists());
        drop(cleanup);
        assert!(!file.exists());
    }
}
