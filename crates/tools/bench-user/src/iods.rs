//! The daemons of a run, and files on one of them alone.

use braid_client::{
    Client, DistributionHint, IodId, OpenOptions,
    message::types::{IodInfo, IodState},
};

use crate::{
    bench::Bench,
    error::{BenchError, Result},
    pace::PacedFile,
};

/// A daemon of the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Iod {
    pub(crate) id: IodId,
    pub(crate) address: String,
    /// Its position among the daemons that get new files.
    pub(crate) ordinal: u16,
    /// Identifies its disk: daemons that share a disk have the same value.
    pub(crate) device: u64,
    /// Free bytes.
    pub(crate) available: u64,
}

impl Iod {
    /// `I/O daemon 2 (127.0.0.1:7001)`.
    pub(crate) fn name(&self) -> String {
        format!("I/O daemon {} ({})", self.id, self.address)
    }
}

/// The first daemon of each device, and how many share it.
pub(crate) fn on_one_device(iods: &[Iod]) -> Vec<(&Iod, usize)> {
    let mut devices: Vec<(&Iod, usize)> = Vec::new();
    for iod in iods {
        match devices.iter_mut().find(|(first, _)| first.device == iod.device) {
            Some((_, sharing)) => *sharing += 1,
            None => devices.push((iod, 1)),
        }
    }
    devices
}

/// All daemons that get new files.
///
/// # Errors
/// A daemon is down, or there is none.
pub(crate) fn usable(client: &Client) -> Result<Vec<Iod>> {
    let map = client.cluster_map()?;
    if let Some(down) = map.iods.iter().find(|iod| iod.state == IodState::Down) {
        return Err(BenchError::Down { iod: down.id.0.into(), address: down.addresses.join(" ") });
    }
    let mut up: Vec<&IodInfo> = map.iods.iter().filter(|iod| iod.state == IodState::Up).collect();
    up.sort_by_key(|iod| iod.id);
    if up.is_empty() {
        return Err(BenchError::NoIods);
    }
    let iod = |(ordinal, info): (u16, &&IodInfo)| Iod {
        id: info.id,
        address: info.addresses.join(" "),
        ordinal,
        device: info.space.device,
        available: info.space.available.0,
    };
    Ok((0..).zip(&up).map(iod).collect())
}

impl Bench<'_> {
    /// A file whose bytes are all on one daemon; always the same file.
    pub(crate) fn file_on(&self, iod: &Iod, name: &str) -> Result<PacedFile> {
        let options = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .distribution(DistributionHint::Single)
            .iod_count(1)
            .first_iod(iod.ordinal);
        let file = self.client.create(&self.scratch.path(name), &options)?;
        // A daemon that joined or left meanwhile changes the positions.
        if file.iods() != [iod.id] {
            let why =
                format!("the daemons changed during the run: {name} is not on {}", iod.name());
            return Err(BenchError::Usage(why));
        }
        Ok(file)
    }
}
