//! Loss of power under mounts: lost writes are reported, and forced data is there.

mod databases;
mod everything;
mod forced;
mod losses;

use crate::yard::OwnCase;

pub const CASES: &[OwnCase] = &[
    OwnCase { name: "power::lost_writes_are_told_once_for_each_open_file", run: losses::told },
    OwnCase {
        name: "power::a_killed_daemon_loses_nothing_and_nothing_is_told",
        run: losses::nothing_lost,
    },
    OwnCase { name: "power::what_was_forced_is_there", run: forced::there },
    OwnCase {
        name: "power::a_sync_of_the_mount_point_covers_files_that_were_closed",
        run: everything::there,
    },
    OwnCase {
        name: "power::a_sync_of_the_mount_point_tells_of_lost_writes_to_closed_files_once",
        run: everything::told,
    },
    OwnCase {
        name: "power::sqlite_keeps_every_transaction_that_it_acknowledged",
        run: databases::run,
    },
];
