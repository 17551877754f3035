//! Logons: the users that get a session, and what a stranger learns.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use braid_share::Identity;
use braid_smb::{NoUser, User, Users};
use braid_smb_wire::NtStatus;
use braid_smb_wire::auth::ntlm::{
    Authenticate, Credentials, Initiator, MessageFlags, NtHash, nt_hash,
};
use braid_smb_wire::auth::spnego::{Mechanism, NegTokenInit, NegTokenResp, Token, mechanism_list};
use braid_smb_wire::protect::Sender;
use braid_smb_wire::smb2::session_setup::{
    SessionFlags, SessionSetupRequest, SessionSetupResponse,
};
use braid_smb_wire::smb2::{Body, Command, Dialect, Empty, Flags};
use bytes::Bytes;

use crate::client::{Answer, Client, close, create, offer};
use crate::server::{PASSWORD, Server};

/// Most look-ups of users that the server runs at the same time.
const LOOKUPS: usize = 16;

/// How a client logs on.
#[derive(Clone, Copy)]
pub struct Logon<'a> {
    pub user: &'a str,
    pub password: &'a str,
    pub how: How,
    /// The session of a lost connection.
    pub previous: u64,
    pub security_mode: u8,
}

/// How a logon is wrapped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// In SPNEGO, whose first mechanism is NTLM.
    Spnego,
    /// Not.
    Raw,
    /// In SPNEGO, whose first mechanism is Kerberos. The list of mechanisms is authenticated.
    KerberosFirst,
    /// The same, but the list is not authenticated.
    KerberosFirstWithoutMic,
    /// Without a user.
    Anonymous,
}

impl Logon<'_> {
    pub fn of(user: &str) -> Logon<'_> {
        Logon { user, password: PASSWORD, how: How::Spnego, previous: 0, security_mode: 1 }
    }
}

impl Client {
    /// Logs on with the right password, and takes the keys.
    pub fn log_on(&mut self, user: &str) -> NtStatus {
        self.log_on_as(Logon::of(user)).status()
    }

    /// Logs on. Returns the last response.
    pub fn log_on_as(&mut self, logon: Logon<'_>) -> Answer {
        let mut preauth = self.preauth.clone();
        let is_first = self.keys.is_none();
        let hash = nt_hash(logon.password);
        let (domain, workstation) = (String::new(), "HERE".to_owned());
        let user = logon.user.to_owned();
        let ntlm = Initiator::new(Credentials { user, domain, workstation, hash });
        let negotiate = Bytes::copy_from_slice(ntlm.negotiate());
        let list = [Mechanism::Kerberos, Mechanism::Ntlm];
        let init = |mechanisms: &[Mechanism], token| {
            let mechanisms = mechanisms.to_vec();
            NegTokenInit { mechanisms, token, ..NegTokenInit::default() }.encode()
        };
        let kerberos = matches!(logon.how, How::KerberosFirst | How::KerberosFirstWithoutMic);
        let first = match logon.how {
            How::Raw => negotiate.to_vec(),
            _ if kerberos => init(&list, Some(Bytes::from_static(b"a ticket"))),
            _ => init(&[Mechanism::Ntlm], Some(negotiate.clone())),
        };
        let mut answer = self.set_up(&logon, first, &mut preauth);
        if kerberos && answer.status() == NtStatus::MORE_PROCESSING_REQUIRED {
            let token = NegTokenResp { token: Some(negotiate), ..NegTokenResp::default() };
            answer = self.set_up(&logon, token.encode(), &mut preauth);
        }
        if answer.status() != NtStatus::MORE_PROCESSING_REQUIRED {
            return answer;
        }
        let token = answer.body::<SessionSetupResponse>().security_buffer;
        let challenge = match Token::decode(&token).unwrap() {
            Token::RawNtlm(token) => token,
            Token::Resp(response) => response.token.unwrap(),
            Token::Init(_) => panic!("a server does not begin"),
        };
        let (mut message, user) = ntlm.authenticate(&challenge, [3; 8], [4; 16]).unwrap();
        if logon.how == How::Anonymous {
            message = anonymous();
        }
        let mic = user.message_keys(Sender::Client).mic(&mechanism_list(&list));
        let mic = (logon.how == How::KerberosFirst).then(|| Bytes::copy_from_slice(&mic));
        let token = NegTokenResp { token: Some(message.clone().into()), mic, ..Default::default() };
        let last = match logon.how {
            How::Raw => message,
            _ => token.encode(),
        };
        let answer = self.set_up(&logon, last, &mut preauth);
        if answer.status() == NtStatus::SUCCESS && is_first {
            self.session = answer.header.session_id;
            if answer.body::<SessionSetupResponse>().flags == SessionFlags::default() {
                self.take_keys(&user.session_key, &preauth);
                let keys = self.keys.as_ref().unwrap();
                assert!(answer.header.flags.has(Flags::SIGNED));
                assert!(keys.signer.verify(&answer.header, &answer.message, Sender::Server));
            }
        }
        answer
    }

