//! Tests of QUERY_DIRECTORY, QUERY_INFO and SET_INFO over a file system in memory.

use std::sync::Arc;

use braid_share::memory::MemoryShare;
use braid_share::{FileIndex, Identity, Share, ShareClient, XattrMode};
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::auth::ntlm::NtHash;
use braid_smb_wire::filetime::{FileTime, TimeChange};
use braid_smb_wire::fscc::{
    DirectoryClass, Disposition, Entry, ExtendedAttribute, FileAll, FileAttributes, FileBasic,
    FileStandard, FsAttribute, FsVolume, Information, InformationClass, RenameFlags, RenameTarget,
    SetBasic, SetInformation, VolumeClass, decode_directory, decode_eas, encode_ea_names,
};
use braid_smb_wire::sd::{SecurityDescriptor, Sid};
use braid_smb_wire::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, ImpersonationLevel, OplockLevel, ShareAccess,
};
use braid_smb_wire::smb2::negotiate::{Capabilities, SecurityMode, SigningAlgorithm};
use braid_smb_wire::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};
use braid_smb_wire::smb2::query_info::{
    InfoType, QueryInfoFlags, QueryInfoRequest, SecurityInformation,
};
use braid_smb_wire::smb2::set_info::SetInfoRequest;
use braid_smb_wire::smb2::{
    Body, Command, Dialect, FileId, HEADER_BYTES, Header, close::CloseRequest,
    output::OutputResponse,
};
use braid_smb_wire::{NtStatus, Reader};
use bytes::Bytes;

use super::{close, create, query_directory, query_info, set_info};
use crate::config::{Limits, ShareConfig, SmbConfig};
use crate::connection::Connection;
use crate::connection::negotiated::Negotiated;
use crate::context::{Context, OpResult};
use crate::protection::Protection;
use crate::server::SmbServer;
use crate::session::{Logon, Session};
use crate::tree::{Target, Tree};
use crate::users::{NoUser, User, Users};

type Result<T> = std::result::Result<T, NtStatus>;

#[derive(Debug)]
struct Nobody;

impl Users for Nobody {
    fn user(&self, _: &str) -> std::result::Result<(NtHash, User), NoUser> {
        Err(NoUser::Unknown)
    }

    fn guest(&self) -> User {
        user()
    }
}

fn root() -> Identity {
    Identity { uid: 0, gid: 0, groups: Vec::new(), checked: false }
}

fn user() -> User {
    User { name: "root".to_owned(), identity: root(), groups: Vec::new() }
}

/// A client that has connected to a share.
struct Client {
    share: MemoryShare,
    context: Context<MemoryShare>,
}

impl Client {
    async fn new() -> Self {
        Self::with_share(ShareConfig::new("data", "/")).await
    }

    async fn with_share(config: ShareConfig) -> Self {
        let share = MemoryShare::new();
        let maximal_access = if config.read_only { 0x0012_00a9 } else { 0x001f_01ff };
        let mut all = SmbConfig::new("test", Arc::new(Nobody));
        all.shares = vec![config];
        let server = SmbServer::new(share.clone(), all).unwrap();
        let peer = "127.0.0.1:1".parse().unwrap();
        let connection = Arc::new(Connection::new(1, peer, tokio::io::sink()));
        assert!(connection.set_negotiated(negotiated()));
        let machine = server.machines.session(&share, [1; 16], "test").await.unwrap();
        let logon = (user(), Logon::User);
        let session = Arc::new(Session::new(1, 1, logon, Protection::default(), machine));
        let found = Arc::clone(server.shares.find("data").unwrap());
        let target = Target::Files { share: found, root: FileIndex::ROOT };
        let tree = session.add_tree(&Limits::default(), |id| Tree { id, target, maximal_access });
        let context = Context {
            server,
            connection,
            header: Header { credit_charge: 64, ..Header::request(Command::Echo, 1) },
            is_last: true,
            is_sealed: false,
            message: Bytes::new(),
            session: Some(session),
            tree: Some(tree.unwrap()),
            related: None,
            running: Arc::default(),
        };
        Self { share, context }
    }

    async fn open_with(
        &self,
        name: &str,
        access: AccessMask,
        disposition: CreateDisposition,
        options: CreateOptions,
    ) -> Result<FileId> {
        let request = CreateRequest {
            oplock_level: OplockLevel::NONE,
            impersonation: ImpersonationLevel::IMPERSONATION,
            desired_access: access.0,
            file_attributes: 0,
            share_access: ShareAccess(7),
            disposition,
            options,
            name: name.to_owned(),
            contexts: Vec::new(),
        };
        Ok(create::create(&self.context, request).await.done()?.file_id.unwrap())
    }

