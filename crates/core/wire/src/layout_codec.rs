//! Encoding of layouts, views and requests. A request is sent as its formula, never expanded.

use braid_layout::{
    ChecksumKind, Component, Distribution, Extent, Layout, PartPlacement, Pattern, Redundancy,
    Request, Strip, View,
};
use braid_types::limits::VIEW_DEPTH_MAX;

use crate::codec::{Decoder, Wire, WireError};

macro_rules! fields {
    ($name:ident { $($field:ident : $ty:ty),* }) => {
        impl Wire for $name {
            const BYTES_MIN: usize = 0 $(+ <$ty as Wire>::BYTES_MIN)*;
            fn encode(&self, out: &mut Vec<u8>) {
                $( self.$field.encode(out); )*
            }
            fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
                Ok(Self { $( $field: Wire::decode(from)?, )* })
            }
        }
    };
}

fields!(Layout {
    version: braid_types::LayoutVersion,
    components: Vec<Component>,
    redundancy: Redundancy,
    checksum: ChecksumKind
});
fields!(Component {
    start: braid_types::FileOffset,
    end: braid_types::FileOffset,
    distribution: Distribution,
    first_part: u16,
    parts: Vec<PartPlacement>
});
fields!(PartPlacement { generation: braid_types::ObjectGeneration, iods: Vec<braid_types::IodId> });
fields!(Strip { part: u16, bytes: u64 });
fields!(Extent { offset: u64, bytes: u64 });
fields!(View { displacement: u64, extent: u64, pattern: Pattern });
fields!(Request { view: View, start: u64, bytes: u64 });

macro_rules! only_none {
    ($($name:ident),*) => {$(
        impl Wire for $name {
            const BYTES_MIN: usize = 1;
            fn encode(&self, out: &mut Vec<u8>) {
                out.push(0);
            }
            fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
                if u8::decode(from)? == 0 { Ok(Self::None) } else { Err(WireError::Unknown) }
            }
        }
    )*};
}
only_none!(Redundancy, ChecksumKind);

impl Wire for Distribution {
    const BYTES_MIN: usize = 1;
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::SimpleStripe { stripe_size } => {
                out.push(1);
                stripe_size.encode(out);
            }
            Self::Single => out.push(2),
            Self::VarStrip { strips } => {
                out.push(3);
                strips.encode(out);
            }
            Self::Grouped { stripe_size, group_width, group_depth } => {
                out.push(4);
                stripe_size.encode(out);
                group_width.encode(out);
                group_depth.encode(out);
            }
            // A new distribution of the layout crate needs a number here before it can be sent.
            // Every decoder refuses 0.
            _ => out.push(0),
        }
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        match u8::decode(from)? {
            1 => Ok(Self::SimpleStripe { stripe_size: Wire::decode(from)? }),
            2 => Ok(Self::Single),
            3 => Ok(Self::VarStrip { strips: Wire::decode(from)? }),
            4 => Ok(Self::Grouped {
                stripe_size: Wire::decode(from)?,
                group_width: Wire::decode(from)?,
                group_depth: Wire::decode(from)?,
            }),
            _ => Err(WireError::Unknown),
        }
    }
}

impl Wire for Pattern {
    const BYTES_MIN: usize = 5;
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bytes(bytes) => {
                out.push(1);
                bytes.encode(out);
            }
            Self::Vector { count, stride, child } => {
                out.push(2);
                count.encode(out);
                stride.encode(out);
                child.encode(out);
            }
            Self::Struct(members) => {
                out.push(3);
                members.encode(out);
            }
            Self::Extents(extents) => {
                out.push(4);
                extents.encode(out);
            }
            _ => out.push(0),
        }
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        decode_pattern(from, VIEW_DEPTH_MAX)
    }
}

/// Decodes with a limit on nesting, so that no message can exhaust the stack.
fn decode_pattern(from: &mut Decoder<'_>, depth_left: usize) -> Result<Pattern, WireError> {
    let inner = depth_left.checked_sub(1).ok_or(WireError::TooLong)?;
    match u8::decode(from)? {
        1 => Ok(Pattern::Bytes(Wire::decode(from)?)),
        2 => Ok(Pattern::Vector {
            count: Wire::decode(from)?,
            stride: Wire::decode(from)?,
            child: Box::new(decode_pattern(from, inner)?),
        }),
        3 => {
            let count = from.count(<(u64, Pattern)>::BYTES_MIN)?;
            let member = |_| Ok((u64::decode(from)?, decode_pattern(from, inner)?));
            (0..count).map(member).collect::<Result<_, _>>().map(Pattern::Struct)
        }
        4 => Ok(Pattern::Extents(Wire::decode(from)?)),
        _ => Err(WireError::Unknown),
    }
}
