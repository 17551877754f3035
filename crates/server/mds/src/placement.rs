//! Placement: which I/O daemons get the parts of a new file, and how its bytes are distributed.
//!
//! A pure function of the layout hint of the call, then that of the directory, then the default of
//! the file system. They are combined field by field, so that a call may set the stripe size alone.
//! What a *call* asks for and cannot have is an error. What a *directory* asks for and does not fit
//! the call's distribution is ignored.

use std::sync::{Arc, OnceLock};

use braid_layout::{
    ChecksumKind, Component, Distribution, Layout, PartPlacement, Redundancy, Strip,
};
use braid_types::{
    Failure, FileOffset, IodId, LayoutVersion, ObjectGeneration, Status,
    limits::{PARTS_MAX, STRIPE_BYTES_DEFAULT, STRIPE_BYTES_MAX, STRIPE_BYTES_MIN},
};
use braid_wire::message::types::{DistributionHint, IodState, LayoutHint, Placement};

/// Parts of a new file when no number is asked for. With more parts one client gains nothing, and
/// each `stat` of a file that is being written asks every daemon of the layout.
pub const PARTS_DEFAULT_MAX: usize = 16;
/// Parts in a group of a grouped layout by default: four daemons fill one client's network link.
pub const GROUP_WIDTH_DEFAULT: u16 = 4;
/// Rows in a group of a grouped layout by default: 256 MiB with the default stripe and width.
pub const GROUP_DEPTH_DEFAULT: u32 = 64;
/// Labels in one layout hint (I9).
pub const WISH_LABELS_MAX: usize = 64;

/// What placement knows of an I/O daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Its stable id.
    pub id: IodId,
    /// Only daemons that are up get new files.
    pub state: IodState,
    /// `key=value`.
    pub labels: Vec<String>,
    /// Bytes that may still be written to its disk.
    pub available: u64,
    /// New files are placed on other daemons, if these have space.
    pub nearly_full: bool,
}

/// The daemons that get new files, of those that fit the hint: daemons that are up, without those
/// that are nearly full, unless all are. A stripe over a full disk fails the whole file.
fn usable_iods<'c>(fits: impl Iterator<Item = &'c Candidate>) -> Vec<&'c Candidate> {
    let mut found: Vec<&Candidate> = fits.filter(|iod| iod.state == IodState::Up).collect();
    if found.iter().any(|iod| !iod.nearly_full) {
        found.retain(|iod| !iod.nearly_full);
    }
    found
}

/// The daemons that placement chooses from.
#[derive(Debug, Default)]
pub struct Candidates {
    iods: Vec<Candidate>,
    unwished: Arc<DefaultLayouts>,
}

/// The layouts of files without a hint, each made once: one for each daemon that a file may begin
/// with.
#[derive(Debug, Default)]
struct DefaultLayouts {
    usable: Vec<IodId>,
    layouts: Vec<OnceLock<Arc<Layout>>>,
}

impl Candidates {
    /// Every daemon of the cluster, in the order of their ids. The layouts of `before` are reused
    /// while the same daemons are usable.
    pub fn new(iods: Vec<Candidate>, before: &Self) -> Self {
        let usable: Vec<IodId> = usable_iods(iods.iter()).into_iter().map(|iod| iod.id).collect();
        let unwished = if usable == before.unwished.usable {
            Arc::clone(&before.unwished)
        } else {
            let layouts = usable.iter().map(|_| OnceLock::new()).collect();
            Arc::new(DefaultLayouts { usable, layouts })
        };
        Self { iods, unwished }
    }

    /// Every daemon of the cluster, in the order of their ids.
    pub fn iods(&self) -> &[Candidate] {
        &self.iods
    }

    /// The layout of a file without a hint of call or directory, for this number of the round
    /// robin. `make` makes it.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn default_layout(
        &self,
        round_robin: u64,
        make: impl FnOnce() -> Result<Layout, Failure>,
    ) -> Result<Arc<Layout>, Failure> {
        let DefaultLayouts { usable, layouts } = &*self.unwished;
        let Some(first) = round_robin.checked_rem(usable.len() as u64) else {
            return make().map(Arc::new);
        };
        let known = &layouts[first as usize];
        match known.get() {
            Some(layout) => Ok(Arc::clone(layout)),
            None => make().map(|layout| Arc::clone(known.get_or_init(|| Arc::new(layout)))),
        }
    }
}

