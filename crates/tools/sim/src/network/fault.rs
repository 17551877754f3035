//! Network and host faults: cut links, broken connections, dead processes, hosts without power.

use std::sync::Arc;

use super::{Direction, Host, Network, Service, Transmission};

impl Network {
    /// A process starts to serve on a host.
    pub fn serve_on(&self, host: Host, service: Arc<dyn Service>) {
        let (_, mut state) = self.world_and_state();
        if let Some(machine) = state.hosts.get_mut(&host) {
            machine.service = Some(service);
            machine.power = true;
        }
        drop(state);
        self.deliver_held();
    }

    /// The process on a host dies: its peers see their connections reset.
    pub fn kill(&self, host: Host) {
        self.end_process(host, true);
    }

    /// The host loses power: its peers receive nothing until it is back, and then it does not know
    /// their connections.
    pub fn power_off(&self, host: Host) {
        self.end_process(host, false);
        let (_, mut state) = self.world_and_state();
        if let Some(machine) = state.hosts.get_mut(&host) {
            machine.power = false;
        }
    }

    /// The host has power again; nothing runs on it yet.
    pub fn power_on(&self, host: Host) {
        let (_, mut state) = self.world_and_state();
        if let Some(machine) = state.hosts.get_mut(&host) {
            machine.power = true;
        }
        drop(state);
        self.deliver_held();
    }

    fn end_process(&self, host: Host, resets: bool) {
        let (service, numbers) = {
            let (_, mut state) = self.world_and_state();
            let service = state.hosts.get_mut(&host).and_then(|machine| machine.service.take());
            let of = |c: &super::Connection| c.server == host && c.server_open;
            let numbers: Vec<u64> =
                state.connections.iter().filter(|(_, c)| of(c)).map(|(n, _)| *n).collect();
            (service, numbers)
        };
        drop(service);
        for number in numbers {
            self.end_at_server(number);
            if resets {
                self.send(
                    number,
                    Direction::ToClient,
                    Transmission::Reset("connection reset: the server died"),
                );
            } else {
                self.hold_reset(number);
            }
        }
        if resets {
            self.close_of_client(host);
        } else {
            self.forget_client(host);
        }
    }

    /// The process on `host` is gone, and the peers of its connections are not notified.
    fn forget_client(&self, host: Host) {
        let (_, mut state) = self.world_and_state();
        state
            .connections
            .values_mut()
            .filter(|c| c.client == host)
            .for_each(|c| c.client_open = false);
    }

    /// Closes every connection that the process on `host` has made.
    pub fn close_of_client(&self, host: Host) {
        let numbers: Vec<u64> = {
            let (_, state) = self.world_and_state();
            let of = |c: &super::Connection| c.client == host && c.client_open;
            state.connections.iter().filter(|(_, c)| of(c)).map(|(n, _)| *n).collect()
        };
        numbers.into_iter().for_each(|number| self.close(number));
    }

    /// The client of a host without power learns of the loss when the host is back.
    fn hold_reset(&self, number: u64) {
        let (_, mut state) = self.world_and_state();
        if let Some(connection) = state.connections.get_mut(&number) {
            // Replies in flight are lost with the rest. The reset takes their place before later
            // frames.
            connection.held.retain(|(direction, _)| *direction == Direction::ToServer);
            connection.held.push_back((
                Direction::ToClient,
                Transmission::Reset("connection reset: the host restarted"),
            ));
        }
    }

    /// Breaks a connection: each side learns it at a moment of its own.
    pub fn reset(&self, number: u64, why: &'static str) {
        self.send(number, Direction::ToClient, Transmission::Reset(why));
        self.send(number, Direction::ToServer, Transmission::Reset(why));
    }

    /// Breaks every connection between two hosts.
    pub fn reset_between(&self, a: Host, b: Host) {
        let numbers: Vec<u64> = {
            let (_, state) = self.world_and_state();
            let of = |c: &super::Connection| {
                (c.client, c.server) == (a, b) || (c.client, c.server) == (b, a)
            };
            state.connections.iter().filter(|(_, c)| of(c)).map(|(n, _)| *n).collect()
        };
        numbers.into_iter().for_each(|number| self.reset(number, "connection reset"));
    }

    /// Cuts the link between two hosts.
    pub fn cut(&self, a: Host, b: Host) {
        self.world_and_state().1.cut.insert((a.min(b), a.max(b)));
    }

    /// Restores the link between two hosts: what waited there arrives.
    pub fn heal(&self, a: Host, b: Host) {
        self.world_and_state().1.cut.remove(&(a.min(b), a.max(b)));
        self.deliver_held();
    }

    /// Restores every link, and gives every host the normal speed.
    pub fn heal_all(&self) {
        {
            let (_, mut state) = self.world_and_state();
            state.cut.clear();
            state.hosts.values_mut().for_each(|host| host.slowness = 1);
        }
        self.deliver_held();
    }

    /// Frames from and to a host take `times` as long.
    pub fn set_slowness(&self, host: Host, times: u32) {
        if let Some(machine) = self.world_and_state().1.hosts.get_mut(&host) {
            machine.slowness = times.max(1);
        }
    }

    /// Delivers in order what waited at links that are no longer cut.
    fn deliver_held(&self) {
        let held: Vec<_> = {
            let (_, mut state) = self.world_and_state();
            let is_free = |c: &super::Connection, state: &super::State| {
                !state.is_cut(c.client, c.server)
                    && state.hosts[&c.client].power
                    && state.hosts[&c.server].power
            };
            let free: Vec<u64> = state
                .connections
                .iter()
                .filter(|(_, c)| is_free(c, &state))
                .map(|(n, _)| *n)
                .collect();
            let mut held = Vec::new();
            for number in free {
                if let Some(connection) = state.connections.get_mut(&number) {
                    held.extend(
                        connection
                            .held
                            .drain(..)
                            .map(|(direction, parcel)| (number, direction, parcel)),
                    );
                }
            }
            held
        };
        for (number, direction, parcel) in held {
            self.send_again(number, direction, parcel);
        }
    }

    fn send_again(&self, number: u64, direction: Direction, parcel: Transmission) {
        let (world, mut state) = self.world_and_state();
        let Some(connection) = state.connections.get(&number) else { return };
        let delay = state.delay(&self.0.random, connection.client, connection.server);
        let Some(connection) = state.connections.get_mut(&number) else { return };
        let arrives = (world.now() + delay).max(connection.arrives[direction as usize]);
        connection.arrives[direction as usize] = arrives;
        let network = self.clone();
        world.at(arrives, move || network.deliver(number, direction, parcel));
    }
}
