//! Scripts for `sh` that must succeed.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};

/// Time limit of [`sh`]: the installation of a package takes longest.
const LIMIT: Duration = Duration::from_secs(900);
/// Number of lines of the output that the error of a failed script has.
const ERROR_LINES: usize = 12;

/// Runs a script with these arguments; it stops at the first command that fails. Returns its
/// standard output.
///
/// # Errors
/// With its output, if it fails or exceeds 15 minutes.
pub fn sh(script: &str, arguments: &[&str]) -> Result<String> {
    Shell::new(LIMIT).run(script, arguments)
}

/// How scripts run.
#[derive(Clone, Debug)]
pub struct Shell {
    limit: Duration,
    home: Option<PathBuf>,
}

impl Shell {
    /// In the current directory; `limit` ends a script that hangs.
    pub fn new(limit: Duration) -> Self {
        Self { limit, home: None }
    }

    /// In `home`, which is also the home directory, so that the user's settings have no effect.
    pub fn at_home(self, home: &Path) -> Self {
        Self { home: Some(home.to_owned()), ..self }
    }

    /// Runs a script with these arguments; it stops at the first command that fails. Returns its
    /// standard output.
    ///
    /// # Errors
    /// With the end of its output, if it fails or exceeds the limit.
    pub fn run(&self, script: &str, arguments: &[&str]) -> Result<String> {
        let limit = self.limit.as_secs().to_string();
        let mut command = Command::new("timeout");
        command.args(["--kill-after=20", &limit, "sh", "-euc", script, "sh"]).args(arguments);
        // `ip` and `tc` are in directories that not every PATH has.
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("LC_ALL", "C").env("PATH", format!("{path}:/usr/sbin:/sbin"));
        if let Some(home) = &self.home {
            command.current_dir(home).env("HOME", home).env("GIT_CONFIG_NOSYSTEM", "1");
        }
        let output = command.output().context("running sh")?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            return Ok(stdout.into_owned());
        }
        let printed = format!("{stdout}{}", String::from_utf8_lossy(&output.stderr));
        let lines: Vec<&str> = printed.trim().lines().collect();
        let last = lines[lines.len().saturating_sub(ERROR_LINES)..].join("\n");
        let first = script.trim().lines().next().unwrap_or_default();
        bail!("`{first}`: {}: {last}", output.status)
    }
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

    #[test]
    fn a_script_runs_in_its_home_and_ends_at_its_limit() {
        let home = std::env::temp_dir().canonicalize().unwrap();
        let shell = Shell::new(Duration::from_secs(1)).at_home(&home);
        let printed = shell.run("pwd; echo \"$HOME\"", &[]).unwrap();
        assert_eq!(printed, format!("{0}\n{0}\n", home.display()));
        let error = shell.run("sleep 1000", &[]).unwrap_err();
        assert!(error.to_string().contains("124"), "{error}");
    }
}
