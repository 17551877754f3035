//! Codec tests: golden vectors of every message, round trips, and bytes that are not a message.

use braid_types::{Failure, Status};

use crate::{
    Capability, DataServerHandle, FrameFlags, FrameHeader, Secret, Wire, WireError, decode_outcome,
    encode_failure, encode_success,
    handshake::{Auth, AuthReply, Credential, Hello, HelloReply, Role, Ticket, Transcript},
    message::{CommonRequest, iod::IodRequest, mds::MdsRequest},
    sample::{Rng, Sample},
};

type Vector = (u16, &'static str, Vec<u8>, Vec<u8>);

fn calls(rng: &mut Rng) -> Vec<Vector> {
    [CommonRequest::samples(rng), MdsRequest::samples(rng), IodRequest::samples(rng)].concat()
}

fn round_trip(op: u16, body: &[u8], reply: &[u8]) -> (Option<bool>, Option<bool>) {
    match op >> 8 {
        0 => CommonRequest::round_trip(op, body, reply),
        1 => MdsRequest::round_trip(op, body, reply),
        _ => IodRequest::round_trip(op, body, reply),
    }
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() { "-".into() } else { bytes.iter().map(|b| format!("{b:02x}")).collect() }
}

/// The golden file, generated from the present code. Each line: op, name, request or message,
/// reply.
fn golden_text() -> String {
    let mut rng = Rng(1996);
    let mut lines: Vec<String> = calls(&mut rng)
        .into_iter()
        .map(|(op, name, request, reply)| {
            format!("{op:#06x} {name} {} {}\n", hex(&request), hex(&reply))
        })
        .collect();
    macro_rules! plain {
        ($($name:ident),*) => {$(
            let bytes = $name::sample(&mut rng).to_bytes();
            lines.push(format!("- {} {} -\n", stringify!($name), hex(&bytes)));
        )*};
    }
    plain!(Hello, HelloReply, Auth, AuthReply, Ticket, Credential, Capability);
    let header = FrameHeader {
        op: 0x0200,
        flags: FrameFlags::FINAL,
        request_id: 7,
        body_bytes: 10,
        payload_bytes: 4096,
    };
    lines.push(format!("- FrameHeader {} -\n", hex(&header.to_bytes())));
    let signed = Capability::sample(&mut Rng(5)).sign(&Secret::from_bytes([7; 32]));
    lines.push(format!("- SignedCapability {} -\n", hex(&signed)));
    lines.concat()
}

/// A difference here is a protocol change: give the message a new number, then run with `BLESS=1`.
#[test]
fn golden_vectors_of_every_message_are_unchanged() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, golden_text()).unwrap();
    }
    let golden = std::fs::read_to_string(path).expect("tests/golden.txt");
    for (was, is) in golden.lines().zip(golden_text().lines()) {
        assert_eq!(was, is, "the encoding of a message changed");
    }
    assert_eq!(golden.lines().count(), golden_text().lines().count(), "a message came or went");
}

