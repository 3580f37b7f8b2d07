//! `plimsoll` under the name by which kubectl finds it as a plugin (`kubectl plimsoll`).

fn main() -> std::process::ExitCode {
    plimsoll::program()
}
