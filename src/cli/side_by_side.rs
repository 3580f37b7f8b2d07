//! One thing done for each of many, on several threads.

use super::progress::Progress;
use crate::sources::watcher::Watcher as _;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What `work` makes of each, in their order, by so many threads; `what` they are is said while that takes its time, if
/// that is wanted.
pub fn side_by_side<T: Sync, R: Send>(
    all: &[T],
    threads: usize,
    (what, wanted): (&str, bool),
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let progress = Progress::count(all.len() as u64, what, wanted);
    let next = AtomicUsize::new(0);
    let some = || {
        let mut done = Vec::new();
        while let Some((place, one)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            all.get(at).map(|one| (at, one))
        } {
            done.push((place, work(one)));
            progress.read(1);
        }
        done
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads.min(all.len())).map(|_| scope.spawn(some)).collect();
        // A panic is a defect: it goes on here, where it is seen.
        let joined = running.into_iter().map(|own| own.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.flatten().collect()
    });
    progress.finish();
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_in_order() {
        let all: Vec<u64> = (0..1_000).collect();
        for threads in [1, 3, 2_000] {
            assert_eq!(
                side_by_side(&all, threads, ("", false), |one| one * 2),
                all.iter().map(|one| one * 2).collect::<Vec<_>>()
            );
        }
        assert!(side_by_side(&[0_u64; 0], 4, ("", false), |one| *one).is_empty());
    }
}
