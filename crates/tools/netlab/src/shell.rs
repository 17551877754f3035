//! System commands that must succeed.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Time-out of one script, in seconds: installing a package takes longest.
const LIMIT_SECONDS: &str = "300";

/// Runs a `sh` script with these arguments; it stops at the first command that fails. Returns its
/// output.
pub fn sh(script: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", LIMIT_SECONDS, "sh", "-euc", script, "sh"]).args(arguments);
    // `ip` and `tc` are in directories that not every PATH has.
    let path = std::env::var("PATH").unwrap_or_default();
    let output = command.env("LC_ALL", "C").env("PATH", format!("{path}:/usr/sbin:/sbin")).output();
    let output = output.context("running sh")?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let first = script.trim().lines().next().unwrap_or_default();
    bail!("`{first}`: {}: {}", output.status, said.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_fails_tells_what_it_said() {
        let error = sh("echo no such luck >&2; false; true", &[]).unwrap_err();
        assert!(error.to_string().contains("no such luck"), "{error}");
        assert_eq!(sh("echo \"$2\"", &["a", "b c"]).unwrap(), "b c\n");
    }
}
