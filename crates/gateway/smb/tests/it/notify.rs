//! CHANGE_NOTIFY, and requests that wait. MS-SMB2 3.3.5.19, 3.3.4.2, 3.3.5.16.

use braid_share::{FileIndex, Identity, Share, ShareClient};
use braid_smb_wire::NtStatus;
use braid_smb_wire::fscc::{
    NotifyAction, NotifyEvent, RenameFlags, RenameTarget, SetInformation, decode_notify,
};
use braid_smb_wire::smb2::change_notify::{
    ChangeNotifyFlags, ChangeNotifyRequest, ChangeNotifyResponse, CompletionFilter,
};
use braid_smb_wire::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse,
};
use braid_smb_wire::smb2::query_info::InfoType;
use braid_smb_wire::smb2::set_info::SetInfoRequest;
use braid_smb_wire::smb2::{Body, Command, Empty, FileId, Flags, Header};

use crate::client::{Answer, Client, close, create, write};
use crate::server::Server;

const NAMES: CompletionFilter = CompletionFilter::FILE_NAME.with(CompletionFilter::DIR_NAME);
const WRITES: CompletionFilter = CompletionFilter::SIZE.with(CompletionFilter::LAST_WRITE);

impl Client {
    fn directory(&mut self, name: &str) -> FileId {
        let request = CreateRequest {
            options: CreateOptions::FILE_DIRECTORY_FILE,
            desired_access: 0x0010_0081,
            ..create(name)
        };
        let answer = self.call(Command::Create, &request);
        assert_eq!(answer.status(), NtStatus::SUCCESS, "{name}");
        answer.body::<CreateResponse>().file_id
    }

    /// Sends a CHANGE_NOTIFY that waits: the header of the first response.
    fn watch(&mut self, dir: FileId, filter: CompletionFilter, below: bool) -> Header {
        let answer = self.call(Command::ChangeNotify, &watching(dir, filter, below));
        assert_eq!(answer.status(), NtStatus::PENDING);
        assert!(answer.header.flags.has(Flags::ASYNC) && answer.header.async_id != 0);
        answer.header
    }

    /// The events of the response to a request that waited.
    fn events(&mut self, waiting: &Header) -> Vec<NotifyEvent> {
        let answer = self.late(waiting);
        assert_eq!(answer.status(), NtStatus::SUCCESS);
        events(&answer)
    }

    /// The last response to a request that waited.
    fn late(&mut self, waiting: &Header) -> Answer {
        let answer = self.answer();
        let numbers = |header: &Header| (header.message_id, header.async_id, header.command);
        assert_eq!(numbers(&answer.header), numbers(waiting));
        assert!(answer.header.flags.has(Flags::ASYNC));
        assert_eq!(answer.header.flags.has(Flags::SIGNED), self.signs && !self.encrypts);
        assert_eq!(answer.header.credits, 0, "they were granted before");
        answer
    }

    fn rename(&mut self, from: &str, to: &str) {
        let opening = CreateRequest {
            desired_access: 0x0011_0080,
            disposition: CreateDisposition::OPEN,
            ..create(from)
        };
        let id = self.call(Command::Create, &opening).body::<CreateResponse>().file_id;
        let (flags, name) = (RenameFlags::default(), to.to_owned());
        let target = SetInformation::Rename(RenameTarget { flags, root_directory: 0, name });
        let request = SetInfoRequest {
            info_type: InfoType::FILE,
            info_class: target.class().0,
            additional_information: 0,
            file_id: id,
            data: target.to_bytes().into(),
        };
        assert_eq!(self.call(Command::SetInfo, &request).status(), NtStatus::SUCCESS);
        self.close(id);
    }

    fn remove(&mut self, name: &str) {
        let request = CreateRequest {
            desired_access: 0x0001_0000,
            disposition: CreateDisposition::OPEN,
            options: CreateOptions::FILE_DELETE_ON_CLOSE,
            ..create(name)
        };
        let id = self.call(Command::Create, &request).body::<CreateResponse>().file_id;
        self.close(id);
    }

    fn close(&mut self, id: FileId) {
        assert_eq!(self.call(Command::Close, &close(id)).status(), NtStatus::SUCCESS);
    }

    fn make(&mut self, name: &str) {
        let id = self.open(name);
        self.close(id);
    }
}

