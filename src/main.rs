//! The `plimsoll` program; everything it does is in the library.

fn main() -> std::process::ExitCode {
    plimsoll::program()
}