    async fn make(&self, name: &str) -> FileId {
        let (how, options) = (CreateDisposition::OPEN_IF, CreateOptions::default());
        self.open_with(name, AccessMask::ALL, how, options).await.unwrap()
    }

    async fn make_directory(&self, name: &str) -> FileId {
        let options = CreateOptions::FILE_DIRECTORY_FILE;
        let how = CreateDisposition::OPEN_IF;
        self.open_with(name, AccessMask::ALL, how, options).await.unwrap()
    }

    /// Opens the root of the share, which nobody may remove.
    async fn root(&self) -> FileId {
        let (how, options) = (CreateDisposition::OPEN, CreateOptions::FILE_DIRECTORY_FILE);
        let access = AccessMask::GENERIC_READ.with(AccessMask::GENERIC_WRITE);
        self.open_with("", access, how, options).await.unwrap()
    }

    async fn close(&self, id: FileId) -> Result<()> {
        let request = CloseRequest { flags: Default::default(), file_id: id };
        close::close(&self.context, request).await.map(drop)
    }

    async fn exists(&self, name: &str) -> bool {
        let client = self.share.own_client();
        client.look_up(&root(), FileIndex::ROOT, name.as_bytes()).await.is_ok()
    }

    async fn list(&self, id: FileId, pattern: &str, listing: Listing) -> Result<Vec<Entry>> {
        let request = QueryDirectoryRequest {
            information_class: listing.class.number(),
            flags: listing.flags,
            file_index: 0,
            file_id: id,
            pattern: pattern.to_owned(),
            output_buffer_length: listing.max_bytes,
        };
        let reply = query_directory::query_directory(&self.context, request).await;
        let (bytes, _) = output(reply)?;
        assert!(bytes.len() <= listing.max_bytes as usize);
        Ok(decode_directory(listing.class, bytes).unwrap())
    }

