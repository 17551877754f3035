//! Which body a response has. MS-SMB2 3.3.4.4.

use super::Command;
use crate::status::NtStatus;

/// Whether a final response with this status has an [`ErrorBody`](super::ErrorBody). So have all
/// statuses but success (also warnings such as `STATUS_NO_MORE_FILES`), and `STATUS_PENDING` of an
/// interim response, with the exceptions of 3.3.4.4.
///
/// `STATUS_INVALID_PARAMETER` of an IOCTL counts as an error here. A server copy that exceeds the
/// limits has that status with the body of an IOCTL; `StructureSize` shows which it is.
pub fn has_error_body(command: Command, status: NtStatus) -> bool {
    match status {
        NtStatus::SUCCESS => false,
        NtStatus::MORE_PROCESSING_REQUIRED => command != Command::SessionSetup,
        NtStatus::BUFFER_OVERFLOW => {
            !matches!(command, Command::Ioctl | Command::QueryInfo | Command::Read)
        }
        NtStatus::NOTIFY_ENUM_DIR => command != Command::ChangeNotify,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_statuses_beside_success_have_the_body_of_the_command() {
        let setup = NtStatus::MORE_PROCESSING_REQUIRED;
        assert!(!has_error_body(Command::SessionSetup, setup));
        assert!(has_error_body(Command::SessionSetup, NtStatus::LOGON_FAILURE));
        assert!(!has_error_body(Command::QueryInfo, NtStatus::BUFFER_OVERFLOW));
        assert!(has_error_body(Command::QueryDirectory, NtStatus::NO_MORE_FILES));
        assert!(!has_error_body(Command::ChangeNotify, NtStatus::NOTIFY_ENUM_DIR));
        assert!(has_error_body(Command::ChangeNotify, NtStatus::PENDING));
        assert!(has_error_body(Command::Create, NtStatus::STOPPED_ON_SYMLINK));
        let without = |command| !has_error_body(command, NtStatus::SUCCESS);
        assert!(Command::ALL.into_iter().all(without));
    }
}
