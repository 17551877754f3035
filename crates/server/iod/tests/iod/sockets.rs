//! The daemon on a real socket.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use braid_iod::{Iod, StartError};
use braid_layout::{Distribution, Layout, Request, View};
use braid_net::{NetError, TlsPolicy};
use braid_types::{ByteCount, IodId, KeyId, SessionId, SizeGeneration, Status};
use braid_wire::{
    Capability, Credential, FrameFlags, Role, decode_outcome,
    message::{
        Cancel, DaemonStatus, Ping,
        iod::{
            Delete, Fence, Flush, ListObjects, ObjectLength, ObjectSizes, Read, ReadReply,
            Truncate, Write,
        },
    },
};

use super::{
    cluster::*,
    harness::{
        EPOCH, FILE, SESSION, STRIPE, capability, contiguous, object, pattern, server_key, striped,
    },
};

fn whole(iod: IodId) -> Capability {
    capability(Layout::one(Distribution::Single, [iod]))
}

fn write(client: &mut SocketClient, capability: &Capability, request: Request, data: &[u8]) {
    let write = Write { handle: 1, present: capability.sign(&server_key()), request };
    let (reply, _) = client.call(&write, data, &mut []).unwrap();
    assert_eq!(reply.unwrap().bytes.0, data.len() as u64);
}

fn read(
    client: &mut SocketClient,
    capability: &Capability,
    request: Request,
    bytes: usize,
) -> (Vec<u8>, ReadReply) {
    let mut buffer = vec![0; bytes];
    let read = Read { handle: 1, present: capability.sign(&server_key()), request };
    let (reply, filled) = client.call(&read, &[], &mut buffer).unwrap();
    buffer.truncate(filled as usize);
    (buffer, reply.unwrap())
}

#[test]
fn data_of_every_size_goes_to_the_daemon_and_back() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let capability = whole(cluster.iod.id());
    let mut offset = 0;
    for bytes in [1, 4096, 32 * 1024, 32 * 1024 + 1, 256 * 1024, 256 * 1024 + 5, 4 << 20] {
        let data = pattern(bytes, bytes as u64);
        write(&mut client, &capability, contiguous(offset, bytes as u64), &data);
        let (back, reply) = read(&mut client, &capability, contiguous(offset, bytes as u64), bytes);
        assert!(back == data, "{bytes} bytes");
        assert_eq!(reply.bytes.0, bytes as u64);
        offset += bytes as u64;
    }
    let flush = Flush { handle: 1, present: Vec::new() };
    client.call(&flush, &[], &mut []).unwrap().0.unwrap();
    let sizes = ObjectSizes { handle: 1, present: Vec::new() };
    assert_eq!(client.call(&sizes, &[], &mut []).unwrap().0.unwrap()[0].bytes, ByteCount(offset));
}

#[test]
fn strided_data_with_large_and_small_pieces_and_holes_comes_back() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let capability = whole(cluster.iod.id());
    let data = pattern(3 << 20, 1);
    write(&mut client, &capability, contiguous(0, data.len() as u64), &data);
    write(&mut client, &capability, contiguous(5 << 20, 10), &[7; 10]);
    for (group, stride) in [(100u64, 1000u64), (40_000, 100_000), (70_000, 70_001)] {
        let wanted = (data.len() as u64 / stride) * group;
        let request = Request { view: View::strided(0, group, stride), start: 0, bytes: wanted };
        let (back, _) = read(&mut client, &capability, request, wanted as usize);
        let want: Vec<u8> = (data.chunks(stride as usize))
            .flat_map(|row| &row[..row.len().min(group as usize)])
            .copied()
            .take(wanted as usize)
            .collect();
        assert!(back == want, "groups of {group} every {stride}");
    }
    let (back, _) = read(&mut client, &capability, contiguous((3 << 20) - 5, 4 << 20), 4 << 20);
    let mut want = data[data.len() - 5..].to_vec();
    want.resize(5 + (2 << 20), 0);
    want.extend([7; 10]);
    assert!(back == want, "a hole of 2 MiB between data");
}

/// How many mappings this process has of files below `directory`.
#[cfg(target_os = "linux")]
fn mappings_below(directory: &std::path::Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(directory.to_str().unwrap())).count()
}