    /// One step of a logon; the session is that of the response before.
    fn set_up(
        &mut self,
        logon: &Logon<'_>,
        token: Vec<u8>,
        preauth: &mut braid_smb_wire::protect::PreauthHash,
    ) -> Answer {
        let request = SessionSetupRequest {
            security_mode: logon.security_mode,
            previous_session_id: logon.previous,
            security_buffer: token.into(),
            ..SessionSetupRequest::default()
        };
        let header = self.header(Command::SessionSetup);
        let message = self.signed(header, &request.to_bytes());
        preauth.update(&[&message]);
        self.send(&self.sealed(&message));
        let answer = self.answer();
        if answer.status() == NtStatus::MORE_PROCESSING_REQUIRED {
            preauth.update(&[&answer.message]);
            self.session = answer.header.session_id;
        } else if self.keys.is_none() && answer.status().is_error() {
            self.session = 0;
        }
        answer
    }
}

/// MS-NLMP 3.1.5.1.2: no user and no responses.
fn anonymous() -> Vec<u8> {
    let message = Authenticate {
        lm_response: Bytes::from_static(&[0]),
        nt_response: Bytes::new(),
        domain: Bytes::new(),
        user: Bytes::new(),
        workstation: Bytes::new(),
        encrypted_session_key: Bytes::new(),
        flags: MessageFlags::UNICODE.with(MessageFlags::ANONYMOUS),
        mic: [0; 16],
    };
    message.encode()
}

fn negotiated(server: &Server) -> Client {
    let mut client = Client::connect(server);
    client.negotiate(&offer(&[Dialect::Smb311]));
    client
}

fn status(server: &Server, logon: Logon<'_>) -> NtStatus {
    negotiated(server).log_on_as(logon).status()
}

#[test]
fn a_wrong_password_and_an_unknown_user_get_the_same_answer() {
    let server = Server::new();
    let wrong = Logon { password: "another", ..Logon::of("alice") };
    let answers = [wrong, Logon::of("nobody")].map(|logon| {
        let answer = negotiated(&server).log_on_as(logon);
        (answer.status(), answer.message.slice(64..))
    });
    assert_eq!(answers[0].0, NtStatus::LOGON_FAILURE);
    assert_eq!(answers[0], answers[1]);
    assert_eq!(status(&server, Logon::of("ALICE")), NtStatus::SUCCESS, "names have no case");
}

/// Users whose look-up waits until the database answers.
#[derive(Clone, Debug, Default)]
struct SlowUsers(Arc<(Mutex<SlowState>, Condvar)>);

#[derive(Debug, Default)]
struct SlowState {
    lookups: usize,
    answers: bool,
}

