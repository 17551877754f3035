//! Attributes of BraidFS as those of MS-FSCC, and back.
//!
//! DOS attributes are stored once a client sets them ([`braid_share::dos_attributes`]). Before that
//! they follow from the kind and the name of a file: a name that begins with a dot is HIDDEN.
//! READONLY of a file always follows from its mode: nobody may write it.

use braid_share::{
    AttributeChanges, Attributes, FileKind, SetTime, StatFsReply, Timestamp,
    dos_attributes as stored,
};
use braid_smb_wire::filetime::{FileTime, TimeChange};
use braid_smb_wire::fscc::{Entry, FileAttributes, FileFacts, FsAttributes, VolumeFacts};

/// Permission bits to write.
const WRITE_BITS: u32 = 0o222;
/// The owner's.
const OWNER_WRITE_BIT: u32 = 0o200;
/// Bytes of a sector.
const SECTOR_BYTES: u32 = 512;
/// Sectors of a unit of a volume.
const SECTORS_PER_UNIT: u32 = 8;
/// Characters of a name.
const NAME_CHARACTERS_MAX: u32 = 255;

/// A time as clients know it.
pub fn file_time(time: Timestamp) -> FileTime {
    FileTime::from_unix(time.seconds, time.nanos)
}

/// DOS attributes of a file with this name.
pub fn dos_attributes(known: &Attributes, name: &[u8]) -> FileAttributes {
    let mut attributes = match known.flags & stored::STORED {
        0 => implied_attributes(known.kind, name),
        _ => FileAttributes(known.flags & !stored::STORED),
    };
    match known.kind {
        FileKind::Directory => attributes = attributes.with(FileAttributes::DIRECTORY),
        FileKind::File if known.mode & WRITE_BITS == 0 => {
            attributes = attributes.with(FileAttributes::READONLY);
        }
        _ => {}
    }
    // MS-FSCC 2.6: NORMAL stands alone.
    if attributes == FileAttributes::default() { FileAttributes::NORMAL } else { attributes }
}

/// Those of a file that has none stored.
fn implied_attributes(kind: FileKind, name: &[u8]) -> FileAttributes {
    let attributes = match kind {
        FileKind::File | FileKind::Symlink => FileAttributes::ARCHIVE,
        _ => FileAttributes::default(),
    };
    let is_dot_file = name.starts_with(b".") && !matches!(name, b"." | b"..");
    if is_dot_file { attributes.with(FileAttributes::HIDDEN) } else { attributes }
}

/// Bytes of a file, and its bytes on disks. Directories and special files have none.
fn sizes(known: &Attributes) -> (u64, u64) {
    match known.kind {
        FileKind::File => (known.bytes.0, known.bytes_used.0),
        _ => (0, 0),
    }
}

/// What a server knows of a file with this name in its directory. The path, the open and its volume
/// are not filled.
pub fn facts(known: &Attributes, name: &[u8]) -> FileFacts {
    let (end_of_file, allocation_bytes) = sizes(known);
    let directory = known.kind == FileKind::Directory;
    FileFacts {
        creation: file_time(known.btime),
        last_access: file_time(known.atime),
        last_write: file_time(known.mtime),
        change: file_time(known.ctime),
        attributes: dos_attributes(known, name),
        end_of_file,
        allocation_bytes,
        // A directory has one name; Unix counts those in it that lead to it, too.
        links: if directory { 1 } else { known.links },
        directory,
        file_id: known.file.0,
        ..FileFacts::default()
    }
}

/// What a server knows of a named stream: its size, which `known` has, and all else of its file. A
/// stream of a directory is no directory (MS-FSA 2.1.5.12.6).
pub fn stream_facts(known: &Attributes, name: &[u8]) -> FileFacts {
    let of_file = facts(known, name);
    let attributes = of_file.attributes.without(FileAttributes::DIRECTORY);
    let is_none = attributes == FileAttributes::default();
    FileFacts {
        attributes: if is_none { FileAttributes::NORMAL } else { attributes },
        end_of_file: known.bytes.0,
        allocation_bytes: known.bytes_used.0,
        directory: false,
        ..of_file
    }
}

/// The entry of a directory.
pub fn entry(known: &Attributes, name: String) -> Entry {
    let (end_of_file, allocation_bytes) = sizes(known);
    Entry {
        creation: file_time(known.btime),
        last_access: file_time(known.atime),
        last_write: file_time(known.mtime),
        change: file_time(known.ctime),
        end_of_file,
        allocation_bytes,
        attributes: dos_attributes(known, name.as_bytes()),
        file_id: known.file.0,
        name,
        ..Entry::default()
    }
}

