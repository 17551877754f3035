//! The programs: their sources, their arguments, and which of them CI runs.

/// The origin of a program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ProgramSource {
    /// MPICH's `test/mpi/io`: creates its files in the current directory, which is on the mount.
    Io,
    /// ROMIO's `test`: takes a file's name, after `-fname` or as its only argument.
    RomioFname,
    RomioArgument,
    /// Our own `tests/c` of the shim.
    Own,
}

/// One program.
pub struct Program {
    pub name: &'static str,
    pub from: ProgramSource,
    pub ranks: u32,
    /// Whether it is in the sample that CI runs: short, and with 2 ranks or 1.
    pub in_sample: bool,
    /// Whether it also runs on two mounts with ROMIO's own driver.
    pub on_two_mounts: bool,
}

/// Programs of ROMIO that Open MPI cannot compile.
const NEEDS_LB: &[&str] = &["i_noncontig", "noncontig", "noncontig_coll", "noncontig_coll2"];

const fn io(name: &'static str, ranks: u32, in_sample: bool) -> Program {
    Program { name, from: ProgramSource::Io, ranks, in_sample, on_two_mounts: false }
}

const fn romio(name: &'static str, from: ProgramSource, ranks: u32, in_sample: bool) -> Program {
    Program { name, from, ranks, in_sample, on_two_mounts: false }
}

const fn two_mounts(name: &'static str) -> Program {
    Program {
        name,
        from: ProgramSource::RomioFname,
        ranks: 2,
        in_sample: true,
        on_two_mounts: true,
    }
}

/// Left out: of MPICH's programs `bigtype` and `i_bigtype` need 6.5 GiB of memory, and
/// `simple_collective` needs a file's name. Of ROMIO's, `file_info` requires that no striping
/// factor is reported, `syshints` opens /dev/null, and `external32` and `big_extents` print results
/// without checking them; `perf`, `coll_perf`, `large_array` and `large_file` are benchmarks or
/// need 4 GiB. docs/conformance.md has their results by hand.
pub const PROGRAMS: &[Program] = &[
    // Without it the others would not prove that the shim is used.
    Program {
        name: "taken",
        from: ProgramSource::Own,
        ranks: 2,
        in_sample: true,
        on_two_mounts: false,
    },
    io("async", 2, true),
    io("async_any", 2, false),
    io("external32_derived_dtype", 1, false),
    io("getextent", 2, false),
    io("hindexed_io", 1, true),
    io("i_aggregation1", 2, false),
    io("i_aggregation2", 4, false),
    io("i_coll_test", 4, false),
    io("i_darray_read", 4, false),
    io("i_hindexed", 4, false),
    io("i_hindexed_io", 1, false),
    io("i_noncontig", 2, true),
    io("i_noncontig_coll", 2, false),
    io("i_noncontig_coll2", 4, false),
    io("i_rdwrord", 2, true),
    io("i_setviewcur", 2, false),
    io("i_types_with_zeros", 2, false),
    io("rdwrord", 2, true),
    io("rdwrzero", 2, true),
    io("resized", 1, false),
    io("resized2", 1, true),
    io("setinfo", 2, false),
    io("setviewcur", 2, true),
    io("tst_fileview", 1, true),
    io("userioerr", 1, false),
    io("zero_count", 2, true),
    two_mounts("atomicity"),
    two_mounts("noncontig"),
    two_mounts("ordered_fp"),
    two_mounts("shared_fp"),
    romio("aggregation2", ProgramSource::RomioArgument, 2, false),
    romio("async-multiple", ProgramSource::RomioFname, 2, false),
    romio("coll_test", ProgramSource::RomioFname, 4, false),
    romio("creat_excl", ProgramSource::RomioFname, 2, true),
    romio("darray_read", ProgramSource::RomioArgument, 4, false),
    romio("error", ProgramSource::RomioFname, 1, true),
    romio("excl", ProgramSource::RomioFname, 2, false),
    romio("hindexed", ProgramSource::RomioArgument, 4, false),
    romio("i_noncontig", ProgramSource::RomioFname, 2, false),
    romio("noncontig_coll", ProgramSource::RomioFname, 2, true),
    romio("noncontig_coll2", ProgramSource::RomioFname, 4, false),
    romio("psimple", ProgramSource::RomioFname, 2, false),
    romio("simple", ProgramSource::RomioFname, 2, true),
    romio("split_coll", ProgramSource::RomioFname, 2, true),
    romio("status", ProgramSource::RomioFname, 1, true),
    romio("types_with_zeros", ProgramSource::RomioArgument, 2, false),
];

impl Program {
    /// `openmpi::io::rdwrord::auto`.
    pub fn case(&self, mpi: &str, way: &str) -> String {
        format!("{mpi}::{}::{}::{way}", self.suite(), self.name)
    }

    pub fn suite(&self) -> &'static str {
        match self.from {
            ProgramSource::Io => "io",
            ProgramSource::RomioFname | ProgramSource::RomioArgument => "romio",
            ProgramSource::Own => "shim",
        }
    }

    /// Why it cannot run on an MPI, if so.
    pub fn reason_to_skip(&self, mpi: &str) -> Option<&'static str> {
        let lacks = mpi == "openmpi" && self.suite() == "romio" && NEEDS_LB.contains(&self.name);
        lacks.then_some("it uses MPI_LB, which Open MPI does not have")
    }

    /// The arguments that name a file.
    pub fn args(&self, file: &str) -> Vec<String> {
        match self.from {
            ProgramSource::Io | ProgramSource::Own => vec![],
            ProgramSource::RomioFname => vec!["-fname".to_owned(), file.to_owned()],
            ProgramSource::RomioArgument => vec![file.to_owned()],
        }
    }
}
