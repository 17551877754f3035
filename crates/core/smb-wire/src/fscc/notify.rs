//! Changes of a directory. 2.7.1.

use bytes::Bytes;

use super::{Entries, ListWriter};
use crate::cursor::{Malformed, Result};

/// What happened to a file or directory. 2.7.1, Action.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NotifyAction(pub u32);

impl NotifyAction {
    /// It was created, or came from another directory.
    pub const ADDED: Self = Self(1);
    /// It was removed, or went to another directory.
    pub const REMOVED: Self = Self(2);
    /// Its attributes, bytes or times have changed.
    pub const MODIFIED: Self = Self(3);
    /// It had this name until it was renamed.
    pub const RENAMED_OLD_NAME: Self = Self(4);
    /// It has this name since it was renamed.
    pub const RENAMED_NEW_NAME: Self = Self(5);
    /// A stream of it was created.
    pub const ADDED_STREAM: Self = Self(6);
    /// A stream of it was removed.
    pub const REMOVED_STREAM: Self = Self(7);
    /// The bytes of a stream of it have changed.
    pub const MODIFIED_STREAM: Self = Self(8);
}

/// A change of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotifyEvent {
    /// What happened.
    pub action: NotifyAction,
    /// The path below the directory, with backslashes.
    pub name: String,
}

/// The list of the events; `None` if it has more than `max_bytes`.
pub fn encode_notify(events: &[NotifyEvent], max_bytes: usize) -> Option<Vec<u8>> {
    let mut list = ListWriter::new(4, max_bytes);
    for event in events {
        let name: Vec<u8> = event.name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let fits = list.push(|writer| {
            writer.u32(event.action.0);
            writer.u32(name.len() as u32);
            writer.bytes(&name);
        });
        if !fits {
            return None;
        }
    }
    Some(list.finish())
}

/// The events of a list.
///
/// # Errors
/// An entry does not follow its format.
pub fn decode_notify(bytes: Bytes) -> Result<Vec<NotifyEvent>> {
    Entries::new(bytes)
        .map(|entry| {
            let mut entry = entry?;
            let action = NotifyAction(entry.u32()?);
            let length = entry.u32()? as usize;
            let name = entry.take(length)?;
            if name.len() % 2 != 0 {
                return Err(Malformed("notify: FileNameLength"));
            }
            let units = name.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
            let name = char::decode_utf16(units).map(|char| char.unwrap_or('\u{fffd}')).collect();
            Ok(NotifyEvent { action, name })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(action: NotifyAction, name: &str) -> NotifyEvent {
        NotifyEvent { action, name: name.to_owned() }
    }

    #[test]
    fn events_are_as_the_standard_lays_them_out() {
        let events = [event(NotifyAction::ADDED, "a"), event(NotifyAction::REMOVED, "b\\ö")];
        let bytes = encode_notify(&events, 4096).unwrap();
        let wanted = [
            &[16, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0][..],
            &[b'a', 0, 0, 0],
            &[0, 0, 0, 0, 2, 0, 0, 0, 6, 0, 0, 0],
            &[b'b', 0, b'\\', 0, 0xf6, 0],
        ];
        assert_eq!(bytes, wanted.concat());
        assert_eq!(decode_notify(bytes.into()).unwrap(), events);
    }

    #[test]
    fn events_that_do_not_fit_are_not_cut() {
        let events = [event(NotifyAction::ADDED, "name"), event(NotifyAction::ADDED, "more")];
        let length = encode_notify(&events, 4096).unwrap().len();
        assert_eq!(encode_notify(&events, length - 1), None);
        assert!(encode_notify(&events, length).is_some());
        assert_eq!(encode_notify(&[], 0), Some(Vec::new()));
    }

    #[test]
    fn a_cut_list_is_refused_or_shorter() {
        let events = [event(NotifyAction::ADDED, "name"), event(NotifyAction::MODIFIED, "more")];
        let bytes = Bytes::from(encode_notify(&events, 4096).unwrap());
        for length in 0..bytes.len() {
            if let Ok(cut) = decode_notify(bytes.slice(..length)) {
                assert!(cut.len() < events.len(), "{length}");
            }
        }
    }
}
