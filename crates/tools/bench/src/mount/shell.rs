//! Commands that must succeed, as a shell or by themselves.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// The longest that one command may take, in seconds.
const LIMIT_SECONDS: &str = "900";

/// Runs a script of `sh` with these arguments; what it printed.
pub fn sh(script: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", LIMIT_SECONDS, "sh", "-euc", script, "sh"]).args(arguments);
    let output = command.env("LC_ALL", "C").output().context("running sh")?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    bail!("{script}: {}: {}", output.status, said.trim())
}

/// Installs Debian packages whose program is missing, where this may be done.
pub fn need(program: &str, packages: &[&str]) -> Result<()> {
    if sh("command -v \"$1\"", &[program]).is_ok() {
        return Ok(());
    }
    eprintln!("bench: installing {}", packages.join(" "));
    let install = "export DEBIAN_FRONTEND=noninteractive; apt-get update -q; \
                   apt-get install -q -y --no-install-recommends \"$@\"";
    sh(install, packages).map(drop).with_context(|| format!("try: sudo apt-get install {}", packages.join(" ")))
}
