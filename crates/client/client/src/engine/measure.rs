//! Disk measurements by an I/O daemon itself, for `braid bench`.

use std::sync::Arc;

use braid_net::{Driver, Exchange};
use braid_types::{IodId, Status};
use braid_wire::{
    Call, Wire, decode_outcome,
    message::iod::{DiskRates, MeasureDisk},
};

use super::{Caller, Engine, pool::PooledConnection};
use crate::error::{Error, Result};

impl<D: Driver> Caller<D> {
    /// Lets an I/O daemon measure its own disk. Does not retry: after `Busy` the caller may call
    /// again.
    pub async fn measure_disk(&self, iod: IodId, load: MeasureDisk) -> Result<DiskRates> {
        self.engine.check_process()?;
        let outcome = self.engine.measure_disk(iod, &load).await;
        outcome.map_err(|error| error.during("measure the disk of", format!("I/O daemon {iod}")))
    }
}

impl<D: Driver> Engine<D> {
    async fn measure_disk(self: &Arc<Self>, iod: IodId, load: &MeasureDisk) -> Result<DiskRates> {
        let deadline = self.deadline();
        let pool = self.pool(iod);
        let server = pool.server_name();
        // On its own connection: the call takes seconds, and other calls wait for the pool's
        // connections.
        let (pool_permit, pooled) = pool.checkout_extra(self, deadline).await?;
        let PooledConnection { connection, meta } = *pooled;
        let (mut connections, op, body) = ([connection], MeasureDisk::OP, load.to_bytes());
        let mut batch = [Exchange {
            connection: 0,
            op,
            body,
            send: Vec::new(),
            recv: Vec::new(),
            outcome: None,
        }];
        let silence_max = deadline.saturating_sub(self.driver.now());
        self.driver.exchange(&mut connections, &mut batch, silence_max).await;
        let [connection] = connections;
        let answer = match batch[0].outcome.take() {
            Some(Ok(answer)) => answer,
            lost => {
                pool_permit.drop_connection(connection, &meta);
                let error = lost.and_then(std::result::Result::err).map(Error::from);
                return Err(error
                    .unwrap_or_else(|| {
                        Error::new(Status::ConnectionLost, "the exchange was not made")
                    })
                    .at(server));
            }
        };
        pool_permit.put_back(Box::new(PooledConnection { connection, meta }));
        match decode_outcome(&answer.body) {
            Ok(Ok(rates)) => Ok(rates),
            Ok(Err(failure)) => Err(Error::refused(&server, failure)),
            Err(error) => Err(Error::malformed_reply(server, error)),
        }
    }
}
