//! Entry points for `fuzz/` into the parsers of this crate. Not a public interface.

use crate::daemon::directory_id::{format, parse};

/// Reads the text as the file `directory-id`.
///
/// # Panics
/// When what was read is not the same after formatting it again.
pub fn read_directory_id(text: &str) {
    if let Some(id) = parse(text) {
        let again = format(&id);
        assert_eq!(again.trim_end(), text.trim_end().to_ascii_lowercase());
        assert_eq!(parse(&again), Some(id));
    }
}
