//! One suite of the guarantees of a store, run with both: `local::…` and `memory::…`.

mod faults;
mod harness;
mod model;
mod promises;

macro_rules! conformance {
    ($($module:ident::$name:ident),* $(,)?) => {
        mod local {
            use crate::conformance::{self, harness::Harness};
            $( #[test] fn $name() { conformance::$module::$name(&mut Harness::local()) } )*
        }
        mod memory {
            use crate::conformance::{self, harness::Harness};
            $( #[test] fn $name() { conformance::$module::$name(&mut Harness::memory()) } )*
        }
    };
}

conformance! {
    promises::an_absent_object_is_an_error_not_zeros,
    promises::what_is_written_is_read_back_with_zeros_between,
    promises::a_created_object_keeps_its_first_record,
    promises::an_object_is_made_once,
    promises::a_layout_too_long_for_the_record_is_refused,
    promises::records_and_data_survive_a_restart,
    promises::an_older_size_generation_is_refused,
    promises::truncate_cuts_and_grows_with_zeros,
    promises::a_size_change_done_twice_is_done_once,
    promises::punch_reads_as_zeros_and_keeps_the_size,
    promises::a_size_change_of_an_absent_object_refuses_late_writers,
    promises::holes_and_data_are_found,
    promises::allocate_grows_and_reads_as_zeros,
    promises::a_copy_of_an_object_is_what_a_write_would_be,
    promises::offsets_past_the_largest_file_are_refused,
    promises::delete_is_idempotent,
    promises::listing_resumes_at_every_page_size,
    promises::lost_and_found_keeps_the_object_out_of_the_way,
    promises::the_daemon_is_named_once,
    promises::space_is_counted_by_device,
    promises::a_flush_of_what_is_durable_costs_no_disk,
    promises::many_objects_are_flushed_with_one_sync,
    promises::names_that_are_durable_cost_no_disk,
    promises::a_flushed_object_that_is_cut_by_hand_has_lost_its_end,
    promises::only_what_was_flushed_is_missed,
    faults::every_failed_operation_is_reported_and_nothing_flushed_is_lost,
    faults::short_reads_and_writes_are_not_seen,
    faults::a_failed_flush_changes_the_verifier,
    faults::a_failed_directory_sync_changes_the_verifier,
    faults::a_full_disk_says_so_and_the_store_lives_on,
    faults::a_read_only_disk_says_so_and_reads_go_on,
    faults::killed_at_each_step_of_a_truncate,
    faults::killed_at_each_step_of_a_punch,
    faults::killed_at_each_step_of_a_creation,
    faults::a_size_change_that_failed_is_finished_before_the_next_write,
    faults::a_refused_size_change_leaves_the_object_as_it_was,
    faults::a_change_left_pending_by_a_kill_that_is_refused_is_taken_back,
}
