//! Codes of results. MS-ERREF 2.3.1.

/// An NTSTATUS.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NtStatus(pub u32);

macro_rules! codes {
    ($($name:ident = $value:literal,)*) => {
        impl NtStatus {
            $(#[doc = concat!("STATUS_", stringify!($name), ".")]
            pub const $name: Self = Self($value);)*
        }

        const NAMES: &[(u32, &str)] = &[$(($value, stringify!($name)),)*];
    };
}

codes! {
    SUCCESS = 0x0000_0000,
    PENDING = 0x0000_0103,
    NOTIFY_CLEANUP = 0x0000_010b,
    NOTIFY_ENUM_DIR = 0x0000_010c,
    BUFFER_OVERFLOW = 0x8000_0005,
    NO_MORE_FILES = 0x8000_0006,
    STOPPED_ON_SYMLINK = 0x8000_002d,
    UNSUCCESSFUL = 0xc000_0001,
    NOT_IMPLEMENTED = 0xc000_0002,
    INVALID_INFO_CLASS = 0xc000_0003,
    INFO_LENGTH_MISMATCH = 0xc000_0004,
    INVALID_HANDLE = 0xc000_0008,
    INVALID_PARAMETER = 0xc000_000d,
    NO_SUCH_FILE = 0xc000_000f,
    INVALID_DEVICE_REQUEST = 0xc000_0010,
    END_OF_FILE = 0xc000_0011,
    MORE_PROCESSING_REQUIRED = 0xc000_0016,
    NO_MEMORY = 0xc000_0017,
    ACCESS_DENIED = 0xc000_0022,
    BUFFER_TOO_SMALL = 0xc000_0023,
    OBJECT_NAME_INVALID = 0xc000_0033,
    OBJECT_NAME_NOT_FOUND = 0xc000_0034,
    OBJECT_NAME_COLLISION = 0xc000_0035,
    OBJECT_PATH_INVALID = 0xc000_0039,
    OBJECT_PATH_NOT_FOUND = 0xc000_003a,
    OBJECT_PATH_SYNTAX_BAD = 0xc000_003b,
    SHARING_VIOLATION = 0xc000_0043,
    QUOTA_EXCEEDED = 0xc000_0044,
    EA_TOO_LARGE = 0xc000_0050,
    NONEXISTENT_EA_ENTRY = 0xc000_0051,
    NO_EAS_ON_FILE = 0xc000_0052,
    FILE_LOCK_CONFLICT = 0xc000_0054,
    LOCK_NOT_GRANTED = 0xc000_0055,
    DELETE_PENDING = 0xc000_0056,
    INVALID_OWNER = 0xc000_005a,
    INVALID_PRIMARY_GROUP = 0xc000_005b,
    PRIVILEGE_NOT_HELD = 0xc000_0061,
    LOGON_FAILURE = 0xc000_006d,
    NONE_MAPPED = 0xc000_0073,
    INVALID_ACL = 0xc000_0077,
    INVALID_SECURITY_DESCR = 0xc000_0079,
    RANGE_NOT_LOCKED = 0xc000_007e,
    DISK_FULL = 0xc000_007f,
    INSUFFICIENT_RESOURCES = 0xc000_009a,
    MEDIA_WRITE_PROTECTED = 0xc000_00a2,
    BAD_IMPERSONATION_LEVEL = 0xc000_00a5,
    INSTANCE_NOT_AVAILABLE = 0xc000_00ab,
    PIPE_NOT_AVAILABLE = 0xc000_00ac,
    INVALID_PIPE_STATE = 0xc000_00ad,
    PIPE_BUSY = 0xc000_00ae,
    PIPE_DISCONNECTED = 0xc000_00b0,
    FILE_CLOSED = 0xc000_0128,
    PIPE_EMPTY = 0xc000_00d9,
    INVALID_VIEW_SIZE = 0xc000_001f,
    INVALID_LOCK_RANGE = 0xc000_01a1,
    FILE_IS_A_DIRECTORY = 0xc000_00ba,
    NOT_SUPPORTED = 0xc000_00bb,
    NETWORK_NAME_DELETED = 0xc000_00c9,
    NETWORK_ACCESS_DENIED = 0xc000_00ca,
    BAD_NETWORK_NAME = 0xc000_00cc,
    REQUEST_NOT_ACCEPTED = 0xc000_00d0,
    NOT_SAME_DEVICE = 0xc000_00d4,
    FILE_RENAMED = 0xc000_00d5,
    INVALID_OPLOCK_PROTOCOL = 0xc000_00e3,
    UNEXPECTED_IO_ERROR = 0xc000_00e9,
    INTERNAL_ERROR = 0xc000_00e5,
    DIRECTORY_NOT_EMPTY = 0xc000_0101,
    NOT_A_DIRECTORY = 0xc000_0103,
    NAME_TOO_LONG = 0xc000_0106,
    FILES_OPEN = 0xc000_0107,
    TOO_MANY_OPENED_FILES = 0xc000_011f,
    CANCELLED = 0xc000_0120,
    CANNOT_DELETE = 0xc000_0121,
    FILE_DELETED = 0xc000_0123,
    CONNECTION_DISCONNECTED = 0xc000_020c,
    NOT_FOUND = 0xc000_0225,
    ACCOUNT_LOCKED_OUT = 0xc000_0234,
    CONNECTION_REFUSED = 0xc000_0236,
    USER_SESSION_DELETED = 0xc000_0203,
    CONNECTION_RESET = 0xc000_020d,
    NOT_A_REPARSE_POINT = 0xc000_0275,
    TOO_MANY_LINKS = 0xc000_0265,
    NETWORK_SESSION_EXPIRED = 0xc000_035c,
    SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP = 0xc05d_0000,
    HASH_NOT_SUPPORTED = 0xc000_a100,
    FILE_FORCED_CLOSED = 0xc000_00b6,
    DUPLICATE_OBJECTID = 0xc000_022a,
    FS_DRIVER_REQUIRED = 0xc000_019c,
    FILE_NOT_AVAILABLE = 0xc000_0467,
    SMB_GUEST_LOGON_BLOCKED = 0xc050_0001,
}

impl NtStatus {
    /// Whether it is an error, and its response has the body of an ERROR (MS-SMB2 2.2.2).
    pub const fn is_error(self) -> bool {
        self.0 >> 30 == 3
    }
}

impl std::fmt::Display for NtStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match NAMES.iter().find(|(value, _)| *value == self.0) {
            Some((_, name)) => write!(f, "STATUS_{name}"),
            None => write!(f, "NTSTATUS {:#010x}", self.0),
        }
    }
}

impl std::fmt::Debug for NtStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_and_pending_are_no_errors() {
        for status in [NtStatus::SUCCESS, NtStatus::PENDING, NtStatus::BUFFER_OVERFLOW] {
            assert!(!status.is_error(), "{status}");
        }
        assert!(NtStatus::ACCESS_DENIED.is_error());
        assert_eq!(NtStatus::END_OF_FILE.to_string(), "STATUS_END_OF_FILE");
        assert_eq!(NtStatus(0xc000_1234).to_string(), "NTSTATUS 0xc0001234");
    }

    #[test]
    fn each_code_is_in_the_list_once() {
        let mut values: Vec<_> = NAMES.iter().map(|(value, _)| value).collect();
        values.sort_unstable();
        assert!(values.is_sorted_by(|a, b| a < b));
    }
}
