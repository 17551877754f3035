//! Random layouts, views and requests through several daemons, against a file of bytes.

use braid_iod::IodCore;
use braid_layout::{Distribution, Extent, Layout, Pattern, Request, Strip, View};
use braid_store::MemStore;
use braid_types::IodId;
use proptest::prelude::*;

use super::harness::*;

const IODS: u32 = 3;
/// All bytes lie below this offset.
const FILE_BYTES: u64 = 96 * 1024;

fn distribution(parts: u16) -> BoxedStrategy<Distribution> {
    let stripe = (1u64..20_000).prop_map(|stripe_size| Distribution::SimpleStripe { stripe_size });
    let strips = prop::collection::vec((0..parts, 1u64..9000), 1..6).prop_map(|strips| {
        Distribution::VarStrip {
            strips: strips.into_iter().map(|(part, bytes)| Strip { part, bytes }).collect(),
        }
    });
    let widths: Vec<u16> = (1..=parts).filter(|width| parts.is_multiple_of(*width)).collect();
    let grouped = (1u64..5000, prop::sample::select(widths), 1u32..4).prop_map(
        |(stripe_size, group_width, group_depth)| Distribution::Grouped {
            stripe_size,
            group_width,
            group_depth,
        },
    );
    if parts == 1 {
        prop_oneof![stripe, strips, grouped, Just(Distribution::Single)].boxed()
    } else {
        prop_oneof![stripe, strips, grouped].boxed()
    }
}

fn layout() -> impl Strategy<Value = Layout> {
    (1u16..7)
        .prop_flat_map(|parts| {
            (distribution(parts), 0..parts, prop::collection::vec(1..=IODS, usize::from(parts)))
        })
        .prop_map(|(distribution, first_part, iods)| {
            let mut layout = Layout::one(distribution, iods.into_iter().map(IodId));
            layout.components[0].first_part = first_part;
            layout
        })
}

fn request() -> impl Strategy<Value = Request> {
    let plain = (0..FILE_BYTES, 1u64..40_000).prop_map(|(offset, bytes)| contiguous(offset, bytes));
    let strided = (0u64..5000, 1u64..600, 0u64..3000, 0u64..2000, 1u64..5000).prop_map(
        |(displacement, group, gap, start, bytes)| Request {
            view: View::strided(displacement, group, group + gap),
            start,
            bytes,
        },
    );
    let nested = (1u64..9, 1u64..40, 0u64..50, 1u64..6, 1u64..3000).prop_map(
        |(count, block, gap, rows, bytes)| {
            let row = Pattern::Vector {
                count,
                stride: block + gap,
                child: Box::new(Pattern::Bytes(block)),
            };
            let span = count * (block + gap);
            let pattern = Pattern::Vector { count: rows, stride: span * 2, child: Box::new(row) };
            Request {
                view: View { displacement: 7, extent: span * 2 * rows, pattern },
                start: 3,
                bytes,
            }
        },
    );
    let list = prop::collection::vec((1u64..3000, 1u64..500), 1..20).prop_map(|runs| {
        let mut offset = 0;
        let extents: Vec<_> = runs
            .into_iter()
            .map(|(gap, bytes)| {
                let extent = Extent { offset: offset + gap, bytes };
                offset += gap + bytes;
                extent
            })
            .collect();
        Request::list(extents)
    });
    prop_oneof![plain, strided, nested, list].prop_filter("within the model", |request| {
        file_offsets(request).last().is_none_or(|last| *last < FILE_BYTES)
    })
}

/// The file offset of every byte of a request, by its view's definition.
fn file_offsets(request: &Request) -> Vec<u64> {
    let view = request.view.map().expect("valid");
    (request.start..request.start + request.bytes)
        .map(|at| view.file_offset(at).expect("in range").0)
        .collect()
}

/// The client's work: sends each daemon its bytes, and combines the replies.
struct Cluster {
    daemons: Vec<IodCore<MemStore>>,
    layout: Layout,
    model: Vec<u8>,
    size: u64,
}

impl Cluster {
    fn new(layout: Layout) -> Self {
        Self {
            daemons: (1..=IODS).map(daemon).collect(),
            layout,
            model: vec![0; FILE_BYTES as usize],
            size: 0,
        }
    }

    /// Indices into `offsets` of the bytes on `iod`, by the layout's definition.
    fn share(&self, iod: u32, offsets: &[u64]) -> Vec<usize> {
        let holds = |offset: &u64| {
            let part = self.layout.locate(braid_types::FileOffset(*offset)).expect("located").part;
            self.layout.components[0].parts[usize::from(part.0)].iods == [IodId(iod)]
        };
        (0..offsets.len()).filter(|at| holds(&offsets[*at])).collect()
    }

    fn involved(&self) -> Vec<u32> {
        let parts = &self.layout.components[0].parts;
        (1..=IODS).filter(|iod| parts.iter().any(|part| part.iods == [IodId(*iod)])).collect()
    }

    fn write(&mut self, request: &Request, data: &[u8]) {
        let offsets = file_offsets(request);
        for iod in self.involved() {
            let payload: Vec<u8> =
                self.share(iod, &offsets).into_iter().map(|at| data[at]).collect();
            let mut client = Client::of_session(&self.daemons[iod as usize - 1], SESSION);
            let reply =
                client.write(&capability(self.layout.clone()), request.clone(), &payload).unwrap();
            assert_eq!(reply.bytes.0, payload.len() as u64);
        }
        for (at, offset) in offsets.iter().enumerate() {
            self.model[*offset as usize] = data[at];
            self.size = self.size.max(offset + 1);
        }
    }

    /// Checks what every daemon sends, and that its `ends` give the size of the file.
    fn check(&self, request: &Request) {
        let offsets = file_offsets(request);
        let mut ends = Vec::new();
        for iod in self.involved() {
            let mut client = Client::of_session(&self.daemons[iod as usize - 1], SESSION);
            let read = client.read(&capability(self.layout.clone()), request.clone()).unwrap();
            let share = self.share(iod, &offsets);
            assert!(read.payload.len() <= share.len());
            for (rank, at) in share.into_iter().enumerate() {
                let byte = read.payload.get(rank).copied().unwrap_or(0);
                assert_eq!(
                    byte, self.model[offsets[at] as usize],
                    "byte {} of the file",
                    offsets[at]
                );
            }
            ends.extend(read.reply.ends.iter().map(|end| (end.part, end.bytes.0)));
        }
        assert_eq!(self.layout.file_size_from_objects(&ends), Ok(self.size));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_written_through_daemons_is_read_as_from_one_file(
        layout in layout(),
        writes in prop::collection::vec(request(), 1..5),
        reads in prop::collection::vec(request(), 1..5),
    ) {
        let mut cluster = Cluster::new(layout);
        for (seed, request) in writes.iter().enumerate() {
            cluster.write(request, &pattern(request.bytes as usize, seed as u64));
        }
        for request in writes.iter().chain(&reads) {
            cluster.check(request);
        }
        cluster.check(&contiguous(0, FILE_BYTES));
    }
}