    async fn names(&self, id: FileId, pattern: &str) -> Result<Vec<String>> {
        let entries = self.list(id, pattern, Listing::default()).await?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    async fn query_with(&self, request: QueryInfoRequest) -> Result<(Bytes, NtStatus)> {
        output(query_info::query_info(&self.context, request).await)
    }

    async fn query<T: Information>(&self, id: FileId, class: InformationClass) -> Result<T> {
        let (bytes, status) = self.query_with(request(id, InfoType::FILE, class.0)).await?;
        assert_eq!(status, NtStatus::SUCCESS);
        Ok(T::from_bytes(bytes).unwrap())
    }

    async fn set(&self, id: FileId, information: SetInformation) -> Result<()> {
        let request = SetInfoRequest {
            info_type: InfoType::FILE,
            info_class: information.class().0,
            additional_information: 0,
            file_id: id,
            data: information.to_bytes().into(),
        };
        set_info::set_info(&self.context, request).await.done().map(drop)
    }
}

fn negotiated() -> Negotiated {
    Negotiated {
        dialect: Dialect::Smb311,
        client_guid: [1; 16],
        client_capabilities: Capabilities::default(),
        client_security_mode: SecurityMode::default(),
        offered: Vec::new(),
        capabilities: Capabilities::default(),
        security_mode: SecurityMode::default(),
        signing: SigningAlgorithm::AES_CMAC,
        cipher: None,
    }
}

/// How a directory is listed.
#[derive(Clone, Copy)]
struct Listing {
    class: DirectoryClass,
    flags: QueryDirectoryFlags,
    max_bytes: u32,
}

impl Default for Listing {
    fn default() -> Self {
        Self {
            class: DirectoryClass::IdBothDirectory,
            flags: QueryDirectoryFlags::default(),
            max_bytes: 65_536,
        }
    }
}

fn request(id: FileId, info_type: InfoType, info_class: u8) -> QueryInfoRequest {
    QueryInfoRequest {
        info_type,
        info_class,
        output_buffer_length: 65_536,
        additional_information: 0,
        flags: QueryInfoFlags::default(),
        file_id: id,
        input: Bytes::new(),
    }
}

/// The buffer of a response, and its status.
fn output(reply: OpResult) -> Result<(Bytes, NtStatus)> {
    let reply = reply?;
    let message = [&[0; HEADER_BYTES][..], &reply.body].concat();
    let mut reader = Reader::new(message.into());
    reader.skip(HEADER_BYTES).unwrap();
    Ok((OutputResponse::decode(&mut reader).unwrap().output, reply.status))
}

fn rename(name: &str, flags: RenameFlags) -> RenameTarget {
    RenameTarget { flags, root_directory: 0, name: name.to_owned() }
}

#[tokio::test]
async fn a_directory_is_listed_once_and_then_ends() {
    let client = Client::new().await;
    for name in ["b", "a", ".hidden"] {
        client.close(client.make(name).await).await.unwrap();
    }
    let root = client.root().await;
    let mut names = client.names(root, "*").await.unwrap();
    assert_eq!(names[..2], [".", ".."]);
    names.sort();
    assert_eq!(names, [".", "..", ".hidden", "a", "b"]);
    assert_eq!(client.names(root, "*").await, Err(NtStatus::NO_MORE_FILES));
    let again = Listing { flags: QueryDirectoryFlags::RESTART_SCANS, ..Listing::default() };
    let entries = client.list(root, "*", again).await.unwrap();
    let hidden = entries.iter().find(|entry| entry.name == ".hidden").unwrap();
    assert!(hidden.attributes.has(FileAttributes::HIDDEN));
}

#[tokio::test]
async fn a_listing_in_small_buffers_has_each_name_once() {
    let client = Client::new().await;
    let wanted: Vec<String> = (0..300).map(|number| format!("file-{number:03}")).collect();
    for name in &wanted {
        client.close(client.make(name).await).await.unwrap();
    }
    for class in DirectoryClass::ALL {
        let root = client.root().await;
        let listing = Listing { class, max_bytes: 700, ..Listing::default() };
        let mut names = Vec::new();
        let end = loop {
            match client.list(root, "file-*", listing).await {
                Ok(entries) => names.extend(entries.into_iter().map(|entry| entry.name)),
                Err(status) => break status,
            }
        };
        names.sort();
        assert_eq!((end, &names), (NtStatus::NO_MORE_FILES, &wanted), "{class:?}");
    }
}

#[tokio::test]
async fn a_pattern_chooses_names_without_their_case() {
    let client = Client::new().await;
    for name in ["One.TXT", "two.txt", "three.c"] {
        client.close(client.make(name).await).await.unwrap();
    }
    let root = client.root().await;
    let mut names = client.names(root, "*.txt").await.unwrap();
    names.sort();
    assert_eq!(names, ["One.TXT", "two.txt"]);
    let one = client.root().await;
    assert_eq!(client.names(one, "THREE.c").await.unwrap(), ["three.c"]);
    assert_eq!(client.names(one, "three.c").await, Err(NtStatus::NO_MORE_FILES));
    let none = client.root().await;
    for end in [NtStatus::NO_SUCH_FILE, NtStatus::NO_MORE_FILES] {
        assert_eq!(client.names(none, "four*").await, Err(end));
    }
}

#[tokio::test]
async fn one_entry_is_sent_if_one_is_asked_for_or_fits() {
    let client = Client::new().await;
    client.close(client.make("a").await).await.unwrap();
    let root = client.root().await;
    let single = QueryDirectoryFlags::RETURN_SINGLE_ENTRY;
    let listing = Listing { flags: single, ..Listing::default() };
    for name in [".", "..", "a"] {
        let entries = client.list(root, "*", listing).await.unwrap();
        assert_eq!((entries.len(), entries[0].name.as_str()), (1, name));
    }
    assert_eq!(client.list(root, "*", listing).await, Err(NtStatus::NO_MORE_FILES));
    let other = client.root().await;
    let small = Listing { max_bytes: 105, ..Listing::default() };
    let listed = client.list(other, "*", small).await;
    assert_eq!(listed, Err(NtStatus::INFO_LENGTH_MISMATCH));
    assert_eq!(client.names(other, "*").await.unwrap().len(), 3, "nothing was lost");
}

#[tokio::test]
async fn a_symbolic_link_is_listed_as_what_it_leads_to() {
    let client = Client::new().await;
    let directory = client.make_directory("d").await;
    client.close(directory).await.unwrap();
    let native = client.share.own_client();
    for (name, target) in [("to-d", &b"d"[..]), ("to-nothing", b"gone")] {
        native.make_symlink(&root(), FileIndex::ROOT, name.as_bytes(), target).await.unwrap();
    }
    let all = client.root().await;
    let entries = client.list(all, "to-*", Listing::default()).await.unwrap();
    let of = |name| entries.iter().find(|entry| entry.name == name).unwrap().attributes;
    assert_eq!(of("to-d"), FileAttributes::DIRECTORY);
    assert_eq!(of("to-nothing"), FileAttributes::ARCHIVE);
}

#[tokio::test]
async fn only_a_directory_that_may_be_listed_is_listed() {
    let client = Client::new().await;
    let file = client.make("f").await;
    assert_eq!(client.names(file, "*").await, Err(NtStatus::INVALID_PARAMETER));
    let options = CreateOptions::FILE_DIRECTORY_FILE;
    let access = AccessMask::READ_ATTRIBUTES;
    let open = client.open_with("", access, CreateDisposition::OPEN, options).await.unwrap();
    assert_eq!(client.names(open, "*").await, Err(NtStatus::ACCESS_DENIED));
}

#[tokio::test]
async fn information_of_a_file_is_what_was_set() {
    let client = Client::new().await;
    let file = client.make("f").await;
    let time = FileTime::from_unix(1_700_000_000, 500);
    let basic = SetBasic { last_write: TimeChange::Set(time), ..SetBasic::default() };
    client.set(file, SetInformation::Basic(basic)).await.unwrap();
    client.set(file, SetInformation::EndOfFile(5000)).await.unwrap();
    client.set(file, SetInformation::Position(77)).await.unwrap();
    let all: FileAll = client.query(file, InformationClass::ALL).await.unwrap();
    assert_eq!(all.standard.end_of_file, 5000);
    assert_eq!((all.standard.links, all.standard.directory), (1, false));
    assert_eq!((all.position.offset, all.name.name.as_str()), (77, "\\f"));
    assert_eq!(all.access.access, AccessMask::ALL);
    client.set(file, SetInformation::Allocation(4096)).await.unwrap();
    let standard: FileStandard = client.query(file, InformationClass::STANDARD).await.unwrap();
    assert_eq!(standard.end_of_file, 4096, "a smaller allocation cuts the file");
    client.set(file, SetInformation::Allocation(1 << 30)).await.unwrap();
    let standard: FileStandard = client.query(file, InformationClass::STANDARD).await.unwrap();
    assert_eq!(standard.end_of_file, 4096, "a larger one does not change its size");
}

#[tokio::test]
async fn a_time_that_is_set_is_read_again() {
    let client = Client::new().await;
    let file = client.make("f").await;
    let time = FileTime::from_unix(-1_000, 500);
    let basic = SetBasic { last_write: TimeChange::Set(time), ..SetBasic::default() };
    client.set(file, SetInformation::Basic(basic)).await.unwrap();
    let basic: FileBasic = client.query(file, InformationClass::BASIC).await.unwrap();
    assert_eq!(basic.last_write, time);
}

#[tokio::test]
async fn readonly_is_the_mode_and_protects_from_removal() {
    let client = Client::new().await;
    let file = client.make("f").await;
    let set = |attributes| SetInformation::Basic(SetBasic { attributes, ..SetBasic::default() });
    client.set(file, set(FileAttributes::READONLY)).await.unwrap();
    let basic: FileBasic = client.query(file, InformationClass::BASIC).await.unwrap();
    assert!(basic.attributes.has(FileAttributes::READONLY));
    let delete = SetInformation::Disposition(Disposition::DELETE);
    assert_eq!(client.set(file, delete).await, Err(NtStatus::CANNOT_DELETE));
    let anyway = Disposition::DELETE.with(Disposition::IGNORE_READONLY);
    client.set(file, SetInformation::DispositionEx(anyway)).await.unwrap();
    client.set(file, set(FileAttributes::NORMAL)).await.unwrap();
    let basic: FileBasic = client.query(file, InformationClass::BASIC).await.unwrap();
    assert_eq!(basic.attributes, FileAttributes::NORMAL);
    let directory = set(FileAttributes::DIRECTORY);
    assert_eq!(client.set(file, directory).await, Err(NtStatus::INVALID_PARAMETER));
}

#[tokio::test]
async fn attributes_and_the_time_of_creation_stay() {
    let client = Client::new().await;
    let file = client.make("f").await;
    let time = FileTime::from_unix(1_000_000_000, 500);
    let attributes = FileAttributes::HIDDEN.with(FileAttributes::SYSTEM);
    let creation = TimeChange::Set(time);
    let basic = SetBasic { creation, attributes, ..SetBasic::default() };
    client.set(file, SetInformation::Basic(basic)).await.unwrap();
    client.close(file).await.unwrap();
    let access = AccessMask::MAXIMUM_ALLOWED;
    let options = CreateOptions::default();
    let again = client.open_with("f", access, CreateDisposition::OPEN, options).await.unwrap();
    let basic: FileBasic = client.query(again, InformationClass::BASIC).await.unwrap();
    assert_eq!((basic.creation, basic.attributes), (time, attributes));
    client.close(again).await.unwrap();
    let over = CreateDisposition::OVERWRITE;
    let refused = client.open_with("f", access, over, options).await;
    assert_eq!(refused.err(), Some(NtStatus::ACCESS_DENIED), "it would not be hidden any more");
}

#[tokio::test]
async fn a_file_is_removed_at_its_close_unless_it_is_taken_back() {
    let client = Client::new().await;
    let set = |flags| SetInformation::Disposition(flags);
    for (taken_back, is_left) in [(false, false), (true, true)] {
        let file = client.make("f").await;
        client.set(file, set(Disposition::DELETE)).await.unwrap();
        let standard: FileStandard = client.query(file, InformationClass::STANDARD).await.unwrap();
        assert_eq!((standard.delete_pending, standard.links), (true, 0));
        if taken_back {
            client.set(file, set(Disposition::default())).await.unwrap();
        }
        client.close(file).await.unwrap();
        assert_eq!(client.exists("f").await, is_left);
    }
    let directory = client.make_directory("d").await;
    client.close(client.make("d\\f").await).await.unwrap();
    let refused = client.set(directory, set(Disposition::DELETE)).await;
    assert_eq!(refused, Err(NtStatus::DIRECTORY_NOT_EMPTY));
    let share = client.root().await;
    let refused = client.set(share, set(Disposition::DELETE)).await;
    assert!(matches!(refused, Err(NtStatus::CANNOT_DELETE | NtStatus::ACCESS_DENIED)));
}

#[tokio::test]
async fn a_rename_replaces_only_what_is_closed_and_asked_for() {
    let client = Client::new().await;
    let file = client.make("from").await;
    let other = client.make("to").await;
    let replace = RenameFlags::REPLACE_IF_EXISTS;
    let to = |name, flags| SetInformation::Rename(rename(name, flags));
    let collision = client.set(file, to("to", RenameFlags::default())).await;
    assert_eq!(collision, Err(NtStatus::OBJECT_NAME_COLLISION));
    assert_eq!(client.set(file, to("to", replace)).await, Err(NtStatus::ACCESS_DENIED));
    client.close(other).await.unwrap();
    client.set(file, to("to", replace)).await.unwrap();
    assert!(client.exists("to").await && !client.exists("from").await);
    let all: FileAll = client.query(file, InformationClass::ALL).await.unwrap();
    assert_eq!(all.name.name, "\\to");
    client.make_directory("d").await;
    assert_eq!(client.set(file, to("d", replace)).await, Err(NtStatus::ACCESS_DENIED));
    let missing = client.set(file, to("no\\f", replace)).await;
    assert_eq!(missing, Err(NtStatus::OBJECT_PATH_NOT_FOUND));
    for name in ["..\\f", "a/b", "a:b"] {
        let refused = client.set(file, to(name, replace)).await;
        assert_eq!(refused, Err(NtStatus::OBJECT_NAME_INVALID), "{name}");
    }
}

#[tokio::test]
async fn a_directory_that_is_open_for_its_removal_takes_no_name() {
    let client = Client::new().await;
    let file = client.make("f").await;
    let directory = client.make_directory("d").await;
    let to = || SetInformation::Rename(rename("d\\f", RenameFlags::default()));
    assert_eq!(client.set(file, to()).await, Err(NtStatus::SHARING_VIOLATION));
    client.close(directory).await.unwrap();
    client.set(file, to()).await.unwrap();
}

#[tokio::test]
async fn a_renamed_file_is_removed_under_its_new_name() {
    let client = Client::new().await;
    let file = client.make("from").await;
    client.set(file, SetInformation::Disposition(Disposition::DELETE)).await.unwrap();
    let target = rename("to", RenameFlags::default());
    client.set(file, SetInformation::Rename(target)).await.unwrap();
    client.close(file).await.unwrap();
    assert!(!client.exists("from").await && !client.exists("to").await);
}

#[tokio::test]
async fn a_link_is_one_more_name() {
    let client = Client::new().await;
    let file = client.make("one").await;
    let link = |flags| SetInformation::Link(rename("\\two", flags));
    client.set(file, link(RenameFlags::default())).await.unwrap();
    let standard: FileStandard = client.query(file, InformationClass::STANDARD).await.unwrap();
    assert_eq!(standard.links, 2);
    let again = client.set(file, link(RenameFlags::default())).await;
    assert_eq!(again, Err(NtStatus::OBJECT_NAME_COLLISION));
    client.set(file, link(RenameFlags::REPLACE_IF_EXISTS)).await.unwrap();
}

#[tokio::test]
async fn a_link_takes_the_name_of_another_file() {
    let client = Client::new().await;
    let file = client.make("one").await;
    let other = client.make("two").await;
    let link = || SetInformation::Link(rename("two", RenameFlags::REPLACE_IF_EXISTS));
    assert_eq!(client.set(file, link()).await, Err(NtStatus::ACCESS_DENIED), "two is open");
    client.close(other).await.unwrap();
    client.set(file, link()).await.unwrap();
    let standard: FileStandard = client.query(file, InformationClass::STANDARD).await.unwrap();
    assert_eq!(standard.links, 2, "and no other name is left");
    assert!(client.exists("one").await && client.exists("two").await);
}

#[tokio::test]
async fn a_rename_moves_no_file_that_has_taken_the_name() {
    let client = Client::new().await;
    let first = client.make("f").await;
    let (access, options) = (AccessMask::MAXIMUM_ALLOWED, CreateOptions::default());
    let second = client.open_with("f", access, CreateDisposition::OPEN, options).await.unwrap();
    let to = |name| SetInformation::Rename(rename(name, RenameFlags::default()));
    client.set(first, to("g")).await.unwrap();
    client.close(client.make("f").await).await.unwrap();
    let refused = client.set(second, to("h")).await;
    assert_eq!(refused, Err(NtStatus::OBJECT_NAME_NOT_FOUND));
    assert!(client.exists("f").await && client.exists("g").await && !client.exists("h").await);
}

#[tokio::test]
async fn nothing_is_set_without_the_access_to_it() {
    let client = Client::new().await;
    client.close(client.make("f").await).await.unwrap();
    let access = AccessMask::READ_DATA;
    let options = CreateOptions::default();
    let open = client.open_with("f", access, CreateDisposition::OPEN, options).await.unwrap();
    let denied = Err(NtStatus::ACCESS_DENIED);
    for information in [
        SetInformation::Basic(SetBasic::default()),
        SetInformation::EndOfFile(0),
        SetInformation::Allocation(0),
        SetInformation::Disposition(Disposition::DELETE),
        SetInformation::Rename(rename("g", RenameFlags::default())),
        SetInformation::FullEa(vec![ExtendedAttribute::default()]),
    ] {
        assert_eq!(client.set(open, information.clone()).await, denied, "{information:?}");
    }
    let basic = client.query::<FileBasic>(open, InformationClass::BASIC).await;
    assert_eq!(basic, Err(NtStatus::ACCESS_DENIED));
    let standard = client.query::<FileStandard>(open, InformationClass::STANDARD).await;
    assert!(standard.is_ok());
}

#[tokio::test]
async fn extended_attributes_are_set_read_and_removed() {
    let client = Client::new().await;
    let file = client.make("f").await;
    let ea = |name: &'static str, value: &'static str| ExtendedAttribute {
        flags: 0,
        name: Bytes::from_static(name.as_bytes()),
        value: Bytes::from_static(value.as_bytes()),
    };
    let query = request(file, InfoType::FILE, InformationClass::FULL_EA.0);
    assert_eq!(client.query_with(query.clone()).await, Err(NtStatus::NO_EAS_ON_FILE));
    let changes = vec![ea("One", "1"), ea("Two", "22")];
    client.set(file, SetInformation::FullEa(changes)).await.unwrap();
    client.set(file, SetInformation::FullEa(vec![ea("ONE", "x"), ea("TWO", "")])).await.unwrap();
    let (bytes, _) = client.query_with(query.clone()).await.unwrap();
    assert_eq!(decode_eas(bytes).unwrap(), [ea("One", "x")], "the letters of a name stay");
    let names = encode_ea_names(&[Bytes::from_static(b"one")]);
    let named = QueryInfoRequest { input: names.into(), ..query };
    let (bytes, _) = client.query_with(named).await.unwrap();
    assert_eq!(decode_eas(bytes).unwrap(), [ea("One", "x")]);
    let native = client.share.own_client();
    let found = native.look_up(&root(), FileIndex::ROOT, b"f").await.unwrap();
    assert_eq!(native.xattr(&root(), found.file, b"user.One").await.unwrap(), b"x");
    let all: FileAll = client.query(file, InformationClass::ALL).await.unwrap();
    assert_eq!(all.ea.ea_bytes, 4 + 5 + 3 + 1);
    let mode = XattrMode::Either;
    native.set_xattr(&root(), found.file, b"trusted.x", b"1", mode).await.unwrap();
    let bad = client.set(file, SetInformation::FullEa(vec![ea("a:b", "1")])).await;
    assert_eq!(bad, Err(NtStatus::OBJECT_NAME_INVALID));
}

#[tokio::test]
async fn a_volume_is_named_as_the_share_and_says_what_it_can_do() {
    let client =
        Client::with_share(ShareConfig { read_only: true, ..ShareConfig::new("data", "/") }).await;
    let options = CreateOptions::FILE_DIRECTORY_FILE;
    let access = AccessMask::READ_ATTRIBUTES;
    let open = client.open_with("", access, CreateDisposition::OPEN, options).await.unwrap();
    let of = |class: VolumeClass| request(open, InfoType::FILESYSTEM, class.0);
    let (bytes, _) = client.query_with(of(VolumeClass::VOLUME)).await.unwrap();
    assert_eq!(FsVolume::from_bytes(bytes).unwrap().label, "data");
    let (bytes, _) = client.query_with(of(VolumeClass::ATTRIBUTE)).await.unwrap();
    let attribute = FsAttribute::from_bytes(bytes).unwrap();
    assert_eq!(attribute.attributes.0 & 0x8_0000, 0x8_0000, "it is read-only");
    let (bytes, _) = client.query_with(of(VolumeClass::FULL_SIZE)).await.unwrap();
    assert_eq!(bytes.len(), 32);
    let link = SetInformation::Link(rename("two", RenameFlags::default()));
    assert_eq!(client.set(open, link).await, Err(NtStatus::ACCESS_DENIED));
}

#[tokio::test]
async fn a_security_descriptor_names_the_owner_and_needs_its_room() {
    let client = Client::new().await;
    let file = client.make("f").await;
    let parts = SecurityInformation::OWNER.with(SecurityInformation::DACL);
    let query = QueryInfoRequest {
        additional_information: parts.0,
        ..request(file, InfoType::SECURITY, 0)
    };
    let (bytes, _) = client.query_with(query.clone()).await.unwrap();
    let descriptor = SecurityDescriptor::from_bytes(bytes.clone()).unwrap();
    assert_eq!(descriptor.owner, Some(Sid::unix_user(0)));
    assert!(!descriptor.dacl.unwrap().aces.is_empty() && descriptor.group.is_none());
    let small = QueryInfoRequest { output_buffer_length: bytes.len() as u32 - 1, ..query };
    let reply = query_info::query_info(&client.context, small).await.unwrap();
    assert_eq!(reply.status, NtStatus::BUFFER_TOO_SMALL);
    // MS-SMB2 2.2.2: the size behind 8 bytes.
    assert_eq!(reply.body[8..12], (bytes.len() as u32).to_le_bytes());
}

#[tokio::test]
async fn a_response_lists_at_most_1_mib() {
    let client = Client::new().await;
    let own = client.share.own_client();
    for number in 0..3000 {
        let name = format!("{number:0200}");
        own.make_directory(&root(), FileIndex::ROOT, name.as_bytes(), 0o755).await.unwrap();
    }
    let top = client.root().await;
    let listing = Listing { max_bytes: 4 << 20, ..Listing::default() };
    let mut names = 0;
    let mut responses = 0;
    while let Ok(entries) = client.list(top, "*", listing).await {
        names += entries.len();
        responses += 1;
    }
    // 400 bytes of a name, and 100 of attributes, for each.
    assert_eq!((names, responses), (3002, 2));
}
