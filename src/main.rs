//! The program; see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    backlog::run(std::env::args_os())
}
