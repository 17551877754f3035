//! Files of a share: names, and data with several requests in flight.

use anyhow::{Context, Result, ensure};
use braid_smb_wire::{
    NtStatus,
    smb2::{
        Body, Command, FileId, Flags, HEADER_BYTES,
        close::{CloseFlags, CloseRequest},
        create::{
            CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel,
            ShareAccess,
        },
        query_info::{InfoType, QueryInfoFlags, QueryInfoRequest},
        read::{Channel, ReadFlags, ReadRequest},
        write::{WriteFlags, WriteRequest},
    },
};
use bytes::Bytes;

use super::connection::Connection;

/// Largest READ and WRITE.
pub const READ_BYTES_MAX: usize = 1 << 20;
/// Bytes that one credit carries. MS-SMB2 3.1.5.2.
const CREDIT_BYTES: usize = 1 << 16;
/// FILE_GENERIC_READ, FILE_GENERIC_WRITE and DELETE. MS-SMB2 2.2.13.1.1.
const ALL_ACCESS: u32 = 0x0013_019f;
const READ_ACCESS: u32 = 0x0012_0089;
const READ_ATTRIBUTES: u32 = 0x0010_0080;
/// FileAllInformation. MS-FSCC 2.4.2.
const ALL_INFORMATION: u8 = 18;
/// Offset of the data in a frame of a READ response, behind the header.
const READ_DATA: usize = 16;

/// An open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct File(FileId);

impl Connection {
    /// Makes a file that must not exist, or opens one for reading and writing.
    pub fn create(&mut self, path: &str, new: bool) -> Result<File> {
        let disposition = if new { CreateDisposition::CREATE } else { CreateDisposition::OPEN_IF };
        self.open_as(create(path, ALL_ACCESS, disposition))
    }

    /// Opens a file for reading.
    pub fn open(&mut self, path: &str) -> Result<File> {
        self.open_as(create(path, READ_ACCESS, CreateDisposition::OPEN))
    }

    /// Makes a directory, or finds it.
    pub fn make_directory(&mut self, path: &str) -> Result<()> {
        let mut request = create(path, READ_ATTRIBUTES, CreateDisposition::OPEN_IF);
        request.options = CreateOptions::FILE_DIRECTORY_FILE;
        let directory = self.open_as(request)?;
        self.close(directory)
    }

    fn open_as(&mut self, request: CreateRequest) -> Result<File> {
        let header = self.header(Command::Create, 1);
        self.send(&header, &[&request.to_bytes()])?;
        let response: CreateResponse =
            self.receive()?.body().with_context(|| format!("open {}", request.name))?;
        Ok(File(response.file_id))
    }

    /// Closes a file.
    pub fn close(&mut self, file: File) -> Result<()> {
        let header = self.header(Command::Close, 1);
        self.send(&header, &[&close(file.0).to_bytes()])?;
        self.receive()?.succeeded().context("close a file")
    }

    /// Removes a file: an open that deletes at its close.
    pub fn remove(&mut self, path: &str) -> Result<()> {
        let mut request = create(path, ALL_ACCESS, CreateDisposition::OPEN);
        request.options = CreateOptions::FILE_DELETE_ON_CLOSE;
        let file = self.open_as(request)?;
        self.close(file)
    }

    /// The attributes of a file, as Linux and Windows ask for them: CREATE, QUERY_INFO and CLOSE in
    /// one compound.
    pub fn stat(&mut self, path: &str) -> Result<()> {
        let request = create(path, READ_ATTRIBUTES, CreateDisposition::OPEN);
        let query = QueryInfoRequest {
            info_type: InfoType::FILE,
            info_class: ALL_INFORMATION,
            output_buffer_length: 4096,
            additional_information: 0,
            flags: QueryInfoFlags::default(),
            file_id: FileId::RELATED,
            input: Bytes::new(),
        };
        let bodies = [
            (Command::Create, request.to_bytes()),
            (Command::QueryInfo, query.to_bytes()),
            (Command::Close, close(FileId::RELATED).to_bytes()),
        ];
        let mut frame = Vec::new();
        let last = bodies.len() - 1;
        for (index, (command, mut body)) in bodies.into_iter().enumerate() {
            let mut header = self.header(command, 1);
            if index > 0 {
                header.flags = Flags::RELATED;
            }
            if index < last {
                // MS-SMB2 3.2.4.1.4: each but the last ends at a multiple of 8.
                let bytes = (HEADER_BYTES + body.len()).next_multiple_of(8);
                body.resize(bytes - HEADER_BYTES, 0);
                header.next_command = u32::try_from(bytes)?;
            }
            frame.extend(header.to_bytes());
            frame.extend(body);
        }
        self.send_messages(&[&frame])?;
        let answers = self.receive_compound()?;
        ensure!(answers.len() == last + 1, "{} responses of a compound", answers.len());
        answers.iter().try_for_each(|answer| answer.succeeded())
    }

