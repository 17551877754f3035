//! The anonymous user. exports(5).

use braid_share::Identity;

use crate::config::{ExportConfig, Squash};

/// The identity with which `caller` acts in an export; `None`: its own.
pub(super) fn squash(config: &ExportConfig, caller: &Identity) -> Option<Identity> {
    let (uid, gid) = (u64::from(config.anonymous_uid), u64::from(config.anonymous_gid));
    match config.squash {
        Squash::None => None,
        Squash::All => Some(Identity { uid, gid, groups: Vec::new(), checked: false }),
        Squash::Root => {
            let squashed = |id: u64, other: u64| if id == 0 { other } else { id };
            let concerned = caller.uid == 0 || caller.gid == 0 || caller.groups.contains(&0);
            concerned.then(|| Identity {
                uid: squashed(caller.uid, uid),
                gid: squashed(caller.gid, gid),
                groups: caller.groups.iter().map(|group| squashed(*group, gid)).collect(),
                checked: false,
            })
        }
    }
}
