//! A progress bar, on a terminal only.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::Printer;

/// Bytes found and bytes moved.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar on standard error if that is a terminal; otherwise nothing is drawn.
    pub fn new(out: Printer) -> Self {
        let shown = std::io::stderr().is_terminal() && !out.quiet && !out.json;
        let target = if shown {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style =
            ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
        bar.set_style(style.expect("the template is a constant"));
        Self { bar }
    }

    /// Adds the size of a file that the walk found.
    pub fn found(&self, bytes: u64) {
        self.bar.inc_length(bytes);
    }

    /// Adds bytes that are copied.
    pub fn moved(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
