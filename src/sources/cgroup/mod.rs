//! Memory cgroups: the files of live groups under any root, and captured copies of them. Every file is read as it stands:
//! one that is absent is absent in the sample too.

mod captured;
mod files;
mod group;
mod locate;
mod machine;

pub use captured::{Series, open, read_text, stdin};
pub use group::Group;
pub use locate::{Wanted, locate, process_names};
pub use machine::Machine;
