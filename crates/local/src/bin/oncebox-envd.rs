//! The process inside a sandbox, as a program of its own. It is started by the server and of no use by hand.

use std::process::ExitCode;

fn main() -> ExitCode {
    oncebox_local::helper_main(std::env::args_os().skip(1))
}
