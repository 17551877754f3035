//! The numbers by which the metadata server knows identities.
//!
//! A server knows a limited number of them for each connection. If all are used, the unused number
//! that was requested longest ago is given to a new identity. Defining a number again replaces its
//! meaning.
//!
//! Invariant: a number means the same identity as long as its [`IdentityNumber`] exists. Every
//! caller and open file has one, and so does every call in flight.

use std::{collections::HashMap, sync::Arc};

use braid_types::Status;
use braid_wire::message::types::Identity;

use crate::error::{Error, Result};

/// Numbers of one client: somewhat fewer than a server knows.
const NUMBERS_MAX: usize = 4_000;

/// The identity of the connection, or another one by its number.
#[derive(Clone, Default, Debug)]
pub(crate) struct IdentityNumber(Option<Arc<u32>>);

impl IdentityNumber {
    /// 0: the identity of the connection; else a number of
    /// [`braid_wire::message::mds::DefineIdentity`].
    pub(crate) fn number(&self) -> u32 {
        self.0.as_deref().copied().unwrap_or(0)
    }
}

/// The meaning of a number at one time. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NumberVersion(u64);

/// An identity as a map key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Key {
    uid: u64,
    gid: u64,
    groups: Vec<u64>,
    checked: bool,
}

#[derive(Debug)]
struct NumberedIdentity {
    named: Arc<u32>,
    /// When it was last requested.
    used: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Identities {
    known: HashMap<Key, NumberedIdentity>,
    /// From number 1.
    numbers: Vec<(Key, NumberVersion)>,
    /// Counts requests for numbers.
    asked: u64,
}

impl Identities {
    /// The number of an identity. The server learns it with the first call.
    pub(crate) fn number_for(&mut self, identity: Identity) -> Result<IdentityNumber> {
        let Identity { uid, gid, groups, checked } = identity;
        let key = Key { uid, gid, groups, checked };
        self.asked += 1;
        if let Some(known) = self.known.get_mut(&key) {
            known.used = self.asked;
            return Ok(IdentityNumber(Some(Arc::clone(&known.named))));
        }
        let meaning = (key.clone(), NumberVersion(self.asked));
        let number = if self.numbers.len() < NUMBERS_MAX {
            self.numbers.push(meaning);
            self.numbers.len() as u32
        } else {
            let number = self.free()?;
            self.numbers[number as usize - 1] = meaning;
            number
        };
        let named = Arc::new(number);
        self.known.insert(key, NumberedIdentity { named: Arc::clone(&named), used: self.asked });
        Ok(IdentityNumber(Some(named)))
    }

    /// The identity of a number, if any.
    pub(crate) fn identity_of(&self, number: u32) -> Option<(NumberVersion, Identity)> {
        let (key, meaning) = self.numbers.get((number as usize).checked_sub(1)?)?;
        let Key { uid, gid, groups, checked } = key.clone();
        Some((*meaning, Identity { uid, gid, groups, checked }))
    }

    /// A number that nobody holds.
    fn free(&mut self) -> Result<u32> {
        let unheld = self.known.iter().filter(|(_, known)| Arc::strong_count(&known.named) == 1);
        let oldest = unheld.min_by_key(|(_, known)| known.used).map(|(key, _)| key.clone());
        let known = oldest.and_then(|key| self.known.remove(&key));
        let crowded =
            || Error::new(Status::LimitExceeded, "this client uses too many identities at a time");
        known.map(|known| *known.named).ok_or_else(crowded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u64) -> Identity {
        Identity { uid, gid: 0, groups: Vec::new(), checked: true }
    }

    fn who(identities: &Identities, named: &IdentityNumber) -> u64 {
        identities.identity_of(named.number()).unwrap().1.uid
    }

    #[test]
    fn a_number_is_reused_only_when_nobody_holds_it() {
        let mut identities = Identities::default();
        let held: Vec<IdentityNumber> = (0..NUMBERS_MAX as u64 - 2)
            .map(|uid| identities.number_for(user(uid)).unwrap())
            .collect();
        for uid in 10_000..20_000 {
            let named = identities.number_for(user(uid)).unwrap();
            assert_eq!(who(&identities, &named), uid);
            assert!(named.number() as usize > held.len() && named.number() as usize <= NUMBERS_MAX);
        }
        assert!((0..).zip(&held).all(|(uid, named)| who(&identities, named) == uid));
        assert_eq!(identities.number_for(user(0)).unwrap().number(), held[0].number());
    }

    #[test]
    fn the_longest_unused_number_is_reused_and_none_while_all_are_held() {
        let mut identities = Identities::default();
        (0..NUMBERS_MAX as u64).for_each(|uid| _ = identities.number_for(user(uid)).unwrap());
        let first = identities.number_for(user(0)).unwrap().number();
        let second = identities.number_for(user(1)).unwrap().number();
        assert_eq!(identities.number_for(user(10_000)).unwrap().number(), second + 1);
        let before = identities.identity_of(first).unwrap().0;
        let _held: Vec<IdentityNumber> = (20_000..)
            .map_while(|uid| identities.number_for(user(uid)).ok())
            .take(NUMBERS_MAX)
            .collect();
        assert_ne!(identities.identity_of(first).unwrap().0, before);
        assert_eq!(identities.number_for(user(5)).unwrap_err().status(), Status::LimitExceeded);
    }
}
