//! The layout of a file: the parameters of `open` in the 2008 paper, the striping parameters of the
//! 1996 paper (2.2.1).

use std::ffi::{c_char, c_int};

use braid_client::{
    Distribution, DistributionHint, Layout, LayoutHint, Placement,
    message::types::{ClusterMap, IodState},
};

use crate::ffi::{
    Failure, Outcome, call,
    pointers::{array, put, text, value},
    table,
};

/// For `braid_layout.distribution`: as the directory says.
pub const BRAID_DISTRIBUTION_ANY: u32 = 0;
/// Stripes over all parts, round robin.
pub const BRAID_SIMPLE_STRIPE: u32 = 1;
/// The whole file in one part.
pub const BRAID_SINGLE: u32 = 2;
/// A cycle of strips of different sizes.
pub const BRAID_VARSTRIP: u32 = 3;
/// Two-dimensional: stripes over groups of parts.
pub const BRAID_GROUPED: u32 = 4;
/// For `braid_layout.placement`: as the directory says.
pub const BRAID_PLACEMENT_ANY: u32 = 0;
/// I/O daemons in turn.
pub const BRAID_ROUND_ROBIN: u32 = 1;
/// I/O daemons with the most free space first.
pub const BRAID_FREE_SPACE: u32 = 2;
/// By the owner's user id.
pub const BRAID_OWNER: u32 = 3;

/// One strip of BRAID_VARSTRIP.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct braid_strip {
    /// Which part, from 0.
    pub part: u16,
    /// Bytes in the strip.
    pub bytes: u64,
}

/// Where the bytes of a new file are stored. braid_layout_init makes one that leaves everything to
/// the directory.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct braid_layout {
    /// How bytes are distributed: one of BRAID_SIMPLE_STRIPE, BRAID_SINGLE, BRAID_VARSTRIP,
    /// BRAID_GROUPED.
    pub distribution: u32,
    /// Number of I/O daemons, at most as many as the cluster has; 0: as the directory says.
    pub iod_count: u32,
    /// The I/O daemon of the first stripe, as an ordinal, from 0, among those that are up; -1: any.
    pub first_iod: i32,
    /// How I/O daemons are chosen: one of BRAID_ROUND_ROBIN, BRAID_FREE_SPACE, BRAID_OWNER.
    pub placement: u32,
    /// Bytes in one stripe; 0: as the directory says.
    pub stripe_bytes: u64,
    /// For BRAID_GROUPED: parts in one group, and rows in a group before the next; 0: as the
    /// directory says.
    pub group_width: u32,
    /// See group_width.
    pub group_depth: u32,
    /// For BRAID_VARSTRIP: the cycle. braid_layout_get and braid_layout_of do not fill it: they set
    /// NULL.
    pub strips: *const braid_strip,
    /// Number of strips.
    pub strip_count: usize,
    /// Only I/O daemons with all of these labels, "key=value". Not filled either.
    pub labels: *const *const c_char,
    /// Number of labels.
    pub label_count: usize,
}

impl braid_layout {
    pub(crate) const UNSPECIFIED: Self = Self {
        distribution: BRAID_DISTRIBUTION_ANY,
        iod_count: 0,
        first_iod: -1,
        placement: BRAID_PLACEMENT_ANY,
        stripe_bytes: 0,
        group_width: 0,
        group_depth: 0,
        strips: std::ptr::null(),
        strip_count: 0,
        labels: std::ptr::null(),
        label_count: 0,
    };
}

/// Makes a layout that leaves everything to the directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_layout_init(layout: *mut braid_layout) -> c_int {
    call(|| {
        // SAFETY: the promise of C's caller, see `pointers`; also below.
        unsafe { put(layout, braid_layout::UNSPECIFIED, "layout") }?;
        Ok(0)
    })
}

