//! What the union shows after some operations, if nothing is lost.

use std::collections::BTreeMap;

use super::Operation;

/// Names: a directory, or a file by its token.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Model {
    /// By path.
    pub names: BTreeMap<String, Option<u64>>,
}

/// The bytes of a token's file.
pub(super) fn bytes(token: u64) -> Vec<u8> {
    format!("token {token:010}\n").repeat(300).into_bytes()
}

impl Model {
    /// Applies an operation that succeeded.
    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Create(path, token) => drop(self.names.insert(path.clone(), Some(*token))),
            Operation::MakeDirectory(path) => drop(self.names.insert(path.clone(), None)),
            Operation::Remove(path) => drop(self.names.remove(path)),
            Operation::Rename(from, to) => {
                let moved = self.take(from);
                self.take(to);
                self.put(to, moved);
            }
            Operation::Exchange(one, other) => {
                let (first, second) = (self.take(one), self.take(other));
                self.put(other, first);
                self.put(one, second);
            }
            Operation::Move(..) | Operation::Drain(_) => {}
            Operation::Sync(_) | Operation::SyncAll => {}
        }
    }

    /// An entry with all below it; paths relative to it.
    fn take(&mut self, path: &str) -> Vec<(String, Option<u64>)> {
        let below = format!("{path}/");
        let is_in = |name: &&String| *name == path || name.starts_with(&below);
        let names: Vec<String> = self.names.keys().filter(is_in).cloned().collect();
        let take = |name: String| {
            let entry = self.names.remove(&name).unwrap_or_default();
            (name[path.len()..].to_owned(), entry)
        };
        names.into_iter().map(take).collect()
    }

    fn put(&mut self, path: &str, entries: Vec<(String, Option<u64>)>) {
        let whole = |(rest, entry)| (format!("{path}{rest}"), entry);
        self.names.extend(entries.into_iter().map(whole));
    }

    /// The path of a token's file.
    pub fn path_of(&self, token: u64) -> Option<&String> {
        self.names.iter().find(|(_, entry)| **entry == Some(token)).map(|(path, _)| path)
    }

    /// Whether it is a directory without names in it.
    pub(super) fn is_empty(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.names.get(path) == Some(&None) && !self.names.keys().any(|n| n.starts_with(&below))
    }
}
