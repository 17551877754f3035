//! Access for `fuzz/` to the parsers of this crate. Not an interface.

use std::path::Path;

use crate::{Identity, identity::sealed, local::parse_name};

/// Reads the text as an identity file, once as it is and once with a valid checksum; and as an
/// object's name.
pub fn read_text(text: &str) {
    for text in [text.to_owned(), sealed("", text)] {
        if let Ok(identity) = Identity::from_text(&text, Path::new("x")) {
            assert_eq!(
                Identity::from_text(&identity.to_text(), Path::new("x")).ok(),
                Some(identity)
            );
        }
    }
    if let Some(id) = parse_name(text) {
        assert_eq!(id.to_string(), text);
    }
}
