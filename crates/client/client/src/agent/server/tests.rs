use std::{
    os::unix::process::CommandExt,
    process::{Command, Output},
    thread::JoinHandle,
};

use braid_types::{KeyId, MdsEpoch, SessionId};
use braid_wire::Credential as Proved;

use super::*;
use crate::{Proof, agent::ask};

const NOBODY: u32 = 65_534;

struct Running {
    dir: tempfile::TempDir,
    key: Secret,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(check: impl Fn() -> Result<AgentCheckReply> + Send + Sync + 'static) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let key = Secret::from_bytes([3; 32]);
        let socket = dir.path().join("agent.sock");
        let agent =
            Agent::with_check(&socket, key.clone(), vec!["mds:1".into()], None, Box::new(check))
                .unwrap();
        let stopper = agent.stopper();
        let thread = Some(thread::spawn(move || agent.run().unwrap()));
        Self { dir, key, stopper, thread }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("agent.sock")
    }

    /// Runs [`child_asks`] as another user.
    fn ask_as(&self, uid: u32) -> Output {
        let program = self.dir.path().join("child");
        // By another process. If a parallel test forked while the copy is open for writing, the
        // file would be busy.
        let copied = Command::new("cp")
            .arg(std::env::current_exe().unwrap())
            .arg(&program)
            .status()
            .unwrap();
        assert!(copied.success());
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let name = "agent::server::tests::child_asks";
        let mut command = Command::new(program);
        command
            .args(["--exact", name, "--ignored", "--nocapture"])
            .env("BRAID_TEST_AGENT", self.socket());
        command.current_dir("/").uid(uid).gid(uid).output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

fn alive() -> Result<AgentCheckReply> {
    Ok(AgentCheckReply { session: SessionId(9), key: KeyId(4), epoch: MdsEpoch(2) })
}

fn ticket_of(proof: &Proof) -> &Ticket {
    let Proved::Ticket(ticket) = &proof.credential else { panic!("a ticket") };
    ticket
}

#[test]
fn a_program_gets_a_ticket_with_its_own_identity_and_its_key() {
    let agent = Running::start(alive);
    let proof = ask(&agent.socket()).unwrap();
    let ticket = ticket_of(&proof);
    let me = rustix::process::geteuid().as_raw();
    assert_eq!(
        (ticket.uid, ticket.key, ticket.agent_session),
        (u64::from(me), KeyId(4), SessionId(9))
    );
    let mut groups: Vec<u64> =
        rustix::process::getgroups().unwrap().iter().map(|g| u64::from(g.as_raw())).collect();
    let mut groups_in_ticket = ticket.groups.clone();
    groups.sort_unstable();
    groups_in_ticket.sort_unstable();
    assert_eq!(groups_in_ticket, groups);
    assert_eq!(proof.secret, ticket.secret(&agent.key));
    assert_eq!(proof.mds, ["mds:1"]);
    let mut forged = ticket.clone();
    forged.uid += 1;
    assert_ne!(proof.secret, forged.secret(&agent.key), "a changed ticket has another key");
    assert_ne!(ticket_of(&ask(&agent.socket()).unwrap()).nonce, ticket.nonce);
}

#[test]
fn another_user_gets_its_own_identity_whatever_it_says() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can start a process of another user");
        return;
    }
    let agent = Running::start(alive);
    let output = agent.ask_as(NOBODY);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("ticket of uid 65534 gid 65534"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "the child process of another_user_gets_its_own_identity_whatever_it_says"]
fn child_asks() {
    let socket = PathBuf::from(std::env::var_os("BRAID_TEST_AGENT").unwrap());
    // Claims to be root before anything else. The agent does not read it.
    let mut stream = UnixStream::connect(&socket).unwrap();
    let _ = stream.write_all(b"uid=0 gid=0");
    drop(stream);
    let proof = ask(&socket).unwrap();
    let ticket = ticket_of(&proof);
    println!("ticket of uid {} gid {} groups {:?}", ticket.uid, ticket.gid, ticket.groups);
}

#[test]
fn no_ticket_is_issued_when_the_agents_session_has_ended() {
    let agent =
        Running::start(|| Err(Error::new(Status::Unreachable, "the metadata server is away")));
    let error = ask(&agent.socket()).unwrap_err();
    assert_eq!(error.status(), Status::Unreachable);
    assert!(error.to_string().contains("the metadata server is away"), "{error}");
}

#[test]
fn an_agent_takes_over_a_dead_socket_and_not_a_living_one() {
    let agent = Running::start(alive);
    let error =
        Agent::with_check(&agent.socket(), agent.key.clone(), Vec::new(), None, Box::new(alive))
            .unwrap_err();
    assert_eq!(error.status(), Status::Busy);
    let dead = agent.dir.path().join("dead.sock");
    drop(UnixListener::bind(&dead).unwrap());
    Agent::with_check(&dead, agent.key.clone(), Vec::new(), None, Box::new(alive)).unwrap();
}

#[test]
fn no_agent_is_an_error_that_says_how_to_start_one() {
    let dir = tempfile::tempdir().unwrap();
    let error = ask(&dir.path().join("none.sock")).unwrap_err();
    assert_eq!(error.status(), Status::Unreachable);
    assert!(
        error.to_string().ends_with("try: braid agent, as the owner of the client key"),
        "{error}"
    );
}

#[test]
fn an_agent_without_a_client_key_does_not_start() {
    let config = Config::new(["mds:1"], Credential::ServerKey(Secret::from_bytes([1; 32])));
    assert_eq!(
        Agent::bind(Path::new("/nowhere/agent.sock"), config).unwrap_err().status(),
        Status::Invalid
    );
}
