//! Messages of SMB 2 and 3 in both directions: bytes written out by hand, frames of smbclient,
//! smbtorture and Samba, and bytes that are no messages.

mod bodies;
mod captured;
mod frames;
mod golden;
mod golden_small;
mod hostile;
mod round_trip;
