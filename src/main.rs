//! The `plimsoll` program; everything it does is in the library.

fn main() -> std::process::ExitCode {
    plimsoll::run(std::env::args_os(), &mut plimsoll::Io::process())
}