fn watching(file_id: FileId, filter: CompletionFilter, below: bool) -> ChangeNotifyRequest {
    let flags = if below { ChangeNotifyFlags::WATCH_TREE } else { ChangeNotifyFlags::default() };
    ChangeNotifyRequest { flags, output_buffer_length: 4096, file_id, filter }
}

fn events(answer: &Answer) -> Vec<NotifyEvent> {
    decode_notify(answer.body::<ChangeNotifyResponse>().output).unwrap()
}

fn event(action: NotifyAction, name: &str) -> NotifyEvent {
    NotifyEvent { action, name: name.to_owned() }
}

#[test]
fn a_change_ends_the_wait_with_the_name() {
    let server = Server::new();
    for (signs, encrypts) in [(false, false), (true, false), (false, true)] {
        let (mut client, mut other) = (Client::ready(&server), Client::ready(&server));
        (client.signs, client.encrypts) = (signs, encrypts);
        let dir = client.directory("");
        let waiting = client.watch(dir, NAMES, false);
        // Other requests are answered meanwhile.
        assert_eq!(client.call(Command::Echo, &Empty).status(), NtStatus::SUCCESS);
        let name = format!("Made {signs} {encrypts}");
        other.make(&name);
        assert_eq!(client.events(&waiting), [event(NotifyAction::ADDED, &name)]);
    }
}

#[test]
fn what_happens_between_two_requests_is_not_lost() {
    let server = Server::new();
    let (mut client, mut other) = (Client::ready(&server), Client::ready(&server));
    let dir = client.directory("");
    let waiting = client.watch(dir, NAMES, false);
    other.make("first");
    assert_eq!(client.events(&waiting), [event(NotifyAction::ADDED, "first")]);
    other.rename("FIRST", "second");
    other.remove("second");
    let answer = client.call(Command::ChangeNotify, &watching(dir, NAMES, false));
    let wanted = [
        event(NotifyAction::RENAMED_OLD_NAME, "first"),
        event(NotifyAction::RENAMED_NEW_NAME, "second"),
        event(NotifyAction::REMOVED, "second"),
    ];
    assert_eq!((answer.status(), events(&answer)), (NtStatus::SUCCESS, wanted.to_vec()));
}

#[test]
fn directories_below_are_watched_if_that_is_asked_for() {
    let server = Server::new();
    let (mut client, mut other) = (Client::ready(&server), Client::ready(&server));
    for name in ["Top", r"Top\in", "else"] {
        let dir = other.directory(name);
        other.close(dir);
    }
    let (dir, flat) = (client.directory("top"), client.directory(""));
    let waiting = client.watch(dir, NAMES, true);
    let of_root = client.watch(flat, NAMES, false);
    other.make(r"else\x");
    other.make(r"tOP\IN\File");
    assert_eq!(client.events(&waiting), [event(NotifyAction::ADDED, r"in\File")]);
    let waiting = client.watch(dir, NAMES, true);
    other.rename(r"top\in\file", r"top\moved");
    // The first of the two events ends the wait.
    assert_eq!(client.events(&waiting)[0], event(NotifyAction::REMOVED, r"in\File"));
    other.make("of the root");
    assert_eq!(client.events(&of_root), [event(NotifyAction::ADDED, "of the root")]);
}

#[test]
fn only_what_is_asked_for_ends_the_wait() {
    let server = Server::new();
    let (mut client, mut other) = (Client::ready(&server), Client::ready(&server));
    let dir = client.directory("");
    let waiting = client.watch(dir, WRITES, false);
    let id = other.open("file");
    assert_eq!(other.call(Command::Write, &write(id, "abc")).status(), NtStatus::SUCCESS);
    other.close(id);
    assert_eq!(client.events(&waiting), [event(NotifyAction::MODIFIED, "file")]);
}

