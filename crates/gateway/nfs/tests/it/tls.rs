//! RPC-over-TLS (RFC 9289): the probe, certificates, exports that require it, and hostile clients.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use braid_nfs::config::{Security, Transport};
use braid_nfs::tls::{HANDSHAKE_MAX, HANDSHAKES_PER_ADDRESS_MAX, Tls, TlsFiles};
use braid_nfs::{NfsConfig, NfsServer, Protection, StartError};
use braid_nfs_wire::nfs4::*;
use braid_nfs_wire::rpc::auth::{AUTH_TLS, OpaqueAuth};
use braid_nfs_wire::rpc::message::{AcceptStatus, ReplyBody};
use braid_share::memory::MemoryShare;
use bytes::Bytes;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::client::Connection;
use crate::mount::{Mount, read, write};
use crate::server::{TestServer, config, export};
use crate::{last, layouts};

/// Longer than any time limit of the server.
const LONG: Duration = Duration::from_secs(100_000);

/// A file of `tests/certificates`.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name)
}

fn files() -> TlsFiles {
    TlsFiles {
        certificate: file("server.pem"),
        key: file("server.key"),
        client_authorities: Some(file("authority.pem")),
    }
}

fn try_server(
    config: NfsConfig,
    files: Option<TlsFiles>,
) -> Result<(MemoryShare, Arc<NfsServer<MemoryShare>>), StartError> {
    let tls = files.map(|files| Tls::new(files).unwrap());
    let share = MemoryShare::new();
    let protection = Protection { kerberos: None, tls };
    let server = NfsServer::with_security(share.clone(), config, protection)?;
    Ok((share, server))
}

/// A server with TLS.
async fn start(config: NfsConfig) -> TestServer {
    let (share, server) = try_server(config, Some(files())).unwrap();
    TestServer::over(share, server).await
}

/// A client's TLS, with the certificate in the files of this name.
fn client(certificate: Option<&str>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("authority.pem")).unwrap()).unwrap();
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let mut config = match certificate {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let chain = CertificateDer::from_pem_file(file(&format!("{name}.pem"))).unwrap();
            let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key"))).unwrap();
            builder.with_client_auth_cert(vec![chain], key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"sunrpc".to_vec()];
    config
}

const PROBE: (u32, u32, u32) = (NFS_PROGRAM, NFS_VERSION, PROCEDURE_NULL);

/// Whether the server answers a probe with STARTTLS.
async fn probe(connection: &mut Connection) -> bool {
    let user = std::mem::take(&mut connection.credential);
    connection.credential = OpaqueAuth { flavor: AUTH_TLS, body: "".into() };
    let xid = connection.send_call(PROBE, |_| {}).await;
    connection.credential = user;
    let (body, _) = connection.receive(xid).await;
    let ReplyBody::Accepted { verifier, status } = body else { panic!("{body:?}") };
    assert_eq!(status, AcceptStatus::Success);
    verifier.is_starttls()
}

/// A connection after the handshake. The test's client speaks plain with a task that encrypts.
async fn connect(server: &TestServer, config: ClientConfig) -> io::Result<Connection> {
    let mut connection = server.connect().await;
    assert!(probe(&mut connection).await);
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = TlsConnector::from(Arc::new(config)).connect(name, connection.stream).await?;
    // In TLS 1.3 the client learns with its first bytes whether the server accepts its certificate.
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (plain, accepted) =
        tokio::join!(TcpStream::connect(listener.local_addr()?), listener.accept());
    let (mut accepted, _) = accepted?;
    tokio::spawn(async move { drop(copy_bidirectional(&mut tls, &mut accepted).await) });
    Ok(Connection::over(plain?))
}

/// The status of a compound on the root of the only export.
async fn root_status(mut connection: Connection) -> NfsStatus {
    let mut session = connection.session("a").await;
    let ops = session.ops([ArgOp::PutRootFh, ArgOp::GetFh]);
    connection.status(&ops).await
}

/// Whether the server serves no call on this connection.
async fn is_refused(connection: io::Result<Connection>) -> bool {
    let Ok(mut connection) = connection else { return true };
    let xid = connection.send(&[]).await;
    !connection.try_receive(xid).await
}