#[cfg(target_os = "linux")]
#[test]
fn small_pieces_are_sent_from_a_mapping_that_follows_the_object() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let capability = whole(cluster.iod.id());
    let strided = |bytes| Request { view: View::strided(0, 4096, 16_384), start: 0, bytes };
    for size in [1 << 20, 3 << 20] {
        let data = pattern(size, size as u64);
        write(&mut client, &capability, contiguous(0, size as u64), &data);
        read(&mut client, &capability, contiguous(0, size as u64), size);
        let before = mappings_below(cluster.dir.path());
        let (back, _) = read(&mut client, &capability, strided(size as u64 / 4), size / 4);
        let want: Vec<u8> = data.chunks(16_384).flat_map(|row| &row[..4096]).copied().collect();
        assert!(back == want, "of {size} bytes");
        assert_eq!(
            (before, mappings_below(cluster.dir.path())),
            (usize::from(size > 1 << 20), 1),
            "of {size} bytes"
        );
    }
    let truncate = Truncate {
        objects: vec![ObjectLength { object: object(0), bytes: ByteCount(1 << 20) }],
        size_generation: SizeGeneration(2),
        capability: capability.sign(&server_key()),
        make_absent: false,
    };
    cluster.mds_client().call(&truncate, &[], &mut []).unwrap().0.unwrap();
    let cut = Capability { size_generation: SizeGeneration(2), ..capability };
    let read = Read { handle: 2, present: cut.sign(&server_key()), request: strided(3 << 18) };
    let (reply, _) = client.call(&read, &[], &mut vec![0; 3 << 18]).unwrap();
    assert_eq!(reply.unwrap().bytes.0, 1 << 18, "truncated bytes are no longer in the file");
}

#[test]
fn data_goes_over_tls() {
    let cluster = Cluster::start_with(|config| config.tls = TlsPolicy::Always);
    let mut endpoint = cluster.client_endpoint();
    endpoint.tls = TlsPolicy::Always;
    let mut client = SocketClient::connect(&endpoint).unwrap();
    let capability = whole(cluster.iod.id());
    let data = pattern(1 << 20, 1);
    write(&mut client, &capability, contiguous(0, 1 << 20), &data);
    assert!(read(&mut client, &capability, contiguous(0, 1 << 20), 1 << 20).0 == data);
}

#[test]
fn a_4_kib_reply_overtakes_a_1_gib_one() {
    const GIB: u64 = 1 << 30;
    let cluster = Cluster::start();
    let capability = whole(cluster.iod.id());
    write(&mut cluster.client(), &capability, contiguous(GIB - 4096, 4096), &[1; 4096]);
    let mut client = RawClient::connect(&cluster.client_endpoint());
    let present = capability.sign(&server_key());
    let mut frames = request_frame(1, &Read { handle: 1, present, request: contiguous(0, GIB) });
    frames.extend(request_frame(
        2,
        &Read { handle: 1, present: Vec::new(), request: contiguous(0, 4096) },
    ));
    client.send(&frames);
    let mut before = 0;
    loop {
        let (header, _) = client.receive();
        match (header.request_id, header.flags) {
            (2, FrameFlags::FINAL) => break,
            (1, FrameFlags::DATA) => before += u64::from(header.payload_bytes),
            other => panic!("{other:?}"),
        }
    }
    assert!(before < GIB / 100, "{before} bytes went out before the small reply");
    client.send(&request_frame(3, &Cancel { request_id: 1 }));
    let mut ended = Vec::new();
    while ended.len() < 2 {
        let (header, body) = client.receive();
        if header.flags == FrameFlags::FINAL {
            ended.push((
                header.request_id,
                decode_outcome::<()>(&body).unwrap().err().map(|failure| failure.status),
            ));
        }
    }
    assert_eq!(ended, [(1, Some(Status::Cancelled)), (3, None)]);
}

#[test]
fn a_client_with_a_burning_view_is_still_served_and_so_are_others() {
    use braid_layout::{Pattern, View};
    let cluster = Cluster::start();
    let capability = capability(striped([cluster.iod.id().0, 99]));
    write(&mut cluster.client(), &capability, contiguous(0, 3), b"abc");
    write(&mut cluster.client(), &capability, contiguous(1 << 40, 1), b"x"); // ext4 ends at 16 TiB
    let inner = Pattern::Vector {
        count: 1 << 20,
        stride: 2 * STRIPE + 2,
        child: Box::new(Pattern::Bytes(1)),
    };
    let burning = Request {
        view: View { displacement: 0, extent: 1 << 40, pattern: inner },
        start: 0,
        bytes: 1 << 40,
    };
    let mut client = RawClient::connect(&cluster.client_endpoint());
    let present = capability.sign(&server_key());
    client.send(&request_frame(1, &Read { handle: 1, present, request: burning }));
    client.send(&request_frame(2, &Ping {}));
    while client.receive().0.request_id != 2 {}
    assert_eq!(read(&mut cluster.client(), &capability, contiguous(0, 3), 3).0, b"abc");
}

