//! Memory cgroups: the files of live groups under any root, and captured copies of them. Every file is read as it
//! stands: one that is absent is absent in the sample too.

mod captured;
mod files;
mod group;
mod locate;
mod machine;

pub use captured::{Series, open, read_text, stdin, written};
pub use group::Group;
pub use locate::{Wanted, locate, process_names};
pub use machine::Machine;

/// Whether a path is a group of this machine, as against a copy of one.
pub fn is_live(path: &std::path::Path) -> bool {
    path.is_dir() && Machine::find(std::path::Path::new("/")).is_ok_and(|machine| machine.below(path).is_some())
}
