//! What needs this machine itself: cgroups (v1, as root) and mounts.

mod disk;
mod group;
mod heap;
mod memory;
