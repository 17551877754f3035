//! Values of all bodies with buffers or lists: encoded, decoded, and the same.

use crate::bodies::{decode, message};
use braid_smb_wire::smb2::create::{
    CreateContext, CreateDisposition, CreateOptions, CreateRequest, CreateResponse,
    ImpersonationLevel, OplockLevel, ShareAccess,
};
use braid_smb_wire::smb2::ioctl::{IoctlFlags, IoctlRequest, IoctlResponse};
use braid_smb_wire::smb2::lock::{LockElement, LockFlags, LockRequest};
use braid_smb_wire::smb2::negotiate::{
    Capabilities, Cipher, HashAlgorithm, NegotiateContext, NegotiateRequest, NegotiateResponse,
    SecurityMode, SigningAlgorithm,
};
use braid_smb_wire::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};
use braid_smb_wire::smb2::query_info::{InfoType, QueryInfoFlags, QueryInfoRequest};
use braid_smb_wire::smb2::session_setup::{
    SessionFlags, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse,
};
use braid_smb_wire::smb2::set_info::SetInfoRequest;
use braid_smb_wire::smb2::tree_connect::{TreeConnectFlags, TreeConnectRequest};
use braid_smb_wire::smb2::{Body, ErrorBody, FileId, create, output, read, write};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

fn same<T: Body + PartialEq + std::fmt::Debug>(body: &T) -> Result<(), TestCaseError> {
    let again = decode::<T>(message(body));
    prop_assert_eq!(again.as_ref(), Ok(body));
    Ok(())
}

fn data() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn file_id() -> impl Strategy<Value = FileId> {
    any::<(u64, u64)>().prop_map(|(persistent, volatile)| FileId { persistent, volatile })
}

fn negotiate_context() -> impl Strategy<Value = NegotiateContext> {
    prop_oneof![
        (vec(any::<u16>().prop_map(HashAlgorithm), 0..4), data())
            .prop_map(|(hashes, salt)| NegotiateContext::PreauthIntegrity { hashes, salt }),
        vec(any::<u16>().prop_map(Cipher), 0..6).prop_map(NegotiateContext::Encryption),
        "[a-zß\u{1f600}]{0,8}".prop_map(NegotiateContext::NetName),
        vec(any::<u16>().prop_map(SigningAlgorithm), 0..6).prop_map(NegotiateContext::Signing),
        vec(any::<[u8; 16]>(), 0..3).prop_map(NegotiateContext::Posix),
        (0x101u16.., data()).prop_map(|(kind, data)| NegotiateContext::Other { kind, data }),
    ]
}

fn create_contexts() -> impl Strategy<Value = Vec<CreateContext>> {
    let context = (vec(any::<u8>(), 0..20), data());
    vec(context.prop_map(|(name, data)| CreateContext { name: name.into(), data }), 0..5)
}

prop_compose! {
    fn create_request()(
        (oplock, impersonation, desired_access, file_attributes) in any::<(u8, u32, u32, u32)>(),
        (share_access, disposition, options) in any::<(u32, u32, u32)>(),
        name in ".{0,20}",
        contexts in create_contexts(),
    ) -> CreateRequest {
        CreateRequest {
            oplock_level: OplockLevel(oplock),
            impersonation: ImpersonationLevel(impersonation),
            desired_access,
            file_attributes,
            share_access: ShareAccess(share_access),
            disposition: CreateDisposition(disposition),
            options: CreateOptions(options),
            name,
            contexts,
        }
    }
}

