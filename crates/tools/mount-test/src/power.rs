//! Loss of power under mounts: lost writes are reported, and forced data is there.

mod databases;
mod everything;
mod forced;
mod losses;

use crate::yard::OwnCase;

pub const CASES: &[OwnCase] = &[
    OwnCase {
        name: "power::lost_writes_are_reported_once_for_each_open_file",
        run: losses::reported,
    },
    OwnCase {
        name: "power::a_killed_daemon_loses_no_data_and_no_error_is_reported",
        run: losses::nothing_lost,
    },
    OwnCase { name: "power::what_was_forced_is_there", run: forced::there },
    OwnCase {
        name: "power::a_sync_of_the_mount_point_covers_closed_files",
        run: everything::there,
    },
    OwnCase {
        name: "power::a_sync_of_the_mount_point_reports_lost_writes_once",
        run: everything::reports_loss,
    },
    OwnCase {
        name: "power::sqlite_keeps_every_transaction_that_it_acknowledged",
        run: databases::run,
    },
];
