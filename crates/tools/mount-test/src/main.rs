//! `braid-mount-test`: see `--help`.

fn main() -> std::process::ExitCode {
    braid_mount_tests::cli::main()
}