/// The layout of an open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_layout_get(file: c_int, layout: *mut braid_layout) -> c_int {
    call(|| {
        let open = table::file(file)?;
        let found = to_c_layout(&open.file().layout(), &open.cluster.client.cluster_map()?)?;
        // SAFETY: as above.
        unsafe { put(layout, found, "layout") }?;
        Ok(0)
    })
}

/// Stores the ids of the I/O daemons of an open file's parts, at most `count` of them, the daemon
/// of the first byte first. Returns the number of parts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_layout_iods(file: c_int, iods: *mut u32, count: usize) -> c_int {
    call(|| {
        let parts = iods_of(&table::file(file)?.file().layout());
        for (at, iod) in parts.iter().take(count).enumerate() {
            // SAFETY: as above: `iods` has space for `count` values. NULL is detected at the first
            // of them.
            unsafe { put(if iods.is_null() { iods } else { iods.add(at) }, *iod, "iods") }?;
        }
        Ok(parts.len() as c_int)
    })
}

/// The layout of the file at a path, or the default of new files in the directory at a path.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_layout_of(
    cluster: c_int,
    path: *const c_char,
    layout: *mut braid_layout,
) -> c_int {
    call(|| {
        let client = table::cluster(cluster)?;
        // SAFETY: as above.
        let reply = client.client.layout(unsafe { text(path, "path") }?)?;
        let found = match &reply.layout {
            Some(layout) => to_c_layout(layout, &client.client.cluster_map()?)?,
            None => hint_to_c(&reply.layout_hint),
        };
        // SAFETY: as above.
        unsafe { put(layout, found, "layout") }?;
        Ok(0)
    })
}

/// Sets the default layout of a directory for its new files, or the layout of a file that was never
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_layout_set(
    cluster: c_int,
    path: *const c_char,
    layout: *const braid_layout,
) -> c_int {
    call(|| {
        // SAFETY: as above.
        let (path, wish) = unsafe { (text(path, "path")?, layout_hint(layout)?) };
        let client = &table::cluster(cluster)?.client;
        client.check_iod_count(&wish)?;
        client.set_layout(path, wish)?;
        Ok(0)
    })
}

/// The layout hint of a program; NULL is an empty hint.
///
/// # Safety
/// As [`value`], and its contents as [`array`] and [`text`].
pub(crate) unsafe fn layout_hint(layout: *const braid_layout) -> Outcome<LayoutHint> {
    if layout.is_null() {
        return Ok(LayoutHint::none());
    }
    // SAFETY: the caller's promise, also below.
    let asked = unsafe { value(layout, "layout") }?;
    // SAFETY: as above.
    let (strips, labels) = unsafe {
        (
            array(asked.strips, asked.strip_count, "strips")?,
            array(asked.labels, asked.label_count, "labels")?,
        )
    };
    let label = |label: &*const c_char| {
        // SAFETY: as above.
        unsafe { text(*label, "label") }.map(|text| String::from_utf8_lossy(text).into_owned())
    };
    Ok(LayoutHint {
        distribution: distribution(asked.distribution)?,
        stripe_bytes: (asked.stripe_bytes > 0).then_some(asked.stripe_bytes),
        parts: narrow(asked.iod_count, "iod_count")?,
        first_iod: first(asked.first_iod)?,
        strips: strips.iter().map(|strip| (strip.part, strip.bytes)).collect(),
        group_width: narrow(asked.group_width, "group_width")?,
        group_depth: (asked.group_depth > 0).then_some(asked.group_depth),
        placement: placement(asked.placement)?,
        labels: labels.iter().map(label).collect::<Outcome<_>>()?,
    })
}

fn distribution(number: u32) -> Outcome<Option<DistributionHint>> {
    Ok(Some(match number {
        BRAID_DISTRIBUTION_ANY => return Ok(None),
        BRAID_SIMPLE_STRIPE => DistributionHint::SimpleStripe,
        BRAID_SINGLE => DistributionHint::Single,
        BRAID_VARSTRIP => DistributionHint::VarStrip,
        BRAID_GROUPED => DistributionHint::Grouped,
        other => {
            return Err(Failure::invalid(format!("layout: distribution {other} is unknown")));
        }
    }))
}

