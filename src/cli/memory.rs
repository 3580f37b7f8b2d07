//! How freed memory is kept, or given back.

/// Gives freed memory back to the system. glibc keeps it, in pieces that the next command, which asks for others, can't
/// use: of a large log the peak would be near to the sum of all commands.
pub fn give_back() {
    malloc::trim();
}

/// What is asked for in pieces of 64 KiB or more is given back as soon as it is freed. As such pieces are freed, glibc
/// else keeps larger and larger ones for itself: a roll-up of 4 GB took 585 MB in place of 445, in the same time.
pub fn keep_little() {
    malloc::keep_below(1 << 16);
}

/// glibc's own knobs: they change how memory is kept, not what it holds.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "functions of the C library")]
mod malloc {
    use std::ffi::c_int;

    /// `M_MMAP_THRESHOLD` of mallopt(3).
    const MMAP_THRESHOLD: c_int = -3;

    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> c_int;
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }

    pub(super) fn trim() {
        // SAFETY: malloc_trim(3) may be called at any time, from any thread.
        unsafe { malloc_trim(0) };
    }

    pub(super) fn keep_below(bytes: c_int) {
        // SAFETY: mallopt(3) may be called at any time; what it refuses stays as it was.
        unsafe { mallopt(MMAP_THRESHOLD, bytes) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod malloc {
    pub(super) fn trim() {}
    pub(super) fn keep_below(_: i32) {}
}
