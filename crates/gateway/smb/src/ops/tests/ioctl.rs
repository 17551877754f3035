//! Holes, SPARSE, TRIM, and what this file system does not have.

use braid_smb_wire::fscc::{FileAttributes, FileBasic, Information, InformationClass};
use braid_smb_wire::fscc::{SetBasic, SetInformation};
use braid_smb_wire::fsctl::{
    Compression, ControlCode, FileRange, ObjectId, Snapshots, TrimRequest, TrimResponse,
    decode_ranges,
};
use braid_smb_wire::smb2::ioctl::{IoctlFlags, IoctlRequest, IoctlResponse};

use super::data::{ioctl, read, write, zero};
use super::stream_names::{query, set};
use super::*;

/// Bytes of a block of the file system in memory, and more.
const BLOCK: u64 = 1 << 16;

async fn allocated(client: &Client, id: FileId, length: u64) -> Vec<FileRange> {
    let code = ControlCode::QUERY_ALLOCATED_RANGES;
    let whole = FileRange { offset: 0, length };
    let (status, output) = ioctl(client, id, code, whole.to_bytes()).await.unwrap();
    assert_eq!(status, NtStatus::SUCCESS);
    decode_ranges(output).unwrap()
}

async fn set_sparse(client: &Client, id: FileId, sparse: bool) -> Result<(), NtStatus> {
    ioctl(client, id, ControlCode::SET_SPARSE, vec![sparse.into()]).await.map(drop)
}

async fn is_sparse(client: &Client, id: FileId) -> bool {
    let basic: FileBasic = query(client, id, InformationClass::BASIC).await;
    basic.attributes.has(FileAttributes::SPARSE_FILE)
}

#[tokio::test]
async fn holes_are_shown_of_a_sparse_file_only() {
    let client = Client::new(user()).await;
    let id = client.open("file", BOTH).await.unwrap();
    write(&client, id, 0, &[7; 3 * BLOCK as usize]).await.unwrap();
    zero(&client, id, BLOCK, 2 * BLOCK).await.unwrap();
    let range = |offset, length| FileRange { offset, length };
    assert_eq!(allocated(&client, id, 1 << 20).await, [range(0, 3 * BLOCK)]);
    set_sparse(&client, id, true).await.unwrap();
    let parts = [range(0, BLOCK), range(2 * BLOCK, BLOCK)];
    assert_eq!(allocated(&client, id, 1 << 20).await, parts);
    assert_eq!(read(&client, id, BLOCK, 1).await.unwrap(), &[0][..]);
    set_sparse(&client, id, false).await.unwrap();
    assert_eq!(allocated(&client, id, 1 << 20).await, [range(0, 3 * BLOCK)]);
    assert_eq!(allocated(&client, id, 0).await, []);
}

#[tokio::test]
async fn sparse_stays_when_other_attributes_are_set() {
    let client = Client::new(user()).await;
    let id = client.open("file", BOTH).await.unwrap();
    let hidden = SetBasic { attributes: FileAttributes::HIDDEN, ..SetBasic::default() };
    let sparse = FileAttributes::HIDDEN.with(FileAttributes::SPARSE_FILE);
    let asks_for_it = SetBasic { attributes: sparse, ..SetBasic::default() };
    set(&client, id, SetInformation::Basic(asks_for_it)).await.unwrap();
    assert!(!is_sparse(&client, id).await, "only FSCTL_SET_SPARSE sets it");
    set_sparse(&client, id, true).await.unwrap();
    set(&client, id, SetInformation::Basic(hidden)).await.unwrap();
    let basic: FileBasic = query(&client, id, InformationClass::BASIC).await;
    assert_eq!(basic.attributes, sparse);
    client.close(id).await.unwrap();
    let over = CreateRequest {
        file_attributes: sparse.0,
        ..request("file", BOTH, CreateDisposition::OVERWRITE)
    };
    let id = client.create(over).await.unwrap().file_id;
    assert!(!is_sparse(&client, id).await, "an empty file has no holes");
}

#[tokio::test]
async fn one_right_to_change_a_file_is_enough_to_make_it_sparse() {
    let client = Client::new(user()).await;
    let (append, write_ea, write_attributes) = (0x4, 0x10, 0x100);
    for access in [append, write_attributes, 0x2] {
        let id = client.open("file", access | ATTRIBUTES).await.unwrap();
        set_sparse(&client, id, true).await.unwrap();
        assert!(is_sparse(&client, id).await, "{access:#x}");
        // Without input it is set, too.
        ioctl(&client, id, ControlCode::SET_SPARSE, Vec::new()).await.unwrap();
        assert!(is_sparse(&client, id).await);
        set_sparse(&client, id, false).await.unwrap();
    }
    let id = client.open("file", write_ea).await.unwrap();
    assert_eq!(set_sparse(&client, id, true).await, Err(NtStatus::ACCESS_DENIED));
    let root = client.open("", WRITE).await.unwrap();
    assert_eq!(set_sparse(&client, root, true).await, Err(NtStatus::INVALID_PARAMETER));
}

