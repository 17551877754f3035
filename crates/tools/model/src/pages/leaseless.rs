//! A client without leases, which caches nothing. Its calls do not travel: a delayed call or answer
//! is a delayed step of the client.

use super::{
    scenario::PlainAct,
    world::{CLIENTS, Call, World},
};

/// Its number.
pub const PLAIN: usize = CLIENTS;

/// The client.
#[derive(Clone, Hash, Debug)]
pub struct LeaselessClient {
    acts: &'static [PlainAct],
    /// The server knows that it has the file open.
    pub is_open: bool,
    /// It waits for an answer; the file ends no earlier than this.
    waits: Option<u8>,
}

impl LeaselessClient {
    pub fn new(acts: &'static [PlainAct]) -> Self {
        Self { acts, is_open: false, waits: None }
    }

    pub fn may_go_on(&self) -> bool {
        self.waits.is_none() && !self.acts.is_empty()
    }

    pub fn is_idle(&self) -> bool {
        self.waits.is_none() && self.acts.is_empty()
    }
}

impl World {
    /// Its next step.
    pub fn plain_on(&mut self) {
        let Some((act, rest)) = self.plain.acts.split_first() else { return };
        self.plain.acts = rest;
        match act {
            PlainAct::Open => self.plain_calls(Call::OpenPlain),
            PlainAct::Look => self.plain_calls(Call::Look),
            PlainAct::Read(page) => {
                let (found, at_least) = (self.daemon[*page], self.returned[*page]);
                if found < at_least {
                    self.fail(format!(
                        "the client without leases reads {found} of page {page}, \
                         {at_least} was written"
                    ));
                }
            }
            PlainAct::Close => self.plain.is_open = false,
        }
    }

    fn plain_calls(&mut self, call: Call) {
        self.plain.waits = Some(self.returned_size);
        let number = self.next_number;
        self.next_number += 1;
        self.receive_call(PLAIN, number, call);
    }

    /// The server answers.
    pub fn plain_answered(&mut self) {
        let Some(at_least) = self.plain.waits.take() else { return };
        if self.size < at_least.min(self.returned_size) {
            self.fail(format!(
                "the client without leases learns that the file ends at {}, {at_least} was written",
                self.size
            ));
        }
    }
}
