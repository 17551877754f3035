//! Converts a list in any order to ascending extents, and assigns each byte of the file to a piece
//! of the list.

use std::collections::BinaryHeap;

use braid_layout::{Extent, View};

/// A contiguous range of the file that is assigned to one piece of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PlacedExtent {
    /// Its offset in the file.
    pub(crate) offset: u64,
    /// Its length.
    pub(crate) bytes: u64,
    /// The index of the piece.
    pub(crate) piece: usize,
    /// Its start in the memory of the piece.
    pub(crate) at: u64,
}

/// The bytes of a list, ascending, each once. Where pieces overlap, the later one of the list has
/// the byte. At most two ranges for each piece. Bytes past 64-bit offsets belong to none.
pub(crate) fn place_extents(pieces: &[Extent]) -> Vec<PlacedExtent> {
    let end = |piece: usize| pieces[piece].offset.saturating_add(pieces[piece].bytes);
    // With their offsets, so that the sort needs no lookups.
    let offsets = pieces.iter().enumerate().map(|(piece, extent)| (extent.offset, piece));
    let mut order: Vec<(u64, usize)> =
        offsets.filter(|(offset, piece)| end(*piece) > *offset).collect();
    if !order.is_sorted() {
        order.sort_unstable();
    }
    let mut laid: Vec<PlacedExtent> = Vec::with_capacity(order.len());
    if order.is_sorted_by(|(_, before), (offset, _)| end(*before) <= *offset) {
        let whole =
            |(offset, piece)| PlacedExtent { offset, bytes: end(piece) - offset, piece, at: 0 };
        laid.extend(order.into_iter().map(whole));
        return laid;
    }
    let mut coming = order.into_iter().map(|(_, piece)| piece).peekable();
    // Pieces that have begun, the latest of the list first; some have ended.
    let mut begun: BinaryHeap<usize> = BinaryHeap::new();
    let mut offset = 0;
    loop {
        while begun.peek().is_some_and(|piece| end(*piece) <= offset) {
            begun.pop();
        }
        if let (None, Some(piece)) = (begun.peek(), coming.peek()) {
            offset = pieces[*piece].offset;
        }
        while let Some(piece) = coming.next_if(|piece| pieces[*piece].offset <= offset) {
            begun.push(piece);
        }
        let Some(piece) = begun.peek().copied() else { return laid };
        let until = coming.peek().map_or(u64::MAX, |next| pieces[*next].offset).min(end(piece));
        match laid.last_mut() {
            Some(last) if last.piece == piece && last.offset + last.bytes == offset => {
                last.bytes += until - offset
            }
            _ => laid.push(PlacedExtent {
                offset,
                bytes: until - offset,
                piece,
                at: offset - pieces[piece].offset,
            }),
        }
        offset = until;
    }
}

/// The ranges as extents; adjacent ones are merged.
pub(crate) fn extents(laid: &[PlacedExtent]) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::with_capacity(laid.len());
    for PlacedExtent { offset, bytes, .. } in laid {
        match extents.last_mut() {
            Some(last) if last.offset + last.bytes == *offset => last.bytes += bytes,
            _ => extents.push(Extent { offset: *offset, bytes: *bytes }),
        }
    }
    extents
}

/// Converts ascending extents to a view and a position in it. Extents of the same length and
/// distance (the last may be shorter) become a strided view, which has the same small size in a
/// message for any number of extents. `None` for other lists, and for an empty one.
pub(crate) fn strided_view(extents: &[Extent]) -> Option<(View, u64)> {
    let (first, last) = (extents.first()?, extents.last()?);
    let Some(second) = extents.get(1) else { return Some((View::whole(), first.offset)) };
    let stride = second.offset - first.offset;
    let is_regular =
        |pair: &[Extent]| pair[1].offset - pair[0].offset == stride && pair[0].bytes == first.bytes;
    let holds = extents.windows(2).all(is_regular) && last.bytes <= first.bytes;
    holds.then(|| (View::strided(first.offset, first.bytes, stride), 0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list() -> impl Strategy<Value = Vec<Extent>> {
        let far = prop_oneof![9 => 0u64..200, 1 => (u64::MAX - 30)..=u64::MAX];
        prop::collection::vec(
            (far, 0u64..40).prop_map(|(offset, bytes)| Extent { offset, bytes }),
            0..12,
        )
    }

    proptest! {
        #[test]
        fn every_byte_belongs_to_the_latest_piece_and_in_order(pieces in list()) {
            let mut model = std::collections::BTreeMap::new();
            for (piece, extent) in pieces.iter().enumerate() {
                for at in 0..extent.bytes {
                    let offset = extent.offset.checked_add(at);
                    if let Some(offset) = offset.filter(|offset| *offset < u64::MAX) {
                        model.insert(offset, (piece, at));
                    }
                }
            }
            let laid = place_extents(&pieces);
            let bytes: Vec<(u64, (usize, u64))> = laid
                .iter()
                .flat_map(|run| {
                    (0..run.bytes).map(|at| (run.offset + at, (run.piece, run.at + at)))
                })
                .collect();
            prop_assert_eq!(bytes, model.into_iter().collect::<Vec<_>>());
            prop_assert!(laid.len() <= 2 * pieces.len());
        }

        #[test]
        fn a_strided_view_equals_its_list(
            first in 0u64..100, bytes in 1u64..20, gap in 1u64..20, count in 1u64..9,
            short in 0u64..20,
        ) {
            let mut list: Vec<Extent> =
                (0..count).map(|at| Extent { offset: first + at * (bytes + gap), bytes }).collect();
            list.last_mut().unwrap().bytes -= short.min(bytes - 1);
            let (view, start) = strided_view(&list).expect("regular");
            let map = view.map().unwrap();
            let expected: Vec<u64> = list
                .iter()
                .flat_map(|extent| extent.offset..extent.offset + extent.bytes)
                .collect();
            let found: Vec<u64> = (start..)
                .take(expected.len())
                .map(|position| map.file_offset(position).unwrap().0)
                .collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn an_irregular_list_has_no_strided_view() {
        let list = |runs: &[(u64, u64)]| {
            runs.iter().map(|(offset, bytes)| Extent { offset: *offset, bytes: *bytes }).collect()
        };
        for irregular in
            [&[][..], &[(0, 4), (10, 4), (21, 4)], &[(0, 4), (10, 3), (20, 4)], &[(0, 4), (10, 5)]]
        {
            let list: Vec<Extent> = list(irregular);
            assert_eq!(strided_view(&list), None, "{list:?}");
        }
    }
}