/// Everything that placement depends on.
#[derive(Clone, Copy, Debug)]
pub struct PlacementInput<'a> {
    /// The hint of the call.
    pub wish: &'a LayoutHint,
    /// The default of the nearest directory that has one.
    pub inherited: &'a LayoutHint,
    /// Every daemon of the cluster, in the order of their ids.
    pub iods: &'a [Candidate],
    /// Rises by one with each new file: the position of the round robin.
    pub round_robin: u64,
    /// Owner of the new file.
    pub uid: u64,
}

impl PlacementInput<'_> {
    /// The layout of the new file.
    ///
    /// # Errors
    /// [`Status::NoIods`] when no daemon is up that has the labels, [`Status::Invalid`] for a hint
    /// that gives no layout.
    pub fn layout(&self) -> Result<Layout, Failure> {
        let shape = self.shape()?;
        let order = self.order()?;
        let parts = shape.parts(order.len());
        if parts == 0 || parts > PARTS_MAX {
            return Err(invalid(format!("a file has 1 to {PARTS_MAX} parts, not {parts}")));
        }
        let part = |i: usize| PartPlacement {
            generation: ObjectGeneration(0),
            iods: vec![order[i % order.len()]],
        };
        let component = Component {
            start: FileOffset::ZERO,
            end: FileOffset::MAX,
            distribution: shape.distribution(),
            first_part: 0,
            parts: (0..parts).map(part).collect(),
        };
        Ok(Layout {
            version: LayoutVersion(1),
            components: vec![component],
            redundancy: Redundancy::None,
            checksum: ChecksumKind::None,
        })
    }

    /// The usable daemons, the one of the first part first.
    fn order(&self) -> Result<Vec<IodId>, Failure> {
        let labels =
            if self.wish.labels.is_empty() { &self.inherited.labels } else { &self.wish.labels };
        let fits = |iod: &&Candidate| labels.iter().all(|want| iod.labels.contains(want));
        let fitting = self.iods.iter().filter(fits);
        let mut usable = match self.wish.first_iod {
            // A number of the first daemon counts all daemons that are up.
            Some(_) => fitting.filter(|iod| iod.state == IodState::Up).collect(),
            None => usable_iods(fitting),
        };
        if usable.is_empty() {
            return Err(no_iods(self.iods.len(), labels));
        }
        let count = usable.len() as u64;
        let placement =
            self.wish.placement.or(self.inherited.placement).unwrap_or(Placement::RoundRobin);
        let first = match (self.first_iod(usable.len())?, placement) {
            (Some(first), _) => first as u64,
            (None, Placement::RoundRobin) => self.round_robin % count,
            (None, Placement::Owner) => self.uid % count,
            (None, _) => {
                // With equal free space, not every file may go to the same daemon: the round robin
                // decides among equals.
                usable.rotate_left((self.round_robin % count) as usize);
                usable.sort_by_key(|iod| std::cmp::Reverse(iod.available));
                0
            }
        };
        usable.rotate_left(first as usize);
        Ok(usable.iter().map(|iod| iod.id).collect())
    }

    fn first_iod(&self, usable: usize) -> Result<Option<usize>, Failure> {
        let first = match (self.wish.first_iod, self.inherited.first_iod) {
            (Some(first), _) if usize::from(first) >= usable => {
                return Err(invalid(format!(
                    "first I/O daemon {first}: only {usable} are usable, counted from 0"
                )));
            }
            (Some(first), _) => Some(usize::from(first)),
            // A directory's hint may be older than the loss of a daemon.
            (None, inherited) => inherited.map(|first| usize::from(first) % usable),
        };
        Ok(first)
    }

    fn shape(&self) -> Result<Shape, Failure> {
        let (wish, from) = (self.wish, self.inherited);
        let distribution =
            wish.distribution.or(from.distribution).unwrap_or(DistributionHint::SimpleStripe);
        let stripe_bytes = wish.stripe_bytes.or(from.stripe_bytes).unwrap_or(STRIPE_BYTES_DEFAULT);
        if !(STRIPE_BYTES_MIN..=STRIPE_BYTES_MAX).contains(&stripe_bytes)
            || stripe_bytes % STRIPE_BYTES_MIN != 0
        {
            return Err(invalid(format!(
                "stripe of {stripe_bytes} bytes: from {STRIPE_BYTES_MIN} to {STRIPE_BYTES_MAX}, \
                 in steps of {STRIPE_BYTES_MIN}"
            )));
        }
        // The directory's number of parts is for its own distribution only.
        let same = wish.distribution.is_none() || wish.distribution == from.distribution;
        let parts = wish.parts.or(if same { from.parts } else { None });
        match distribution {
            DistributionHint::Single if wish.parts.is_some_and(|parts| parts != 1) => {
                Err(invalid("a file in a single object has one part".into()))
            }
            DistributionHint::Single => Ok(Shape::Single),
            DistributionHint::VarStrip => self.varstrip(parts),
            DistributionHint::Grouped => self.grouped(parts, stripe_bytes),
            _ => Ok(Shape::Stripe { stripe_bytes, parts }),
        }
    }

    fn varstrip(&self, parts: Option<u16>) -> Result<Shape, Failure> {
        let strips =
            if self.wish.strips.is_empty() { &self.inherited.strips } else { &self.wish.strips };
        if strips.is_empty() {
            return Err(invalid("a varstrip layout needs its strips".into()));
        }
        let highest = strips.iter().map(|(part, _)| usize::from(*part)).max().unwrap_or(0);
        let parts = parts.map_or(highest + 1, usize::from);
        if highest >= parts {
            return Err(invalid(format!("a strip names part {highest} of {parts}")));
        }
        if strips.iter().any(|(_, bytes)| *bytes == 0 || *bytes > STRIPE_BYTES_MAX) {
            return Err(invalid(format!("a strip has 1 to {STRIPE_BYTES_MAX} bytes")));
        }
        Ok(Shape::VarStrip { strips: strips.clone(), parts })
    }

    fn grouped(&self, parts: Option<u16>, stripe_bytes: u64) -> Result<Shape, Failure> {
        let width = self.wish.group_width.or(self.inherited.group_width);
        let depth =
            self.wish.group_depth.or(self.inherited.group_depth).unwrap_or(GROUP_DEPTH_DEFAULT);
        if width == Some(0) || depth == 0 {
            return Err(invalid("a group has at least one part and one row".into()));
        }
        let chosen = width.unwrap_or(GROUP_WIDTH_DEFAULT);
        match parts {
            Some(parts) if width.is_some() && !parts.is_multiple_of(chosen) => {
                Err(invalid(format!("{parts} parts are not groups of {chosen}")))
            }
            // Without a width in the hint, the widest that divides the parts.
            Some(parts) => {
                let width = (1..=chosen.min(parts))
                    .rev()
                    .find(|width| parts.is_multiple_of(*width))
                    .unwrap_or(1);
                Ok(Shape::Grouped { stripe_bytes, parts: Some(parts), width, depth })
            }
            None => Ok(Shape::Grouped { stripe_bytes, parts: None, width: chosen, depth }),
        }
    }
}

