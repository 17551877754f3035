//! Operations of files on the file system in memory, below the messages.

mod case;
mod create;
mod data;
mod ioctl;
mod leases;
mod locks;
mod removal;
mod security;
mod stream_names;
mod streams;
mod times;

use std::sync::Arc;

use braid_share::memory::{MemoryClient, MemoryShare};
use braid_share::{
    AttributeChanges, Deny, FileIndex, Identity, OpenMode, OpenTarget, Rights, Share, ShareClient,
    ShareFile,
};
use braid_smb_wire::auth::ntlm::NtHash;
use braid_smb_wire::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel,
    ShareAccess,
};
use braid_smb_wire::smb2::negotiate::{Capabilities, SecurityMode, SigningAlgorithm};
use braid_smb_wire::smb2::{Body, Command, Dialect, FileId, HEADER_BYTES, Header};
use braid_smb_wire::{NtStatus, Reader};
use bytes::Bytes;

use crate::client::Machine;
use crate::config::{Limits, ShareConfig, SmbConfig};
use crate::connection::Connection;
use crate::connection::negotiated::Negotiated;
use crate::context::{Context, OpResult, Reply};
use crate::protection::Protection;
use crate::server::SmbServer;
use crate::session::{Logon, Session};
use crate::tree::{Target, Tree};
use crate::users::{NoUser, User, Users};

const READ: u32 = 0x0012_0089;
const WRITE: u32 = 0x0012_0116;
const BOTH: u32 = READ | WRITE;
const DELETE: u32 = 0x0001_0000;
const ATTRIBUTES: u32 = 0x80;
const ALL_ACCESS: u32 = 0x001f_01ff;
const MAXIMUM_ALLOWED: u32 = 0x0200_0000;
const READ_ONLY_ACCESS: u32 = 0x0012_00a9;

/// A user who is not root.
pub(crate) fn user() -> Identity {
    Identity { uid: 1000, gid: 1000, groups: Vec::new(), checked: false }
}

#[derive(Debug)]
pub(crate) struct Nobody;

impl Users for Nobody {
    fn user(&self, _: &str) -> Result<(NtHash, User), NoUser> {
        Err(NoUser::Unknown)
    }

    fn guest(&self) -> User {
        User { name: "guest".to_owned(), identity: user(), groups: Vec::new() }
    }
}

/// A client with a session and a tree of the share `/`.
struct Client {
    server: Arc<SmbServer<MemoryShare>>,
    session: Arc<Session<MemoryShare>>,
    tree: Arc<Tree>,
    connection: Arc<Connection>,
}

impl Client {
    /// A client of a new server, whose root directory everybody may change.
    async fn new(who: Identity) -> Self {
        Self::with_limits(who, Limits::default()).await
    }

    async fn with_limits(who: Identity, limits: Limits) -> Self {
        let share = MemoryShare::new();
        let root = Identity::root();
        let changes = AttributeChanges { mode: Some(0o777), ..AttributeChanges::default() };
        share.own_client().set_attributes(&root, FileIndex::ROOT, changes).await.unwrap();
        let config = SmbConfig { limits, ..SmbConfig::new("server", Arc::new(Nobody)) };
        Self::of(&SmbServer::new(share, config).unwrap(), who, 1).await
    }

    /// A client of a server, on a machine of its own.
    async fn of(server: &Arc<SmbServer<MemoryShare>>, who: Identity, number: u8) -> Self {
        let machine: Arc<Machine<MemoryShare>> =
            server.machines.session(&server.share, [number; 16], "host").await.unwrap();
        let user = User { name: "user".to_owned(), identity: who, groups: Vec::new() };
        let user = (user, Logon::User);
        let session = Session::new(u64::from(number), 1, user, Protection::default(), machine);
        let session = Arc::new(session);
        let tree = Self::tree(server, &session, false);
        let peer = "127.0.0.1:1".parse().unwrap();
        let connection = Arc::new(Connection::new(1, peer, tokio::io::sink()));
        assert!(connection.set_negotiated(negotiated()));
        Self { server: Arc::clone(server), session, tree, connection }
    }

