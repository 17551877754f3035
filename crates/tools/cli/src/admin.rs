//! Administration: the identity for it, and direct calls to I/O daemons.

use std::time::Duration;

use braid_client::{Client, Config, Credential};
use braid_net::{Blocking, Driver, Endpoint, Exchange, NetError, TlsPolicy, block_on};
use braid_wire::{Call, NodeKind, Role, Secret, decode_outcome, message::types::IodInfo};

use crate::{
    config::Settings,
    connect,
    output::{Exit, Fault},
};

/// A connection to the metadata server as an administrator. It uses `--key` where given, else the
/// server key of this host's daemons, else the credential of the client.
pub fn client(settings: &Settings) -> Result<Client, Fault> {
    let Some(secret) = server_key(settings)? else { return connect::client(settings) };
    let mut config = Config::new(settings.mds.value.clone(), Credential::ServerKey(secret));
    config.tls = connect::tls(settings.tls.value);
    config.timeout = settings.timeout.value;
    Ok(Client::connect(config)?)
}

/// The server key, if this host has one and `--key` does not name another key.
pub fn server_key(settings: &Settings) -> Result<Option<Secret>, Fault> {
    let asked = settings
        .key
        .value
        .as_ref()
        .filter(|_| matches!(settings.key.source, crate::config::Source::Flag(_)));
    if let Some(path) = asked {
        let key = connect::key_file(path)?;
        return Ok((key.id.0 == 0).then_some(key.secret));
    }
    let places = [&settings.file.mds.server_key, &settings.file.iod.server_key];
    let found = places.into_iter().flatten().find(|path| std::fs::File::open(path).is_ok());
    found.map(|path| connect::key_file(path).map(|key| key.secret)).transpose()
}

/// A connection to one I/O daemon as an administrator.
pub struct IodConnection {
    driver: Blocking,
    connection: <Blocking as Driver>::Connection,
    name: String,
    timeout: Duration,
}

impl IodConnection {
    /// Connects to the daemon with the server key.
    pub fn connect(iod: &IodInfo, secret: &Secret, settings: &Settings) -> Result<Self, Fault> {
        let endpoint = Endpoint {
            node: NodeKind::Iod,
            node_id: iod.id.0,
            cluster: None,
            addresses: iod.addresses.clone(),
            role: Role::Admin,
            credential: braid_wire::Credential::Server,
            secret: secret.clone(),
            tls: policy(settings),
        };
        let driver = Blocking::new();
        let timeout = settings.timeout.value;
        let name = endpoint.name();
        let connection = block_on(driver.connect(&endpoint, driver.now() + timeout))
            .map_err(|e| net_fault(&name, &e))?;
        Ok(Self { driver, connection, name, timeout })
    }

    /// Makes one call.
    pub fn call<C: Call>(&mut self, call: &C) -> Result<C::Reply, Fault> {
        let mut batch = [Exchange {
            connection: 0,
            op: C::OP,
            body: call.to_bytes(),
            send: Vec::new(),
            recv: Vec::new(),
            outcome: None,
        }];
        block_on(self.driver.exchange(
            std::slice::from_mut(&mut self.connection),
            &mut batch,
            self.timeout,
        ));
        let [exchange] = batch;
        let answer = exchange
            .outcome
            .expect("a driver sets every outcome")
            .map_err(|e| net_fault(&self.name, &e))?;
        let outcome = decode_outcome::<C::Reply>(&answer.body);
        let reply =
            outcome.map_err(|e| Fault::failed(format!("reading the reply of {}", self.name), e))?;
        reply.map_err(|failure| {
            Fault::failed(format!("calling {}", self.name), failure)
                .hint("braid status, then see the log of that daemon")
        })
    }
}

fn policy(settings: &Settings) -> TlsPolicy {
    connect::tls(settings.tls.value)
}

fn net_fault(name: &str, error: &NetError) -> Fault {
    let what = format!("calling {name}");
    Fault::new(Exit::Unreachable, what, error.to_string()).hint("braid status")
}
