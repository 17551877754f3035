//! Results of operations, by subject. A result that is only a status has no type here.

mod copy;
mod delegation;
mod io;
mod layout;
mod lock;
mod names;
mod open;
mod readdir;
mod session;
mod xattr;

pub use copy::*;
pub use delegation::*;
pub use io::*;
pub use layout::*;
pub use lock::*;
pub use names::*;
pub use open::*;
pub use readdir::*;
pub use session::*;
pub use xattr::*;

use super::{NfsResult, NfsStatus};
use crate::xdr::Xdr;

/// The result of an operation: a status, and what the operation returns with it.
pub trait OpResult: Xdr {
    /// The status.
    fn status(&self) -> NfsStatus;

    /// The result that has a status other than [`NfsStatus::Ok`] and nothing else.
    fn failure(status: NfsStatus) -> Self;
}

impl<T: Xdr> OpResult for NfsResult<T> {
    fn status(&self) -> NfsStatus {
        self.as_ref().err().copied().unwrap_or(NfsStatus::Ok)
    }
    fn failure(status: NfsStatus) -> Self {
        Err(status)
    }
}

/// Defines the failure of an operation that returns more than a status with one of them, and the
/// codec of the operation's result.
macro_rules! failure {
    (
        $(#[$doc:meta])* pub enum $name:ident for $result:ty {
            $(#[$vdoc:meta])* $variant:ident($value:ty) = $status:ident,
            otherwise = $default:expr $(,)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum $name {
            $(#[$vdoc])*
            $variant($value),
            /// Any other status.
            Status($crate::nfs4::NfsStatus),
        }

        impl From<$crate::nfs4::NfsStatus> for $name {
            fn from(status: $crate::nfs4::NfsStatus) -> Self {
                match status {
                    $crate::nfs4::NfsStatus::$status => Self::$variant($default),
                    other => Self::Status(other),
                }
            }
        }

        impl $crate::xdr::Xdr for Result<$result, $name> {
            fn encode(&self, to: &mut $crate::xdr::Encoder) {
                $crate::nfs4::results::OpResult::status(self).encode(to);
                match self {
                    Ok(value) => $crate::xdr::Xdr::encode(value, to),
                    Err($name::$variant(value)) => $crate::xdr::Xdr::encode(value, to),
                    Err($name::Status(_)) => {}
                }
            }
            fn decode(from: &mut $crate::xdr::Decoder) -> Result<Self, $crate::xdr::XdrError> {
                match <$crate::nfs4::NfsStatus as $crate::xdr::Xdr>::decode(from)? {
                    $crate::nfs4::NfsStatus::Ok => {
                        <$result as $crate::xdr::Xdr>::decode(from).map(Ok)
                    }
                    $crate::nfs4::NfsStatus::$status => {
                        let value = <$value as $crate::xdr::Xdr>::decode(from)?;
                        Ok(Err($name::$variant(value)))
                    }
                    other => Ok(Err($name::Status(other))),
                }
            }
        }

        impl $crate::nfs4::results::OpResult for Result<$result, $name> {
            fn status(&self) -> $crate::nfs4::NfsStatus {
                match self {
                    Ok(_) => $crate::nfs4::NfsStatus::Ok,
                    Err($name::$variant(_)) => $crate::nfs4::NfsStatus::$status,
                    Err($name::Status(status)) => *status,
                }
            }
            fn failure(status: $crate::nfs4::NfsStatus) -> Self {
                Err(status.into())
            }
        }
    };
}
use failure;