fn placement(number: u32) -> Outcome<Option<Placement>> {
    Ok(Some(match number {
        BRAID_PLACEMENT_ANY => return Ok(None),
        BRAID_ROUND_ROBIN => Placement::RoundRobin,
        BRAID_FREE_SPACE => Placement::FreeSpace,
        BRAID_OWNER => Placement::Owner,
        other => return Err(Failure::invalid(format!("layout: placement {other} is unknown"))),
    }))
}

fn narrow(number: u32, name: &str) -> Outcome<Option<u16>> {
    let narrow = u16::try_from(number)
        .map_err(|_| Failure::invalid(format!("layout: {name} {number} is too large")))?;
    Ok((narrow > 0).then_some(narrow))
}

fn first(ordinal: i32) -> Outcome<Option<u16>> {
    match ordinal {
        -1 => Ok(None),
        _ => u16::try_from(ordinal)
            .map(Some)
            .map_err(|_| Failure::invalid(format!("layout: first_iod {ordinal}"))),
    }
}

fn iods_of(layout: &Layout) -> Vec<u32> {
    let Some(component) = layout.components.first() else { return Vec::new() };
    let parts = component.parts.iter().map(|part| part.iods.first().map_or(0, |iod| iod.0));
    let mut iods: Vec<u32> = parts.collect();
    let first = usize::from(component.first_part).min(iods.len());
    iods.rotate_left(first);
    iods
}

/// A layout as a C struct.
pub(crate) fn to_c_layout(layout: &Layout, map: &ClusterMap) -> Outcome<braid_layout> {
    let component = layout
        .components
        .first()
        .ok_or_else(|| Failure::new(libc::EIO, "layout: the file's layout has no component"))?;
    let iods = iods_of(layout);
    let mut up: Vec<u32> =
        map.iods.iter().filter(|iod| iod.state == IodState::Up).map(|iod| iod.id.0).collect();
    up.sort_unstable();
    let first = iods.first().and_then(|first| up.iter().position(|iod| iod == first));
    let mut found = braid_layout {
        iod_count: iods.len() as u32,
        first_iod: first.map_or(-1, |ordinal| ordinal as i32),
        ..braid_layout::UNSPECIFIED
    };
    match &component.distribution {
        Distribution::SimpleStripe { stripe_size } => {
            (found.distribution, found.stripe_bytes) = (BRAID_SIMPLE_STRIPE, *stripe_size);
        }
        Distribution::Single => found.distribution = BRAID_SINGLE,
        Distribution::VarStrip { .. } => found.distribution = BRAID_VARSTRIP,
        Distribution::Grouped { stripe_size, group_width, group_depth } => {
            (found.distribution, found.stripe_bytes) = (BRAID_GROUPED, *stripe_size);
            (found.group_width, found.group_depth) = (u32::from(*group_width), *group_depth);
        }
        _ => {
            return Err(Failure::new(
                libc::EOPNOTSUPP,
                "layout: this version does not know the file's distribution; try: a newer libbraid",
            ));
        }
    }
    Ok(found)
}

fn hint_to_c(wish: &LayoutHint) -> braid_layout {
    braid_layout {
        distribution: wish.distribution.map_or(BRAID_DISTRIBUTION_ANY, |kind| kind as u32),
        iod_count: wish.parts.unwrap_or(0).into(),
        first_iod: wish.first_iod.map_or(-1, i32::from),
        placement: wish.placement.map_or(BRAID_PLACEMENT_ANY, |kind| kind as u32),
        stripe_bytes: wish.stripe_bytes.unwrap_or(0),
        group_width: wish.group_width.unwrap_or(0).into(),
        group_depth: wish.group_depth.unwrap_or(0),
        ..braid_layout::UNSPECIFIED
    }
}
