//! The byte-by-byte model that results are compared with, and random small layouts and views.
#![allow(dead_code, reason = "each test file uses its share")]

use braid_layout::{Component, Distribution, Extent, Layout, Pattern, Request, Strip, View};
use braid_types::{FileOffset, IodId, PartIndex};
use proptest::prelude::*;

/// Seeds of failures are printed, not stored in files.
pub fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Part and object offset of each of the file's first `bytes` bytes, assigned one by one.
pub fn deal(layout: &Layout, bytes: u64) -> Vec<(PartIndex, u64)> {
    let parts: usize = layout.components.iter().map(|component| component.parts.len()).sum();
    let mut filled = vec![0; parts];
    let mut dealt = Vec::new();
    let mut base = 0;
    for component in &layout.components {
        let columns = columns(component)
            .take((component.end.0.min(bytes).saturating_sub(component.start.0)) as usize);
        for column in columns {
            let part = base + (column + usize::from(component.first_part)) % component.parts.len();
            dealt.push((PartIndex(part as u16), filled[part]));
            filled[part] += 1;
        }
        base += component.parts.len();
    }
    dealt
}

/// The column of each byte of a component, without end.
fn columns(component: &Component) -> Box<dyn Iterator<Item = usize>> {
    let parts = component.parts.len();
    let times = |column: usize, bytes: u64| std::iter::repeat_n(column, bytes as usize);
    match component.distribution.clone() {
        Distribution::SimpleStripe { stripe_size } => {
            Box::new((0..parts).cycle().flat_map(move |column| times(column, stripe_size)))
        }
        Distribution::Single => Box::new(std::iter::repeat(0)),
        Distribution::VarStrip { strips } => Box::new(
            (0..strips.len())
                .cycle()
                .flat_map(move |at| times(usize::from(strips[at].part) % parts, strips[at].bytes)),
        ),
        Distribution::Grouped { stripe_size, group_width, group_depth } => {
            let width = usize::from(group_width);
            Box::new((0..parts / width).cycle().flat_map(move |group| {
                (0..group_depth).flat_map(move |_| {
                    (0..width).flat_map(move |column| times(group * width + column, stripe_size))
                })
            }))
        }
        other => panic!("no model for {other:?}"),
    }
}

/// The file offsets of the first `bytes` bytes of a view's stream.
pub fn stream(view: &View, bytes: usize) -> Vec<u64> {
    let pattern = expand(&view.pattern);
    (0..)
        .flat_map(|copy| pattern.iter().map(move |at| view.displacement + copy * view.extent + at))
        .take(bytes)
        .collect()
}

fn expand(pattern: &Pattern) -> Vec<u64> {
    match pattern {
        // No test asks for more of a view that shows everything.
        Pattern::Bytes(bytes) => (0..*bytes.min(&4096)).collect(),
        Pattern::Vector { count, stride, child } => {
            let child = expand(child);
            (0..*count)
                .flat_map(|copy| child.iter().map(move |at| copy * stride + at).collect::<Vec<_>>())
                .collect()
        }
        Pattern::Struct(entries) => entries
            .iter()
            .flat_map(|(offset, child)| expand(child).into_iter().map(move |at| offset + at))
            .collect(),
        Pattern::Extents(extents) => {
            extents.iter().flat_map(|extent| extent.offset..extent.offset + extent.bytes).collect()
        }
        other => panic!("no model for {other:?}"),
    }
}

/// A distribution and how many parts it is over.
pub fn distribution() -> impl Strategy<Value = (Distribution, usize)> {
    let strip = (0u16..8, 1u64..9).prop_map(|(part, bytes)| Strip { part, bytes });
    prop_oneof![
        (1u64..12, 1usize..7)
            .prop_map(|(stripe_size, parts)| (Distribution::SimpleStripe { stripe_size }, parts)),
        Just((Distribution::Single, 1)),
        (proptest::collection::vec(strip, 1..7), 1usize..5)
            .prop_map(|(strips, parts)| (Distribution::VarStrip { strips }, parts)),
        (1u64..8, 1u16..4, 1u32..5, 1usize..4).prop_map(
            |(stripe_size, group_width, group_depth, groups)| {
                (
                    Distribution::Grouped { stripe_size, group_width, group_depth },
                    groups * usize::from(group_width),
                )
            }
        ),
    ]
}