#[tokio::test]
async fn calls_run_over_tls_after_a_probe() {
    let server = start(config()).await;
    assert_eq!(root_status(connect(&server, client(None)).await.unwrap()).await, NfsStatus::Ok);
    // This is many records in both directions.
    let mut mount = mount_over_tls(&server).await;
    let file = mount.create("f").await;
    let data: Vec<u8> = (0..1_000_000).map(|byte: u32| (byte % 251) as u8).collect();
    let data: &'static [u8] = data.leak();
    last!(Write, mount.run(file.op(write(file.id, 0, data))).await);
    let found = last!(Read, mount.run(file.op(read(file.id, 0, 1_000_000))).await);
    assert_eq!(found.data, Payload::Bytes(Bytes::from_static(data)));
}

async fn mount_over_tls(server: &TestServer) -> Mount {
    let mut connection = connect(server, client(None)).await.unwrap();
    connection.minor_version = 2;
    Mount::over(connection, "tls").await
}

#[tokio::test]
async fn export_is_used_with_the_transports_that_it_names() {
    use Transport::{MutualTls, Plain, Tls};
    for (modes, allowed) in [
        (vec![], [true, true, true]),
        (vec![Plain], [true, false, false]),
        (vec![Tls], [false, true, true]),
        (vec![MutualTls], [false, false, true]),
    ] {
        let mut config = config();
        config.exports[0].transports = modes.clone();
        let server = start(config).await;
        let tls = connect(&server, client(None)).await.unwrap();
        let mutual = connect(&server, client(Some("client"))).await.unwrap();
        for (connection, allowed) in [server.connect().await, tls, mutual].into_iter().zip(allowed)
        {
            let expected = if allowed { NfsStatus::Ok } else { NfsStatus::WrongSec };
            assert_eq!(root_status(connection).await, expected, "{modes:?}");
        }
    }
}

#[tokio::test]
async fn plain_clients_are_served_beside_tls() {
    let server = start(config()).await;
    let mut connection = server.connect().await;
    // The first message arrives byte by byte.
    let call: Vec<u8> = [0x8000_0028u32, 9, 0, 2, NFS_PROGRAM, NFS_VERSION, 0, 0, 0, 0, 0]
        .into_iter()
        .flat_map(u32::to_be_bytes)
        .collect();
    for byte in call {
        connection.stream.write_all(&[byte]).await.unwrap();
    }
    let (body, _) = connection.receive(9).await;
    assert!(matches!(body, ReplyBody::Accepted { status: AcceptStatus::Success, .. }));
    assert!(!probe(&mut connection).await, "a probe is the first message of a connection");
    assert_eq!(root_status(connection).await, NfsStatus::Ok);
    let mut encrypted = connect(&server, client(None)).await.unwrap();
    assert!(!probe(&mut encrypted).await, "no TLS within TLS");
}

#[tokio::test]
async fn client_certificates_that_are_not_trusted_are_refused() {
    let server = start(config()).await;
    for certificate in ["stranger", "expired"] {
        let connection = connect(&server, client(Some(certificate))).await;
        assert!(is_refused(connection).await, "{certificate}");
    }
}

#[tokio::test]
async fn other_application_protocol_is_refused_and_none_is_not() {
    let server = start(config()).await;
    let mut other = client(None);
    other.alpn_protocols = vec![b"http/1.1".to_vec()];
    assert!(is_refused(connect(&server, other).await).await);
    let mut none = client(None);
    none.alpn_protocols.clear();
    assert_eq!(root_status(connect(&server, none).await.unwrap()).await, NfsStatus::Ok);
}

#[tokio::test]
async fn garbage_in_place_of_a_handshake_ends_the_connection() {
    let server = start(config()).await;
    for garbage in [&[0; 64][..], b"GET / HTTP/1.1\r\n\r\n", &[0x16, 3, 1, 0xff, 0xff, 1, 0, 0, 0]]
    {
        let mut connection = server.connect().await;
        assert!(probe(&mut connection).await);
        connection.stream.write_all(garbage).await.unwrap();
        connection.stream.shutdown().await.unwrap();
        // At most an alert of TLS arrives.
        let mut rest = Vec::new();
        let _ = connection.stream.read_to_end(&mut rest).await;
        assert!(rest.len() <= 16, "{rest:?}");
    }
    assert_eq!(root_status(server.connect().await).await, NfsStatus::Ok);
}

