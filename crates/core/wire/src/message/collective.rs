//! Collective requests: the requests of many tasks, sent as a few formulas
//! (`docs/adr/0015-collective-requests.md`).

use braid_layout::Request;
use braid_types::limits::COLLECTIVE_REQUESTS_BYTES_MAX;

use crate::codec::{Wire, wire_enum, wire_struct};

wire_enum! {
    /// What a collective request does.
    pub enum CollectiveKind {
        /// Reads.
        Read = 1,
        /// Writes. Where tasks write the same bytes, the highest rank wins.
        Write = 2,
    }
}

wire_struct! {
    /// Requests of consecutive tasks that differ only by a constant step. Request `n` is the first
    /// one with its displacement and its start moved by `n` steps, modulo 2^64.
    pub struct StridedRequests {
        /// The first task's request.
        first: Request,
        /// Number of tasks; at least 1.
        count: u32,
        /// Distance from one task's displacement to the next task's.
        displacement_step: u64,
        /// Distance from one task's start to the next task's.
        start_step: u64,
    }
}

impl StridedRequests {
    /// Encodes the requests, in order, as few strided groups.
    ///
    /// ```
    /// use braid_layout::{Request, View};
    /// use braid_wire::message::collective::StridedRequests;
    /// let view = |n: u64| View::strided(n * 4096, 4096, 65536);
    /// let task = |n: u64| Request { view: view(n), start: 0, bytes: 1 << 20 };
    /// let tasks: Vec<_> = (0..16).map(task).collect();
    /// let families = StridedRequests::from_requests(&tasks);
    /// assert_eq!((families.len(), families[0].count), (1, 16));
    /// assert_eq!(families[0].displacement_step, 4096);
    /// ```
    pub fn from_requests(requests: &[Request]) -> Vec<Self> {
        let mut families: Vec<Self> = Vec::new();
        for request in requests {
            if !families.last_mut().is_some_and(|family| family.takes(request)) {
                families.push(Self {
                    first: request.clone(),
                    count: 1,
                    displacement_step: 0,
                    start_step: 0,
                });
            }
        }
        families
    }

    /// All requests of the groups, in order. `None` for more than `tasks_max` requests, an empty
    /// group, or requests of more than [`COLLECTIVE_REQUESTS_BYTES_MAX`] in total.
    pub fn expand(families: &[Self], tasks_max: usize) -> Option<Vec<Request>> {
        Self::task_count(families, tasks_max)?;
        Some(
            families
                .iter()
                .flat_map(|family| (0..family.count).map(|at| family.request(at)))
                .collect(),
        )
    }

    /// The number of requests; `None` as in [`StridedRequests::expand`].
    pub fn task_count(families: &[Self], tasks_max: usize) -> Option<usize> {
        let counts = families.iter().map(|family| u64::from(family.count));
        if families.iter().any(|family| family.count == 0) || counts.sum::<u64>() > tasks_max as u64
        {
            return None;
        }
        let bytes = |family: &Self| family.first.to_bytes().len() * family.count as usize;
        if families.iter().map(bytes).sum::<usize>() > COLLECTIVE_REQUESTS_BYTES_MAX {
            return None;
        }
        Some(families.iter().map(|family| family.count as usize).sum())
    }

    /// The values that differ between the requests, in order: the view's displacement and the
    /// start.
    pub fn offsets(&self) -> impl Iterator<Item = (u64, u64)> {
        (0..self.count).map(|at| self.place(at))
    }

    fn place(&self, at: u32) -> (u64, u64) {
        let on = |first: u64, step: u64| first.wrapping_add(step.wrapping_mul(u64::from(at)));
        (
            on(self.first.view.displacement, self.displacement_step),
            on(self.first.start, self.start_step),
        )
    }

    fn request(&self, at: u32) -> Request {
        let mut request = self.first.clone();
        (request.view.displacement, request.start) = self.place(at);
        request
    }