/// The content of `docs/format-messages.md`.
fn messages_page() -> String {
    use crate::message::{
        collective::*, entry::*, fields_text, import::*, iod::*, lease::*, lock::*, mds::*,
        quota::*, types::*, *,
    };
    let mut page = String::from(
        "# Messages\n\n`BLESS=1 cargo test -p braid-wire` generates this page from the code; \
         a test compares them.\n[format.md](format.md) describes types and encodings.\n\nThe body \
         of a call to the metadata server is an `Envelope`, then the fields below.\n",
    );
    let groups = [
        ("Both kinds of server", CommonRequest::describe()),
        ("Metadata server", MdsRequest::describe()),
        ("I/O daemon", IodRequest::describe()),
    ];
    for (title, rows) in groups {
        page +=
            &format!("\n## {title}\n\n| op | call | fields | reply |\n|---|---|---|---|\n{rows}");
    }
    page += "\n## Structures\n\n| name | fields |\n|---|---|\n";
    macro_rules! structures {
        ($($name:ident),* $(,)?) => {$(
            let fields = fields_text($name::FIELDS);
            page += &format!("| {} | {fields} |\n", stringify!($name));
        )*};
    }
    structures!(
        Hello,
        HelloReply,
        Auth,
        AuthReply,
        Ticket,
        Capability,
        DataServerHandle,
        Envelope,
        SizeReport,
        DaemonReport,
        DaemonStatusReply,
        Identity,
        PathRef,
        Attributes,
        DirectoryEntry,
        LayoutHint,
        IodInfo,
        Space,
        ClusterMap,
        ObjectInfo,
        ObjectRecord,
        OpenSessionReply,
        ReclaimedOpen,
        GatewaySession,
        RenewReply,
        AgentCheckReply,
        ReadDirectoryReply,
        DataServerHandlesReply,
        FileSizeReply,
        GatewaySecretReply,
        CreateReply,
        MakeReply,
        RemoveReply,
        NamesGrant,
        LayoutGrant,
        OpenReply,
        AttributeChanges,
        SetTime,
        StatFsReply,
        LayoutShowReply,
        KeyAddReply,
        KeyInfo,
        KeyRights,
        MdsStatusReply,
        RegisterIodReply,
        HeartbeatReply,
        SessionRange,
        FsckFile,
        FsckAffectedReply,
        FsckNamespaceReply,
        FsckProblem,
        FsckMend,
        LeaseGrant,
        Recall,
        ReturnedLease,
        ReadReply,
        ObjectEnd,
        WriteReply,
        WriteWithReservationReply,
        ReservationAccount,
        Reservation,
        FlushReply,
        ObjectLength,
        CollectReply,
        ListObjectsReply,
        DiskRates,
        DiskWork,
        StridedRequests,
        LockRequest,
        LockRange,
        LockHolder,
        LockReply,
        QuotaOwner,
        QuotaBound,
        QuotaLimits,
        QuotaReport,
        QuotaWalkReply,
        QuotaDifference,
        DirectoryChange,
        OpenEntryReply,
        LookUpFoldedReply,
        MakeEntryReply,
        RenameEntryReply,
        Xattr,
        ImportEntry,
        ImportFailure,
        ImportedEntry,
    );
    page += "\n## Enumerations (one byte)\n\n| name | values |\n|---|---|\n";
    macro_rules! enumerations {
        ($($name:ident),* $(,)?) => {$(
            let variants = $name::VARIANTS.iter();
            let values: Vec<_> = variants.map(|(name, code)| format!("{code} {name}")).collect();
            page += &format!("| {} | {} |\n", stringify!($name), values.join(", "));
        )*};
    }
    use crate::handshake::NodeKind;
    enumerations!(
        CreateMode,
        EntryKind,
        LockSpace,
        QuotaKind,
        LockOutcome,
        Role,
        NodeKind,
        FileKind,
        DistributionHint,
        Placement,
        IodState,
        RenameMode,
        XattrMode,
        FsckProblemKind,
        LeaseKind,
        LeaseMode,
        SeekWhat,
        CollectiveKind,
    );
    page += "\n## Statuses (u16)\n\n| number | name | errno | meaning |\n|---|---|---|---|\n";
    for status in Status::ALL {
        page += &format!("| {} | {status:?} | {} | {status} |\n", *status as u16, status.errno());
    }
    page
}

#[test]
fn the_page_of_messages_is_true() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/format-messages.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, messages_page()).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).expect("docs/format-messages.md") == messages_page(),
        "docs/format-messages.md differs from the code; try: BLESS=1 cargo test -p braid-wire"
    );
}

#[test]
fn op_numbers_are_unique() {
    let mut ops: Vec<u16> = [CommonRequest::CALLS, MdsRequest::CALLS, IodRequest::CALLS]
        .concat()
        .iter()
        .map(|(op, _)| *op)
        .collect();
    let count = ops.len();
    ops.sort_unstable();
    ops.dedup();
    assert_eq!(ops.len(), count);
}

#[test]
fn every_message_round_trips() {
    for seed in 0..200 {
        for (op, name, request, reply) in calls(&mut Rng(seed)) {
            assert_eq!(
                round_trip(op, &request, &reply),
                (Some(true), Some(true)),
                "{name}, seed {seed}"
            );
        }
    }
}