#[test]
fn a_client_that_hangs_up_takes_its_read_of_a_large_hole_with_it() {
    let cluster = Cluster::start();
    // The first part is long, the second has no byte: all zeros, which are not sent before data
    // follows.
    let capability = capability(striped([cluster.iod.id().0; 2]));
    write(&mut cluster.client(), &capability, contiguous(1 << 40, 1), b"x"); // ext4 ends at 16 TiB
    let of_second = View::vector(STRIPE, STRIPE / 2, 1, 2, 2 * STRIPE);
    let every_other = Request { view: of_second, start: 0, bytes: 1 << 37 };
    let mut client = RawClient::connect(&cluster.client_endpoint());
    let present = capability.sign(&server_key());
    client.send(&request_frame(1, &Read { handle: 1, present, request: every_other }));
    client.send(&request_frame(2, &Ping {}));
    while client.receive().0.request_id != 2 {}
    drop(client);
    let connections =
        || cluster.iod.core().counters().connections.load(std::sync::atomic::Ordering::Relaxed);
    let began = std::time::Instant::now();
    while connections() > 0 {
        assert!(
            began.elapsed() < LONG,
            "the daemon still reads for a client that has disconnected"
        );
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn requests_behind_reads_whose_views_take_much_memory_wait_for_them() {
    use braid_layout::{Pattern, View};
    let cluster = Cluster::start();
    let capability = whole(cluster.iod.id());
    write(&mut cluster.client(), &capability, contiguous(1 << 40, 1), b"x"); // ext4 ends at 16 TiB
    let chain = || {
        let deeper = |child, level: u32| Pattern::Vector {
            count: 2,
            stride: 3u64 << (2 * level),
            child: Box::new(child),
        };
        (0..14).fold(Pattern::Bytes(1), deeper)
    };
    let chains = Pattern::Struct((0..2000).map(|at| (at << 29, chain())).collect());
    let request = Request {
        view: View { displacement: 0, extent: 1 << 41, pattern: chains },
        start: 0,
        bytes: 1 << 20,
    };
    let present = capability.sign(&server_key());
    let mut frames: Vec<u8> = (1..=2)
        .flat_map(|id| {
            request_frame(
                id,
                &Read { handle: 1, present: present.clone(), request: request.clone() },
            )
        })
        .collect();
    frames.extend(request_frame(3, &Ping {}));
    let mut client = RawClient::connect(&cluster.client_endpoint());
    let mut sending = client.socket.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| sending.write_all(&frames).unwrap());
        let mut ended = Vec::new();
        while ended.len() < 3 {
            let (header, _) = client.receive();
            if header.flags == FrameFlags::FINAL {
                ended.push(header.request_id);
            }
        }
        assert_ne!(ended[0], 3, "a third is not taken up while two take so much");
    });
}

#[test]
fn garbage_ends_its_connection_and_nothing_else() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let capability = whole(cluster.iod.id());
    write(&mut client, &capability, contiguous(0, 3), b"abc");
    let mut stranger = TcpStream::connect(cluster.iod.addresses()[0]).unwrap();
    stranger.write_all(&[0xa5; 1000]).unwrap();
    let mut answer = Vec::new();
    let _ = stranger.read_to_end(&mut answer); // a reset also ends the connection
    let mut proved = RawClient::connect(&cluster.client_endpoint());
    proved.send(&[0xa5; 100]);
    proved.expect_end();
    assert_eq!(read(&mut client, &capability, contiguous(0, 3), 3).0, b"abc");
}

#[test]
fn a_frame_that_claims_an_impossible_length_ends_its_connection() {
    let cluster = Cluster::start();
    let mut client = RawClient::connect(&cluster.client_endpoint());
    let mut frame = request_frame(1, &Ping {});
    frame[16..24].fill(0xff);
    let crc = crc(&frame[..28]);
    frame[28..32].copy_from_slice(&crc.to_le_bytes());
    client.send(&frame);
    client.expect_end();
    assert!(cluster.client().call(&Ping {}, &[], &mut []).unwrap().0.is_ok());
}

/// CRC-32C, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & 0u32.wrapping_sub(crc & 1))
        })
    })
}