#[tokio::test]
async fn call_behind_a_probe_is_not_executed() {
    let server = start(config()).await;
    let mut connection = server.connect().await;
    let probe = [0x8000_0028u32, 9, 0, 2, NFS_PROGRAM, NFS_VERSION, 0, AUTH_TLS, 0, 0, 0];
    let call = [0x8000_0028u32, 10, 0, 2, NFS_PROGRAM, NFS_VERSION, 0, 0, 0, 0, 0];
    let both: Vec<u8> = probe.into_iter().chain(call).flat_map(u32::to_be_bytes).collect();
    connection.stream.write_all(&both).await.unwrap();
    let mut rest = Vec::new();
    let _ = connection.stream.read_to_end(&mut rest).await;
    assert_eq!(rest, b"", "neither STARTTLS nor a reply");
}

#[tokio::test(start_paused = true)]
async fn slow_handshake_is_ended_and_delays_no_other() {
    let server = start(config()).await;
    let mut slow = server.connect().await;
    assert!(probe(&mut slow).await);
    assert_eq!(root_status(server.connect().await).await, NfsStatus::Ok);
    let begin = tokio::time::Instant::now();
    timeout(LONG, slow.expect_close()).await.unwrap();
    assert!(begin.elapsed() <= HANDSHAKE_MAX + Duration::from_secs(1));
}

#[tokio::test]
async fn handshakes_of_one_address_are_limited() {
    let server = start(config()).await;
    let mut waiting = Vec::new();
    for _ in 0..HANDSHAKES_PER_ADDRESS_MAX {
        let mut connection = server.connect().await;
        assert!(probe(&mut connection).await);
        waiting.push(connection);
    }
    let mut refused = server.connect().await;
    refused.credential = OpaqueAuth { flavor: AUTH_TLS, body: "".into() };
    let xid = refused.send_call(PROBE, |_| {}).await;
    assert!(!refused.try_receive(xid).await);
    assert_eq!(root_status(server.connect().await).await, NfsStatus::Ok, "plain ones are served");
    drop(waiting);
    // As soon as the server has seen their end, handshakes are done again.
    loop {
        let mut again = server.connect().await;
        again.credential = OpaqueAuth { flavor: AUTH_TLS, body: "".into() };
        let xid = again.send_call(PROBE, |_| {}).await;
        if again.try_receive(xid).await {
            break;
        }
    }
}

#[tokio::test]
async fn layouts_are_given_over_tls_only_where_the_export_says_so() {
    for plain in [false, true] {
        let mut config = config();
        config.exports[0].pnfs = true;
        config.exports[0].pnfs_plain = plain;
        let server = start(config).await;
        let mut mount = mount_over_tls(&server).await;
        assert_eq!(layouts::are_given(&server, &mut mount).await, plain);
        let mut mount = Mount::new(&server, "plain").await;
        assert!(layouts::are_given(&server, &mut mount).await);
    }
}

#[test]
fn export_that_cannot_be_served_is_a_mistake() {
    use Transport::{MutualTls, Tls};
    let with = |mode| {
        let mut config = config();
        config.exports[0].transports = vec![Transport::Plain, mode];
        config
    };
    let said = |config, files| try_server(config, files).err().map(|error| error.to_string());
    let no_authority = TlsFiles { client_authorities: None, ..files() };
    let text = said(with(Tls), None).unwrap();
    assert!(text.contains("xprtsec needs TLS"), "{text}");
    let text = said(with(MutualTls), Some(no_authority.clone())).unwrap();
    assert!(text.contains("the CAs that clients are from"), "{text}");
    assert_eq!(said(with(Tls), Some(no_authority)), None);
    assert_eq!(said(with(MutualTls), Some(files())), None);
    let mut kerberos = config();
    kerberos.exports.push(export("/k"));
    kerberos.exports[1].security = vec![Security::Krb5p];
    assert!(said(kerberos, Some(files())).unwrap().contains("need Kerberos"));
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let said = |files| Tls::new(files).unwrap_err().to_string();
    for (files, path, problem) in [
        (TlsFiles { certificate: file("missing.pem"), ..files() }, "missing.pem", "No such file"),
        (TlsFiles { certificate: file("server.key"), ..files() }, "server.key", "no certificate"),
        (TlsFiles { key: file("server.pem"), ..files() }, "server.pem", "no private key"),
        (TlsFiles { key: file("client.key"), ..files() }, "client.key", "no key of the"),
        (
            TlsFiles { client_authorities: Some(file("client.key")), ..files() },
            "client.key",
            "no certificate",
        ),
    ] {
        let text = said(files);
        assert!(text.contains(path) && text.contains(problem), "{text}");
    }
}