/// The serial number of a file system's volume. MS-FSCC 2.4.23.
pub fn volume_serial(file_system: braid_share::FileSystemId) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = file_system.0;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// What a server knows of the volume behind a share with this name.
pub fn volume(
    share: &str,
    file_system: braid_share::FileSystemId,
    space: &StatFsReply,
    is_read_only: bool,
) -> VolumeFacts {
    let unit_bytes = u64::from(SECTOR_BYTES * SECTORS_PER_UNIT);
    let mut attributes = FsAttributes::CASE_SENSITIVE_SEARCH
        .with(FsAttributes::CASE_PRESERVED_NAMES)
        .with(FsAttributes::UNICODE_ON_DISK)
        .with(FsAttributes::SUPPORTS_SPARSE_FILES)
        .with(FsAttributes::SUPPORTS_HARD_LINKS)
        .with(FsAttributes::SUPPORTS_EXTENDED_ATTRIBUTES);
    if is_read_only {
        attributes = attributes.with(FsAttributes::READ_ONLY_VOLUME);
    }
    VolumeFacts {
        creation: FileTime::default(),
        // MS-FSCC 2.5.9: 32 bits of it.
        serial: volume_serial(file_system) as u32,
        label: share.to_owned(),
        total_units: space.total.0 / unit_bytes,
        available_units: space.free.0 / unit_bytes,
        caller_available_units: space.available.0 / unit_bytes,
        sectors_per_unit: SECTORS_PER_UNIT,
        bytes_per_sector: SECTOR_BYTES,
        attributes,
        name_characters_max: NAME_CHARACTERS_MAX,
        // Programs look for this name before they use what it stands for, as they do at Samba's.
        file_system: "NTFS".to_owned(),
        object_id: file_system.0,
    }
}

/// The time that a client sets; `None` if it sets none. Times that freeze are not there yet (step 4
/// of ADR 0052).
pub fn set_time(change: TimeChange) -> Option<SetTime> {
    let TimeChange::Set(time) = change else { return None };
    let (seconds, nanos) = time.to_unix();
    Some(SetTime { time: Some(Timestamp { seconds, nanos }) })
}

/// The changes that give a file with this name these DOS attributes; none where it shows them
/// already.
pub fn changes_to(known: &Attributes, name: &[u8], asked: FileAttributes) -> AttributeChanges {
    let mut changes = AttributeChanges::none();
    if asked == FileAttributes::default() {
        return changes;
    }
    changes.mode = mode_with(known, asked);
    let flags = stored_flags(known.kind, asked);
    let new = Attributes { flags, ..known.clone() };
    let before = dos_attributes(known, name);
    changes.flags = (dos_attributes(&new, name) != before).then_some(flags);
    changes
}

/// The changes that make a file with this name sparse, or no longer; none where it is so already.
/// MS-FSA 2.1.5.10.35.
pub fn changes_to_sparse(known: &Attributes, name: &[u8], sparse: bool) -> AttributeChanges {
    let shown = dos_attributes(known, name).without(FileAttributes::NORMAL);
    let asked = match sparse {
        true => shown.with(FileAttributes::SPARSE_FILE),
        false => shown.without(FileAttributes::SPARSE_FILE),
    };
    let flags = (shown != asked).then(|| stored_flags(known.kind, asked));
    AttributeChanges { flags, ..AttributeChanges::none() }
}

/// What a file keeps whatever attributes a client sets: only FSCTL_SET_SPARSE changes it (MS-FSA
/// 2.1.5.15.2).
pub fn kept_attributes(known: &Attributes) -> FileAttributes {
    FileAttributes(known.flags & stored::SPARSE)
}

/// Whether holes of a file are shown.
pub fn is_sparse(known: &Attributes) -> bool {
    known.flags & stored::SPARSE != 0
}

/// DOS attributes as they are stored.
fn stored_flags(kind: FileKind, asked: FileAttributes) -> u32 {
    let of_others = match kind {
        // That of a file is in its mode.
        FileKind::Directory => stored::TEMPORARY | stored::SPARSE,
        _ => stored::READONLY,
    };
    stored::STORED | (asked.0 & stored::ALL & !of_others)
}

/// The attributes that a new or overwritten file with this name gets: those that are asked for,
/// and those that follow from kind and name. So a file is to be saved (MS-FSA 2.1.5.1.1).
pub fn of_new_file(kind: FileKind, name: &[u8], asked: FileAttributes) -> FileAttributes {
    // An empty file has no holes: it is not sparse.
    let not_set = FileAttributes::NORMAL.with(FileAttributes::SPARSE_FILE);
    asked.without(not_set).with(implied_attributes(kind, name))
}

