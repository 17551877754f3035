//! Contexts of CREATE that make an open durable, or name one. MS-SMB2 3.3.5.9.6, 3.3.5.9.10,
//! 3.3.5.9.13; ADR 0056.

use std::time::Duration;

use braid_share::Share;
use braid_smb_wire::NtStatus;
use braid_smb_wire::smb2::Dialect;
use braid_smb_wire::smb2::create::{
    AppInstanceId, AppInstanceVersion, CreateContext, CreateRequest, DurableFlags,
    DurableReconnect, DurableReconnectV2, DurableRequest, DurableRequestV2, DurableResponse,
    DurableResponseV2, LeaseState, context as tags,
};
use bytes::Bytes;

use crate::context::{Context, malformed};
use crate::durable::app_instance::AppInstance;
use crate::durable::{Durable, V1_MAX, V2_DEFAULT, V2_MAX};
use crate::leases::rules;
use crate::leases::{Form, Granted};
use crate::session::Logon;

/// What a CREATE does with durable opens.
#[derive(Clone, Debug)]
pub(super) enum Durability {
    /// It makes an open.
    Open(DurableWish),
    /// It asks for an open that its client has lost.
    Reconnect(Reconnect),
}

/// An open that a client has lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reconnect {
    /// The persistent number of the open.
    pub persistent: u64,
    /// The GUID of its CREATE; none in version 1.
    pub create_guid: Option<[u8; 16]>,
}

/// What a CREATE asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct DurableWish {
    version: Option<Version>,
    /// The application that opens the file.
    pub app: Option<AppInstance>,
}

#[derive(Clone, Copy, Debug)]
enum Version {
    One,
    Two(DurableRequestV2),
}

impl Durability {
    /// Reads what a request asks for.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for contexts that exclude each other, or are too short.
    pub fn of<S: Share>(context: &Context<S>, request: &CreateRequest) -> Result<Self, NtStatus> {
        let negotiated = context.connection.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
        let find = |name| CreateContext::find(&request.contexts, name);
        // Version 2 is one of SMB 3, and ignored before.
        let find_v2 = |name| find(name).filter(|_| negotiated.dialect.is_smb3());
        let (v1, v1_reconnect) = (find(tags::DURABLE_REQUEST), find(tags::DURABLE_RECONNECT));
        let v2 = find_v2(tags::DURABLE_REQUEST_V2);
        let v2_reconnect = find_v2(tags::DURABLE_RECONNECT_V2);
        // 3.3.5.9.6, 3.3.5.9.7, 3.3.5.9.10, 3.3.5.9.12: of these, only both of version 1 may come
        // together.
        let is_v1 = v1.is_some() || v1_reconnect.is_some();
        if v2.is_some() && v2_reconnect.is_some()
            || is_v1 && (v2.is_some() || v2_reconnect.is_some())
        {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        if let Some(data) = v1_reconnect {
            let DurableReconnect { file_id } = DurableReconnect::decode(data).map_err(malformed)?;
            let persistent = file_id.persistent;
            return Ok(Self::Reconnect(Reconnect { persistent, create_guid: None }));
        }
        if let Some(data) = v2_reconnect {
            let DurableReconnectV2 { file_id, create_guid, .. } =
                DurableReconnectV2::decode(data).map_err(malformed)?;
            let (persistent, create_guid) = (file_id.persistent, Some(create_guid));
            return Ok(Self::Reconnect(Reconnect { persistent, create_guid }));
        }
        let version = match (v1, v2) {
            (Some(data), _) => {
                DurableRequest::decode(data).map_err(malformed)?;
                Some(Version::One)
            }
            (_, Some(data)) => {
                Some(Version::Two(DurableRequestV2::decode(data).map_err(malformed)?))
            }
            _ => None,
        };
        let app = match find_v2(tags::APP_INSTANCE_ID) {
            Some(data) => Some(app_of(context, data, find_v2(tags::APP_INSTANCE_VERSION))?),
            None => None,
        };
        Ok(Self::Open(DurableWish { version, app }))
    }
}

fn app_of<S: Share>(
    context: &Context<S>,
    data: &Bytes,
    version: Option<&Bytes>,
) -> Result<AppInstance, NtStatus> {
    let negotiated = context.connection.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
    let AppInstanceId(id) = AppInstanceId::decode(data).map_err(malformed)?;
    // 3.3.5.9.13: only 3.1.1 has versions.
    let version = match version.filter(|_| negotiated.dialect == Dialect::Smb311) {
        Some(data) => {
            let version = AppInstanceVersion::decode(data).map_err(malformed)?;
            Some((version.high, version.low))
        }
        None => None,
    };
    let owner = context.session()?.user.name.clone();
    Ok(AppInstance { id, version, client_guid: negotiated.client_guid, owner })
}

impl DurableWish {
    /// The GUID by which the CREATE may be repeated.
    pub fn create_guid(&self) -> Option<[u8; 16]> {
        match self.version {
            Some(Version::Two(request)) => Some(request.create_guid),
            _ => None,
        }
    }

    /// Makes an open durable that may cache `granted`, if it was asked for and may be. `wish` is
    /// what the client would cache.
    pub fn grant<S: Share>(
        &self,
        context: &Context<S>,
        wish: LeaseState,
        granted: Granted,
    ) -> Option<Durable> {
        let session = context.session().ok()?;
        let version = self.version?;
        // A guest has proven no name, so that any other guest could ask for the open.
        if session.logon != Logon::User {
            return None;
        }
        // 3.3.5.9.6, 3.3.5.9.10: a batch oplock, or a lease with H that was asked for.
        let is_held = match granted.form {
            Form::Oplock => granted.state == rules::ALL,
            Form::Lease(_) => granted.state.common(wish).has(LeaseState::HANDLE),
        };
        if !is_held || granted.is_breaking {
            return None;
        }
        let timeout = match version {
            Version::One => V1_MAX,
            Version::Two(DurableRequestV2 { timeout: 0, .. }) => V2_DEFAULT,
            Version::Two(asked) => V2_MAX.min(Duration::from_millis(asked.timeout.into())),
        };
        Some(Durable { owner: session.user.name.clone(), timeout })
    }

    /// The context that answers. 2.2.14.2.3, 2.2.14.2.12. No share is continuously available, so
    /// that no open is persistent.
    pub fn answer(&self, durable: &Durable) -> Option<CreateContext> {
        match self.version? {
            Version::One => Some(DurableResponse.to_context()),
            Version::Two(_) => {
                let timeout = durable.timeout.as_millis().try_into().unwrap_or(u32::MAX);
                let flags = DurableFlags::default();
                Some(DurableResponseV2 { timeout, flags }.to_context())
            }
        }
    }
}
