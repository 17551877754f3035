//! Checks whether this machine can run a lab, and if not, what is missing.

use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};
use braid_testbed::{
    programs::{is_root, need},
    shell::sh,
};

/// Creates and removes what a lab needs of the kernel: a namespace, a veth pair, a bridge, a shaped
/// queue.
const PROBE: &str = r#"
name=braid-lab-$1-probe
trap 'ip netns del $name 2>/dev/null || true' EXIT
ip netns add $name
ip -n $name link add br0 type bridge
ip -n $name link add probe0 type veth peer name probe1
tc -n $name qdisc replace dev probe0 root tbf rate 1mbit burst 16kb limit 64kb
nsenter --net=/run/netns/$name true
"#;

/// Fails with a list of what is missing for a lab on this machine. Installs missing programs.
pub fn check_requirements() -> Result<()> {
    static ABLE: OnceLock<Result<(), String>> = OnceLock::new();
    ABLE.get_or_init(|| probe().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(|error| anyhow!(error))
}

fn probe() -> Result<()> {
    ensure!(is_root(), "creating a lab: only root may create network namespaces; try: sudo");
    need("ip", &["iproute2"])?;
    need("nsenter", &["util-linux"])?;
    sh(PROBE, &[&std::process::id().to_string()])
        .map(drop)
        .context("creating a lab: this kernel or container lacks namespaces, veth, a bridge or tbf")
}

/// Fails with advice if the hosts of a lab may not use this congestion control. A network namespace
/// may use only those that the machine allows to every program (tcp(7)).
pub fn check_congestion_control(control: &str) -> Result<()> {
    let read = |name: &str| {
        let path = format!("/proc/sys/net/ipv4/{name}");
        std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))
    };
    check_control(
        control,
        &read("tcp_available_congestion_control")?,
        &read("tcp_allowed_congestion_control")?,
    )
}

fn check_control(control: &str, available: &str, allowed: &str) -> Result<()> {
    let (has, allowed) =
        (|list: &str| list.split_whitespace().any(|known| known == control), allowed.trim());
    let module = !control.is_empty()
        && control.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let what = format!("selecting the congestion control `{control}`");
    ensure!(
        has(available),
        "{what}: this machine's TCP has {}{}",
        available.trim(),
        if module { format!("; try: sudo modprobe tcp_{control}") } else { String::new() }
    );
    ensure!(
        has(allowed),
        "{what}: this machine allows {allowed}; try: sudo sysctl -w \
         net.ipv4.tcp_allowed_congestion_control=\"{allowed} {control}\""
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_congestion_control_that_hosts_may_not_use_is_refused_with_what_to_do() {
        let check = |control: &str| check_control(control, "reno cubic bbr\n", "reno bbr\n");
        let refused = |control: &str| check(control).unwrap_err().to_string();
        assert!(check("bbr").is_ok());
        assert!(refused("cubic").ends_with(
            "try: sudo sysctl -w net.ipv4.tcp_allowed_congestion_control=\"reno bbr cubic\""
        ));
        assert!(refused("vegas").ends_with("has reno cubic bbr; try: sudo modprobe tcp_vegas"));
        for wrong in ["", "cubic; reboot", "reno bbr"] {
            assert!(refused(wrong).ends_with("this machine's TCP has reno cubic bbr"), "{wrong}");
        }
    }
}
