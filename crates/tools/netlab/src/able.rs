//! Whether a lab can be made here, and if not, what is missing.

use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};

use crate::shell::sh;

/// Makes what a lab needs of the kernel, and removes it: a namespace, a veth pair, a bridge, a shaped queue.
const PROBE: &str = r#"
name=braid-lab-$1-probe
trap 'ip netns del $name 2>/dev/null || true' EXIT
ip netns add $name
ip -n $name link add br0 type bridge
ip -n $name link add probe0 type veth peer name probe1
tc -n $name qdisc replace dev probe0 root tbf rate 1mbit burst 16kb limit 64kb
nsenter --net=/run/netns/$name true
"#;

/// An error that says what is missing for a lab on this machine. Programs that are missing are installed.
pub fn able() -> Result<()> {
    static ABLE: OnceLock<Result<(), String>> = OnceLock::new();
    ABLE.get_or_init(|| probe().map_err(|error| format!("{error:#}"))).clone().map_err(|error| anyhow!(error))
}

fn probe() -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "a lab cannot be made: only root may make network namespaces; try: sudo"
    );
    need("ip", &["iproute2"])?;
    need("nsenter", &["util-linux"])?;
    sh(PROBE, &[&std::process::id().to_string()])
        .map(drop)
        .context("a lab cannot be made: this kernel or container lacks namespaces, veth, a bridge or tbf")
}

/// Installs Debian packages whose program is missing, where this may be done.
pub fn need(program: &str, packages: &[&str]) -> Result<()> {
    if sh("command -v \"$1\"", &[program]).is_ok() {
        return Ok(());
    }
    let hint = || format!("{program} is missing; try: sudo apt-get install {}", packages.join(" "));
    ensure!(rustix::process::geteuid().is_root(), "only root may install packages: {}", hint());
    eprintln!("netlab: installing {}", packages.join(" "));
    let install = "export DEBIAN_FRONTEND=noninteractive; apt-get update -q; \
                   apt-get install -q -y --no-install-recommends \"$@\"";
    sh(install, packages).map(drop).with_context(hint)
}
