//! SMB users as users of this host (nsswitch.conf(5)): the users file proves who logs on, the host
//! says what that user may.
//!
//! | name in the users file | acts as |
//! |---|---|
//! | that of a user of this host | that user, with all its groups |
//! | any other | cannot log on; the log says why |
//! | no name, at a share for guests | user and group 65534 |

use std::io;

use braid_share::Identity;
use braid_smb::{NoUser, User, Users};
use braid_smb_wire::auth::ntlm::NtHash;

use super::users_file::WatchedFile;
use crate::output::quoted;

/// User and group of guests, as the anonymous user of NFS.
const ANONYMOUS: u64 = 65534;

/// The users of a file.
#[derive(Debug)]
pub struct FileUsers(pub WatchedFile);

impl Users for FileUsers {
    fn user(&self, name: &str) -> Result<(NtHash, User), NoUser> {
        let found = self.0.find(name);
        let found =
            found.map_err(|fault| NoUser::Unusable(format!("no SMB user can log on: {fault}")))?;
        let entry = found.ok_or(NoUser::Unknown)?;
        let name = &entry.name;
        let unusable = |why: String| NoUser::Unusable(format!("{name} cannot log on: {why}"));
        match host_user(name) {
            Ok(Some(user)) => Ok((entry.hash, user)),
            Ok(None) => Err(unusable(format!(
                "no user of this host has that name; try: useradd {}",
                quoted(name)
            ))),
            Err(error) => Err(unusable(format!("the user database: {error}; try: getent passwd"))),
        }
    }

    fn guest(&self) -> User {
        let identity =
            Identity { uid: ANONYMOUS, gid: ANONYMOUS, groups: Vec::new(), checked: false };
        User { name: "guest".to_owned(), identity, groups: Vec::new() }
    }
}

/// The user of this host with this name.
///
/// # Errors
/// The database does not answer.
#[cfg(target_os = "linux")]
pub fn host_user(name: &str) -> io::Result<Option<User>> {
    use std::ffi::CString;

    use nix::unistd::{Group, getgrouplist};

    use crate::nfs::found;
    let Some(user) = found(nix::unistd::User::from_name(name))? else { return Ok(None) };
    let ids = getgrouplist(&CString::new(name)?, user.gid)?;
    let mut groups = Vec::new();
    for id in &ids {
        // A group without a name is in no list of a share.
        groups.extend(found(Group::from_gid(*id))?.map(|group| group.name));
    }
    let (uid, gid) = (user.uid.as_raw().into(), u64::from(user.gid.as_raw()));
    let others = ids.iter().map(|id| u64::from(id.as_raw())).filter(|id| *id != gid);
    let identity = Identity { uid, gid, groups: others.collect(), checked: false };
    Ok(Some(User { name: name.to_owned(), identity, groups }))
}

/// Only Linux has a user database that is read here.
#[cfg(not(target_os = "linux"))]
pub fn host_user(_: &str) -> io::Result<Option<User>> {
    Ok(None)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::smb::users_file::{Entry, update};

    #[test]
    fn users_have_the_numbers_and_groups_of_this_host() {
        let root = host_user("root").unwrap().unwrap();
        assert_eq!((root.identity.uid, root.identity.gid), (0, 0));
        assert!(root.groups.iter().any(|group| group == "root"), "{:?}", root.groups);
        assert!(!root.identity.groups.contains(&0), "the group is not named twice");
        assert!(host_user("no-such-user").unwrap().is_none());
    }

    #[test]
    fn only_users_of_the_file_and_of_the_host_log_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        update(&path, |entries| {
            let names = ["root", "no-such-user"].map(str::to_owned);
            entries.extend(names.map(|name| Entry { name, hash: NtHash([7; 16]) }));
            Ok(())
        })
        .unwrap();
        let users = FileUsers(WatchedFile::open(path).unwrap());
        let (hash, root) = users.user("ROOT").unwrap();
        assert_eq!((hash.0, root.name.as_str(), root.identity.uid), ([7; 16], "root", 0));
        let unusable = users.user("no-such-user").unwrap_err();
        assert!(matches!(unusable, NoUser::Unusable(_)), "of the file alone: {unusable:?}");
        assert_eq!(users.user("daemon").unwrap_err(), NoUser::Unknown, "of the host alone");
        assert_eq!(users.guest().identity.uid, 65534);
    }
}
