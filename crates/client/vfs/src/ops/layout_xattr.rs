//! A file's layout as an extended attribute: keywords `key=value`, the same as of `braid layout
//! set`.
//!
//! ```text
//!   getfattr -n user.braid.layout FILE
//!       distribution=simple-stripe stripe-size=1048576 iod-count=4 first-part=2 iods=1,2,3,4
//!   getfattr -n user.braid.layout DIR        what new files in it get, or: default
//!       stripe-size=65536 iod-count=2
//!   setfattr -n user.braid.layout -v "stripe-size=64K iod-count=2" DIR   or a FILE without bytes
//!   setfattr -n user.braid.layout -v single DIR                  the same as distribution=single
//! ```
//!
//! A value is understood whole or refused (I10). The location of a file (`first-part`, `iods`)
//! cannot be set.

use std::{fmt::Write, thread, time::Duration};

use braid_client::{
    Distribution, DistributionHint, FileIndex, Layout, LayoutHint, Placement, Status, XattrMode,
    settings::size,
};

use crate::{
    error::{Error, Result},
    vfs::Vfs,
};

/// The name of the attribute.
pub const LAYOUT_XATTR: &[u8] = b"user.braid.layout";

/// The value of a directory without a default of its own. Setting it removes the default.
const DEFAULT: &str = "default";

/// How often and how many times a layout change is retried while the size of a file that was just
/// closed is not recorded yet: eight ticks of the metadata server.
const RETRY_AFTER: Duration = Duration::from_millis(50);
const RETRIES_MAX: usize = 40;

const DISTRIBUTIONS: [(&str, DistributionHint); 4] = [
    ("simple-stripe", DistributionHint::SimpleStripe),
    ("single", DistributionHint::Single),
    ("varstrip", DistributionHint::VarStrip),
    ("grouped", DistributionHint::Grouped),
];

const PLACEMENTS: [(&str, Placement); 3] = [
    ("round-robin", Placement::RoundRobin),
    ("free-space", Placement::FreeSpace),
    ("owner", Placement::Owner),
];

impl Vfs {
    pub(super) fn layout_xattr(&self, file: FileIndex) -> Result<Vec<u8>> {
        let shown = self.client().layout(file)?;
        let text =
            shown.layout.as_ref().map_or_else(|| text_of_hint(&shown.layout_hint), text_of_layout);
        Ok(text.into_bytes())
    }

    pub(super) fn set_layout_xattr(
        &self,
        file: FileIndex,
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        if mode == XattrMode::Create {
            return Err(Error::of(Status::Exists));
        }
        let hint = std::str::from_utf8(value)
            .ok()
            .and_then(hint_of)
            .ok_or_else(|| Error::of(Status::Invalid))?;
        // The server refuses a new layout of a file that is open or whose size is not recorded. For
        // a file that was just made and closed, the close is sent now, and its size is recorded
        // soon after.
        self.client().flush_closes()?;
        for _ in 0..RETRIES_MAX {
            match self.client().set_layout(file, hint.clone()) {
                Err(error) if error.status() == Status::Busy => thread::sleep(RETRY_AFTER),
                done => return Ok(done?),
            }
        }
        Ok(self.client().set_layout(file, hint)?)
    }

    pub(super) fn remove_layout_xattr(&self, file: FileIndex) -> Result<()> {
        Ok(self.client().set_layout(file, LayoutHint::none())?)
    }
}

fn text_of_layout(layout: &Layout) -> String {
    let components = layout.components.iter().map(|component| {
        let iods: Vec<String> = component
            .parts
            .iter()
            .flat_map(|part| part.iods.first())
            .map(ToString::to_string)
            .collect();
        let (how, first) = (text_of_distribution(&component.distribution), component.first_part);
        format!(
            "{how} iod-count={} first-part={first} iods={}",
            component.parts.len(),
            iods.join(",")
        )
    });
    components.collect::<Vec<_>>().join("; ")
}

fn text_of_distribution(distribution: &Distribution) -> String {
    match distribution {
        Distribution::SimpleStripe { stripe_size } => {
            format!("distribution=simple-stripe stripe-size={stripe_size}")
        }
        Distribution::Single => "distribution=single".into(),
        Distribution::VarStrip { strips } => {
            let strips: Vec<_> =
                strips.iter().map(|strip| format!("{}:{}", strip.part, strip.bytes)).collect();
            format!("distribution=varstrip strips={}", strips.join(","))
        }
        Distribution::Grouped { stripe_size, group_width, group_depth } => format!(
            "distribution=grouped stripe-size={stripe_size} group-width={group_width} \
             group-depth={group_depth}"
        ),
        _ => "distribution=unknown".into(),
    }
}

