//! The I/O daemon's tests: through its core with a store in memory, and through a real socket.

mod blocking_work;
mod capabilities;
mod cluster;
mod collective;
mod collective_ends;
mod collective_writes;
mod copy;
mod data;
mod faults;
mod flush_all;
mod harness;
mod management;
mod measure;
mod model;
mod nfs;
mod reservations;
mod slices;
mod sockets;