/// The same with strips `times` as large.
pub fn scaled(distribution: Distribution, times: u64) -> Distribution {
    match distribution {
        Distribution::SimpleStripe { stripe_size } => {
            Distribution::SimpleStripe { stripe_size: stripe_size * times }
        }
        Distribution::VarStrip { strips } => Distribution::VarStrip {
            strips: strips
                .into_iter()
                .map(|strip| Strip { bytes: strip.bytes * times, ..strip })
                .collect(),
        },
        Distribution::Grouped { stripe_size, group_width, group_depth } => {
            Distribution::Grouped { stripe_size: stripe_size * times, group_width, group_depth }
        }
        other => other,
    }
}

/// A layout of one to three components.
pub fn layout() -> impl Strategy<Value = Layout> {
    let component = (distribution(), 1u64..80, any::<u16>());
    proptest::collection::vec(component, 1..4).prop_map(|components| {
        let mut layout = Layout::one(Distribution::Single, [IodId(1)]);
        let template = layout.components.remove(0);
        let mut start = 0;
        for ((distribution, parts), bytes, first) in components {
            let end = start + bytes;
            layout.components.push(Component {
                start: FileOffset(start),
                end: FileOffset(end),
                distribution,
                first_part: first % parts as u16,
                parts: vec![template.parts[0].clone(); parts],
            });
            start = end;
        }
        layout.components.last_mut().unwrap().end = FileOffset::MAX;
        layout
    })
}

/// A pattern with its span.
fn pattern() -> impl Strategy<Value = (Pattern, u64)> {
    let gaps = || proptest::collection::vec((0u64..6, 1u64..6), 1..5);
    let leaf = prop_oneof![
        (1u64..10).prop_map(|bytes| (Pattern::Bytes(bytes), bytes)),
        gaps().prop_map(|gaps| {
            let mut end = 0;
            let extents = gaps.into_iter().map(|(gap, bytes)| {
                let offset = end + gap;
                end = offset + bytes;
                Extent { offset, bytes }
            });
            (Pattern::Extents(extents.collect()), end)
        }),
    ];
    leaf.prop_recursive(4, 12, 3, |child| {
        prop_oneof![
            (child.clone(), 1u64..5, 0u64..12).prop_map(|((child, span), count, gap)| {
                let stride = span + gap;
                (
                    Pattern::Vector { count, stride, child: Box::new(child) },
                    (count - 1) * stride + span,
                )
            }),
            proptest::collection::vec((child, 0u64..6), 1..4).prop_map(|children| {
                let mut end = 0;
                let entries = children.into_iter().map(|((child, span), gap)| {
                    let offset = end + gap;
                    end = offset + span;
                    (offset, child)
                });
                (Pattern::Struct(entries.collect()), end)
            }),
        ]
    })
}

/// A nested view; sometimes one that shows everything.
pub fn view() -> impl Strategy<Value = View> {
    prop_oneof![
        1 => Just(View::whole()),
        9 => (pattern(), 0u64..50, 0u64..30)
            .prop_map(|((pattern, span), displacement, gap)| View {
                displacement,
                extent: span + gap,
                pattern,
            }),
    ]
}

/// A request of up to 300 bytes.
pub fn request() -> impl Strategy<Value = Request> {
    (view(), 0u64..300, 0u64..300).prop_map(|(view, start, bytes)| Request { view, start, bytes })
}

/// A layout of one component over daemons 1, 2, …
pub fn over(parts: u32, distribution: Distribution) -> Layout {
    Layout::one(distribution, (1..=parts).map(IodId))
}
