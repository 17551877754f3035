//! Assigns the user's buffers to the windows of a round: each byte to at most one window.

use std::io::{IoSlice, IoSliceMut};

use super::Piece;

/// For each window, a list of pieces: the slices of `buffers` that they name, in order.
pub(crate) fn assign_buffers<'b>(
    buffers: &'b [IoSlice<'_>],
    windows: &[&[Piece]],
) -> Vec<Vec<IoSlice<'b>>> {
    let mut dealt: Vec<Vec<IoSlice<'b>>> =
        windows.iter().map(|pieces| Vec::with_capacity(pieces.len())).collect();
    let mut cursor = Cursor::new(buffers.iter().map(|buffer| &buffer[..]));
    for (window, piece) in in_order(windows) {
        cursor.skip_to(piece.position, |rest, n| &rest[n..]);
        cursor.take(
            piece.bytes,
            |rest, n| rest.split_at(n),
            |slice| dealt[window].push(IoSlice::new(slice)),
        );
    }
    dealt
}

/// As [`deal`], for receiving.
pub(crate) fn assign_buffers_mut<'b>(
    buffers: &'b mut [IoSliceMut<'_>],
    windows: &[&[Piece]],
) -> Vec<Vec<IoSliceMut<'b>>> {
    let mut dealt: Vec<Vec<IoSliceMut<'b>>> =
        windows.iter().map(|pieces| Vec::with_capacity(pieces.len())).collect();
    let mut cursor = Cursor::new(buffers.iter_mut().map(|buffer| &mut buffer[..]));
    for (window, piece) in in_order(windows) {
        cursor.skip_to(piece.position, |rest, n| &mut rest[n..]);
        cursor.take(
            piece.bytes,
            |rest, n| rest.split_at_mut(n),
            |slice| dealt[window].push(IoSliceMut::new(slice)),
        );
    }
    dealt
}

/// All pieces by position. Those of one window ascend already, so a single window needs no sort.
fn in_order(windows: &[&[Piece]]) -> Vec<(usize, Piece)> {
    let pieces = windows
        .iter()
        .enumerate()
        .flat_map(|(at, pieces)| pieces.iter().map(move |piece| (at, *piece)));
    let mut pieces: Vec<(usize, Piece)> = pieces.collect();
    if windows.len() > 1 {
        // The stable sort merges ascending sequences.
        pieces.sort_by_key(|(_, piece)| piece.position);
    }
    pieces
}

/// The current position in the buffers.
struct Cursor<S, I> {
    buffers: I,
    rest: Option<S>,
    position: u64,
}

impl<S: AsRef<[u8]>, I: Iterator<Item = S>> Cursor<S, I> {
    fn new(mut buffers: I) -> Self {
        Self { rest: buffers.next(), buffers, position: 0 }
    }

    fn skip_to(&mut self, position: u64, after: impl Fn(S, usize) -> S) {
        while self.position < position {
            let Some(rest) = self.rest.take() else { return };
            let skipped = (position - self.position).min(rest.as_ref().len() as u64);
            self.advance(after(rest, skipped as usize), skipped);
        }
    }

    fn take(
        &mut self,
        mut bytes: u64,
        split: impl Fn(S, usize) -> (S, S),
        mut give: impl FnMut(S),
    ) {
        while bytes > 0 {
            let Some(rest) = self.rest.take() else { return };
            let taken = bytes.min(rest.as_ref().len() as u64);
            let (slice, rest) = split(rest, taken as usize);
            if taken > 0 {
                give(slice);
            }
            bytes -= taken;
            self.advance(rest, taken);
        }
    }

    fn advance(&mut self, rest: S, bytes: u64) {
        self.position += bytes;
        self.rest = if rest.as_ref().is_empty() { self.buffers.next() } else { Some(rest) };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Divides `0..total` into pieces and assigns them to windows at random; some pieces belong to
    /// none.
    fn cut(total: u64, cuts: &[(u64, usize)], windows: usize) -> Vec<Vec<Piece>> {
        let mut dealt = vec![Vec::new(); windows];
        let mut position = 0;
        for (bytes, window) in cuts {
            let bytes = (*bytes).min(total - position);
            if let (Some(pieces), true) = (dealt.get_mut(*window), bytes > 0) {
                pieces.push(Piece { position, bytes });
            }
            position += bytes;
        }
        dealt
    }

    proptest! {
        #[test]
        fn every_window_gets_exactly_its_bytes(
            lengths in prop::collection::vec(0usize..20, 0..8),
            cuts in prop::collection::vec((1u64..9, 0usize..4), 0..30),
        ) {
            let total: usize = lengths.iter().sum();
            let mut next = 0..=u8::MAX;
            let mut buffer =
                |n: &usize| (0..*n).map(|_| next.next().unwrap()).collect::<Vec<u8>>();
            let mut user: Vec<Vec<u8>> = lengths.iter().map(&mut buffer).collect();
            let flat: Vec<u8> = user.concat();
            let windows = cut(total as u64, &cuts, 3);
            let lists: Vec<&[Piece]> = windows.iter().map(Vec::as_slice).collect();
            let wanted: Vec<Vec<u8>> = windows.iter().map(|pieces| {
                let range = |p: &Piece| p.position as usize..(p.position + p.bytes) as usize;
                pieces.iter().flat_map(|p| flat[range(p)].to_vec()).collect()
            }).collect();

            let shared: Vec<IoSlice<'_>> = user.iter().map(|buffer| IoSlice::new(buffer)).collect();
            let got: Vec<Vec<u8>> = assign_buffers(&shared, &lists)
                .iter()
                .map(|slices| slices.iter().flat_map(|slice| slice.to_vec()).collect())
                .collect();
            prop_assert_eq!(&got, &wanted);

            let mut own: Vec<IoSliceMut<'_>> =
                user.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
            let got: Vec<Vec<u8>> = assign_buffers_mut(&mut own, &lists)
                .iter()
                .map(|slices| slices.iter().flat_map(|slice| slice.to_vec()).collect())
                .collect();
            prop_assert_eq!(&got, &wanted);
        }
    }
}