proptest! {
    #[test]
    fn negotiations(
        mut dialects in vec(any::<u16>(), 0..8),
        (mode, capabilities, guid, time) in any::<(u16, u32, [u8; 16], u64)>(),
        contexts in vec(negotiate_context(), 0..6),
        security_buffer in data(),
    ) {
        dialects.push(0x0311);
        let (security_mode, capabilities) = (SecurityMode(mode), Capabilities(capabilities));
        same(&NegotiateRequest {
            dialects,
            security_mode,
            capabilities,
            client_guid: guid,
            contexts: contexts.clone(),
        })?;
        same(&NegotiateResponse {
            security_mode,
            dialect: 0x0311,
            server_guid: guid,
            capabilities,
            max_transact_size: capabilities.0,
            max_read_size: capabilities.0,
            max_write_size: capabilities.0,
            system_time: time,
            security_buffer,
            contexts,
        })?;
    }

    #[test]
    fn logons_and_trees(
        (flags, security_mode, capabilities, session) in any::<(u8, u8, u32, u64)>(),
        security_buffer in data(),
        path in ".{0,20}",
    ) {
        same(&SessionSetupRequest {
            flags: SessionSetupFlags(flags),
            security_mode,
            capabilities,
            previous_session_id: session,
            security_buffer: security_buffer.clone(),
        })?;
        same(&SessionSetupResponse { flags: SessionFlags(flags.into()), security_buffer })?;
        same(&TreeConnectRequest { flags: TreeConnectFlags(u16::from(flags) & 3), path })?;
    }

    #[test]
    fn creates(
        request in create_request(),
        times in any::<[u64; 6]>(),
        (flags, attributes) in any::<(u8, u32)>(),
        file_id in file_id(),
    ) {
        same(&request)?;
        same(&CreateResponse {
            oplock_level: request.oplock_level,
            flags,
            action: create::CreateAction(attributes),
            creation_time: times[0],
            last_access_time: times[1],
            last_write_time: times[2],
            change_time: times[3],
            allocation_size: times[4],
            end_of_file: times[5],
            file_attributes: attributes,
            file_id,
            contexts: request.contexts,
        })?;
    }

    #[test]
    fn data_and_locks(
        (offset, remaining, flags) in any::<(u64, u32, u32)>(),
        file_id in file_id(),
        data in data(),
        locks in vec(any::<(u64, u64, u32)>(), 0..5),
    ) {
        same(&read::ReadReply { data: data.clone(), remaining })?;
        same(&write::WriteRequest {
            offset,
            file_id,
            channel: read::Channel(remaining),
            remaining_bytes: remaining,
            flags: write::WriteFlags(flags),
            data,
        })?;
        let locks = locks.into_iter().map(|(offset, length, flags)| {
            LockElement { offset, length, flags: LockFlags(flags) }
        });
        same(&LockRequest { sequence: flags, file_id, locks: locks.collect() })?;
    }

    #[test]
    fn information(
        (class, kind, flags, length, additional) in any::<(u8, u8, u32, u32, u32)>(),
        file_id in file_id(),
        data in data(),
        pattern in ".{0,12}",
    ) {
        same(&QueryDirectoryRequest {
            information_class: class,
            flags: QueryDirectoryFlags(kind),
            file_index: length,
            file_id,
            pattern,
            output_buffer_length: additional,
        })?;
        same(&QueryInfoRequest {
            info_type: InfoType(kind),
            info_class: class,
            output_buffer_length: length,
            additional_information: additional,
            flags: QueryInfoFlags(flags),
            file_id,
            input: data.clone(),
        })?;
        same(&SetInfoRequest {
            info_type: InfoType(kind),
            info_class: class,
            additional_information: additional,
            file_id,
            data: data.clone(),
        })?;
        same(&output::OutputResponse { output: data.clone() })?;
        same(&ErrorBody { contexts: class, data: data.to_vec() })?;
    }

    #[test]
    fn ioctls(
        (code, flags, max_input, max_output) in any::<(u32, u32, u32, u32)>(),
        file_id in file_id(),
        data in data(),
    ) {
        let flags = IoctlFlags(flags);
        let input = data.clone();
        same(&IoctlRequest { code, file_id, flags, input, max_input, max_output })?;
        same(&IoctlResponse { code, file_id, output: data })?;
    }
}
