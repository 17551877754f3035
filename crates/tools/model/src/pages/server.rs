//! The server: the real table, and around it the minimum that serves calls.

use braid_meta::lease::{AskOutcome, ClaimId, LeaseMode as Mode, LeaseOf};
use braid_types::SessionId;
use braid_wire::message::lease::{LeaseGrant, LeaseKind, Recall};

use crate::server::{from_wire, to_wire};

use super::{
    leaseless::PLAIN,
    world::{CLIENTS, Call, FILE, Message, NOW, Pending, World},
};

const OF: LeaseOf = LeaseOf::Data(FILE);

impl World {
    /// A message reaches the server.
    pub fn server_receives(&mut self, message: Message) {
        match message {
            Message::Call { client, number, call } if !self.clients[client].freed => {
                self.receive_call(client, number, call)
            }
            Message::Return { session, lease } => {
                self.table.return_lease(
                    SessionId(session),
                    OF,
                    lease.number,
                    from_wire(lease.keep),
                );
            }
            _ => {}
        }
        self.follow();
    }

    /// A call has arrived.
    pub fn receive_call(&mut self, client: usize, number: u32, call: Call) {
        let claim = ClaimId(self.next_claim);
        self.next_claim += 1;
        self.pending.insert(number, Pending { client, call, claim });
        self.try_again(number);
        self.follow();
    }

    /// Checks whether a waiting call may proceed.
    fn try_again(&mut self, number: u32) {
        let Some(Pending { client, call, claim }) = self.pending.get(&number).cloned() else {
            return;
        };
        let session = SessionId(if client == PLAIN { 0 } else { self.clients[client].session });
        let answer = match call {
            Call::Ask(mode, alone) => {
                match self.table.request_data(claim, session, OF, (from_wire(mode), alone), NOW) {
                    AskOutcome::Granted(mode, number) if alone => Some(granted(mode, number)),
                    AskOutcome::Granted(mode, number) => {
                        Some(granted(self.lessened(session, mode), number))
                    }
                    _ => return,
                }
            }
            Call::Open(wish) => {
                if !self.may_look(claim, session) {
                    return;
                }
                let got = self.try_data(session, from_wire(wish));
                self.table.unclaim(claim, &[OF]);
                Some(got.map_or(LeaseGrant::NONE, |(mode, number)| granted(mode, number)))
            }
            Call::Look => {
                if !self.may_look(claim, session) {
                    return;
                }
                self.table.unclaim(claim, &[OF]);
                None
            }
            Call::OpenPlain => {
                if self.table.claim(claim, session, &[(OF, Mode::Look)], NOW).is_some() {
                    return;
                }
                self.plain.is_open = true;
                self.table.unclaim(claim, &[OF]);
                None
            }
        };
        self.pending.remove(&number);
        if client == PLAIN {
            return self.plain_answered();
        }
        self.send(Message::Answer {
            client,
            session: session.0,
            number,
            grant: answer,
            size: self.size,
        });
    }

    /// `MdsCore::look`: whether no other session buffers writes.
    fn may_look(&mut self, claim: ClaimId, session: SessionId) -> bool {
        let gathered =
            self.table.holders(OF).any(|(holder, mode)| holder != session && mode == Mode::Write);
        !gathered || self.table.claim(claim, session, &[(OF, Mode::Look)], NOW).is_none()
    }

    /// `MdsCore::try_data`.
    fn try_data(&mut self, session: SessionId, wish: Mode) -> Option<(Mode, u64)> {
        let holds =
            self.table.holders(OF).any(|(holder, mode)| holder == session && mode != Mode::Shared);
        if holds && self.plain.is_open && !self.lessens_held {
            return None;
        }
        let (mode, number) = self.table.try_grant_data(session, OF, wish, NOW)?;
        Some((self.lessened(session, mode), number))
    }

    /// `MdsCore::lessened`: reduces a grant while a client without leases reads.
    fn lessened(&mut self, session: SessionId, mode: Mode) -> Mode {
        if !self.plain.is_open || mode != Mode::Write {
            return mode;
        }
        self.table.reduce_grant(OF, session, Mode::Shared);
        Mode::Shared
    }

    /// What follows from a change of the table.
    pub fn follow(&mut self) {
        while !self.table.take_freed().is_empty() {
            let numbers: Vec<u32> = self.pending.keys().copied().collect();
            numbers.into_iter().for_each(|number| self.try_again(number));
        }
        self.table.take_recalled_sessions();
        (0..CLIENTS).for_each(|who| self.send_recalls(who));
    }

    /// Recalls are in flight as soon as there are any and no others are in flight.
    pub fn send_recalls(&mut self, who: usize) {
        let client = &mut self.clients[who];
        let braid_client::lease::RequiredAction::AwaitRecalls(seen, _) =
            client.holding.required_action(NOW)
        else {
            return;
        };
        let is_recall = |message: &Message| match message {
            Message::Recalls { client, .. } => *client == who,
            _ => false,
        };
        if client.dead || self.network.iter().any(is_recall) {
            return;
        }
        let session = client.session;
        let recalls = self.table.recalls(SessionId(session), seen, 10);
        if recalls.is_empty() {
            return;
        }
        let wire = |(number, recall): &(u64, braid_meta::lease::PendingRecall)| Recall {
            number: *number,
            kind: LeaseKind::Data,
            file: FILE,
            keep: to_wire(recall.keep),
        };
        let recalls = recalls.iter().map(wire).collect();
        self.send(Message::Recalls { client: who, session, recalls });
    }

    /// Ends a session that may still assume leases valid. Its requests come again, from a new
    /// session.
    pub fn broken_session(&mut self, who: usize, session: u64) {
        self.table.end_session_later(SessionId(session), NOW);
        let of_it = |pending: &Pending| pending.client == who;
        let asked: Vec<(u32, Pending)> =
            self.pending.extract_if(.., |_, pending| of_it(pending)).collect();
        for (number, Pending { client, call, claim }) in asked {
            self.table.unclaim(claim, &[OF]);
            self.send(Message::Call { client, number, call });
        }
        self.follow();
    }

    /// No client assumes the leases of a session valid any more: the margin between the two clocks,
    /// in which a client drops its caches.
    pub fn free(&mut self, session: u64) {
        self.table.sessions_fenced(&[SessionId(session)]);
        self.table.expire(NOW);
        self.follow();
    }
}

fn granted(mode: Mode, number: u64) -> LeaseGrant {
    LeaseGrant { mode: to_wire(mode), number, ..LeaseGrant::NONE }
}