    /// Adds the next request, if it continues the group.
    fn takes(&mut self, next: &Request) -> bool {
        let Request { view, start, bytes } = &self.first;
        let alike = *bytes == next.bytes
            && view.extent == next.view.extent
            && view.pattern == next.view.pattern;
        if !alike || self.count == u32::MAX {
            return false;
        }
        if self.count == 1 {
            self.displacement_step = next.view.displacement.wrapping_sub(view.displacement);
            self.start_step = next.start.wrapping_sub(*start);
        } else {
            if self.place(self.count) != (next.view.displacement, next.start) {
                return false;
            }
        }
        self.count += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use braid_layout::View;

    use super::*;
    use crate::sample::{Rng, Sample};

    fn tile(rank: u64) -> Request {
        let (row, column) = (rank / 4, rank % 4);
        let view =
            View::subarray(0, &[1024, 1024], &[256, 256], &[row * 256, column * 256], 8).unwrap();
        Request { view, start: 0, bytes: 256 * 256 * 8 }
    }

    #[test]
    fn families_are_the_requests_and_do_not_grow_with_tasks_or_blocks() {
        let strided = |tasks: u64, blocks: u64| {
            let task = |n| Request {
                view: View::strided(n * 4096, 4096, tasks * 4096),
                start: 0,
                bytes: blocks * 4096,
            };
            (0..tasks).map(task).collect::<Vec<_>>()
        };
        let bytes =
            |requests: &[Request]| StridedRequests::from_requests(requests).to_bytes().len();
        assert_eq!(bytes(&strided(4, 4)), bytes(&strided(1000, 1 << 20)));
        let backwards: Vec<Request> = (0..8)
            .rev()
            .map(|n| Request { view: View::strided(n * 10, 10, 80), start: 7 - n, bytes: 9 })
            .collect();
        assert_eq!(StridedRequests::from_requests(&backwards).len(), 1);
        let tiles: Vec<Request> = (0..16).map(tile).collect();
        assert!(StridedRequests::from_requests(&tiles).len() <= 8, "a row of tiles is one group");
        for requests in [strided(5, 3), backwards, tiles] {
            assert_eq!(
                StridedRequests::expand(&StridedRequests::from_requests(&requests), 1000).unwrap(),
                requests
            );
        }
    }

    #[test]
    fn random_requests_survive_their_families() {
        for seed in 0..200 {
            let mut rng = Rng(seed);
            let one = Request::sample(&mut rng);
            let mut requests = vec![one.clone(), one.clone(), one];
            requests[1].start = rng.next();
            requests.extend((0..3).map(|_| Request::sample(&mut rng)));
            assert_eq!(
                StridedRequests::expand(&StridedRequests::from_requests(&requests), 6).unwrap(),
                requests,
                "seed {seed}"
            );
            assert_eq!(
                StridedRequests::expand(&StridedRequests::from_requests(&requests), 5),
                None,
                "one too many"
            );
        }
    }

    #[test]
    fn a_long_list_is_not_multiplied_without_bound() {
        let extents: Vec<_> =
            (0..16_384).map(|n| braid_layout::Extent { offset: n * 10, bytes: 1 }).collect();
        let family = |count| StridedRequests {
            first: Request::list(extents.clone()),
            count,
            displacement_step: 1,
            start_step: 0,
        };
        assert!(StridedRequests::expand(&[family(2)], 4096).is_some());
        assert_eq!(StridedRequests::expand(&[family(4096)], 4096), None);
    }

    #[test]
    fn a_family_of_nobody_and_one_of_too_many_are_refused() {
        let family =
            |count| StridedRequests { first: tile(0), count, displacement_step: 1, start_step: 0 };
        assert_eq!(StridedRequests::expand(&[family(0)], 10), None);
        assert_eq!(StridedRequests::expand(&[family(u32::MAX), family(u32::MAX)], 10), None);
    }
}
