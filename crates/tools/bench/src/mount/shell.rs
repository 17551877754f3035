//! Commands that must succeed.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Maximum time of one command, in seconds.
const LIMIT_SECONDS: &str = "900";

/// Runs a `sh` script with these arguments; returns its output.
pub fn sh(script: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", LIMIT_SECONDS, "sh", "-euc", script, "sh"]).args(arguments);
    let output = command.env("LC_ALL", "C").output().context("running sh")?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    bail!("{script}: {}: {}", output.status, said.trim())
}

/// Installs Debian packages whose program or file is missing, if we may.
pub fn need(program: &str, packages: &[&str]) -> Result<()> {
    if sh("command -v \"$1\" || test -e \"$1\"", &[program]).is_ok() {
        return Ok(());
    }
    let hint = || format!("{program} is missing; try: sudo apt-get install {}", packages.join(" "));
    ensure!(rustix::process::geteuid().is_root(), "only root may install packages: {}", hint());
    eprintln!("bench: installing {}", packages.join(" "));
    let install = "export DEBIAN_FRONTEND=noninteractive; apt-get update -q; \
                   apt-get install -q -y --no-install-recommends \"$@\"";
    sh(install, packages).map(drop).with_context(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_fails_tells_what_it_said() {
        let error = sh("echo no such luck >&2; false", &[]).unwrap_err();
        assert!(error.to_string().contains("no such luck"), "{error}");
        assert_eq!(sh("echo \"$2\"", &["a", "b c"]).unwrap(), "b c\n");
    }
}
