//! Between a list and what POSIX can express: the mode and a POSIX access list.
//!
//! The view of a list is what the kernel of a mount checks (`default_permissions`), so it must not
//! allow anything that the list denies. Where a list depends on memberships that a class does not
//! know, the view assumes the worst: an entry that denies a group counts for everyone that may be a
//! member, and one that allows a group counts for nobody else.

use super::{Ace, AceKind, Nfs4Acl, Who, ace_mask, bits_of_mask, mask_of_bits};

/// Permissions that everybody has in POSIX, and that a mapped list shows.
const ANYONE: u32 = ace_mask::READ_ATTRIBUTES | ace_mask::READ_ACL | ace_mask::SYNCHRONIZE;
/// Permissions that the owner has in POSIX besides.
const OWNER: u32 = ANYONE | ace_mask::WRITE_ATTRIBUTES | ace_mask::WRITE_ACL;

/// A POSIX access list: the bits 4, 2 and 1 of each class. Ids ascend, each once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PosixView {
    /// The owner.
    pub owner: u8,
    /// The file's group.
    pub group: u8,
    /// All others.
    pub other: u8,
    /// The upper bound for the group, named users and named groups: the group bits of the mode.
    pub mask: u8,
    /// Ids and bits of named users.
    pub users: Vec<(u64, u8)>,
    /// Ids and bits of named groups.
    pub groups: Vec<(u64, u8)>,
}

impl PosixView {
    /// Of a mode: nobody is named.
    pub fn of_mode(mode: u16) -> Self {
        let bits = |shift: u16| (mode >> shift & 7) as u8;
        let (owner, group, other) = (bits(6), bits(3), bits(0));
        Self { owner, group, other, mask: group, ..Self::default() }
    }

    /// The low nine bits of the mode.
    pub fn mode(&self) -> u16 {
        u16::from(self.owner) << 6 | u16::from(self.mask) << 3 | u16::from(self.other)
    }

    /// Whether somebody is named. Otherwise the mode says everything.
    pub fn names_anybody(&self) -> bool {
        !self.users.is_empty() || !self.groups.is_empty()
    }
}

impl Nfs4Acl {
    /// The list that means the same as a POSIX one, as Linux's NFS server shows it. `flags` are
    /// those of each entry. One difference remains: a member of two groups gets what both allow
    /// together, while POSIX asks that one of them allows everything.
    ///
    /// At most three entries for each class and named principal.
    pub fn from_posix(list: &PosixView, is_directory: bool, flags: u8) -> Vec<Ace> {
        let mask = |bits: u8| mask_of_bits(bits, is_directory);
        let named = |all: &[(u64, u8)], who: fn(u64) -> Who| {
            all.iter().map(|(id, bits)| (who(*id), bits & list.mask)).collect::<Vec<_>>()
        };
        let users = named(&list.users, Who::User);
        let mut groups = vec![(Who::OwningGroup, list.group & list.mask)];
        groups.extend(named(&list.groups, Who::Group));
        let union = |all: &[(Who, u8)]| all.iter().fold(0, |bits, (_, more)| bits | more);
        let after_users = union(&groups) | list.other;

        let mut aces = vec![Ace::allow(Who::Owner, mask(list.owner) | OWNER)];
        let deny = |aces: &mut Vec<Ace>, who: Who, bits: u8| {
            if bits != 0 {
                aces.push(Ace::deny(who, mask(bits)));
            }
        };
        deny(&mut aces, Who::Owner, (union(&users) | after_users) & !list.owner);
        for (who, bits) in users {
            aces.push(Ace::allow(who, mask(bits) | ANYONE));
            deny(&mut aces, who, after_users & !bits);
        }
        aces.extend(groups.iter().map(|(who, bits)| Ace::allow(*who, mask(*bits) | ANYONE)));
        groups.iter().for_each(|(who, bits)| deny(&mut aces, *who, list.other & !bits));
        aces.push(Ace::allow(Who::Everyone, mask(list.other) | ANYONE));
        aces.iter_mut().for_each(|ace| ace.flags = flags);
        aces
    }

    /// What POSIX can express of the list. Invariant 4: it is never more than the list allows.
    /// `owner` and `group` are the ids of the file's owner and group.
    ///
    /// The mask is the union of all named users and groups with `GROUP@`, as in a POSIX list
    /// (RFC 8881 6.3.2.1 mentions such servers). If it is empty, Linux does not look at a POSIX
    /// list at all and gives named users the bits of all others; those are empty then, too.
    pub fn posix_view(&self, owner: u64, group: u64, is_directory: bool) -> PosixView {
        let lower = |is: &dyn Fn(Who) -> bool, may_be: &dyn Fn(Who) -> bool| {
            bits_of_mask(self.surely_allowed(is, may_be), is_directory)
        };
        let is_group = |who: Who| matches!(who, Who::OwningGroup | Who::Group(_));
        let is_user = |id: u64| move |who: Who| who == Who::Everyone || who == Who::User(id);
        let is_member = move |who: Who| {
            matches!(who, Who::OwningGroup | Who::Everyone) || who == Who::Group(group)
        };
        let everyone = |who: Who| who == Who::Everyone;
        let nobody = |_: Who| false;

        let mut named: Vec<Who> =
            self.effective().map(|ace| ace.who).filter(|who| who.is_named()).collect();
        named.sort_unstable();
        named.dedup();
        let mut view = PosixView {
            owner: lower(&|who| who == Who::Owner || is_user(owner)(who), &is_group),
            group: lower(&is_member, &is_group),
            other: lower(&everyone, &nobody),
            ..PosixView::default()
        };
        // RFC 8881 6.3.2: only GROUP@ and EVERYONE@ count.
        view.mask = lower(&|who| matches!(who, Who::OwningGroup | Who::Everyone), &nobody);
        for who in named {
            match who {
                Who::User(id) => view.users.push((id, lower(&is_user(id), &is_group))),
                Who::Group(id) if id == group => view.groups.push((id, view.group)),
                Who::Group(id) => {
                    let is = |who: Who| who == Who::Everyone || who == Who::Group(id);
                    view.groups.push((id, lower(&is, &is_group)));
                }
                _ => {}
            }
        }
        let all = view.users.iter().chain(&view.groups);
        view.mask |= all.fold(view.group, |mask, (_, bits)| mask | bits);
        if view.mask == 0 && view.names_anybody() {
            view.other = 0;
        }
        view
    }

    /// The bits that the list allows to everybody that `is` describes, whatever else they are of
    /// what `may_be` describes.
    fn surely_allowed(&self, is: &dyn Fn(Who) -> bool, may_be: &dyn Fn(Who) -> bool) -> u32 {
        let (mut allowed, mut decided) = (0, 0);
        for ace in self.effective() {
            match ace.kind {
                AceKind::Allow if is(ace.who) => {
                    allowed |= ace.mask & !decided;
                    decided |= ace.mask;
                }
                AceKind::Deny if is(ace.who) || may_be(ace.who) => decided |= ace.mask,
                _ => {}
            }
        }
        allowed
    }
}