/// Truncated and modified messages are refused, or decode to exactly their bytes.
#[test]
fn damaged_messages_never_panic_and_never_mean_two_things() {
    for seed in 0..40 {
        let mut rng = Rng(seed);
        for (op, name, request, reply) in calls(&mut Rng(seed)) {
            for cut in 0..request.len() {
                assert_eq!(
                    round_trip(op, &request[..cut], &[]).0,
                    None,
                    "{name} cut at {cut}, seed {seed}"
                );
            }
            for _ in 0..8 {
                let (mut request, mut reply) = (request.clone(), reply.clone());
                for bytes in [&mut request, &mut reply] {
                    if !bytes.is_empty() {
                        let at = rng.below(bytes.len() as u64) as usize;
                        bytes[at] ^= 1 << rng.below(8);
                    }
                }
                let (first, second) = round_trip(op, &request, &reply);
                assert!(first != Some(false) && second != Some(false), "{name}, seed {seed}");
            }
        }
    }
}

#[test]
fn frame_headers_are_refused_when_anything_is_wrong() {
    let header = FrameHeader {
        op: 1,
        flags: FrameFlags::REQUEST,
        request_id: u64::MAX,
        body_bytes: 3,
        payload_bytes: 4,
    };
    let good = header.to_bytes();
    assert_eq!(FrameHeader::from_bytes(&good), Ok(header));
    for bit in 0..256 {
        let mut bad = good;
        bad[bit / 8] ^= 1 << (bit % 8);
        let want = if bit < 32 { WireError::BadMagic } else { WireError::BadChecksum };
        assert_eq!(FrameHeader::from_bytes(&bad), Err(want), "bit {bit}");
    }
}

#[test]
fn frame_lengths_over_their_limit_are_refused() {
    let limit = |flags, body_bytes, payload_bytes| {
        FrameHeader::from_bytes(
            &FrameHeader { op: 1, flags, request_id: 0, body_bytes, payload_bytes }.to_bytes(),
        )
        .is_ok()
    };
    assert!(limit(FrameFlags::REQUEST, 512 << 10, 4 << 20));
    assert!(!limit(FrameFlags::REQUEST, (512 << 10) + 1, 0));
    assert!(!limit(FrameFlags::REQUEST, 0, (4 << 20) + 1));
    assert!(limit(FrameFlags::DATA, 0, 256 << 10));
    assert!(!limit(FrameFlags::DATA, 0, (256 << 10) + 1));
    assert!(!limit(FrameFlags(3), 0, 0));
    assert!(!limit(FrameFlags::REQUEST, u32::MAX, u32::MAX));
}

#[test]
fn a_list_count_takes_no_memory_before_it_is_checked() {
    let mut body = u32::MAX.to_bytes();
    body.extend_from_slice(&[0; 64]);
    assert_eq!(Vec::<u64>::from_bytes(&body), Err(WireError::TooLong));
}

#[test]
fn a_view_nested_too_deep_is_refused() {
    let mut pattern = Vec::new();
    for _ in 0..100_000 {
        pattern.push(2);
        pattern.extend_from_slice(&[0; 16]);
    }
    assert_eq!(braid_layout::Pattern::from_bytes(&pattern), Err(WireError::TooLong));
}

#[test]
fn outcomes_carry_success_or_failure() {
    assert_eq!(decode_outcome::<u64>(&encode_success(&7u64)), Ok(Ok(7)));
    let failure = Failure::new(Status::NoSpace, "disk /data/3");
    assert_eq!(decode_outcome::<u64>(&encode_failure(&failure)), Ok(Err(failure)));
    assert!(decode_outcome::<u64>(&[0xff, 0xff]).is_err());
    assert!(decode_outcome::<u64>(&[]).is_err());
}

#[test]
fn only_the_server_key_signs_capabilities() {
    let key = Secret::from_bytes([7; 32]);
    let capability = Capability::sample(&mut Rng(5));
    let signed = capability.sign(&key);
    assert_eq!(Capability::verify(&signed, &key), Some(capability));
    assert_eq!(Capability::verify(&signed, &Secret::from_bytes([8; 32])), None);
    for at in 0..signed.len() {
        let mut forged = signed.clone();
        forged[at] ^= 0x10;
        assert_eq!(Capability::verify(&forged, &key), None, "byte {at}");
        assert_eq!(Capability::verify(&signed[..at], &key), None);
    }
}