#[test]
fn changes_of_a_stream_are_reported_with_its_name() {
    let server = Server::new();
    let (mut client, mut other) = (Client::ready(&server), Client::ready(&server));
    other.make("File");
    let dir = client.directory("");
    let filter = CompletionFilter::STREAM_NAME.with(CompletionFilter::STREAM_WRITE);
    let waiting = client.watch(dir, filter, false);
    let id = other.open("file:s");
    assert_eq!(client.events(&waiting), [event(NotifyAction::ADDED_STREAM, "File:s:$DATA")]);
    assert_eq!(other.call(Command::Write, &write(id, "abc")).status(), NtStatus::SUCCESS);
    other.close(id);
    other.remove("file:S");
    let answer = client.call(Command::ChangeNotify, &watching(dir, filter, false));
    let wanted = [
        event(NotifyAction::MODIFIED_STREAM, "File:s:$DATA"),
        event(NotifyAction::REMOVED_STREAM, "File:s:$DATA"),
    ];
    assert_eq!((answer.status(), events(&answer)), (NtStatus::SUCCESS, wanted.to_vec()));
}

#[test]
fn a_change_that_no_client_of_the_gateway_made_is_found() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    let dir = client.directory("");
    let waiting = client.watch(dir, NAMES, false);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (mount, root) = (server.share.own_client(), Identity::root());
    runtime.block_on(mount.make_directory(&root, FileIndex::ROOT, b"made", 0o755)).unwrap();
    let answer = client.late(&waiting);
    assert_eq!(answer.status(), NtStatus::NOTIFY_ENUM_DIR);
    assert!(events(&answer).is_empty());
    client.watch(dir, NAMES, false);
}

#[test]
fn a_cancel_ends_the_wait_of_its_request_only() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    client.signs = true;
    let dir = client.directory("");
    let (first, second) = (client.watch(dir, NAMES, false), client.watch(dir, NAMES, false));
    for (waiting, by_number) in [(second, true), (first, false)] {
        let mut cancel = Header {
            message_id: waiting.message_id,
            session_id: client.session,
            tree_id: client.tree,
            credit_charge: 0,
            ..Header::request(Command::Cancel, 0)
        };
        if by_number {
            (cancel.flags, cancel.async_id) = (Flags::ASYNC, waiting.async_id);
        }
        let message = client.signed(cancel, &Empty.to_bytes());
        client.send(&message);
        assert_eq!(client.late(&waiting).status(), NtStatus::CANCELLED);
    }
    assert_eq!(client.call(Command::Echo, &Empty).status(), NtStatus::SUCCESS);
}

#[test]
fn a_close_ends_the_wait() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    let dir = client.directory("");
    let waiting = client.watch(dir, NAMES, false);
    let header = client.header(Command::Close);
    let message = client.signed(header, &close(dir).to_bytes());
    client.send(&message);
    // The two come in either order.
    let mut statuses: Vec<_> = (0..2)
        .map(|_| client.answer())
        .map(|answer| (answer.header.message_id == waiting.message_id, answer.status()))
        .collect();
    statuses.sort_by_key(|(waited, _)| *waited);
    assert_eq!(statuses, [(false, NtStatus::SUCCESS), (true, NtStatus::NOTIFY_CLEANUP)]);
}

#[test]
fn only_the_last_request_of_a_compound_waits() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    let dir = client.directory("");
    let watching = watching(dir, NAMES, false).to_bytes();
    let answers = client.compound(&[
        (Command::ChangeNotify, false, watching.clone()),
        (Command::ChangeNotify, false, watching),
    ]);
    assert_eq!(answers[0].status(), NtStatus::INTERNAL_ERROR);
    assert_eq!(answers[1].status(), NtStatus::PENDING);
}

#[test]
fn requests_that_wait_are_limited() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    let dir = client.directory("");
    let answers: Vec<_> = (0..513)
        .map(|_| client.call(Command::ChangeNotify, &watching(dir, NAMES, false)).status())
        .collect();
    assert!(answers[..512].iter().all(|status| *status == NtStatus::PENDING));
    assert_eq!(answers[512], NtStatus::INSUFFICIENT_RESOURCES);
}

#[test]
fn a_file_is_not_watched_and_a_directory_needs_the_right_to_list() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    let file = client.open("file");
    let answer = client.call(Command::ChangeNotify, &watching(file, NAMES, false));
    assert_eq!(answer.status(), NtStatus::INVALID_PARAMETER);
    let request = CreateRequest {
        options: CreateOptions::FILE_DIRECTORY_FILE,
        desired_access: 0x80,
        ..create("")
    };
    let dir = client.call(Command::Create, &request).body::<CreateResponse>().file_id;
    let answer = client.call(Command::ChangeNotify, &watching(dir, NAMES, false));
    assert_eq!(answer.status(), NtStatus::ACCESS_DENIED);
}
