//! The check of names that all implementations of the traits make first.

use braid_types::{Status, limits::NAME_BYTES_MAX};

/// Checks a name of a directory entry: 1 to 255 bytes, without `/` and NUL, not `.` or `..`. A
/// protocol that has `.` and `..` answers them itself (RFC 8881 18.13.3 has no such names).
///
/// # Errors
/// `Invalid`, `NameTooLong`.
pub fn check_name(name: &[u8]) -> Result<(), Status> {
    match name {
        b"" | b"." | b".." => Err(Status::Invalid),
        _ if name.len() > NAME_BYTES_MAX => Err(Status::NameTooLong),
        _ if name.iter().any(|byte| matches!(byte, 0 | b'/')) => Err(Status::Invalid),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_to_255_bytes_without_separators_are_allowed() {
        for name in [&b"a"[..], b"...", b"\xff\xfe", &[b'x'; NAME_BYTES_MAX]] {
            assert_eq!(check_name(name), Ok(()), "{name:?}");
        }
        for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0"] {
            assert_eq!(check_name(name), Err(Status::Invalid), "{name:?}");
        }
        assert_eq!(check_name(&[b'x'; NAME_BYTES_MAX + 1]), Err(Status::NameTooLong));
    }
}
