//! Which files are striped: the choice of their directory, in the xattr `user.braid.stripe`.
//!
//! New directories inherit it. The parsed value is kept with the node of the directory for as long
//! as names and attributes are in the kernel, so a create reads no xattr.

use std::{
    fmt,
    str::FromStr,
    time::{Duration, Instant},
};

use rustix::io::Errno;

use super::layout::{STRIPES_MIN, is_unit};
use crate::{NodeId, Result, Union, attributes::path_of, node::Node, pool::BRANCHES_MAX};

/// The xattr. Programs may read, set and remove it.
pub const STRIPE_XATTR: &str = "user.braid.stripe";
/// A change on a branch itself is seen after this time, as one of names and attributes.
const VALID: Duration = Duration::from_secs(1);
const UNIT_DEFAULT: u64 = 1 << 20;

/// How new files of a directory are striped. As text: `unit=1M,branches=4`; both may be missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripeChoice {
    unit: u64,
    branches: Option<usize>,
}

impl StripeChoice {
    /// Units of this many bytes, over this many branches or over all.
    ///
    /// # Errors
    /// A text that says which values are valid.
    pub fn new(unit: Option<u64>, branches: Option<usize>) -> std::result::Result<Self, String> {
        let unit = unit.unwrap_or(UNIT_DEFAULT);
        if !is_unit(unit) {
            return Err("a unit is a multiple of 4K, up to 1G".to_owned());
        }
        if branches.is_some_and(|count| !(STRIPES_MIN..=BRANCHES_MAX).contains(&count)) {
            return Err(format!("a file is striped over {STRIPES_MIN} to {BRANCHES_MAX} branches"));
        }
        Ok(Self { unit, branches })
    }

    /// Bytes.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// The greatest number of branches of a file.
    pub(crate) fn branches_max(&self) -> usize {
        self.branches.unwrap_or(BRANCHES_MAX)
    }
}

impl fmt::Display for StripeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unit={}", size_text(self.unit))?;
        self.branches.map_or(Ok(()), |count| write!(f, ",branches={count}"))
    }
}

impl FromStr for StripeChoice {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (mut unit, mut branches) = (None, None);
        for word in text.split(',').filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                Some(("unit", size)) if unit.is_none() => {
                    let size = parse_size(size);
                    unit = Some(size.ok_or_else(|| "a unit is a size, as 1M".to_owned())?);
                }
                Some(("branches", count)) if branches.is_none() => {
                    let count = count.parse().map_err(|_| "branches is a number".to_owned())?;
                    branches = Some(count);
                }
                _ => return Err(format!("\"{word}\" is none of unit=SIZE, branches=NUMBER")),
            }
        }
        Self::new(unit, branches)
    }
}

const SUFFIXES: [(char, u32); 3] = [('G', 30), ('M', 20), ('K', 10)];

fn size_text(bytes: u64) -> String {
    let suffix = SUFFIXES.iter().find(|(_, bits)| bytes.is_multiple_of(1 << bits));
    suffix.map_or(bytes.to_string(), |(suffix, bits)| format!("{}{suffix}", bytes >> bits))
}

fn parse_size(text: &str) -> Option<u64> {
    let suffixed =
        SUFFIXES.iter().find_map(|(suffix, bits)| Some((text.strip_suffix(*suffix)?, *bits)));
    let (digits, bits) = suffixed.unwrap_or((text, 0));
    digits.parse::<u64>().ok()?.checked_mul(1 << bits)
}

/// A choice of a directory, and when it was read.
pub(crate) type KnownChoice = Option<(Instant, Option<StripeChoice>)>;

impl Union {
    /// How new files in a directory are striped, if they are.
    pub(crate) fn stripe_choice(&self, directory: &Node) -> Result<Option<StripeChoice>> {
        if !self.striped.allowed {
            return Ok(None);
        }
        if let Some((read, choice)) = directory.state().striping.choice
            && read.elapsed() < VALID
        {
            return Ok(choice);
        }
        let branch = directory.state().copies.first().ok_or(Errno::STALE)?.branch;
        let fd = self.directory_fd(directory, branch)?;
        // A value that was damaged on the branch is none: new files are plain.
        let choice = crate::xattrs::value(&path_of(&*fd), STRIPE_XATTR.as_bytes())
            .ok()
            .and_then(|value| String::from_utf8(value).ok()?.parse().ok());
        directory.state().striping.choice = Some((Instant::now(), choice));
        Ok(choice)
    }

    /// A new directory has the choice of its parent.
    pub(crate) fn inherit_choice(&self, parent: NodeId, new: NodeId) {
        let inherited =
            self.nodes.get(parent).and_then(|parent| self.stripe_choice(&parent)).ok().flatten();
        let Some(choice) = inherited else { return };
        let text = choice.to_string();
        let set =
            self.set_xattr(new, STRIPE_XATTR.as_bytes(), text.as_bytes(), crate::SetXattr::Any);
        if let Err(error) = set {
            tracing::warn!(%error, "a new directory did not inherit {STRIPE_XATTR}");
        }
    }

    /// Checks a value that a program sets.
    ///
    /// # Errors
    /// `EINVAL`: it is no choice, or the node no directory. `EOPNOTSUPP`: striping needs root.
    pub(crate) fn check_choice(&self, node: &Node, value: &[u8]) -> Result<()> {
        if !node.is_directory {
            return Err(Errno::INVAL);
        }
        if !self.striped.allowed {
            return Err(Errno::OPNOTSUPP);
        }
        let text = std::str::from_utf8(value).map_err(|_| Errno::INVAL)?;
        text.parse::<StripeChoice>().map_err(|_| Errno::INVAL)?;
        Ok(())
    }

    /// The xattr may have changed.
    pub(crate) fn forget_choice(&self, node: &Node) {
        node.state().striping.choice = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_as_it_is_printed_and_in_its_short_forms() {
        for (text, shown) in [
            ("", "unit=1M"),
            ("branches=4", "unit=1M,branches=4"),
            ("branches=2,unit=65536", "unit=64K,branches=2"),
            ("unit=12K", "unit=12K"),
            ("unit=1G,branches=64", "unit=1G,branches=64"),
        ] {
            assert_eq!(text.parse::<StripeChoice>().unwrap().to_string(), shown);
            assert_eq!(shown.parse::<StripeChoice>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn wrong_choices_are_refused() {
        for text in [
            "unit=0",
            "unit=5000",
            "unit=2G",
            "unit=1m",
            "unit=-4K",
            "unit=99999999999G",
            "branches=1",
            "branches=65",
            "branches=x",
            "unit",
            "size=1M",
            "unit=1M unit=2M",
            "unit=1M,unit=2M",
            "branches=2,branches=3",
            "off",
        ] {
            assert!(text.parse::<StripeChoice>().is_err(), "{text}");
        }
    }
}
