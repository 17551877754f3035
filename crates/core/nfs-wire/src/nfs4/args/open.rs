//! OPEN, OPEN_DOWNGRADE and CLOSE.

use bytes::Bytes;

use crate::nfs4::types::{EncodedAttributes, MESSAGE_LIMITED, StateId, StateOwner, Verifier};
use crate::nfs4::{ShareAccess, ShareDeny};
use crate::xdr::{xdr_enum, xdr_struct, xdr_union};

xdr_struct! {
    /// `OPEN4args`. RFC 8881 18.16.1.
    pub struct OpenArgs {
        /// Ignored in NFSv4.1 (RFC 8881 18.16.3).
        pub seqid: u32,
        /// Access, and wishes for a delegation.
        pub share_access: ShareAccess,
        /// Access that others do not get.
        pub share_deny: ShareDeny,
        /// Owner of the open.
        pub owner: StateOwner,
        /// Whether and how to create the file.
        pub how: OpenHow,
        /// Which file, and with what right.
        pub claim: OpenClaim,
    }

    /// `creatverfattr`: arguments of EXCLUSIVE4_1.
    pub struct ExclusiveCreate {
        /// Recognises a retry.
        pub verifier: Verifier,
        /// Attributes of the new file.
        pub attributes: EncodedAttributes,
    }

    /// `open_claim_delegate_cur4`.
    pub struct DelegatedName {
        /// The delegation.
        pub state_id: StateId,
        /// Name in the current directory.
        pub name: Bytes [MESSAGE_LIMITED],
    }

    /// `OPEN_DOWNGRADE4args`. RFC 8881 18.18.1.
    #[derive(Copy)]
    pub struct OpenDowngradeArgs {
        /// The open.
        pub state_id: StateId,
        /// Ignored in NFSv4.1.
        pub seqid: u32,
        /// New access.
        pub share_access: ShareAccess,
        /// New deny.
        pub share_deny: ShareDeny,
    }

    /// `CLOSE4args`. RFC 8881 18.2.1.
    #[derive(Copy)]
    pub struct CloseArgs {
        /// Ignored in NFSv4.1.
        pub seqid: u32,
        /// The open.
        pub state_id: StateId,
    }
}

xdr_union! {
    /// `openflag4`.
    pub enum OpenHow {
        /// The file must exist.
        NoCreate = 0,
        /// The file is created.
        Create(CreateHow) = 1,
    }

    /// `createhow4`.
    pub enum CreateHow {
        /// An existing file is opened; only a size of 0 is applied to it.
        Unchecked(EncodedAttributes) = 0,
        /// An existing file is an error.
        Guarded(EncodedAttributes) = 1,
        /// As guarded, and a retry with the same verifier succeeds.
        Exclusive(Verifier) = 2,
        /// As exclusive, with attributes.
        Exclusive41(ExclusiveCreate) = 3,
    }

    /// `open_claim4`.
    pub enum OpenClaim {
        /// `CLAIM_NULL`: a name in the current directory.
        Null(Bytes [MESSAGE_LIMITED]) = 0,
        /// `CLAIM_PREVIOUS`: reclaims an open of the current file after a server restart.
        Previous(DelegationType) = 1,
        /// `CLAIM_DELEGATE_CUR`: a name, by right of a delegation.
        DelegateCurrent(DelegatedName) = 2,
        /// `CLAIM_DELEGATE_PREV`: a name, by right of a delegation before a client restart.
        DelegatePrevious(Bytes [MESSAGE_LIMITED]) = 3,
        /// `CLAIM_FH`: the current file.
        Fh = 4,
        /// `CLAIM_DELEG_CUR_FH`: the current file, by right of a delegation.
        DelegateCurrentFh(StateId) = 5,
        /// `CLAIM_DELEG_PREV_FH`: the current file, by right of a delegation before a client
        /// restart.
        DelegatePreviousFh = 6,
    }
}

xdr_enum! {
    /// `open_delegation_type4`.
    pub enum DelegationType {
        /// None.
        None = 0,
        /// For reads.
        Read = 1,
        /// For writes.
        Write = 2,
        /// None, with a reason.
        NoneExt = 3,
    }
}