#[test]
fn a_proof_holds_for_its_transcript_key_role_and_credential_only() {
    let mut rng = Rng(3);
    let (hello, reply) = (Hello::sample(&mut rng), HelloReply::sample(&mut rng));
    let key = Secret::from_bytes([1; 32]);
    let transcript = Transcript::new(&hello, &reply, [9; 32]);
    let auth =
        transcript.auth(Role::Client, Credential::Client(braid_types::KeyId(4)), &key, [2; 32]);
    let proof = transcript.check_auth(&auth, &key).unwrap();
    assert!(transcript.check_reply(&auth, &AuthReply { proof, credits: 8 }, &key));
    assert!(
        !transcript.check_reply(&auth, &AuthReply { proof: auth.proof, credits: 8 }, &key),
        "no reflection"
    );

    let refused = |t: &Transcript, a: &Auth, k: &Secret| t.check_auth(a, k).unwrap_err().status;
    let stripped =
        Transcript::new(&Hello { want_tls: !hello.want_tls, ..hello.clone() }, &reply, [9; 32]);
    let other_channel = Transcript::new(&hello, &reply, [8; 32]);
    let replayed =
        Transcript::new(&hello, &HelloReply { nonce: [5; 32], ..reply.clone() }, [9; 32]);
    for transcript in [&stripped, &other_channel, &replayed] {
        assert_eq!(refused(transcript, &auth, &key), Status::AuthenticationFailed);
    }
    assert_eq!(
        refused(&transcript, &auth, &Secret::from_bytes([3; 32])),
        Status::AuthenticationFailed
    );
    let admin = Auth { role: Role::Admin, ..auth.clone() };
    assert_eq!(refused(&transcript, &admin, &key), Status::AuthenticationFailed);
    let other = Auth { credential: Credential::Client(braid_types::KeyId(5)), ..auth };
    assert_eq!(refused(&transcript, &other, &key), Status::AuthenticationFailed);
}

#[test]
fn a_connection_has_one_id_at_both_ends_and_no_two_have_the_same() {
    let mut rng = Rng(4);
    let (hello, reply, key) =
        (Hello::sample(&mut rng), HelloReply::sample(&mut rng), Secret::from_bytes([1; 32]));
    let id = |reply: &HelloReply, nonce| {
        let (ours, theirs) =
            (Transcript::new(&hello, reply, [0; 32]), Transcript::new(&hello, reply, [0; 32]));
        let auth = ours.auth(Role::Client, Credential::Server, &key, nonce);
        let id = ours.connection_id(&auth, &key);
        assert_eq!(theirs.connection_id(&Auth::from_bytes(&auth.to_bytes()).unwrap(), &key), id);
        assert_ne!(
            ours.connection_id(&auth, &Secret::from_bytes([2; 32])),
            id,
            "known to holders of the key only"
        );
        id
    };
    let first = id(&reply, [2; 32]);
    assert_ne!(id(&reply, [3; 32]), first, "the client's nonce alone makes them differ");
    assert_ne!(
        id(&HelloReply { nonce: [9; 32], ..reply.clone() }, [2; 32]),
        first,
        "and so does the server's"
    );
}

#[test]
fn a_ticket_changed_by_its_bearer_has_another_key() {
    let client_key = Secret::from_bytes([6; 32]);
    let ticket = Ticket::sample(&mut Rng(1));
    let claimed = Ticket { uid: 0, ..ticket.clone() };
    assert_ne!(ticket.secret(&client_key), claimed.secret(&client_key));
}

#[test]
fn a_disk_is_nearly_full_below_a_share_and_a_number_of_bytes() {
    use crate::message::types::Space;
    let space = |total: u64, available: u64| {
        let available = braid_types::ByteCount(available);
        Space {
            device: 1,
            total: braid_types::ByteCount(total),
            free: available,
            available,
            files_free: 1,
        }
    };
    // 700 MB: 5 %.
    assert!(
        space(700 << 20, 34 << 20).is_nearly_full() && !space(700 << 20, 36 << 20).is_nearly_full()
    );
    // 20 TB: 5 % would be a terabyte.
    assert!(
        space(20 << 40, (16 << 30) - 1).is_nearly_full()
            && !space(20 << 40, 16 << 30).is_nearly_full()
    );
    assert!(!space(0, 0).is_nearly_full(), "the size of its disk is unknown");
}
