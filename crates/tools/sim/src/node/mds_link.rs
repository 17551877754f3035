//! The metadata server's connections to the I/O daemons: one shared connection to each, opened
//! again when it breaks.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use braid_mds::{IodLink, LinkDone};
use braid_net::{Answer, Driver, Endpoint, NetError, TlsPolicy};
use braid_types::IodId;
use braid_wire::{Credential, NodeKind, Role};

use super::{CLUSTER, server_key};
use crate::{
    driver::{SimConnection, SimDriver},
    world::{ProcessLife, Simulation, lock},
};

/// How long one call of a daemon may take (I8).
const CALL_WAIT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(super) struct SimIodLink {
    world: Simulation,
    life: ProcessLife,
    driver: SimDriver,
    daemons: Arc<Mutex<BTreeMap<IodId, Daemon>>>,
}

#[derive(Default)]
struct Daemon {
    addresses: Vec<String>,
    connection: Option<Arc<SimConnection>>,
}

impl SimIodLink {
    pub(super) fn new(world: Simulation, life: ProcessLife, driver: SimDriver) -> Self {
        Self { world, life, driver, daemons: Arc::default() }
    }

    async fn ask(&self, iod: IodId, op: u16, body: &[u8]) -> Result<Answer, NetError> {
        let deadline = self.world.now() + CALL_WAIT;
        let connection = self.connection(iod, deadline).await?;
        let answer = self.driver.call(&connection, op, body, deadline).await;
        if answer.is_err() {
            self.forget(iod, &connection);
        }
        answer
    }

    async fn connection(
        &self,
        iod: IodId,
        deadline: Duration,
    ) -> Result<Arc<SimConnection>, NetError> {
        let (known, addresses) = {
            let daemons = lock(&self.daemons);
            let daemon = daemons.get(&iod);
            (
                daemon.and_then(|d| d.connection.clone()),
                daemon.map(|d| d.addresses.clone()).unwrap_or_default(),
            )
        };
        if let Some(connection) = known {
            return Ok(connection);
        }
        let endpoint = Endpoint {
            node: NodeKind::Iod,
            node_id: iod.0,
            cluster: Some(CLUSTER),
            addresses,
            role: Role::Mds,
            credential: Credential::Server,
            secret: server_key(),
            tls: TlsPolicy::Never,
        };
        let connection = Arc::new(self.driver.connect_shared(&endpoint, deadline).await?);
        lock(&self.daemons).entry(iod).or_default().connection = Some(Arc::clone(&connection));
        Ok(connection)
    }

    fn forget(&self, iod: IodId, broken: &Arc<SimConnection>) {
        let mut daemons = lock(&self.daemons);
        let Some(daemon) = daemons.get_mut(&iod) else { return };
        let known = daemon.connection.take_if(|known| Arc::ptr_eq(known, broken));
        drop(daemons);
        drop(known);
    }
}

impl IodLink for SimIodLink {
    fn call(&self, iod: IodId, op: u16, body: Vec<u8>, done: LinkDone) {
        let link = self.clone();
        self.world.spawn(&self.life, async move { done(link.ask(iod, op, &body).await) });
    }

    fn locate(&self, iod: IodId, addresses: &[String]) {
        let mut daemons = lock(&self.daemons);
        let daemon = daemons.entry(iod).or_default();
        let known = if daemon.addresses == addresses { None } else { daemon.connection.take() };
        daemon.addresses = addresses.to_vec();
        drop(daemons);
        drop(known);
    }
}
