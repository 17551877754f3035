//! Loss of power under mounts: lost writes are reported, and forced data is there.

mod all_disks;
mod databases;
mod forced;
mod write_errors;

use crate::scratch_cluster::ScratchCase;

pub const CASES: &[ScratchCase] = &[
    ScratchCase {
        name: "power::lost_writes_are_reported_once_for_each_open_file",
        run: write_errors::reported,
    },
    ScratchCase {
        name: "power::a_killed_daemon_loses_no_data_and_no_error_is_reported",
        run: write_errors::nothing_lost,
    },
    ScratchCase { name: "power::what_was_forced_is_there", run: forced::there },
    ScratchCase {
        name: "power::a_sync_of_the_mount_point_covers_closed_files",
        run: all_disks::there,
    },
    ScratchCase {
        name: "power::a_sync_of_the_mount_point_reports_lost_writes_once",
        run: all_disks::reports_loss,
    },
    ScratchCase {
        name: "power::sqlite_keeps_every_transaction_that_it_acknowledged",
        run: databases::run,
    },
];