impl SlowUsers {
    fn change(&self, change: impl FnOnce(&mut SlowState)) {
        change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    /// Waits for something, or until no test can wait longer.
    fn wait(&self, until: impl Fn(&SlowState) -> bool) {
        let state = self.0.0.lock().unwrap();
        let patience = Duration::from_secs(40);
        drop(self.0.1.wait_timeout_while(state, patience, |state| !until(state)).unwrap());
    }
}

impl Users for SlowUsers {
    fn user(&self, name: &str) -> Result<(NtHash, User), NoUser> {
        if name == "slow" {
            self.change(|state| state.lookups += 1);
            self.wait(|state| state.answers);
            return Err(NoUser::Unknown);
        }
        Ok((nt_hash(PASSWORD), self.guest()))
    }

    fn guest(&self) -> User {
        let identity = Identity { uid: 1000, gid: 1000, groups: Vec::new(), checked: false };
        User { name: "alice".to_owned(), identity, groups: Vec::new() }
    }
}

#[test]
fn a_database_of_users_that_does_not_answer_delays_only_logons() {
    let users = SlowUsers::default();
    let server = Server::with(|config| config.users = Arc::new(users.clone()));
    let mut other = Client::ready(&server);
    // As many logons as threads run requests.
    let count = std::thread::available_parallelism().unwrap().get().min(LOOKUPS);
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| assert_eq!(status(&server, Logon::of("slow")), NtStatus::LOGON_FAILURE));
        }
        users.wait(|state| state.lookups == count);
        // It panics after 30 s without an answer.
        assert_eq!(other.call(Command::Echo, &Empty).status(), NtStatus::SUCCESS);
        users.change(|state| state.answers = true);
    });
}

#[test]
fn ntlm_is_accepted_without_spnego_and_where_kerberos_was_preferred() {
    let server = Server::new();
    for how in [How::Raw, How::KerberosFirst] {
        let mut client = negotiated(&server);
        assert_eq!(client.log_on_as(Logon { how, ..Logon::of("bob") }).status(), NtStatus::SUCCESS);
        client.signs = true;
        assert_eq!(client.tree_connect("data"), NtStatus::SUCCESS);
    }
    // An attacker in the network may have put Kerberos first, or taken a stronger mechanism out.
    let logon = Logon { how: How::KerberosFirstWithoutMic, ..Logon::of("bob") };
    assert_eq!(status(&server, logon), NtStatus::LOGON_FAILURE);
}

#[test]
fn guests_and_the_anonymous_user_are_let_in_only_where_a_share_has_them() {
    let anonymous = Logon { how: How::Anonymous, ..Logon::of("") };
    let server = Server::new();
    assert_eq!(status(&server, anonymous), NtStatus::LOGON_FAILURE);
    assert_eq!(status(&server, Logon::of("carol")), NtStatus::LOGON_FAILURE);

    let server = Server::with_guests();
    for (logon, flags) in
        [(anonymous, SessionFlags::ANONYMOUS), (Logon::of("carol"), SessionFlags::GUEST)]
    {
        let mut client = negotiated(&server);
        let answer = client.log_on_as(logon);
        assert_eq!(answer.status(), NtStatus::SUCCESS);
        assert_eq!(answer.body::<SessionSetupResponse>().flags, flags);
        assert_eq!(client.tree_connect("data"), NtStatus::ACCESS_DENIED);
        assert_eq!(client.tree_connect("open"), NtStatus::SUCCESS);
    }
    let wrong = Logon { password: "another", ..Logon::of("alice") };
    assert_eq!(status(&server, wrong), NtStatus::LOGON_FAILURE, "a user needs the password");
}

#[test]
fn a_user_may_log_on_once_more_and_another_one_ends_the_session() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    let id = client.session;
    client.signs = true;
    client.open("kept");
    assert_eq!(client.log_on("alice"), NtStatus::SUCCESS);
    assert_eq!(client.session, id);
    assert!(client.has("kept"), "the keys, the tree and the session are the same");
    assert_eq!(client.log_on("bob"), NtStatus::ACCESS_DENIED);
    client.signs = false;
    let answer = client.call(Command::Logoff, &Empty);
    assert_eq!(answer.status(), NtStatus::USER_SESSION_DELETED);
}

