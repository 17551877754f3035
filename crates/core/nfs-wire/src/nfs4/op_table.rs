//! The table of operations: their numbers, arguments and results, with the codec of both. Requests
//! and callbacks have one each.

/// Defines the arguments, the results, and the error of decoding arguments, for the operations of
/// a numbers enum, which has a method `is_defined_in(minor)` and a value `Illegal`.
macro_rules! op_table {
    (
        numbers = $number:ident $(, forbidden = $forbidden:ident)?;
        $(#[$adoc:meta])* pub enum $arg_op:ident;
        $(#[$rdoc:meta])* pub enum $res_op:ident;
        $(#[$edoc:meta])* pub struct $error:ident;
        $( $(#[$doc:meta])* $op:ident $(($args:ty))? => $result:ty, )*
    ) => {
        $(#[$adoc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        // There is one value for each operation that runs, and it is not moved much.
        #[allow(clippy::large_enum_variant)]
        pub enum $arg_op {
            $( $(#[$doc])* $op $(($args))?, )*
            $(
                /// An operation that the minor version forbids. Its arguments are not decoded, so
                /// that it is the last one: the answer is NFS4ERR_NOTSUPP.
                $forbidden($number),
            )?
            /// A number that the minor version does not define. Its arguments are unknown, so
            /// that it is the last one: the answer is NFS4ERR_OP_ILLEGAL.
            Illegal(u32),
        }

        $(#[$rdoc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[allow(clippy::large_enum_variant)]
        pub enum $res_op {
            $( $(#[$doc])* $op($result), )*
            $(
                /// The result of a forbidden operation: only a status.
                $forbidden($number, $crate::nfs4::NfsStatus),
            )?
            /// The result of an unknown operation.
            Illegal($crate::nfs4::NfsStatus),
        }

        $(#[$edoc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
        #[error("arguments of {op:?}: {error}")]
        pub struct $error {
            /// The operation, or `Illegal` where the message ends before its number.
            pub op: $number,
            /// What is wrong.
            pub error: $crate::xdr::XdrError,
        }

        impl $error {
            /// The result of the operation: NFS4ERR_BADXDR.
            pub fn result(&self) -> $res_op {
                // RFC 8881 15.1.1.1: the arguments do not match their XDR definition.
                $res_op::failure(self.op, $crate::nfs4::NfsStatus::BadXdr)
            }
        }

        impl $arg_op {
            /// The operation; `Illegal` for an unknown one.
            pub fn number(&self) -> $number {
                match self {
                    $( Self::$op { .. } => $number::$op, )*
                    $( Self::$forbidden(op) => *op, )?
                    Self::Illegal(_) => $number::Illegal,
                }
            }

            /// Reads the next operation of a compound of minor version `minor` (1 or 2).
            ///
            /// # Errors
            /// When its arguments are not what the operation needs; nothing after it can be read.
            pub fn decode(
                from: &mut $crate::xdr::Decoder,
                minor: u32,
            ) -> Result<Self, $error> {
                let number =
                    from.u32().map_err(|error| $error { op: $number::Illegal, error })?;
                match $number::from_code(number) {
                    Some(op) if op.is_defined_in(minor) => {
                        Self::decode_args(op, from).map_err(|error| $error { op, error })
                    }
                    // RFC 8881 16.2.3: an unknown operation has the result of OP_ILLEGAL.
                    _ => Ok(Self::Illegal(number)),
                }
            }

            fn decode_args(
                op: $number,
                from: &mut $crate::xdr::Decoder,
            ) -> Result<Self, $crate::xdr::XdrError> {
                match op {
                    $( $number::$op => {
                        Ok(Self::$op $((<$args as $crate::xdr::Xdr>::decode(from)?))?)
                    } )*
                    $number::Illegal => Ok(Self::Illegal(op.code())),
                    $( other => Ok(Self::$forbidden(other)), )?
                }
            }

            /// Appends the operation and its arguments. Of operations without known arguments only
            /// the number is written.
            pub fn encode(&self, to: &mut $crate::xdr::Encoder) {
                match self {
                    Self::Illegal(number) => to.u32(*number),
                    _ => $crate::xdr::Xdr::encode(&self.number(), to),
                }
                match self {
                    $( Self::$op $(($crate::xdr::xdr_variant_value!(value, $args)))? => {
                        $( <$args as $crate::xdr::Xdr>::encode(
                            $crate::xdr::xdr_variant_value!(value, $args), to
                        ); )?
                    } )*
                    $( Self::$forbidden(_) => {} )?
                    Self::Illegal(_) => {}
                }
            }
        }

        impl $res_op {
            /// The operation.
            pub fn number(&self) -> $number {
                match self {
                    $( Self::$op(_) => $number::$op, )*
                    $( Self::$forbidden(op, _) => *op, )?
                    Self::Illegal(_) => $number::Illegal,
                }
            }

            /// The status.
            pub fn status(&self) -> $crate::nfs4::NfsStatus {
                match self {
                    $( Self::$op(result) => $crate::nfs4::results::OpResult::status(result), )*
                    $( Self::$forbidden(_, status) => *status, )?
                    Self::Illegal(status) => *status,
                }
            }

            /// The result of `op` that has a status other than `Ok` and nothing else.
            pub fn failure(op: $number, status: $crate::nfs4::NfsStatus) -> Self {
                match op {
                    $( $number::$op => {
                        Self::$op($crate::nfs4::results::OpResult::failure(status))
                    } )*
                    $number::Illegal => Self::Illegal(status),
                    $( other => Self::$forbidden(other, status), )?
                }
            }
        }

        impl $crate::xdr::Xdr for $res_op {
            fn encode(&self, to: &mut $crate::xdr::Encoder) {
                self.number().encode(to);
                match self {
                    $( Self::$op(result) => result.encode(to), )*
                    $( Self::$forbidden(_, status) => status.encode(to), )?
                    Self::Illegal(status) => status.encode(to),
                }
            }
            fn decode(from: &mut $crate::xdr::Decoder) -> Result<Self, $crate::xdr::XdrError> {
                match <$number as $crate::xdr::Xdr>::decode(from)? {
                    $( $number::$op => {
                        <$result as $crate::xdr::Xdr>::decode(from).map(Self::$op)
                    } )*
                    $number::Illegal => $crate::xdr::Xdr::decode(from).map(Self::Illegal),
                    $( other => {
                        let status = $crate::xdr::Xdr::decode(from)?;
                        Ok(Self::$forbidden(other, status))
                    } )?
                }
            }
        }
    };
}
pub(crate) use op_table;
