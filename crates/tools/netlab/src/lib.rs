//! A cluster of hosts on one machine: each host a network namespace, its cards veth pairs into one switch, and `tc` holds every
//! link to its rate and every port of the switch to its queue (docs/adr/0018-netlab.md).
//!
//! ```text
//!   braid-lab-PID-N-iod0 ── eth0 ──tbf──► v-iod0-0 ┐                       ┌ v-client0-0 ◄──tbf── eth0 ── braid-lab-PID-N-client0
//!                                                  ├ br0, braid-lab-PID-N-sw┤
//!   braid-lab-PID-N-iod1 ── eth0 ◄──tbf── v-iod1-0 ┘                       └ v-mds-0     ──tbf──► eth0 ── braid-lab-PID-N-mds
//! ```
//!
//! (1) A lab is gone when its [`Lab`] is dropped, and also when its process was killed: a shell waits for that. (2) What a lab of
//! a dead process left all the same is removed when the next one starts. (3) Labs do not meet: each has a switch of its own, in a
//! namespace of its own, so that all may use the same addresses. (4) What runs in a lab cuts off, kills and restarts its hosts by
//! commands ([`ask`]), as who has the [`Lab`] does by calls.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod able;
mod control;
mod counters;
mod detour;
mod host;
mod lab;
mod leftovers;
mod reaper;
mod relay;
mod shell;
mod spec;
mod switch;

pub use able::{able, need};
pub use control::{Control, Event, ask};
pub use counters::Counters;
pub use detour::Detour;
pub use host::Host;
pub use lab::{Contact, Lab};
pub use reaper::Reaper;
pub use shell::sh;
pub use spec::{Delay, Spec, parse_bytes, parse_duration, parse_rate};
pub use switch::Network;