#[test]
fn a_wrong_password_of_a_further_logon_ends_the_session() {
    let server = Server::with(|config| config.limits.sessions_per_connection = 1);
    let mut client = Client::ready(&server);
    let wrong = Logon { password: "another", ..Logon::of("alice") };
    assert_eq!(client.log_on_as(wrong).status(), NtStatus::LOGON_FAILURE);
    let answer = client.call(Command::Logoff, &Empty);
    assert_eq!(answer.status(), NtStatus::USER_SESSION_DELETED);
    // It no longer counts.
    (client.session, client.keys) = (0, None);
    assert_eq!(client.log_on("alice"), NtStatus::SUCCESS);
}

#[test]
fn the_last_session_of_a_connection_may_log_on_once_more_too() {
    let server = Server::with(|config| config.limits.sessions_per_connection = 1);
    let mut client = Client::ready(&server);
    assert_eq!(client.log_on("alice"), NtStatus::SUCCESS);
    client.session = 0;
    let logon = client.log_on("alice");
    assert_eq!(logon, NtStatus::INSUFFICIENT_RESOURCES, "a second session is too much");
}

#[test]
fn the_session_of_a_lost_connection_is_ended_by_its_user_only() {
    let server = Server::new();
    let mut old = Client::ready(&server);
    let previous = old.session;
    let other = Logon { previous, ..Logon::of("bob") };
    assert_eq!(status(&server, other), NtStatus::SUCCESS);
    assert!(!old.has("a"), "it goes on");
    let own = Logon { previous, ..Logon::of("alice") };
    assert_eq!(status(&server, own), NtStatus::SUCCESS);
    let answer = old.call(Command::Logoff, &Empty);
    assert_eq!(answer.status(), NtStatus::USER_SESSION_DELETED);
}

#[test]
fn failures_of_an_address_delay_its_logons_until_one_succeeds() {
    let server = Server::new();
    let wrong = Logon { password: "another", ..Logon::of("alice") };
    let time = |logon, wanted| {
        let begun = Instant::now();
        assert_eq!(status(&server, logon), wanted);
        begun.elapsed()
    };
    for _ in 0..4 {
        time(wrong, NtStatus::LOGON_FAILURE);
    }
    // On another connection each, and for the right password too: else it would be seen.
    assert!(time(wrong, NtStatus::LOGON_FAILURE) >= Duration::from_millis(250));
    assert!(time(Logon::of("alice"), NtStatus::SUCCESS) >= Duration::from_millis(500));
    time(wrong, NtStatus::LOGON_FAILURE);
    assert!(time(Logon::of("alice"), NtStatus::SUCCESS) < Duration::from_millis(250));
}

/// The metadata server ends the session of a machine that it has fenced. Before, the machine's next
/// logon on the same connection got that session again.
#[test]
fn a_machine_whose_session_was_ended_logs_on_again() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    let id = client.open("a");
    let mut sessions = server.share.client_records().into_iter();
    let of_machine = sessions.find(|(_, record)| record.name.starts_with("smb "));
    server.share.expire_session(of_machine.unwrap().0);
    let lost = client.call(Command::Create, &create("b"));
    assert_eq!(lost.status(), NtStatus::USER_SESSION_DELETED);
    (client.session, client.tree, client.keys) = (0, 0, None);
    assert_eq!(client.log_on("alice"), NtStatus::SUCCESS);
    assert_eq!(client.tree_connect("data"), NtStatus::SUCCESS);
    assert_eq!(client.call(Command::Close, &close(id)).status(), NtStatus::FILE_CLOSED);
    assert!(client.has("a"));
}