#[test]
fn more_requests_in_flight_than_granted_end_the_connection() {
    let cluster = Cluster::start();
    let capability = whole(cluster.iod.id());
    write(&mut cluster.client(), &capability, contiguous((1 << 40) - 1, 1), &[1]);
    let mut client = RawClient::connect(&cluster.client_endpoint());
    let present = capability.sign(&server_key());
    let mut frames = Vec::new();
    for id in 0..u64::from(client.credits) + 1 {
        frames.extend(request_frame(
            id,
            &Read { handle: 1, present: present.clone(), request: contiguous(0, 1 << 40) },
        ));
    }
    client.send(&frames);
    let refused = loop {
        let (header, body) = client.receive();
        if header.flags == FrameFlags::FINAL {
            break decode_outcome::<ReadReply>(&body).unwrap().unwrap_err().status;
        }
    };
    assert_eq!(refused, Status::LimitExceeded);
    client.expect_end();
}

#[test]
fn a_refused_write_leaves_the_connection_in_step() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let capability = whole(cluster.iod.id());
    let forged = Write { handle: 1, present: vec![1; 200], request: contiguous(0, 1 << 20) };
    let outcome = client.call(&forged, &pattern(1 << 20, 1), &mut []).unwrap().0;
    assert_eq!(outcome.unwrap_err().status, Status::BadCapability);
    write(&mut client, &capability, contiguous(0, 3), b"abc");
    assert_eq!(read(&mut client, &capability, contiguous(0, 3), 3).0, b"abc");
}

#[test]
fn a_client_key_opens_no_door_of_a_daemon() {
    let cluster = Cluster::start();
    let client_key = Credential::Client(KeyId(1));
    for role in [Role::Client, Role::Mds, Role::Admin, Role::Iod] {
        let refused =
            SocketClient::connect(&cluster.endpoint(role, client_key.clone())).err().unwrap();
        assert!(matches!(refused, NetError::Refused { .. }), "{role:?}: {refused}");
    }
    let session = Credential::Session { session: SESSION, key: KeyId(1), user: None, epoch: EPOCH };
    assert!(SocketClient::connect(&cluster.endpoint(Role::Mds, session)).is_err());
}

#[test]
fn the_metadata_servers_calls_run_on_the_workers() {
    let cluster = Cluster::start();
    let capability = whole(cluster.iod.id());
    write(&mut cluster.client(), &capability, contiguous(0, 10), &[1; 10]);
    let mut mds = cluster.mds_client();
    let truncate = Truncate {
        objects: vec![ObjectLength { object: object(0), bytes: ByteCount(4) }],
        size_generation: SizeGeneration(2),
        capability: capability.sign(&server_key()),
        make_absent: false,
    };
    assert_eq!(mds.call(&truncate, &[], &mut []).unwrap().0.unwrap()[0].bytes.0, 4);
    let list = ListObjects { cursor: Vec::new(), count_max: 10 };
    let listed = mds.call(&list, &[], &mut []).unwrap().0.unwrap();
    assert_eq!((listed.objects[0].object.file, listed.objects[0].bytes.0), (FILE, 4));
    assert!(listed.foreign_files.is_empty());
    mds.call(&Delete { objects: vec![object(0)], durable: false }, &[], &mut [])
        .unwrap()
        .0
        .unwrap();
    assert!(mds.call(&list, &[], &mut []).unwrap().0.unwrap().objects.is_empty());
    let status = mds.call(&DaemonStatus {}, &[], &mut []).unwrap().0.unwrap();
    assert_eq!((status.bytes_written, status.errors), (10, 0));
    assert!(status.memory_bytes > 0 || !cfg!(target_os = "linux"));
}

#[test]
fn a_fence_in_a_heartbeat_is_applied_and_confirmed() {
    let cluster = Cluster::start();
    let capability = whole(cluster.iod.id());
    let mut client = cluster.client();
    write(&mut client, &capability, contiguous(0, 3), b"abc");
    cluster.mds.change(|state| (state.fenced, state.fence) = (vec![SESSION], 5));
    cluster.mds.wait_until(|state| state.fence_applied == 5);
    let again = Write { handle: 1, present: Vec::new(), request: contiguous(0, 3) };
    assert_eq!(client.call(&again, b"xyz", &mut []).unwrap().0.unwrap_err().status, Status::Fenced);
    let fence = Fence { sessions: vec![SessionId(99)], fence: 6, epoch_min: EPOCH };
    cluster.mds_client().call(&fence, &[], &mut []).unwrap().0.unwrap();
}

