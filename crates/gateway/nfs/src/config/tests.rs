use super::*;

fn range(text: &str) -> AddressRange {
    text.parse().unwrap()
}

fn has(range: AddressRange, address: &str) -> bool {
    range.contains(address.parse().unwrap())
}

#[test]
fn address_ranges_contain_their_prefix_only() {
    let net = range("10.1.0.0/16");
    assert!(has(net, "10.1.255.255") && !has(net, "10.2.0.0") && !has(net, "fd00::1"));
    assert!(has(net, "::ffff:10.1.2.3"), "from a dual-stack socket");
    assert!(has(range("192.0.2.1"), "192.0.2.1") && !has(range("192.0.2.1"), "192.0.2.0"));
    assert!(has(range("0.0.0.0/0"), "255.1.2.3") && !has(range("0.0.0.0/0"), "::1"));
    let six = range("fd00::/8");
    assert!(has(six, "fdff::1") && !has(six, "fe00::") && !has(six, "10.0.0.1"));
    assert!(has(range("::/0"), "::1") && has(AddressRange::All, "::1"));
}

#[test]
fn address_ranges_that_are_none_are_refused() {
    for text in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "host", "10.0.0.0/-1", "::ffff:1.2.3.4"] {
        assert_eq!(text.parse::<AddressRange>(), Err(ConfigError::Range(text.into())));
    }
}

fn export(path: &str) -> ExportConfig {
    ExportConfig {
        clients: vec![AddressRange::All],
        security: vec![Security::Sys],
        ..ExportConfig::new(path)
    }
}

#[test]
fn paths_must_be_absolute_and_short() {
    for path in ["/", "/a", "/a/b.c"] {
        assert_eq!(export(path).check(), Ok(()));
    }
    for path in ["", "a", "/a/", "//", "/a//b", "/a/../b", "/.", "/a\0"] {
        assert_eq!(export(path).check(), Err(ConfigError::Path(path.into())));
    }
}

#[test]
fn exports_name_their_clients_and_security() {
    let open = ExportConfig { clients: Vec::new(), ..export("/a") };
    assert_eq!(open.check(), Err(ConfigError::NoClients("/a".into())));
    let open = ExportConfig { security: Vec::new(), ..export("/a") };
    assert_eq!(open.check(), Err(ConfigError::NoSecurity("/a".into())));
}

#[test]
fn configurations_with_mistakes_are_refused() {
    let mut config = NfsConfig::new("host:2049", [0; 32]);
    assert_eq!(config.check(), Ok(()));
    config.exports = vec![export("/a"), export("/a")];
    assert_eq!(config.check(), Err(ConfigError::SamePath("/a".into())));
    config.exports.clear();
    config.lease = Duration::from_secs(2);
    assert_eq!(config.check(), Err(ConfigError::Lease(config.lease)));
}

#[test]
fn stronger_transport_than_named_is_allowed_and_weaker_is_not() {
    use Transport::{MutualTls, Plain, Tls};
    for (modes, allowed) in [
        (&[Plain, Tls, MutualTls][..], &[Plain, Tls, MutualTls][..]),
        (&[Plain], &[Plain]),
        (&[Tls], &[Tls, MutualTls]),
        (&[MutualTls], &[MutualTls]),
        (&[Plain, MutualTls], &[Plain, MutualTls]),
    ] {
        for transport in [Plain, Tls, MutualTls] {
            let expected = allowed.contains(&transport);
            assert_eq!(transport.is_allowed_by(modes), expected, "{transport:?} {modes:?}");
        }
    }
    for text in ["none", "tls", "mtls"] {
        assert_eq!(text.parse::<Transport>().unwrap().keyword(), text);
    }
    assert_eq!("TLS".parse::<Transport>(), Err(ConfigError::Transport("TLS".into())));
}
