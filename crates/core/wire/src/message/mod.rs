//! All messages. A call is a request struct, whose [`Call::OP`] is the frame's `op`, and its reply.
//!
//! Numbers: `0x00..` both kinds of server, `0x01..` metadata server, `0x02..` I/O daemon. A number
//! never changes its meaning; a changed message gets a new one.

use crate::codec::{Wire, wire_enum, wire_struct};

pub mod collective;
pub mod entry;
pub mod import;
pub mod iod;
pub mod lease;
pub mod lock;
pub mod mds;
pub mod quota;
pub mod types;

/// A request with its number and its reply.
pub trait Call: Wire {
    /// The `op` of its frames.
    const OP: u16;
    /// Its name, for logs and metrics.
    const NAME: &'static str;
    /// The reply in the final frame on success.
    type Reply: Wire;
}

/// Defines the calls of a group: each gets its struct, codec and number, and the group an enum of
/// its requests.
macro_rules! calls {
    ($(#[$gdoc:meta])* $group:ident; $(
        $(#[$doc:meta])*
        $name:ident = $op:literal {
            $( $(#[$fdoc:meta])* $field:ident : $ty:ty ),* $(,)?
        } -> $reply:ty;
    )*) => {
        $(
            $crate::codec::wire_struct! {
                $(#[$doc])*
                pub struct $name { $( $(#[$fdoc])* $field: $ty, )* }
            }
            impl $crate::message::Call for $name {
                const OP: u16 = $op;
                const NAME: &'static str = stringify!($name);
                type Reply = $reply;
            }
        )*

        $(#[$gdoc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        #[allow(missing_docs)]
        pub enum $group { $( $name($name), )* }

        impl $group {
            /// Number and name of every call of the group.
            pub const CALLS: &'static [(u16, &'static str)] = &[$(($op, stringify!($name))),*];

            /// Reads the request of a frame; `None` for an `op` that is not of this group.
            pub fn decode(op: u16, body: &[u8]) -> Option<Result<Self, $crate::WireError>> {
                match op {
                    $( $op => Some($crate::Wire::from_bytes(body).map(Self::$name)), )*
                    _ => None,
                }
            }

            /// A row per call, for `docs/format-messages.md`.
            #[cfg(test)]
            pub(crate) fn describe() -> String {
                use $crate::message::row;
                [$( row($op, stringify!($name), $name::FIELDS, stringify!($reply)) ),*].concat()
            }

            /// For each call: number, name, an encoded request and an encoded reply.
            #[cfg(test)]
            pub(crate) fn samples(
                rng: &mut $crate::sample::Rng,
            ) -> Vec<(u16, &'static str, Vec<u8>, Vec<u8>)> {
                use $crate::{Wire, sample::Sample};
                vec![$((
                    $op,
                    stringify!($name),
                    $name::sample(rng).to_bytes(),
                    <$reply as Sample>::sample(rng).to_bytes(),
                )),*]
            }

            /// Whether `body` and `reply` decode as request and reply of `op`, and encode to the
            /// same bytes again.
            #[cfg(test)]
            pub(crate) fn round_trip(
                op: u16,
                body: &[u8],
                reply: &[u8],
            ) -> (Option<bool>, Option<bool>) {
                use $crate::Wire;
                match op {
                    $( $op => (
                        $name::from_bytes(body).ok().map(|message| message.to_bytes() == body),
                        <$reply>::from_bytes(reply).ok().map(|message| message.to_bytes() == reply),
                    ), )*
                    _ => (None, None),
                }
            }

            /// The call's name, for logs and metrics.
            pub fn name(&self) -> &'static str {
                match self { $( Self::$name(_) => stringify!($name), )* }
            }
        }
    };
}
pub(crate) use calls;

/// One row of the table of calls.
#[cfg(test)]
fn row(op: u16, name: &str, fields: &[(&str, &str)], reply: &str) -> String {
    format!("| `{op:#06x}` | {name} | {} | {} |\n", fields_text(fields), reply.replace("()", "-"))
}

/// `name: Type` for each field.
#[cfg(test)]
pub(crate) fn fields_text(fields: &[(&str, &str)]) -> String {
    if fields.is_empty() {
        return "-".into();
    }
    fields.iter().map(|(name, ty)| format!("{name}: {ty}")).collect::<Vec<_>>().join(", ")
}

/// `op` of the handshake's first frame in each direction.
pub const OP_HELLO: u16 = 0x0001;
/// `op` of the handshake's second frame in each direction.
pub const OP_AUTH: u16 = 0x0002;

calls! {
    /// Calls that both kinds of server understand.
    CommonRequest;

    /// Check that the server answers.
    Ping = 0x0010 {} -> ();
    /// Cancel a call of this connection. The call itself ends with `Cancelled` or its reply.
    Cancel = 0x0011 {
        /// The call's request id.
        request_id: u64,
    } -> ();
    /// Counters of the daemon, for `braid status`.
    DaemonStatus = 0x0012 {} -> DaemonStatusReply;
}

wire_struct! {
    /// Present state of the daemon.
    pub struct DaemonStatusReply {
        /// Seconds since it started.
        uptime_seconds: u64,
        /// Connections open.
        connections: u32,
        /// Calls answered since the start.
        calls: u64,
        /// Calls answered with an error of the daemon or its disk.
        errors: u64,
        /// Bytes read and sent.
        bytes_read: u64,
        /// Bytes received and written.
        bytes_written: u64,
        /// Resident memory.
        memory_bytes: u64,
        /// Version of the program.
        version: String,
    }
}

wire_enum! {
    /// The kind of a namespace entry.
    pub enum FileKind {
        /// Regular file.
        File = 1,
        /// Directory.
        Directory = 2,
        /// Symbolic link.
        Symlink = 3,
        /// Named pipe.
        Fifo = 4,
        /// Socket.
        Socket = 5,
        /// Character device.
        CharDevice = 6,
        /// Block device.
        BlockDevice = 7,
    }
}
