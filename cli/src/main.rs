//! The `berth` program.

fn main() -> std::process::ExitCode {
    berth_cli::main()
}
