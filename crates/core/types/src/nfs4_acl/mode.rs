//! Changes of the mode of a file that has a list: RFC 8881 6.4.1.1.

use super::{Ace, AceKind, AclError, Nfs4Acl, Who, ace_flag, mask_of_bits};

/// The bits 4, 2 and 1 of the owner, the group and all others.
#[derive(Clone, Copy)]
struct Classes {
    owner: u8,
    group: u8,
    other: u8,
}

impl Classes {
    fn of(mode: u16) -> Self {
        let bits = |shift: u16| (mode >> shift & 7) as u8;
        Self { owner: bits(6), group: bits(3), other: bits(0) }
    }
}

impl Nfs4Acl {
    /// The list after `chmod`. `OWNER@`, `GROUP@` and `EVERYONE@` get exactly the bits of the mode;
    /// named users and groups keep at most the group's (RFC 8881 6.4.1.1). Other permissions, and
    /// what new files inherit, stay. A lost permission does not return with the next `chmod`.
    ///
    /// # Errors
    /// [`AclError::TooLong`].
    pub fn with_mode(&self, mode: u16, is_directory: bool) -> Result<Self, AclError> {
        let classes = Classes::of(mode);
        let Classes { owner, group, other } = classes;
        let mask = |bits: u8| mask_of_bits(bits, is_directory);
        let (all, kept) = (mask(7), mask(group));
        let (effective, inherited) = self.split();

        let mut new = vec![Ace::allow(Who::Owner, mask(owner))];
        new.push(Ace::deny(Who::Owner, mask((group | other) & !owner)));
        new.extend(effective.iter().map(|ace| Ace {
            mask: match (ace.who.is_named(), ace.kind) {
                (false, _) => ace.mask & !all,
                (true, AceKind::Allow) => ace.mask & (kept | !all),
                (true, AceKind::Deny) => ace.mask,
            },
            ..*ace
        }));
        let more = mask(other & !group);
        for ace in effective.iter().filter(|ace| ace.who.is_named()) {
            let deny = Ace::deny(ace.who, more);
            if !new.contains(&deny) {
                new.push(deny);
            }
        }
        new.push(Ace::allow(Who::OwningGroup, mask(group)));
        new.push(Ace::deny(Who::OwningGroup, more));
        new.push(Ace::allow(Who::Everyone, mask(other)));
        Self::joined(new, inherited)
    }

    /// The list of a new file that inherited this one and was created with a mode: each class gets
    /// what both grant, as with a POSIX default list. Nobody gets more than the list grants.
    ///
    /// RFC 8881 6.4.3 applies the mode as `chmod` does, which would open a file to all that its
    /// directory keeps from them: most programs create with mode 0666.
    pub(super) fn restricted(&self, mode: u16, is_directory: bool) -> Result<Self, AclError> {
        let Classes { owner, group, other } = Classes::of(mode);
        let mask = |bits: u8| mask_of_bits(bits, is_directory);
        let all = mask(7);
        let (effective, inherited) = self.split();
        let mut body = Vec::with_capacity(effective.len());
        for ace in &effective {
            let within = |bits: u8| Ace { mask: ace.mask & (mask(bits) | !all), ..*ace };
            match (ace.kind, ace.who) {
                (AceKind::Deny, _) => body.push(*ace),
                (_, Who::Owner) => body.push(within(owner)),
                (_, Who::Everyone) => {
                    let more = ace.mask & !mask(other);
                    body.push(Ace { who: Who::Owner, mask: more & mask(owner), ..*ace });
                    body.push(Ace { who: Who::OwningGroup, mask: more & mask(group), ..*ace });
                    body.push(within(other));
                }
                _ => body.push(within(group)),
            }
        }
        let allowed = |is: &dyn Fn(Who) -> bool| {
            let of = |ace: &&Ace| ace.kind == AceKind::Allow && is(ace.who);
            body.iter().filter(of).fold(0, |mask, ace| mask | ace.mask)
        };
        let of_others = allowed(&|who| who != Who::Owner) & all & !mask(owner);
        let of_everyone = allowed(&|who| who == Who::Everyone) & all & !mask(group);
        let mut new = vec![Ace::deny(Who::Owner, of_others)];
        let classed = effective.iter().map(|ace| ace.who).filter(|who| who.is_named());
        for who in std::iter::once(Who::OwningGroup).chain(classed) {
            let deny = Ace::deny(who, of_everyone);
            if !new.contains(&deny) {
                new.push(deny);
            }
        }
        new.append(&mut body);
        new.retain(|ace| ace.mask != 0);
        if new == effective {
            // The mode takes nothing away: the entries need not be split.
            return Ok(self.clone());
        }
        Self::joined(new, inherited)
    }

    /// What applies to the file, without flags, and what only new files inherit.
    pub(super) fn split(&self) -> (Vec<Ace>, Vec<Ace>) {
        let effective = self.effective().map(|ace| Ace { flags: 0, ..*ace }).collect();
        let inherited = self.aces.iter().filter(|ace| ace.inherits());
        let only = |ace: &Ace| Ace { flags: ace.flags | ace_flag::INHERIT_ONLY, ..*ace };
        (effective, inherited.map(only).collect())
    }

    /// A list of both, without entries that have no effect.
    pub(super) fn joined(mut aces: Vec<Ace>, inherited: Vec<Ace>) -> Result<Self, AclError> {
        aces.retain(|ace| ace.mask != 0);
        aces.extend(inherited);
        Self::bounded(aces)
    }
}