    /// Reads a file of `total` bytes in requests of `call` bytes, `depth` at a time.
    pub fn read_all(&mut self, file: File, total: u64, call: usize, depth: usize) -> Result<()> {
        let send = |connection: &mut Self, offset: u64, length: usize| {
            let request = ReadRequest {
                flags: ReadFlags::default(),
                length: u32::try_from(length)?,
                offset,
                file_id: file.0,
                minimum_count: 0,
                channel: Channel::NONE,
                remaining_bytes: 0,
            };
            let header = connection.header(Command::Read, charge(length));
            connection.send(&header, &[&request.to_bytes()])
        };
        self.in_flight(total, call, depth, send, |body, length| {
            let count = body.get(4..8).and_then(|bytes| bytes.first_chunk());
            let count = u32::from_le_bytes(*count.context("a short READ response")?) as usize;
            ensure!(count == length, "a read of {length} bytes returned {count}");
            ensure!(body.len() >= READ_DATA + length, "fewer data than the response states");
            Ok(())
        })
    }

    /// Writes a file from its beginning in requests of `call` bytes, `depth` at a time.
    pub fn write_all(&mut self, file: File, data: &[u8], total: u64, depth: usize) -> Result<()> {
        let call = data.len();
        let send = |connection: &mut Self, offset: u64, length: usize| {
            let header = connection.header(Command::Write, charge(length));
            connection.send(&header, &[&write_head(file.0, offset, length)?, &data[..length]])
        };
        self.in_flight(total, call, depth, send, |body, length| {
            let count = body.get(4..8).and_then(|bytes| bytes.first_chunk());
            let count = u32::from_le_bytes(*count.context("a short WRITE response")?) as usize;
            ensure!(count == length, "a write of {length} bytes wrote {count}");
            Ok(())
        })
    }

    /// Keeps `depth` requests in flight. All answers but the last have `call` bytes.
    fn in_flight(
        &mut self,
        total: u64,
        call: usize,
        depth: usize,
        send: impl Fn(&mut Self, u64, usize) -> Result<()>,
        check: impl Fn(&[u8], usize) -> Result<()>,
    ) -> Result<()> {
        ensure!(total.is_multiple_of(call as u64), "whole requests");
        let (mut sent, mut received) = (0, 0);
        while received < total {
            let in_flight = ((sent - received) / call as u64) as usize;
            if sent < total && in_flight < depth && self.has_credits(charge(call)) {
                send(self, sent, call)?;
                sent += call as u64;
                continue;
            }
            ensure!(in_flight > 0, "the server granted too few credits");
            let (header, body) = self.receive_raw()?;
            ensure!(header.status == NtStatus::SUCCESS, "status {:?}", header.status);
            check(body, call)?;
            received += call as u64;
        }
        Ok(())
    }
}

fn charge(bytes: usize) -> u16 {
    u16::try_from(bytes.div_ceil(CREDIT_BYTES)).unwrap_or(u16::MAX).max(1)
}

/// The body of a WRITE before its data, which are a part of their own.
fn write_head(file_id: FileId, offset: u64, length: usize) -> Result<Vec<u8>> {
    let request = WriteRequest {
        offset,
        file_id,
        channel: Channel::NONE,
        remaining_bytes: 0,
        flags: WriteFlags::default(),
        data: Bytes::new(),
    };
    let mut body = request.to_bytes();
    // The encoder adds one byte where there are no data.
    body.truncate(braid_smb_wire::smb2::write::WRITE_DATA_OFFSET - HEADER_BYTES);
    body[4..8].copy_from_slice(&u32::try_from(length)?.to_le_bytes());
    Ok(body)
}

fn create(path: &str, access: u32, disposition: CreateDisposition) -> CreateRequest {
    CreateRequest {
        impersonation: ImpersonationLevel::IMPERSONATION,
        desired_access: access,
        share_access: ShareAccess(7),
        disposition,
        name: path.to_owned(),
        ..CreateRequest::default()
    }
}

fn close(file_id: FileId) -> CloseRequest {
    CloseRequest { flags: CloseFlags::default(), file_id }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_smb_wire::Reader;

    #[test]
    fn the_head_of_a_write_and_its_data_are_one_request() {
        let file_id = FileId { persistent: 1, volatile: 2 };
        let head = write_head(file_id, 7, 3).unwrap();
        let message = [&[0; HEADER_BYTES][..], &head, b"abc"].concat();
        let mut reader = Reader::new(message.into());
        reader.skip(HEADER_BYTES).unwrap();
        let request = WriteRequest::decode(&mut reader).unwrap();
        assert_eq!((request.offset, request.file_id), (7, file_id));
        assert_eq!(request.data, "abc");
    }

    #[test]
    fn a_credit_carries_64_kib() {
        assert_eq!([0, 1, 65536, 65537, 1 << 20].map(charge), [1, 1, 1, 2, 16]);
    }
}
