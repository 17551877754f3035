//! A file that is named by its index: the holder of a ticket must be able to reach it by a path, or
//! have it open.

use braid_types::{FileIndex, Status};
use braid_wire::{
    Call as WireCall, Credential, Deny, Rights, Role, Ticket,
    message::{
        lease::LeaseMode,
        mds::*,
        types::{Identity, LayoutHint, PathRef},
    },
};

use super::world::{Client, World, at, create};

const USER: u64 = 7;

/// The host's agent, and a user with a ticket of it.
struct Scene {
    world: World,
    agent: Client,
    user: Client,
}

fn ticket(agent: &Client) -> Credential {
    let AgentCheckReply { session, key, epoch } =
        agent.call_as(Envelope::PLAIN, AgentCheck {}).unwrap();
    let nonce = [7; 16];
    Credential::Ticket(Ticket {
        key,
        agent_session: session,
        epoch,
        uid: USER,
        gid: USER,
        groups: vec![],
        nonce,
    })
}

impl Scene {
    /// With root's directory `home` of mode 0700, `home/f` and `home/sub/g`, which all users may
    /// read.
    fn new() -> Self {
        let mut world = World::new(1);
        let agent = world.client();
        let mut user = world.connect(Role::Client, ticket(&agent));
        user.session =
            user.call(OpenSession { session: None, client: "user".into() }).unwrap().session;
        for (path, mode) in [("home", 0o700), ("home/sub", 0o755), ("pub", 0o777)] {
            agent.call(MakeDirectory { at: at(path), mode, umask: 0 }).unwrap();
        }
        for path in ["home/f", "home/sub/g"] {
            agent.close(&agent.create(path));
        }
        Self { world, agent, user }
    }

    fn index(&self, path: &str) -> FileIndex {
        self.agent.stat(path).unwrap().file
    }

    fn home_is(&self, mode: u32) {
        let changes = AttributeChanges { mode: Some(mode), ..AttributeChanges::none() };
        self.agent.call(SetAttributes { at: at("home"), follow: true, changes }).unwrap();
    }

    fn stat(&self, file: FileIndex) -> Result<(), Status> {
        status(&self.user, Stat { at: PathRef::file(file), follow: false })
    }
}

fn status<M: WireCall>(client: &Client, message: M) -> Result<(), Status> {
    client.call(message).map(drop).map_err(|failure| failure.status)
}

fn open(at: PathRef) -> Open {
    Open { at, rights: Rights::READ, truncate: false, lease: LeaseMode::None, deny: Deny::NONE }
}

#[test]
fn an_index_is_no_way_past_a_directory_that_may_not_be_searched() {
    let scene = Scene::new();
    let (f, sub, g) = (scene.index("home/f"), scene.index("home/sub"), scene.index("home/sub/g"));
    let below = |name: &[u8]| PathRef { dir: sub, path: name.to_vec() };
    let list = ReadDirectory { dir: sub, cookie: 0, bytes_max: 4096, with_attributes: true };
    let wish = LayoutHint::none();
    let (rights, mode) = (Rights::READ_WRITE, 0o644);
    let unnamed =
        CreateUnnamed { at: PathRef::file(sub), mode, umask: 0, rights, layout_hint: wish };
    let user = &scene.user;
    let try_all = |number: u32| {
        let name = format!("link{number}");
        let mut answers = vec![scene.stat(f), scene.stat(g), scene.stat(sub)];
        answers.push(status(user, open(PathRef::file(f))));
        answers.push(status(user, open(below(b"g"))));
        answers.push(status(
            user,
            Create { exclusive: false, rights: Some(Rights::READ), at: below(b"g"), ..create("") },
        ));
        answers.push(status(user, list.clone()));
        answers.push(status(
            user,
            MakeLink { from: PathRef::file(f), to: at(&format!("pub/{name}")) },
        ));
        answers.push(
            user.call_as(Envelope::PLAIN, LeaseNames { dir: sub })
                .map(drop)
                .map_err(|refused| refused.status),
        );
        answers.push(
            user.call_as(Envelope::PLAIN, FsyncFile { file: f })
                .map(drop)
                .map_err(|refused| refused.status),
        );
        answers
    };
    assert_eq!(try_all(1), [Err(Status::PermissionDenied); 10]);
    assert_eq!(status(user, unnamed), Err(Status::PermissionDenied));
    scene.home_is(0o711);
    assert_eq!(try_all(2), [Ok(()); 10]);
}

#[test]
fn an_open_file_is_named_by_its_index_until_it_is_closed() {
    let scene = Scene::new();
    let f = scene.index("home/f");
    scene.home_is(0o711);
    let opened = scene.user.call(open(at("home/f"))).unwrap();
    scene.home_is(0o700);
    assert_eq!(scene.stat(f), Ok(()));
    scene.user.close(&opened);
    assert_eq!(scene.stat(f), Err(Status::PermissionDenied));
}

#[test]
fn a_file_of_several_names_is_reached_by_any_of_them() {
    let scene = Scene::new();
    scene.agent.call(MakeLink { from: at("home/f"), to: at("pub/f") }).unwrap();
    let f = scene.index("home/f");
    assert_eq!(scene.stat(f), Err(Status::PermissionDenied));
    scene.user.stat("pub/f").unwrap();
    assert_eq!(scene.stat(f), Ok(()));
}

#[test]
fn a_listing_of_a_directory_reaches_its_entries() {
    let scene = Scene::new();
    scene.agent.call(MakeLink { from: at("home/f"), to: at("pub/f") }).unwrap();
    let list = ReadDirectory {
        dir: scene.index("pub"),
        cookie: 0,
        bytes_max: 4096,
        with_attributes: true,
    };
    scene.user.call(list).unwrap();
    assert_eq!(scene.stat(scene.index("home/f")), Ok(()));
}

#[test]
fn a_host_that_vouches_has_checked_the_path_for_its_users() {
    let scene = Scene::new();
    let identity = Identity { uid: USER, gid: USER, groups: vec![], checked: false };
    scene.agent.call_as(Envelope::PLAIN, DefineIdentity { number: 1, identity }).unwrap();
    let stat = Stat { at: PathRef::file(scene.index("home/f")), follow: false };
    scene.agent.call_as(Envelope { identity: 1, ..Envelope::PLAIN }, stat).unwrap();
}

#[test]
fn a_file_unlinked_while_open_is_reclaimed_after_a_restart() {
    let Scene { mut world, agent, user } = Scene::new();
    agent.call(MakeLink { from: at("home/f"), to: at("pub/f") }).unwrap();
    let opened = user.call(open(at("pub/f"))).unwrap();
    agent.call(Unlink { at: at("pub/f") }).unwrap();
    agent.call(Unlink { at: at("home/f") }).unwrap();
    world.restart();
    let agent = agent.reclaim(&mut world).unwrap();
    let mut again = world.connect(Role::Client, ticket(&agent));
    let session = Some(user.session);
    again.session = again
        .call_as(Envelope::PLAIN, OpenSession { session, client: "user".into() })
        .unwrap()
        .session;
    assert_eq!(again.tell(&[&opened], true), Ok(vec![]));
    let stat = Stat { at: PathRef::file(opened.attributes.file), follow: false };
    again.call_as(Envelope::PLAIN, stat).unwrap();
}