#[test]
fn a_daemon_keeps_the_id_it_was_given_over_its_own_restart() {
    let Cluster { dir, mds, mds_listener, mut iod } = Cluster::start();
    assert_eq!(iod.id(), IodId(4));
    assert!(iod.stop());
    drop(iod);
    // In one process, a thread of the first daemon may hold the directory a little longer.
    let begun = std::time::Instant::now();
    let again = loop {
        match Iod::start(config(&dir, &mds_listener)) {
            Ok(again) => break again,
            Err(error) => assert!(
                begun.elapsed() < LONG && error.to_string().contains("in use by another"),
                "{error}"
            ),
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    assert_eq!(again.id(), IodId(4), "before anybody answered");
    assert!(again.wait_until_serving(LONG));
    mds.wait_until(|state| state.registered.len() == 2);
    mds.change(|state| {
        assert_eq!(state.registered.iter().map(|message| message.id.0).collect::<Vec<_>>(), [0, 4]);
        assert_eq!(state.registered[0].directory, state.registered[1].directory);
    });
}

#[test]
fn a_daemon_registers_again_when_the_metadata_server_comes_back() {
    let cluster = Cluster::start();
    let address = cluster.mds_listener.local_addrs()[0].to_string();
    assert!(cluster.mds_listener.stop());
    drop(cluster.mds_listener);
    let _back = serve_mds(&cluster.mds, &address);
    cluster.mds.wait_until(|state| state.registered.len() >= 2);
    cluster.mds.change(|state| assert_eq!(state.registered.last().unwrap().id, IodId(4)));
}

#[test]
fn a_daemon_starts_without_a_metadata_server_and_serves_nothing() {
    let cluster = Cluster::start_with(|_| {});
    let address = cluster.mds_listener.local_addrs()[0].to_string();
    let Cluster { dir, mds, mds_listener, iod } = cluster;
    drop((iod, mds_listener));
    let config = braid_iod::IodConfig::on_loopback(
        dir.path().join("iod"),
        CLUSTER,
        vec![address.clone()],
        server_key(),
    );
    let iod = Iod::start(config).unwrap();
    assert!(!iod.serves());
    let _back = serve_mds(&mds, &address);
    assert!(iod.wait_until_serving(LONG));
}

#[test]
fn two_daemons_of_one_disk_name_the_same_device() {
    let (one, other) = (Cluster::start(), Cluster::start());
    let space = |cluster: &Cluster| cluster.iod.core().heartbeat_info().unwrap().space;
    assert_eq!(space(&one).device, space(&other).device);
    assert!(space(&one).available.0 <= space(&one).total.0);
}

#[test]
fn a_directory_that_is_not_an_object_directory_is_refused() {
    let cluster = Cluster::start();
    let empty = tempfile::tempdir().unwrap();
    let mut config = config(&cluster.dir, &cluster.mds_listener);
    config.dir = empty.path().to_owned();
    let refused = Iod::start(config).err().unwrap();
    assert!(matches!(refused, StartError::Store(_)), "{refused}");
    assert!(refused.to_string().contains("try:"), "{refused}");
}

#[test]
fn a_port_in_use_is_a_clear_error() {
    let cluster = Cluster::start();
    let other = tempfile::tempdir().unwrap();
    braid_store::LocalStore::init(other.path().join("iod"), CLUSTER, None).unwrap();
    let mut config = config(&other, &cluster.mds_listener);
    config.listen = vec![cluster.iod.addresses()[0].to_string()];
    let refused = Iod::start(config).err().unwrap().to_string();
    assert!(
        refused.contains("try:") && refused.contains(&cluster.iod.addresses()[0].to_string()),
        "{refused}"
    );
}

#[test]
fn an_address_that_nobody_can_connect_to_is_not_advertised() {
    let cluster = Cluster::start();
    let other = tempfile::tempdir().unwrap();
    braid_store::LocalStore::init(other.path().join("iod"), CLUSTER, None).unwrap();
    let mut config = config(&other, &cluster.mds_listener);
    config.listen = vec!["0.0.0.0:0".to_owned()];
    let refused = Iod::start(config.clone()).err().unwrap().to_string();
    assert!(refused.contains("try:"), "{refused}");
    config.advertise = vec!["127.0.0.1:7001".to_owned()];
    Iod::start(config).unwrap();
}

#[test]
fn metrics_tell_what_was_written() {
    let cluster = Cluster::start_with(|config| config.prometheus = Some("127.0.0.1:0".to_owned()));
    write(&mut cluster.client(), &whole(cluster.iod.id()), contiguous(0, 10), &[1; 10]);
    let mut socket = TcpStream::connect(cluster.iod.metrics_address().unwrap()).unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    assert!(text.contains("braid_iod_written_bytes_total{iod=\"4\"} 10\n"), "{text}");
    assert!(text.contains("braid_iod_serving{iod=\"4\"} 1\n"), "{text}");
}