/// A distribution before the number of daemons is known.
enum Shape {
    Single,
    Stripe { stripe_bytes: u64, parts: Option<u16> },
    VarStrip { strips: Vec<(u16, u64)>, parts: usize },
    Grouped { stripe_bytes: u64, parts: Option<u16>, width: u16, depth: u32 },
}

impl Shape {
    fn parts(&self, iods: usize) -> usize {
        match self {
            Self::Single => 1,
            Self::VarStrip { parts, .. } => *parts,
            Self::Stripe { parts, .. } => parts.map_or(iods.min(PARTS_DEFAULT_MAX), usize::from),
            Self::Grouped { parts: Some(parts), .. } => usize::from(*parts),
            Self::Grouped { parts: None, width, .. } => {
                (iods / usize::from(*width)).max(1) * usize::from(*width)
            }
        }
    }

    fn distribution(self) -> Distribution {
        match self {
            Self::Single => Distribution::Single,
            Self::Stripe { stripe_bytes, .. } => {
                Distribution::SimpleStripe { stripe_size: stripe_bytes }
            }
            Self::VarStrip { strips, .. } => Distribution::VarStrip {
                strips: strips
                    .iter()
                    .map(|(part, bytes)| Strip { part: *part, bytes: *bytes })
                    .collect(),
            },
            Self::Grouped { stripe_bytes, width, depth, .. } => Distribution::Grouped {
                stripe_size: stripe_bytes,
                group_width: width,
                group_depth: depth,
            },
        }
    }
}