fn text_of_hint(hint: &LayoutHint) -> String {
    if *hint == LayoutHint::none() {
        return DEFAULT.into();
    }
    let mut words = String::new();
    let mut word = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            let space = if words.is_empty() { "" } else { " " };
            let _ = write!(words, "{space}{key}={value}");
        }
    };
    word("distribution", hint.distribution.and_then(|kind| word_of(&DISTRIBUTIONS, kind)));
    word("stripe-size", hint.stripe_bytes.map(|bytes| bytes.to_string()));
    word("iod-count", hint.parts.map(|parts| parts.to_string()));
    word("first-iod", hint.first_iod.map(|iod| iod.to_string()));
    let strips: Vec<_> =
        hint.strips.iter().map(|(part, bytes)| format!("{part}:{bytes}")).collect();
    word("strips", (!strips.is_empty()).then(|| strips.join(",")));
    word("group-width", hint.group_width.map(|width| width.to_string()));
    word("group-depth", hint.group_depth.map(|depth| depth.to_string()));
    word("placement", hint.placement.and_then(|kind| word_of(&PLACEMENTS, kind)));
    hint.labels.iter().for_each(|label| word("only", Some(label.clone())));
    words
}

/// The layout hint that a text asks for. `None`: a part of it is not understood.
fn hint_of(text: &str) -> Option<LayoutHint> {
    let mut hint = LayoutHint::none();
    let text = text.trim_end_matches('\0').trim();
    if text == DEFAULT {
        return Some(hint);
    }
    for word in text.split_ascii_whitespace() {
        // The name of a distribution may stand alone.
        let (key, value) = word.split_once('=').unwrap_or(("distribution", word));
        match key {
            "distribution" => set(&mut hint.distribution, named(&DISTRIBUTIONS, value))?,
            "stripe-size" => set(&mut hint.stripe_bytes, size(value).ok())?,
            "iod-count" => set(&mut hint.parts, value.parse().ok())?,
            "first-iod" => set(&mut hint.first_iod, value.parse().ok())?,
            "strips" if hint.strips.is_empty() => hint.strips = strips_of(value)?,
            "group-width" => set(&mut hint.group_width, value.parse().ok())?,
            "group-depth" => set(&mut hint.group_depth, value.parse().ok())?,
            "placement" => set(&mut hint.placement, named(&PLACEMENTS, value))?,
            "only" => hint.labels.push(value.to_owned()),
            _ => return None,
        }
    }
    (hint != LayoutHint::none()).then_some(hint)
}

/// Sets a field that was not set before.
fn set<T>(field: &mut Option<T>, value: Option<T>) -> Option<()> {
    if field.is_some() {
        return None;
    }
    *field = Some(value?);
    Some(())
}

fn strips_of(text: &str) -> Option<Vec<(u16, u64)>> {
    let strip = |text: &str| {
        let (part, bytes) = text.split_once(':')?;
        Some((part.parse().ok()?, size(bytes).ok()?))
    };
    text.split(',').map(strip).collect()
}

fn named<T: Copy>(names: &[(&str, T)], word: &str) -> Option<T> {
    names.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind)
}

fn word_of<T: Copy + PartialEq>(names: &[(&str, T)], kind: T) -> Option<String> {
    names.iter().find(|(_, named)| *named == kind).map(|(name, _)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_survives_its_text() {
        let text = "distribution=varstrip stripe-size=65536 iod-count=2 first-iod=1 \
                    strips=0:4096,1:8192 group-width=2 \
                    group-depth=3 placement=free-space only=rack=1 only=disk=ssd";
        let hint = hint_of(text).unwrap();
        assert_eq!(hint.labels, ["rack=1", "disk=ssd"]);
        assert_eq!(text_of_hint(&hint), text);
        assert_eq!(hint_of(&text_of_hint(&LayoutHint::none())), Some(LayoutHint::none()));
    }

    #[test]
    fn sizes_and_distributions_are_read_as_the_command_reads_them() {
        let hint = hint_of("grouped stripe-size=64K").unwrap();
        assert_eq!(
            (hint.distribution, hint.stripe_bytes),
            (Some(DistributionHint::Grouped), Some(65_536))
        );
        assert_eq!(text_of_hint(&hint), "distribution=grouped stripe-size=65536");
        assert_eq!(
            hint_of("distribution=varstrip strips=0:4K,1:1MiB").unwrap().strips,
            [(0, 4096), (1, 1 << 20)]
        );
        assert_eq!(hint_of("single").unwrap().distribution, Some(DistributionHint::Single));
    }

    #[test]
    fn a_value_that_is_not_understood_whole_is_refused() {
        for text in ["single grouped", "singel", "stripe-size=64Q", "64K"] {
            assert_eq!(hint_of(text), None, "{text}");
        }
        for text in [
            "",
            "stripe-size",
            "stripe-size=x",
            "iods=1,2",
            "iod-count=2 iod-count=3",
            "strips=1",
            "default x",
        ] {
            assert_eq!(hint_of(text), None, "{text}");
        }
    }
}
