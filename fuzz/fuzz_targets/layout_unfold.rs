//! Any layout and any request: no panic, no wrap (I3). Small ones are compared with the mapping
//! byte by byte.
#![no_main]

use arbitrary::Arbitrary;
use braid_layout::{
    Access, Component, Distribution, Extent, Layout, LayoutMap, PartSet, Pattern, Request, Strip,
    Unfolded, View,
};
use braid_types::{FileOffset, IodId, PartIndex};
use libfuzzer_sys::fuzz_target;

/// A number that is small, near a power of two, or arbitrary.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Number {
    Small(u8),
    Middle(u16),
    Edge { bit: u8, less: u8 },
    Any(u64),
}

impl Number {
    fn value(self) -> u64 {
        match self {
            Self::Small(n) => u64::from(n),
            Self::Middle(n) => u64::from(n),
            Self::Edge { bit, less } => (1u64 << (bit % 64)).wrapping_sub(u64::from(less)),
            Self::Any(n) => n,
        }
    }
}

#[derive(Arbitrary, Debug)]
enum Shape {
    SimpleStripe(Number),
    Single,
    VarStrip(Vec<(u8, Number)>),
    Grouped(Number, u8, Number),
}

#[derive(Arbitrary, Debug)]
enum Tree {
    Bytes(Number),
    Vector { count: Number, stride: Number, child: Box<Tree> },
    Struct(Vec<(Number, Tree)>),
    Extents(Vec<(Number, Number)>),
}

#[derive(Arbitrary, Debug)]
struct Input {
    components: Vec<(Shape, u8, u8, Number)>,
    displacement: Number,
    extent: Number,
    pattern: Tree,
    start: Number,
    bytes: Number,
    parts: u32,
    /// Displacements and strides are taken as gaps, so that most views are well-formed.
    tame: bool,
}

fn distribution(shape: &Shape) -> Distribution {
    match shape {
        Shape::SimpleStripe(stripe) => Distribution::SimpleStripe { stripe_size: stripe.value() },
        Shape::Single => Distribution::Single,
        Shape::VarStrip(strips) => Distribution::VarStrip {
            strips: strips
                .iter()
                .map(|(part, bytes)| Strip { part: u16::from(*part), bytes: bytes.value() })
                .collect(),
        },
        Shape::Grouped(stripe, width, depth) => Distribution::Grouped {
            stripe_size: stripe.value(),
            group_width: u16::from(*width),
            group_depth: depth.value() as u32,
        },
    }
}

fn layout(input: &Input) -> Layout {
    let mut layout = Layout::one(Distribution::Single, [IodId(1)]);
    let part = layout.components.remove(0).parts.remove(0);
    let mut start = 0u64;
    for (shape, parts, first_part, bytes) in &input.components {
        let end = start.saturating_add(bytes.value());
        layout.components.push(Component {
            start: FileOffset(start),
            end: FileOffset(end),
            distribution: distribution(shape),
            first_part: u16::from(*first_part),
            parts: vec![part.clone(); usize::from(*parts)],
        });
        start = end;
    }
    if let Some(last) = layout.components.last_mut() {
        last.end = FileOffset::MAX;
    }
    layout
}

/// The pattern and its span, which is 0 on overflow.
fn pattern(tree: &Tree, tame: bool) -> (Pattern, u64) {
    let past = |end: u64, offset: u64| if tame { end.wrapping_add(offset) } else { offset };
    let mut end = 0u64;
    match tree {
        Tree::Bytes(bytes) => (Pattern::Bytes(bytes.value()), bytes.value()),
        Tree::Vector { count, stride, child } => {
            let (child, span) = pattern(child, tame);
            let (count, stride) = (count.value(), past(span, stride.value()));
            let whole = count.wrapping_sub(1).wrapping_mul(stride).wrapping_add(span);
            (Pattern::Vector { count, stride, child: Box::new(child) }, whole)
        }
        Tree::Struct(entries) => {
            let entries = entries.iter().map(|(offset, child)| {
                let (child, span) = pattern(child, tame);
                let offset = past(end, offset.value());
                end = offset.wrapping_add(span);
                (offset, child)
            });
            (Pattern::Struct(entries.collect()), end)
        }
        Tree::Extents(extents) => {
            let extents = extents.iter().map(|(offset, bytes)| {
                let (offset, bytes) = (past(end, offset.value()), bytes.value());
                end = offset.wrapping_add(bytes);
                Extent { offset, bytes }
            });
            (Pattern::Extents(extents.collect()), end)
        }
    }
}

/// Maximum steps and bytes of one input, so that a run is quick.
const STEPS: usize = 5000;
const BYTES: u64 = 5000;

fuzz_target!(|input: Input| {
    let layout = layout(&input);
    let (pattern, span) = pattern(&input.pattern, input.tame);
    let extent =
        if input.tame { span.wrapping_add(input.extent.value()) } else { input.extent.value() };
    let view = View { displacement: input.displacement.value(), extent, pattern };
    let request = Request { view, start: input.start.value(), bytes: input.bytes.value() };
    let parts: PartSet = (0..32).filter(|bit| input.parts >> bit & 1 == 1).map(PartIndex).collect();

    let _ = (layout.validate(), request.validate());
    let Ok(map) = layout.map() else { return };
    let accesses = unfolded(&map, &request, &parts);
    if let (Some(accesses), true) = (&accesses, request.bytes <= BYTES) {
        check_against_the_mapping(&map, &request, &parts, accesses);
    }
});

/// All accesses, in order. `None` when the request is refused or takes too long.
fn unfolded(map: &LayoutMap, request: &Request, parts: &PartSet) -> Option<Vec<Access>> {
    let mut job = map.unfold(request, parts).ok()?;
    let mut steps = STEPS;
    let (mut found, mut end, mut packed) = (Vec::new(), 0, 0);
    loop {
        match job.next_within(&mut steps) {
            Unfolded::Access(access) => {
                assert!(
                    access.bytes > 0
                        && access.stream_offset >= end
                        && access.packed_offset == packed
                );
                end = access.stream_offset + access.bytes;
                packed += access.bytes;
                assert!(end <= request.bytes);
                found.push(access);
            }
            Unfolded::Paused => return None,
            Unfolded::End => break,
        }
    }
    let payload = map.payload_bytes(request, parts, &mut STEPS.clone());
    assert!(payload.is_ok_and(|payload| payload.is_none_or(|payload| payload == packed)));
    Some(found)
}

fn check_against_the_mapping(
    map: &LayoutMap,
    request: &Request,
    parts: &PartSet,
    accesses: &[Access],
) {
    let view = request.view.map().expect("it was unfolded");
    let expected = (0..request.bytes).filter_map(|at| {
        let offset = view.file_offset(request.start + at).expect("inside the request");
        let location = map.locate(offset).expect("inside a file");
        assert_eq!(map.file_offset(location.part, location.object_offset), Ok(offset));
        assert_eq!(view.position(offset), Some(request.start + at));
        parts.contains(location.part).then_some((at, location.part, location.object_offset.0))
    });
    let found = accesses.iter().flat_map(|access| {
        (0..access.bytes)
            .map(|i| (access.stream_offset + i, access.part, access.object_offset.0 + i))
    });
    assert!(expected.eq(found));
}
