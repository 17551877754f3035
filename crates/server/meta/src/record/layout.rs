//! A layout inside a record.

use braid_layout::{
    ChecksumKind, Component, Distribution, Layout, PartPlacement, Redundancy, Strip,
};
use braid_types::limits::{COMPONENTS_MAX, PARTS_MAX};
use braid_types::{FileOffset, IodId, LayoutVersion, ObjectGeneration};

use super::RecordError;
use crate::codec::{Decoder, Encoder};

const SIMPLE_STRIPE: u8 = 1;
const SINGLE: u8 = 2;
const VAR_STRIP: u8 = 3;
const GROUPED: u8 = 4;
/// Redundancy and checksum tags: only "none" is defined today (I10).
const NONE: u8 = 0;

pub(super) fn encode(out: &mut Encoder, layout: &Layout) {
    out.u32(layout.version.0).u8(NONE).u8(NONE).u16(layout.components.len() as u16);
    for component in &layout.components {
        out.u64(component.start.0).u64(component.end.0).u16(component.first_part);
        encode_distribution(out, &component.distribution);
        out.u16(component.parts.len() as u16);
        for part in &component.parts {
            out.u32(part.generation.0).u8(part.iods.len() as u8);
            part.iods.iter().for_each(|iod| {
                out.u32(iod.0);
            });
        }
    }
}

pub(super) fn encode_distribution(out: &mut Encoder, distribution: &Distribution) {
    match distribution {
        Distribution::SimpleStripe { stripe_size } => {
            out.u8(SIMPLE_STRIPE).u64(*stripe_size);
        }
        Distribution::VarStrip { strips } => {
            out.u8(VAR_STRIP).u16(strips.len() as u16);
            strips.iter().for_each(|strip| {
                out.u16(strip.part).u64(strip.bytes);
            });
        }
        Distribution::Grouped { stripe_size, group_width, group_depth } => {
            out.u8(GROUPED).u64(*stripe_size).u16(*group_width).u32(*group_depth);
        }
        // The enum may get variants in other crates. `fits` refuses what this format has no tag
        // for.
        Distribution::Single | _ => {
            out.u8(SINGLE);
        }
    }
}

pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Layout, RecordError> {
    let version = LayoutVersion(from.u32()?);
    if (from.u8()?, from.u8()?) != (NONE, NONE) {
        return Err(from.broken());
    }
    let count = usize::from(from.u16()?);
    if count > COMPONENTS_MAX {
        return Err(from.broken());
    }
    let components = (0..count).map(|_| component(from)).collect::<Result<_, _>>()?;
    Ok(Layout { version, components, redundancy: Redundancy::None, checksum: ChecksumKind::None })
}

fn component(from: &mut Decoder<'_>) -> Result<Component, RecordError> {
    let (start, end, first_part) = (FileOffset(from.u64()?), FileOffset(from.u64()?), from.u16()?);
    let distribution = decode_distribution(from)?;
    let count = usize::from(from.u16()?);
    if count > PARTS_MAX {
        return Err(from.broken());
    }
    let parts = (0..count).map(|_| part(from)).collect::<Result<_, _>>()?;
    Ok(Component { start, end, distribution, first_part, parts })
}

fn part(from: &mut Decoder<'_>) -> Result<PartPlacement, RecordError> {
    let (generation, count) = (ObjectGeneration(from.u32()?), from.u8()?);
    let iods = (0..count).map(|_| from.u32().map(IodId)).collect::<Result<_, _>>()?;
    Ok(PartPlacement { generation, iods })
}

pub(super) fn decode_distribution(from: &mut Decoder<'_>) -> Result<Distribution, RecordError> {
    Ok(match from.u8()? {
        SIMPLE_STRIPE => Distribution::SimpleStripe { stripe_size: from.u64()? },
        SINGLE => Distribution::Single,
        VAR_STRIP => {
            let count = from.u16()?;
            let strip =
                |from: &mut Decoder<'_>| Ok(Strip { part: from.u16()?, bytes: from.u64()? });
            Distribution::VarStrip {
                strips: (0..count).map(|_| strip(from)).collect::<Result<_, RecordError>>()?,
            }
        }
        GROUPED => Distribution::Grouped {
            stripe_size: from.u64()?,
            group_width: from.u16()?,
            group_depth: from.u32()?,
        },
        _ => return Err(from.broken()),
    })
}

/// Whether a layout fits its record: counts within limits, nothing without a tag.
pub(crate) fn fits(layout: &Layout) -> bool {
    let parts: usize = layout.components.iter().map(|component| component.parts.len()).sum();
    let distribution = |d: &Distribution| match d {
        Distribution::VarStrip { strips } => strips.len() <= usize::from(u16::MAX),
        Distribution::SimpleStripe { .. } | Distribution::Single | Distribution::Grouped { .. } => {
            true
        }
        _ => false,
    };
    layout.redundancy == Redundancy::None
        && layout.checksum == ChecksumKind::None
        && layout.components.len() <= COMPONENTS_MAX
        && parts <= PARTS_MAX
        && layout.components.iter().all(|c| distribution(&c.distribution))
        && layout
            .components
            .iter()
            .flat_map(|c| &c.parts)
            .all(|p| p.iods.len() <= usize::from(u8::MAX))
}
