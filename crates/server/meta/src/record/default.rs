//! The default layout and placement of files created in a directory.

use super::RecordError;
use crate::codec::{Decoder, Encoder};

const VERSION: u8 = 1;

/// Distributions by name. The numbers are part of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum DistributionKind {
    /// Round robin.
    SimpleStripe = 1,
    /// The whole file in one part.
    Single = 2,
    /// A repeated sequence of strips of different sizes.
    VarStrip = 3,
    /// Two-dimensional.
    Grouped = 4,
}

/// Which I/O daemons get the parts of a new file. The numbers are part of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Placement {
    /// One after the other.
    RoundRobin = 1,
    /// Those with the most free space first.
    FreeSpace = 2,
    /// The same ones for the same owner.
    Owner = 3,
}

/// Layout and placement of files created in a directory; directories created in it inherit it.
/// `None` leaves a choice to the default of the file system.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DirectoryDefault {
    /// How bytes are distributed.
    pub distribution: Option<DistributionKind>,
    /// Bytes in one strip.
    pub stripe_bytes: Option<u64>,
    /// Parts of the file.
    pub parts: Option<u16>,
    /// Index, in the list of usable I/O daemons, of the one that gets the first part.
    pub first_iod: Option<u16>,
    /// The sequence of a varstrip: (part, bytes).
    pub strips: Vec<(u16, u64)>,
    /// Parts in a group, for grouped.
    pub group_width: Option<u16>,
    /// Rows in a group, for grouped.
    pub group_depth: Option<u32>,
    /// How I/O daemons are chosen.
    pub placement: Option<Placement>,
    /// Only I/O daemons with all of these labels, `key=value`.
    pub labels: Vec<String>,
}

/// An optional value: a mark, then the value or 0.
fn option(out: &mut Encoder, value: Option<u64>) {
    out.u8(u8::from(value.is_some())).u64(value.unwrap_or(0));
}

fn take_option<T: TryFrom<u64>>(from: &mut Decoder<'_>) -> Result<Option<T>, RecordError> {
    let (mark, value) = (from.u8()?, from.u64()?);
    match mark {
        0 => Ok(None),
        1 => T::try_from(value).map(Some).map_err(|_| from.broken()),
        _ => Err(from.broken()),
    }
}

impl DirectoryDefault {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new(VERSION);
        out.u8(self.distribution.map_or(0, |kind| kind as u8))
            .u8(self.placement.map_or(0, |placement| placement as u8));
        option(&mut out, self.stripe_bytes);
        option(&mut out, self.parts.map(u64::from));
        option(&mut out, self.first_iod.map(u64::from));
        option(&mut out, self.group_width.map(u64::from));
        option(&mut out, self.group_depth.map(u64::from));
        out.u32(self.strips.len() as u32);
        for (part, bytes) in &self.strips {
            out.u16(*part).u64(*bytes);
        }
        out.u32(self.labels.len() as u32);
        for label in &self.labels {
            out.bytes(label.as_bytes());
        }
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut from = Decoder::new("directory default", VERSION, bytes)?;
        let distribution = distribution(&mut from)?;
        let placement = placement(&mut from)?;
        let stripe_bytes = take_option(&mut from)?;
        let (parts, first_iod) = (take_option(&mut from)?, take_option(&mut from)?);
        let (group_width, group_depth) = (take_option(&mut from)?, take_option(&mut from)?);
        let strips = (0..from.u32()?)
            .map(|_| Ok((from.u16()?, from.u64()?)))
            .collect::<Result<_, RecordError>>()?;
        let labels = (0..from.u32()?).map(|_| text(&mut from)).collect::<Result<_, _>>()?;
        from.finish()?;
        Ok(Self {
            distribution,
            stripe_bytes,
            parts,
            first_iod,
            strips,
            group_width,
            group_depth,
            placement,
            labels,
        })
    }
}

fn distribution(from: &mut Decoder<'_>) -> Result<Option<DistributionKind>, RecordError> {
    Ok(match from.u8()? {
        0 => None,
        1 => Some(DistributionKind::SimpleStripe),
        2 => Some(DistributionKind::Single),
        3 => Some(DistributionKind::VarStrip),
        4 => Some(DistributionKind::Grouped),
        _ => return Err(from.broken()),
    })
}

fn placement(from: &mut Decoder<'_>) -> Result<Option<Placement>, RecordError> {
    Ok(match from.u8()? {
        0 => None,
        1 => Some(Placement::RoundRobin),
        2 => Some(Placement::FreeSpace),
        3 => Some(Placement::Owner),
        _ => return Err(from.broken()),
    })
}

pub(super) fn text(from: &mut Decoder<'_>) -> Result<String, RecordError> {
    let bytes = from.bytes()?.to_vec();
    String::from_utf8(bytes).map_err(|_| from.broken())
}