#[tokio::test]
async fn trimmed_ranges_read_as_zeros_and_are_counted() {
    let client = Client::new(user()).await;
    let id = client.open("file", BOTH).await.unwrap();
    write(&client, id, 0, b"0123456789").await.unwrap();
    let trim = |ranges| TrimRequest { key: 0, ranges }.to_bytes();
    let code = ControlCode::FILE_LEVEL_TRIM;
    let range = |offset, length| FileRange { offset, length };
    let both = trim(vec![range(1, 3), range(8, 100)]);
    let (status, output) = ioctl(&client, id, code, both).await.unwrap();
    let wanted = TrimResponse { ranges: 2 }.to_bytes();
    assert_eq!((status, output), (NtStatus::SUCCESS, wanted.into()));
    assert_eq!(read(&client, id, 0, 99).await.unwrap(), &b"0\0\0\x004567\0\0"[..]);
    let many = ioctl(&client, id, code, trim(vec![range(1, 3); 300])).await.unwrap();
    assert_eq!(many.1, TrimResponse { ranges: 256 }.to_bytes(), "one request has a limit");
    for ranges in [vec![range(u64::MAX, 1)], Vec::new()] {
        let refused = ioctl(&client, id, code, trim(ranges)).await;
        assert_eq!(refused, Err(NtStatus::INVALID_PARAMETER));
    }
    let reader = client.open("file", READ).await.unwrap();
    let refused = ioctl(&client, reader, code, trim(vec![range(1, 3)])).await;
    assert_eq!(refused, Err(NtStatus::ACCESS_DENIED));
}

#[tokio::test]
async fn files_are_not_compressed_and_there_are_no_snapshots() {
    let client = Client::new(user()).await;
    let id = client.open("file", BOTH).await.unwrap();
    let done = |output: Vec<u8>| Ok((NtStatus::SUCCESS, Bytes::from(output)));
    let format = |format| Compression { format }.to_bytes();
    let get = ioctl(&client, id, ControlCode::GET_COMPRESSION, Vec::new()).await;
    assert_eq!(get, done(format(Compression::NONE)));
    for (asked, wanted) in [
        (format(Compression::NONE), done(Vec::new())),
        (format(Compression::DEFAULT), Err(NtStatus::NOT_SUPPORTED)),
        (format(Compression::LZNT1), Err(NtStatus::NOT_SUPPORTED)),
        (format(3), Err(NtStatus::INVALID_PARAMETER)),
        (vec![0], Err(NtStatus::INVALID_PARAMETER)),
    ] {
        let code = ControlCode::SET_COMPRESSION;
        assert_eq!(ioctl(&client, id, code, asked.clone()).await, wanted, "{asked:?}");
    }
    let snapshots = ioctl(&client, id, ControlCode::SRV_ENUMERATE_SNAPSHOTS, Vec::new()).await;
    assert_eq!(snapshots, done(Snapshots { count: 0, returned: 0, array_bytes: 2 }.to_bytes()));
}

#[tokio::test]
async fn each_file_has_an_object_id_of_its_own_that_stays() {
    let client = Client::new(user()).await;
    let (id, other) = (client.open("file", BOTH).await, client.open("other", BOTH).await);
    let (id, other) = (id.unwrap(), other.unwrap());
    let object = async |id, max_output| {
        let request = IoctlRequest {
            code: ControlCode::CREATE_OR_GET_OBJECT_ID.0,
            file_id: id,
            flags: IoctlFlags::IS_FSCTL,
            input: Bytes::new(),
            max_input: 0,
            max_output,
        };
        super::super::ioctl::ioctl(&client.context(), request).await
    };
    let object_id = async |id| {
        let output = body::<IoctlResponse>(&object(id, 64).await.unwrap()).output;
        ObjectId::from_bytes(output).unwrap().object
    };
    let first = object_id(id).await;
    assert_ne!(first, object_id(other).await);
    client.close(id).await.unwrap();
    let again = client.open("FILE", READ).await.unwrap();
    assert_eq!(object_id(again).await, first);
    assert_eq!(object(again, 63).await, Err(NtStatus::INVALID_PARAMETER));
}
