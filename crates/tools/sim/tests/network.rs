//! The simulated network alone, with a small server that counts requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use braid_net::{
    Driver, Endpoint, NetError, TlsPolicy,
    handshake::ServerIdentity,
    server::{Authorizer, Peer},
};
use braid_sim::{
    driver::SimDriver,
    network::{Host, LinkConditions, Network, Replies, Service, Session},
    world::{ProcessLife, Simulation},
};
use braid_types::{ClusterUuid, Failure};
use braid_wire::{Credential, FrameHeader, NodeKind, Role, Secret};

const SECOND: Duration = Duration::from_secs(1);
const KEY: [u8; 32] = [7; 32];

/// Answers each request with the number of requests that it has seen.
#[derive(Clone, Default)]
struct Toy(Arc<AtomicU64>);

impl Authorizer for Toy {
    fn secret(&self, _: Role, _: &Credential) -> Result<Secret, Failure> {
        Ok(Secret::from_bytes(KEY))
    }
}

impl Service for Toy {
    fn identity(&self) -> ServerIdentity {
        let cluster = ClusterUuid([1; 16]);
        ServerIdentity {
            node: NodeKind::Mds,
            node_id: 0,
            cluster,
            credits: 4,
            tls: TlsPolicy::Never,
        }
    }

    fn authorizer(&self) -> &dyn Authorizer {
        self
    }

    fn connected(&self, _: &Peer) -> Result<Box<dyn Session>, Failure> {
        Ok(Box::new(self.clone()))
    }
}

impl Session for Toy {
    fn request(&mut self, _: FrameHeader, body: Vec<u8>, _: Vec<u8>, replies: Replies) {
        let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        replies.finish(&[&count.to_le_bytes()[..], &body].concat(), &[]);
    }
}

struct Lab {
    world: Simulation,
    network: Network,
    life: ProcessLife,
    toy: Toy,
    client: Host,
    server: Host,
    driver: SimDriver,
}

impl Lab {
    fn new(seed: u64) -> Self {
        let world = Simulation::new(false);
        let network = Network::new(world.clone(), seed);
        let (server, client) =
            (network.add_host("toy", "toy:1"), network.add_host("client", "client:1"));
        let toy = Toy::default();
        network.serve_on(server, Arc::new(toy.clone()));
        let driver = SimDriver::new(network.clone(), client, seed);
        Self { world, network, life: ProcessLife::new(), toy, client, server, driver }
    }

    fn seen(&self) -> u64 {
        self.toy.0.load(Ordering::Relaxed)
    }

    /// Makes one call on a connection of its own.
    fn call(&self, timeout: Duration) -> Result<u64, NetError> {
        let (driver, world) = (self.driver.clone(), self.world.clone());
        let limit = 2 * timeout;
        let outcome = self.world.run(&self.life, limit, async move {
            let deadline = world.now() + timeout;
            let connection = driver.connect_shared(&endpoint(), deadline).await?;
            let answer = driver.call(&connection, 0x0100, b"x", deadline).await?;
            world.trace_event(format_args!("answer {:?}", answer.body));
            Ok(u64::from_le_bytes(*answer.body.first_chunk().expect("eight bytes")))
        });
        outcome.expect("a call ends by its deadline")
    }
}

fn endpoint() -> Endpoint {
    Endpoint {
        node: NodeKind::Mds,
        node_id: 0,
        cluster: None,
        addresses: vec!["toy:1".into()],
        role: Role::Client,
        credential: Credential::Server,
        secret: Secret::from_bytes(KEY),
        tls: TlsPolicy::Never,
    }
}

#[test]
fn a_call_is_answered_in_virtual_time() {
    let lab = Lab::new(1);
    assert_eq!(lab.call(SECOND), Ok(1));
    assert!(lab.world.now() > Duration::ZERO && lab.world.now() < SECOND);
}

#[test]
fn a_dead_process_refuses_at_once_and_a_host_without_power_is_silent() {
    let lab = Lab::new(2);
    lab.network.kill(lab.server);
    assert!(matches!(lab.call(SECOND), Err(NetError::Unreachable { .. })));
    assert!(lab.world.now() < SECOND, "refused, not waited for");
    lab.network.power_off(lab.server);
    let before = lab.world.now();
    assert!(matches!(lab.call(SECOND), Err(NetError::Unreachable { .. })));
    assert_eq!(lab.world.now() - before, SECOND);
}

#[test]
fn what_waits_at_a_cut_link_arrives_when_it_is_mended() {
    let lab = Lab::new(3);
    lab.network.cut(lab.client, lab.server);
    let network = lab.network.clone();
    let (client, server) = (lab.client, lab.server);
    lab.world.after(SECOND / 2, move || network.heal(client, server));
    assert_eq!(lab.call(SECOND), Ok(1));
    assert!(lab.world.now() > SECOND / 2);
}

#[test]
fn a_reset_may_come_before_the_request_or_between_processing_and_answer() {
    let (mut unseen, mut seen) = (0, 0);
    for seed in 0..200 {
        let lab = Lab::new(seed);
        lab.network.set_link_conditions(LinkConditions {
            resets_per_million: 200_000,
            ..LinkConditions::default()
        });
        if matches!(lab.call(SECOND), Err(NetError::ConnectionLost { .. })) {
            if lab.seen() == 0 { unseen += 1 } else { seen += 1 }
        }
    }
    assert!(unseen > 0 && seen > 0, "{unseen} before the request, {seen} after it");
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_does_not() {
    let run = |seed| {
        let lab = Lab::new(seed);
        lab.network.set_link_conditions(LinkConditions {
            resets_per_million: 50_000,
            ..LinkConditions::default()
        });
        for _ in 0..20 {
            let outcome = lab.call(SECOND);
            lab.world.trace_event(format_args!("{outcome:?}"));
        }
        lab.world.trace().hash()
    };
    assert_eq!(run(9), run(9));
    assert_ne!(run(9), run(10));
}
