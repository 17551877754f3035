//! Options of opens, and layouts of new files.

use braid_client::{DistributionHint, LayoutHint, OpenOptions, Placement};
use pyo3::{
    prelude::*,
    types::{PyDict, PyString},
};

use crate::error::invalid;

const LAYOUT_HINT: &str = "stripe_size, iod_count, first_iod, distribution, strips, group_width, \
                           group_depth, placement, labels";

/// The open options from a string of flags: `r` (read), `w` (write), `c` (create), `x` (create
/// exclusively), `t` (truncate).
pub(crate) fn open(flags: &str, mode: u32, layout: LayoutHint) -> PyResult<OpenOptions> {
    let mut options = OpenOptions::new().mode(mode).layout(layout);
    for flag in flags.chars() {
        options = match flag {
            'r' => options.read(true),
            'w' => options.write(true),
            'c' => options.create(true),
            'x' => options.create_new(true),
            't' => options.truncate(true),
            _ => return Err(invalid("opening: a flag is unknown", "flags of r, w, c, x, t")),
        };
    }
    Ok(options)
}

/// The layout hint for a new file.
pub(crate) fn layout_hint(layout: Option<&Bound<'_, PyDict>>) -> PyResult<LayoutHint> {
    let mut wish = LayoutHint::none();
    for (name, value) in layout.into_iter().flatten() {
        let name = name.cast::<PyString>()?.to_cow()?;
        match name.as_ref() {
            "stripe_size" => wish.stripe_bytes = value.extract()?,
            "iod_count" => wish.parts = value.extract()?,
            "first_iod" => wish.first_iod = value.extract()?,
            "distribution" => {
                wish.distribution =
                    value.extract::<Option<String>>()?.map(distribution).transpose()?
            }
            "strips" => wish.strips = value.extract()?,
            "group_width" => wish.group_width = value.extract()?,
            "group_depth" => wish.group_depth = value.extract()?,
            "placement" => {
                wish.placement = value.extract::<Option<String>>()?.map(placement).transpose()?
            }
            "labels" => wish.labels = value.extract()?,
            _ => {
                let why = format!("layout: '{name}' is an unknown keyword");
                return Err(invalid(&why, LAYOUT_HINT));
            }
        }
    }
    Ok(wish)
}

fn distribution(name: String) -> PyResult<DistributionHint> {
    match name.as_str() {
        "simple-stripe" => Ok(DistributionHint::SimpleStripe),
        "single" => Ok(DistributionHint::Single),
        "varstrip" => Ok(DistributionHint::VarStrip),
        "grouped" => Ok(DistributionHint::Grouped),
        _ => Err(invalid(
            "layout: the distribution is unknown",
            "one of simple-stripe, single, varstrip, grouped",
        )),
    }
}

fn placement(name: String) -> PyResult<Placement> {
    match name.as_str() {
        "round-robin" => Ok(Placement::RoundRobin),
        "free-space" => Ok(Placement::FreeSpace),
        "owner" => Ok(Placement::Owner),
        _ => Err(invalid("layout: placement is unknown", "one of round-robin, free-space, owner")),
    }
}
