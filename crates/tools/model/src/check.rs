//! What must hold in every state. The numbers are those of the invariants of ADR 0009.

use braid_meta::lease::LeaseMode as Mode;
use braid_wire::message::lease::LeaseMode;

use crate::{client::Client, event::Event, scenario::Variant, world::World};

/// Ticks within which every call must end, whatever died: 45 s, of which a call's own deadline is
/// 30.
const TICKS_BOUNDED: usize = 9;
/// Rounds of messages within a tick, more than any exchange takes.
const ROUNDS: usize = 40;

impl World {
    /// What is wrong with this state.
    pub fn check(&self) -> Option<String> {
        self.broken
            .clone()
            .or_else(|| self.cached_values_are_current())
            .or_else(|| self.data_is_current())
    }

    /// 1, 4, 5: a client's cached value is the current one; nobody changes what another client has
    /// cached under a valid lease.
    fn cached_values_are_current(&self) -> Option<String> {
        let value = self.server.value;
        let stale =
            |client: &&Client| !client.dead && client.cached.is_some_and(|cached| cached != value);
        let client = self.clients.iter().find(stale)?;
        Some(format!("client {} caches {:?}, the server has {value}", client.number, client.cached))
    }

    /// 1, 3, 4: no two clients have conflicting valid leases; an acknowledged write is visible
    /// before another client reads.
    fn data_is_current(&self) -> Option<String> {
        let leased_mode = |who: usize| match self.clients[who].dead {
            true => Mode::None,
            false => mode(self.clients[who].data_mode()),
        };
        if leased_mode(0).conflicts(leased_mode(1)) {
            return Some(format!(
                "client 0 has a {:?} lease of the file, client 1 {:?}",
                leased_mode(0),
                leased_mode(1)
            ));
        }
        for client in self.clients.iter().filter(|client| !client.dead) {
            let reads = matches!(leased_mode(client.number), Mode::Read | Mode::Write);
            let seen = client.page.or(client.dirty).unwrap_or(self.daemon);
            if reads && seen != self.acknowledged {
                let number = client.number;
                return Some(format!(
                    "client {number} reads {seen}, {} was written",
                    self.acknowledged
                ));
            }
        }
        None
    }

    /// 2: from here on nothing more fails. Does every call end?
    pub fn check_termination(mut self, variant: Variant) -> Option<String> {
        for _ in 0..TICKS_BOUNDED {
            self.rounds(variant);
            if let Some(wrong) = self.check() {
                return Some(wrong);
            }
            if self
                .clients
                .iter()
                .all(|client| client.calling.is_empty() && client.wants.is_empty())
            {
                return None;
            }
            // A request for recalls whose answer was lost is sent again.
            self.clients.iter_mut().for_each(|client| client.awaits = false);
            self.budget.ticks = 1;
            Event::Tick.happen(&mut self, variant);
        }
        let stuck: Vec<_> = self.clients.iter().flat_map(|client| &client.calling).collect();
        Some(format!("calls do not end: {stuck:?}"))
    }

    fn call_on(&mut self, who: usize) {
        (0..self.clients[who].calling.len()).for_each(|at| self.call_again(who, at));
        if self.clients[who].calling.is_empty() {
            self.call(who);
        }
    }

    /// Everything that takes no time, in a good order.
    pub fn rounds(&mut self, variant: Variant) {
        for _ in 0..ROUNDS {
            for who in 0..self.clients.len() {
                if self.clients[who].dead {
                    continue;
                }
                self.drop_all(who);
                self.await_recalls(who);
                while !self.clients[who].recalled.is_empty() {
                    self.carry_out(who, 0);
                }
                self.return_again(who);
                self.call_on(who);
            }
            for message in std::mem::take(&mut self.network) {
                self.deliver(message, variant);
            }
            let doing: Vec<u32> =
                self.server.pending.iter().filter(|(_, p)| p.doing).map(|(n, _)| *n).collect();
            doing.into_iter().for_each(|number| self.apply(number, variant));
            self.fence_holds(variant);
        }
    }
}

fn mode(mode: LeaseMode) -> Mode {
    match mode {
        LeaseMode::Read => Mode::Read,
        LeaseMode::Write => Mode::Write,
        LeaseMode::Shared => Mode::Shared,
        _ => Mode::None,
    }
}
