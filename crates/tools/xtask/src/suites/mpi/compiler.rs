//! Compiles the shim and the programs for one MPI. Objects of third-party sources, which do not
//! change, are compiled once.

use super::Mpi;
use super::programs::{Program, ProgramSource};
use crate::context::Context;
use anyhow::{Context as _, Result};
use braid_testbed::process::Process;
use std::fs;
use std::path::{Path, PathBuf};

/// What MPICH's configure would have found: C as it is everywhere today.
const CONFIGURED: &str = "\
    #define STDC_HEADERS 1\n#define HAVE_STDARG_H 1\n\
    #define HAVE_STDLIB_H 1\n#define HAVE_STRING_H 1\n\
    #define HAVE_UNISTD_H 1\n#define HAVE_STDINT_H 1\n#define HAVE_INTTYPES_H 1\n\
    #define HAVE_STRDUP 1\n#define HAVE_SETENV 1\n\
    #define HAVE_LONG_DOUBLE 1\n#define HAVE_MPI_WIN_CREATE 1\n\
    #define USE_LONG_LONG 1\n#define restrict __restrict\n\
    #define THREAD_PACKAGE_NONE 1\n#define THREAD_PACKAGE_POSIX 2\n\
    #define THREAD_PACKAGE_WIN 5\n#define THREAD_PACKAGE_INVALID 0\n\
    #define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX\n";
/// Sources that programs of `test/mpi/io` share.
const SHARED: &[&str] = &["mtest", "mtest_common", "mtest_thread"];

pub struct Compiler {
    mpicc: &'static str,
    source: PathBuf,
    /// Our own programs.
    own: PathBuf,
    /// The directory of the compiled programs.
    out: PathBuf,
    prefix: PathBuf,
}

/// Installs libbraid as its users do.
pub fn install_library(context: &Context, home: &Path) -> Result<PathBuf> {
    let prefix = home.join("prefix");
    let archive = context.metadata.target_directory.join("debug/libbraid.a");
    let install = Process::new(context.root.join("crates/bind/capi/install.sh"));
    install.args([&archive, &prefix]).run()?;
    Ok(prefix)
}

impl Compiler {
    pub fn new(
        context: &Context,
        mpi: &Mpi,
        source: &Path,
        home: &Path,
        prefix: &Path,
    ) -> Result<Self> {
        let (mpicc, out) = (mpi.packages[0].0, home.join(mpi.name));
        fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
        let build = Process::new(context.root.join("crates/bind/mpiio/build.sh")).args([mpicc]);
        build.args([prefix, out.as_path()]).run()?;
        fs::write(out.join("mpitestconf.h"), CONFIGURED)?;
        let own = context.root.join("crates/bind/mpiio/tests/c");
        let compiler =
            Self { mpicc, source: source.to_path_buf(), own, out, prefix: prefix.to_path_buf() };
        for name in SHARED {
            compiler.object(name)?;
        }
        Ok(compiler)
    }

    /// Environment that makes a program load the shim before the MPI library.
    pub fn preload(&self) -> [String; 2] {
        let shim = self.out.join("libbraid_mpiio.so");
        [
            format!("LD_PRELOAD={}", shim.display()),
            format!("LD_LIBRARY_PATH={}", self.prefix.join("lib").display()),
        ]
    }

    /// Compiles a program, which does not link the shim.
    pub fn compile(&self, program: &Program) -> Result<PathBuf> {
        let compiled = self.out.join(format!("{}-{}", program.suite(), program.name));
        if compiled.is_file() && program.from != ProgramSource::Own {
            return Ok(compiled);
        }
        let partial = compiled.with_extension("partial");
        let folder = match program.from {
            ProgramSource::Io => self.source.join("test/mpi/io"),
            ProgramSource::RomioFname | ProgramSource::RomioArgument => {
                self.source.join("src/mpi/romio/test")
            }
            ProgramSource::Own => self.own.clone(),
        };
        let mut cc =
            self.cc().args(["-o"]).args([&partial, &folder.join(format!("{}.c", program.name))]);
        if program.from == ProgramSource::Io {
            cc = cc.args(SHARED.iter().map(|name| self.out.join(format!("{name}.o"))));
        }
        cc.args(["-pthread", "-lm"]).run()?;
        fs::rename(&partial, &compiled)?;
        Ok(compiled)
    }

    fn object(&self, name: &str) -> Result<()> {
        let object = self.out.join(format!("{name}.o"));
        if object.is_file() {
            return Ok(());
        }
        let partial = object.with_extension("partial");
        let source = self.source.join("test/mpi/util").join(format!("{name}.c"));
        self.cc().args(["-c", "-o"]).args([&partial, &source]).run()?;
        fs::rename(&partial, &object).with_context(|| object.display().to_string())
    }

    /// The compiler; warnings of third-party programs are hidden.
    fn cc(&self) -> Process {
        let test = self.source.join("test/mpi");
        let folders = [self.out.clone(), test.join("include"), test.join("util")];
        let folders = folders.iter().map(|folder| format!("-I{}", folder.display()));
        Process::new(self.mpicc)
            .args(["-w", "-DHAVE_CONFIG_H", "-DHAVE_PTHREAD_H", "-pthread"])
            .args(folders)
    }
}