/// Checks a layout hint that is to be a directory's default: it must give a layout on some cluster.
///
/// # Errors
/// [`Status::Invalid`], [`Status::LimitExceeded`].
pub fn check_default(wish: &LayoutHint) -> Result<(), Failure> {
    if wish.labels.len() > WISH_LABELS_MAX {
        return Err(Failure::new(
            Status::LimitExceeded,
            format!("at most {WISH_LABELS_MAX} labels in a layout hint"),
        ));
    }
    let parts = usize::from(wish.first_iod.unwrap_or(0)) + 1;
    let iods: Vec<Candidate> = (1..=parts as u32)
        .map(|id| Candidate {
            id: IodId(id),
            state: IodState::Up,
            labels: wish.labels.clone(),
            available: 0,
            nearly_full: false,
        })
        .collect();
    PlacementInput { wish, inherited: &LayoutHint::none(), iods: &iods, round_robin: 0, uid: 0 }
        .layout()
        .map(drop)
}

fn invalid(detail: String) -> Failure {
    Failure::new(Status::Invalid, detail)
}

fn no_iods(known: usize, labels: &[String]) -> Failure {
    let which = if labels.is_empty() {
        String::new()
    } else {
        format!(" with the labels {}", labels.join(", "))
    };
    Failure::new(
        Status::NoIods,
        format!("none of the {known} I/O daemons{which} is up; try: braid status"),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn iods(count: u32) -> Vec<Candidate> {
        (1..=count)
            .map(|id| Candidate {
                id: IodId(id),
                state: IodState::Up,
                labels: Vec::new(),
                available: u64::from(id),
                nearly_full: false,
            })
            .collect()
    }

    fn choose(
        wish: &LayoutHint,
        inherited: &LayoutHint,
        iods: &[Candidate],
        round_robin: u64,
    ) -> Result<Layout, Failure> {
        PlacementInput { wish, inherited, iods, round_robin, uid: 1000 }.layout()
    }

    fn placed(layout: &Layout) -> Vec<u32> {
        layout.components[0].parts.iter().map(|part| part.iods[0].0).collect()
    }

    fn wish() -> LayoutHint {
        LayoutHint::none()
    }

    #[test]
    fn default_is_a_stripe_over_all_daemons_round_robin() {
        let first = choose(&wish(), &wish(), &iods(4), 0).unwrap();
        assert_eq!(placed(&first), [1, 2, 3, 4]);
        assert_eq!(
            first.components[0].distribution,
            Distribution::SimpleStripe { stripe_size: STRIPE_BYTES_DEFAULT }
        );
        assert_eq!(placed(&choose(&wish(), &wish(), &iods(4), 5).unwrap()), [2, 3, 4, 1]);
        assert_eq!(
            placed(&choose(&wish(), &wish(), &iods(40), 0).unwrap()).len(),
            PARTS_DEFAULT_MAX
        );
    }

    #[test]
    fn a_default_layout_is_made_once_per_first_daemon_while_all_stay_up() {
        let mut some = iods(3);
        let candidates = Candidates::new(some.clone(), &Candidates::default());
        let take = |from: &Candidates, round_robin| {
            from.default_layout(round_robin, || choose(&wish(), &wish(), from.iods(), round_robin))
                .unwrap()
        };
        for round_robin in 0..7 {
            assert_eq!(
                *take(&candidates, round_robin),
                choose(&wish(), &wish(), &some, round_robin).unwrap()
            );
        }
        assert!(Arc::ptr_eq(&take(&candidates, 1), &take(&candidates, 4)));
        some[0].available = 0;
        let fuller = Candidates::new(some.clone(), &candidates);
        assert!(Arc::ptr_eq(&take(&candidates, 1), &take(&fuller, 1)));
        some[1].state = IodState::Down;
        let fewer = Candidates::new(some, &fuller);
        assert_eq!(placed(&take(&fewer, 1)), [3, 1]);
        let none = Candidates::default();
        let refused = none.default_layout(0, || choose(&wish(), &wish(), none.iods(), 0));
        assert_eq!(refused.unwrap_err().status, Status::NoIods);
    }

    #[test]
    fn down_and_draining_daemons_get_no_new_files() {
        let mut some = iods(4);
        some[0].state = IodState::Down;
        some[2].state = IodState::Draining;
        assert_eq!(placed(&choose(&wish(), &wish(), &some, 0).unwrap()), [2, 4]);
        some.iter_mut().for_each(|iod| iod.state = IodState::Down);
        assert_eq!(choose(&wish(), &wish(), &some, 0).unwrap_err().status, Status::NoIods);
        assert_eq!(choose(&wish(), &wish(), &[], 0).unwrap_err().status, Status::NoIods);
    }

    #[test]
    fn nearly_full_daemons_get_no_new_files_while_others_have_space() {
        let mut some = iods(4);
        some[1].nearly_full = true;
        assert_eq!(placed(&choose(&wish(), &wish(), &some, 0).unwrap()), [1, 3, 4]);
        let candidates = Candidates::new(some.clone(), &Candidates::default());
        let make = || choose(&wish(), &wish(), candidates.iods(), 1);
        assert_eq!(placed(&candidates.default_layout(1, make).unwrap()), [3, 4, 1]);
        some[1].labels = vec!["disk=ssd".into()];
        let ssd = LayoutHint { labels: vec!["disk=ssd".into()], ..wish() };
        assert_eq!(
            placed(&choose(&ssd, &wish(), &some, 0).unwrap()),
            [2],
            "there is no other with this label"
        );
        let counted = LayoutHint { first_iod: Some(1), ..wish() };
        assert_eq!(placed(&choose(&counted, &wish(), &some, 0).unwrap()), [2, 3, 4, 1]);
        some.iter_mut().for_each(|iod| iod.nearly_full = true);
        assert_eq!(placed(&choose(&wish(), &wish(), &some, 0).unwrap()), [1, 2, 3, 4], "all alike");
    }

    #[test]
    fn more_parts_than_daemons_wrap_around() {
        let wide = LayoutHint { parts: Some(5), first_iod: Some(1), ..wish() };
        assert_eq!(placed(&choose(&wide, &wish(), &iods(2), 7).unwrap()), [2, 1, 2, 1, 2]);
    }

    #[test]
    fn first_iod_past_the_usable_is_refused_in_a_call_and_wraps_otherwise() {
        let far = LayoutHint { first_iod: Some(2), ..wish() };
        assert_eq!(choose(&far, &wish(), &iods(2), 0).unwrap_err().status, Status::Invalid);
        assert_eq!(placed(&choose(&wish(), &far, &iods(2), 1).unwrap()), [1, 2]);
    }

    #[test]
    fn labels_free_space_and_owner_pick_daemons() {
        let mut some = iods(4);
        some[1].labels = vec!["disk=ssd".into(), "rack=1".into()];
        some[3].labels = vec!["disk=ssd".into()];
        let ssd = LayoutHint { labels: vec!["disk=ssd".into()], ..wish() };
        assert_eq!(placed(&choose(&ssd, &wish(), &some, 0).unwrap()), [2, 4]);
        let hdd = LayoutHint { labels: vec!["disk=hdd".into()], ..wish() };
        assert!(choose(&hdd, &wish(), &some, 0).unwrap_err().detail.contains("disk=hdd"));
        let free = LayoutHint { placement: Some(Placement::FreeSpace), ..wish() };
        assert_eq!(placed(&choose(&free, &wish(), &some, 3).unwrap()), [4, 3, 2, 1]);
        let owner = LayoutHint { placement: Some(Placement::Owner), ..wish() };
        let (a, b) = (choose(&owner, &wish(), &some, 0), choose(&owner, &wish(), &some, 9));
        assert_eq!(placed(&a.unwrap()), placed(&b.unwrap()));
    }

    #[test]
    fn call_overrides_directory_field_by_field() {
        let directory = LayoutHint { stripe_bytes: Some(65_536), parts: Some(3), ..wish() };
        let call = LayoutHint { stripe_bytes: Some(8192), ..wish() };
        let layout = choose(&call, &directory, &iods(4), 0).unwrap();
        assert_eq!(
            layout.components[0].distribution,
            Distribution::SimpleStripe { stripe_size: 8192 }
        );
        assert_eq!(placed(&layout).len(), 3);
        let single = LayoutHint { distribution: Some(DistributionHint::Single), ..wish() };
        assert_eq!(placed(&choose(&single, &directory, &iods(4), 2).unwrap()), [3]);
    }

    #[test]
    fn varstrip_and_grouped_take_their_shape_from_the_wish() {
        let strips = vec![(0, 4096), (1, 8192), (0, 100)];
        let varstrip =
            LayoutHint { distribution: Some(DistributionHint::VarStrip), strips, ..wish() };
        assert_eq!(placed(&choose(&varstrip, &wish(), &iods(3), 0).unwrap()), [1, 2]);
        let none = LayoutHint { distribution: Some(DistributionHint::VarStrip), ..wish() };
        assert_eq!(choose(&none, &wish(), &iods(3), 0).unwrap_err().status, Status::Invalid);
        let grouped = LayoutHint { distribution: Some(DistributionHint::Grouped), ..wish() };
        assert_eq!(placed(&choose(&grouped, &wish(), &iods(9), 0).unwrap()).len(), 8);
        let odd = LayoutHint { group_width: Some(4), parts: Some(6), ..grouped.clone() };
        assert_eq!(choose(&odd, &wish(), &iods(9), 0).unwrap_err().status, Status::Invalid);
        let six = LayoutHint { parts: Some(6), ..grouped };
        let layout = choose(&six, &wish(), &iods(9), 0).unwrap();
        assert!(matches!(
            layout.components[0].distribution,
            Distribution::Grouped { group_width: 3, .. }
        ));
    }

    #[test]
    fn stripe_sizes_at_both_sides_of_the_limits() {
        let stripe = |bytes| {
            choose(&LayoutHint { stripe_bytes: Some(bytes), ..wish() }, &wish(), &iods(1), 0)
        };
        assert!(stripe(STRIPE_BYTES_MIN).is_ok() && stripe(STRIPE_BYTES_MAX).is_ok());
        for bytes in
            [0, STRIPE_BYTES_MIN - 1, STRIPE_BYTES_MIN + 1, STRIPE_BYTES_MAX + STRIPE_BYTES_MIN]
        {
            assert_eq!(stripe(bytes).unwrap_err().status, Status::Invalid, "{bytes}");
        }
    }

    fn any_wish() -> impl Strategy<Value = LayoutHint> {
        let distribution = prop::option::of(prop::sample::select(vec![
            DistributionHint::SimpleStripe,
            DistributionHint::Single,
            DistributionHint::VarStrip,
            DistributionHint::Grouped,
        ]));
        let placement = prop::option::of(prop::sample::select(vec![
            Placement::RoundRobin,
            Placement::FreeSpace,
            Placement::Owner,
        ]));
        let option16 = || prop::option::of(0u16..20);
        let strips = prop::collection::vec((0u16..6, 0u64..100_000), 0..5);
        (
            distribution,
            placement,
            option16(),
            option16(),
            option16(),
            prop::option::of(0u32..4),
            strips,
        )
            .prop_map(
                |(distribution, placement, parts, first_iod, group_width, group_depth, strips)| {
                    LayoutHint {
                        distribution,
                        placement,
                        parts,
                        first_iod,
                        group_width,
                        group_depth,
                        strips,
                        ..LayoutHint::none()
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn every_choice_is_a_layout_on_daemons_that_are_up(
            wish in any_wish(),
            inherited in any_wish(),
            up in prop::collection::vec(any::<bool>(), 0..12),
            round_robin: u64
        ) {
            let mut some = iods(up.len() as u32);
            for (iod, up) in some.iter_mut().zip(&up) {
                iod.state = if *up { IodState::Up } else { IodState::Down };
            }
            let usable = up.iter().filter(|up| **up).count();
            match choose(&wish, &inherited, &some, round_robin) {
                Ok(layout) => {
                    let ids = placed(&layout);
                    prop_assert!(ids.iter().all(|id| up[*id as usize - 1]));
                    // Parts lie on as many daemons as there can be: none gets two while another has
                    // none.
                    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
                    prop_assert_eq!(distinct.len(), ids.len().min(usable));
                }
                Err(failure) => {
                    prop_assert!(matches!(failure.status, Status::Invalid | Status::NoIods));
                    prop_assert!(usable == 0 || failure.status == Status::Invalid);
                }
            }
        }
    }
}
