//! A cluster of hosts on one machine. Each host is a network namespace; its interfaces are veth
//! pairs to one switch. `tc` limits every link to its rate and every port of the switch to its
//! queue (docs/adr/0018-netlab.md). The namespace of a host is called `braid-lab-PID-N-HOST`.
//!
//! ```text
//!   namespace ...-iod0                 namespace ...-sw                 namespace ...-client0
//!     eth0 ──tbf──► v-iod0-0 ┐                          ┌ v-client0-0 ◄──tbf── eth0
//!                            ├────────── br0 ───────────┤
//!     eth0 ◄──tbf── v-iod1-0 ┘                          └ v-mds-0     ──tbf──► eth0
//!   namespace ...-iod1                                                  namespace ...-mds
//! ```
//!
//! 1. A lab is removed when its [`Lab`] is dropped, and also when its process is killed: a shell
//!    waits for that.
//! 2. If a lab of a dead process still exists, the next lab removes it at its start.
//! 3. Labs do not interfere: each has a switch in a namespace of its own, so that all can use the
//!    same addresses.
//! 4. Programs in a lab partition, kill and restart its hosts by commands ([`request`]), as the
//!    owner of the [`Lab`] does by calls.
//!
//! The tests check them; they concern other processes, so that no assertion here can.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod control;
mod counters;
mod host;
mod lab;
mod lab_cleanup;
mod relay;
mod requirements;
mod server_relay;
mod spec;
mod switch;

pub use control::{Control, Event, request};
pub use counters::Counters;
pub use host::Host;
pub use lab::{ClusterAccess, Lab};
pub use requirements::check_requirements;
pub use server_relay::ServerRelay;
pub use spec::{Delay, Spec, parse_bytes, parse_duration, parse_rate};
pub use switch::Network;
