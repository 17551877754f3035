//! Sets `counted` in a build with coverage counters, whose runtime has the functions that the
//! program calls. Other builds must link without them.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(counted)");
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if flags.contains("instrument-coverage") {
        println!("cargo::rustc-cfg=counted");
    }
}