/// Whether an overwriting open that asks for these attributes would show a file that is stored as
/// HIDDEN or SYSTEM. MS-FSA 2.1.5.1.2 refuses it.
pub fn uncovers(known: &Attributes, asked: FileAttributes) -> bool {
    known.flags & (stored::HIDDEN | stored::SYSTEM) & !asked.0 != 0
}

/// The mode of a file whose DOS attributes are set; `None` if it does not change. READONLY takes
/// all rights to write, and without it the owner has one (as Samba maps it).
fn mode_with(known: &Attributes, attributes: FileAttributes) -> Option<u32> {
    if known.kind != FileKind::File {
        return None;
    }
    let is_read_only = known.mode & WRITE_BITS == 0;
    match (attributes.has(FileAttributes::READONLY), is_read_only) {
        (true, false) => Some(known.mode & !WRITE_BITS),
        (false, true) => Some(known.mode | OWNER_WRITE_BIT),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use braid_share::{ByteCount, FileIndex, FileSystemId};

    use super::*;

    pub(crate) fn known(kind: FileKind, mode: u32) -> Attributes {
        let time = |seconds| Timestamp { seconds, nanos: 0 };
        Attributes {
            file: FileIndex(7),
            kind,
            mode,
            links: 2,
            uid: 0,
            gid: 0,
            device: 0,
            bytes: ByteCount(10),
            bytes_used: ByteCount(4096),
            atime: time(1),
            mtime: time(2),
            ctime: time(3),
            btime: time(4),
            change: 0,
            flags: 0,
            size_generation: Default::default(),
            uncacheable: false,
            has_xattrs: false,
        }
    }

    #[test]
    fn dos_attributes_follow_from_kind_mode_and_name() {
        let archive = FileAttributes::ARCHIVE;
        for (kind, mode, name, wanted) in [
            (FileKind::File, 0o644, &b"a"[..], archive),
            (FileKind::File, 0o444, b"a", archive.with(FileAttributes::READONLY)),
            (FileKind::File, 0o600, b".a", archive.with(FileAttributes::HIDDEN)),
            (FileKind::Directory, 0o555, b"d", FileAttributes::DIRECTORY),
            (FileKind::Directory, 0o755, b"..", FileAttributes::DIRECTORY),
            (FileKind::Fifo, 0o444, b"p", FileAttributes::NORMAL),
        ] {
            assert_eq!(dos_attributes(&known(kind, mode), name), wanted, "{kind:?} {mode:o}");
        }
    }

    #[test]
    fn times_and_sizes_are_those_of_the_file() {
        let facts = facts(&known(FileKind::File, 0o644), b"a");
        let second = |count: i64| FileTime::from_unix(count, 0);
        let times = [facts.creation, facts.last_access, facts.last_write, facts.change];
        assert_eq!(times, [second(4), second(1), second(2), second(3)]);
        assert_eq!((facts.end_of_file, facts.allocation_bytes, facts.links), (10, 4096, 2));
        let directory = entry(&known(FileKind::Directory, 0o755), "d".to_owned());
        assert_eq!(
            (directory.end_of_file, directory.allocation_bytes, directory.file_id),
            (0, 0, 7)
        );
    }

    #[test]
    fn stored_attributes_come_before_those_of_the_name() {
        let stored_as = |kind, flags| Attributes { flags, ..known(kind, 0o644) };
        let cleared = stored_as(FileKind::File, stored::STORED);
        assert_eq!(dos_attributes(&cleared, b".a"), FileAttributes::NORMAL);
        let hidden = stored_as(FileKind::File, stored::STORED | stored::HIDDEN);
        assert_eq!(dos_attributes(&hidden, b"a"), FileAttributes::HIDDEN);
        let directory = stored_as(FileKind::Directory, stored::STORED | stored::READONLY);
        let shown = FileAttributes::DIRECTORY.with(FileAttributes::READONLY);
        assert_eq!(dos_attributes(&directory, b"d"), shown);
        assert!(uncovers(&hidden, FileAttributes::ARCHIVE));
        assert!(!uncovers(&hidden, FileAttributes::HIDDEN) && !uncovers(&cleared, shown));
    }

    #[test]
    fn only_attributes_that_differ_are_stored() {
        let flags = |kind, name, asked| changes_to(&known(kind, 0o644), name, asked).flags;
        let archive = FileAttributes::ARCHIVE;
        assert_eq!(flags(FileKind::File, b"a", FileAttributes::default()), None, "0: no change");
        assert_eq!(flags(FileKind::File, b"a", archive), None);
        assert_eq!(flags(FileKind::File, b"a", FileAttributes::NORMAL), Some(stored::STORED));
        let stored_archive = stored::STORED | stored::ARCHIVE;
        assert_eq!(flags(FileKind::File, b".a", archive), Some(stored_archive), "not hidden");
        let all = FileAttributes(u32::MAX);
        let of_file = stored::ALL & !stored::READONLY;
        assert_eq!(flags(FileKind::File, b"a", all), Some(of_file));
        let of_directory = stored::ALL & !(stored::TEMPORARY | stored::SPARSE);
        assert_eq!(flags(FileKind::Directory, b"d", all), Some(of_directory));
    }

    #[test]
    fn a_new_file_is_to_be_saved_and_a_dot_file_is_hidden() {
        let (hidden, archive) = (FileAttributes::HIDDEN, FileAttributes::ARCHIVE);
        let file = |name, asked| of_new_file(FileKind::File, name, asked);
        assert_eq!(file(b"a", FileAttributes::NORMAL), archive);
        assert_eq!(file(b"a", hidden), hidden.with(archive));
        assert_eq!(file(b".a", FileAttributes::default()), hidden.with(archive));
        let new = known(FileKind::File, 0o644);
        let changes = changes_to(&new, b".a", file(b".a", FileAttributes::NORMAL));
        assert_eq!(changes, AttributeChanges::none(), "nothing is stored for a dot file");
        let system = FileAttributes::SYSTEM;
        assert_eq!(of_new_file(FileKind::Directory, b"d", system), system);
    }

    #[test]
    fn a_file_is_sparse_until_that_is_taken_back() {
        let file = known(FileKind::File, 0o644);
        let set = changes_to_sparse(&file, b".a", true).flags.unwrap();
        let shown = |flags| dos_attributes(&Attributes { flags, ..file.clone() }, b".a");
        let sparse = FileAttributes::SPARSE_FILE;
        assert_eq!(shown(set), shown(0).with(sparse), "all others stay");
        let sparse_file = Attributes { flags: set, ..file.clone() };
        assert!(is_sparse(&sparse_file) && kept_attributes(&sparse_file) == sparse);
        assert_eq!(changes_to_sparse(&sparse_file, b".a", true), AttributeChanges::none());
        let cleared = changes_to_sparse(&sparse_file, b".a", false).flags.unwrap();
        assert_eq!(shown(cleared), shown(0));
        assert_eq!(changes_to_sparse(&file, b".a", false), AttributeChanges::none());
        let new = of_new_file(FileKind::File, b"a", sparse.with(FileAttributes::NORMAL));
        assert_eq!(new, FileAttributes::ARCHIVE, "a new file is not sparse");
    }

    #[test]
    fn readonly_takes_all_rights_to_write_and_gives_one_back() {
        let of = |mode, asked| changes_to(&known(FileKind::File, mode), b"a", asked).mode;
        assert_eq!(of(0o664, FileAttributes::READONLY), Some(0o444));
        assert_eq!(of(0o444, FileAttributes::ARCHIVE), Some(0o644));
        assert_eq!(of(0o444, FileAttributes::READONLY), None);
        assert_eq!(of(0o664, FileAttributes::NORMAL), None);
        assert_eq!(of(0o444, FileAttributes::default()), None, "0 changes nothing");
        let directory = known(FileKind::Directory, 0o755);
        assert_eq!(changes_to(&directory, b"d", FileAttributes::READONLY).mode, None);
    }

    #[test]
    fn only_a_time_that_is_set_changes() {
        assert_eq!(set_time(TimeChange::Keep), None);
        assert_eq!(set_time(TimeChange::Freeze), None);
        let set = set_time(TimeChange::Set(FileTime::from_unix(-5, 100)));
        let time = Some(Timestamp { seconds: -5, nanos: 100 });
        assert_eq!(set, Some(SetTime { time }));
    }

    #[test]
    fn space_is_counted_in_units_of_4_kib() {
        let space = StatFsReply {
            total: ByteCount(10 << 20),
            free: ByteCount(4097),
            available: ByteCount(4095),
            files: 0,
            files_max: None,
            iods_up: 1,
            iods: 1,
        };
        let volume = volume("data", FileSystemId([1; 16]), &space, true);
        let units = (volume.total_units, volume.available_units, volume.caller_available_units);
        assert_eq!(units, (2560, 1, 0));
        assert_eq!((volume.serial, volume.label.as_str()), (0x0101_0101, "data"));
        assert!(volume.attributes.has(FsAttributes::READ_ONLY_VOLUME));
    }
}
