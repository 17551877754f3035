//! One program of the load, and its model of the expected state.

use std::sync::atomic::{AtomicBool, Ordering};

use braid_client::{Client, Error, Status};

use crate::load::{Actor, FoundTree, Model, Operation, Script, check_exact};

/// A directory that only this worker uses, its model, and its operations.
pub struct Worker {
    below: String,
    parts: u16,
    model: Model,
    script: Script,
    /// Operations that were acknowledged.
    pub acknowledged: u64,
    /// Operations that a kill interrupted.
    pub cut_off: u64,
}

impl Worker {
    /// A worker whose directory does not exist yet.
    pub fn new(seed: u64, below: &str, parts: u16) -> Self {
        let script = Script::new(seed, below);
        Self {
            below: below.to_owned(),
            parts,
            model: Model::default(),
            script,
            acknowledged: 0,
            cut_off: 0,
        }
    }

    /// The expected state.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Its next operation.
    pub fn next_operation(&mut self) -> Operation {
        if self.model.is_empty() {
            return Operation::MakeDirectory(self.below.clone());
        }
        self.script.next(&self.model)
    }

    /// Loads the cluster until `stop` is set.
    ///
    /// # Errors
    /// A promise that was broken.
    pub fn work(&mut self, client: Client, stop: &AtomicBool) -> Result<(), String> {
        let mut actor = Actor::new(client, self.parts);
        while !stop.load(Ordering::Relaxed) {
            let operation = self.next_operation();
            match actor.act(&self.model, &operation) {
                Ok(()) => self.acknowledge(&operation),
                Err(why) => {
                    refuse_wrong_answer(&operation, &why)?;
                    actor.forget();
                    self.resolve(actor.client(), &operation, &why)?;
                }
            }
        }
        Ok(())
    }

    /// The operation happened.
    pub fn acknowledge(&mut self, operation: &Operation) {
        self.model.apply(operation);
        self.model.make_all_certain();
        self.acknowledged += 1;
    }

    /// The operation was interrupted: finds out whether it happened, and continues from there.
    ///
    /// # Errors
    /// Neither the state before nor the state after it was found.
    pub fn resolve(
        &mut self,
        client: &Client,
        operation: &Operation,
        why: &dyn std::fmt::Display,
    ) -> Result<(), String> {
        self.cut_off += 1;
        let found = self.see(client)?;
        let mut after = self.model.clone();
        after.apply(operation);
        let outcome = match check_exact(&after, &self.below, &found) {
            Ok(()) => Ok(after),
            Err(not_after) => match check_exact(&self.model, &self.below, &found) {
                Ok(()) => Ok(self.model.clone()),
                Err(not_before) => Err(format!(
                    "{operation:?} failed ({why}) and neither happened ({not_after}) \
                     nor did not happen ({not_before}) (I7)"
                )),
            },
        };
        self.model = outcome?;
        self.model.adopt(&found);
        Ok(())
    }

    /// Everything acknowledged must be there, and nothing else.
    ///
    /// # Errors
    /// The difference.
    pub fn check(&self, client: &Client) -> Result<(), String> {
        check_exact(&self.model, &self.below, &self.see(client)?)
    }

    fn see(&self, client: &Client) -> Result<FoundTree, String> {
        match client.stat(&*self.below) {
            Err(why) if why.status() == Status::NotFound => Ok(FoundTree::default()),
            _ => FoundTree::see(client, &self.below),
        }
    }
}

/// An error that no kill explains: the operation was possible, so it ran twice or its file was
/// lost.
fn refuse_wrong_answer(operation: &Operation, why: &Error) -> Result<(), String> {
    match why.status() {
        Status::Unreachable
        | Status::ConnectionLost
        | Status::NotServing
        | Status::TryAgain
        | Status::Busy
        | Status::NoIods
        | Status::NoSession
        | Status::Fenced
        | Status::BadCapability
        | Status::StaleHandle => Ok(()),
        status => {
            Err(format!("{operation:?} was possible and returned {status:?}: {why} (I6, I7)"))
        }
    }
}