    fn tree(
        server: &SmbServer<MemoryShare>,
        session: &Session<MemoryShare>,
        read_only: bool,
    ) -> Arc<Tree> {
        let share = Arc::new(ShareConfig { read_only, ..ShareConfig::new("data", "/") });
        let tree = |id| Tree {
            id,
            target: Target::Files { share, root: FileIndex::ROOT },
            maximal_access: if read_only { READ_ONLY_ACCESS } else { ALL_ACCESS },
        };
        session.add_tree(&server.config.limits, tree).unwrap()
    }

    /// The client, with a tree of the same directory that changes nothing.
    fn read_only(self) -> Self {
        let tree = Self::tree(&self.server, &self.session, true);
        Self { tree, ..self }
    }

    fn context(&self) -> Context<MemoryShare> {
        Context {
            server: Arc::clone(&self.server),
            connection: Arc::clone(&self.connection),
            header: Header { credit_charge: 128, ..Header::request(Command::Create, 1) },
            is_last: true,
            is_sealed: false,
            message: Bytes::new(),
            session: Some(Arc::clone(&self.session)),
            tree: Some(Arc::clone(&self.tree)),
            related: None,
            running: Arc::default(),
        }
    }

    fn share(&self) -> &MemoryShare {
        &self.server.share
    }

    fn client(&self) -> MemoryClient {
        self.share().own_client()
    }

    async fn create(&self, request: CreateRequest) -> Result<CreateResponse, NtStatus> {
        let created = super::create::create(&self.context(), request).await;
        created.done().map(|reply| body(&reply))
    }

    /// Opens or creates a file with this access.
    async fn open(&self, name: &str, access: u32) -> Result<FileId, NtStatus> {
        let request = request(name, access, CreateDisposition::OPEN_IF);
        self.create(request).await.map(|response| response.file_id)
    }

    async fn close(&self, id: FileId) -> OpResult {
        use braid_smb_wire::smb2::close::{CloseFlags, CloseRequest};
        let request = CloseRequest { flags: CloseFlags::POSTQUERY_ATTRIB, file_id: id };
        super::close::close(&self.context(), request).await
    }

    /// Checks that nothing is left of opens that were closed.
    fn assert_nothing_open(&self) {
        assert_eq!(self.share().open_count(), 0, "opens at the metadata server");
        assert_eq!(self.share().lock_count(), 0, "locks at the metadata server");
        assert!(self.server.files.is_empty(), "opens in the table");
    }

    /// Makes a file with these bytes, as root.
    async fn put(&self, name: &str, bytes: &'static [u8], mode: u32) {
        let target = OpenTarget::Create {
            dir: FileIndex::ROOT,
            name: name.into(),
            exclusive: true,
            truncate: false,
            mode,
        };
        let open = OpenMode { rights: Rights::WRITE, deny: Deny::NONE };
        let opened = self.client().open(&Identity::root(), target, open).await.unwrap();
        opened.file.write(0, Bytes::from_static(bytes), true).await.unwrap();
        opened.file.close().await.unwrap();
    }

    async fn exists(&self, name: &str) -> bool {
        let (client, root) = (self.client(), Identity::root());
        client.look_up(&root, FileIndex::ROOT, name.as_bytes()).await.is_ok()
    }
}

/// SMB 3.0.2, from a client that has offered 2.1 as well.
pub(crate) fn negotiated() -> Negotiated {
    Negotiated {
        dialect: Dialect::Smb302,
        client_guid: [7; 16],
        client_capabilities: Capabilities(0x7f),
        client_security_mode: SecurityMode(1),
        offered: vec![0x0210, 0x0302],
        capabilities: Capabilities(4),
        security_mode: SecurityMode(1),
        signing: SigningAlgorithm::AES_CMAC,
        cipher: None,
    }
}

/// A request with all sharing.
fn request(name: &str, access: u32, disposition: CreateDisposition) -> CreateRequest {
    CreateRequest {
        impersonation: ImpersonationLevel::IMPERSONATION,
        desired_access: access,
        share_access: ShareAccess(7),
        disposition,
        name: name.to_owned(),
        ..CreateRequest::default()
    }
}

fn with(options: CreateOptions, request: CreateRequest) -> CreateRequest {
    CreateRequest { options, ..request }
}

/// The body of a reply, read as a client reads it.
fn body<T: Body>(reply: &Reply) -> T {
    let message = [&[0; HEADER_BYTES][..], &reply.body, &reply.data].concat();
    let mut reader = Reader::new(message.into());
    reader.skip(HEADER_BYTES).unwrap();
    T::decode(&mut reader).unwrap()
}
