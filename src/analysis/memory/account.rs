//! A sample as bytes that add up to the usage, and what follows: working set, limit, headroom.

use crate::model::memory::{Amount, Sample};

/// What a group's bytes are. What the kernel does not show is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Account {
    /// What is charged to the group. Of the top of a v2 hierarchy, which has no such file: the sum of the parts.
    pub usage: Option<u64>,
    /// The least of its own limit, those of the groups above, and the machine's memory.
    pub limit: Option<u64>,
    /// Whose limit that is: a group's path, or `host`.
    pub limit_by: String,
    /// Memory of processes that no file backs.
    pub anon: Option<u64>,
    /// Page cache and shared memory.
    pub file: Option<u64>,
    /// Page cache used more than once.
    pub file_active: Option<u64>,
    /// Page cache that goes first.
    pub file_inactive: Option<u64>,
    /// Of the cache: mapped by a process.
    pub file_mapped: Option<u64>,
    /// Of the cache: not yet written.
    pub file_dirty: Option<u64>,
    /// Of the cache: being written.
    pub file_writeback: Option<u64>,
    /// tmpfs and shared memory.
    pub shmem: Option<u64>,
    /// Locked pages, and others that can't be reclaimed.
    pub unevictable: Option<u64>,
    /// Kernel objects that can be dropped: dentries, inodes.
    pub slab_reclaimable: Option<u64>,
    /// Other kernel objects.
    pub slab_unreclaimable: Option<u64>,
    pub kernel_stack: Option<u64>,
    /// Page tables.
    pub pagetables: Option<u64>,
    /// Per-CPU data.
    pub percpu: Option<u64>,
    /// Allocations by vmalloc.
    pub vmalloc: Option<u64>,
    /// All memory of the kernel but sockets'.
    pub kernel: Option<u64>,
    /// Socket buffers.
    pub sock: Option<u64>,
    /// Usage that no part accounts for; negative where parts were counted later than the usage.
    pub unexplained: Option<i64>,
    /// Swap used.
    pub swap: Option<u64>,
    /// The highest usage so far.
    pub peak: Option<u64>,
    /// Usage less inactive file pages, as kubelet has it.
    pub working_set: Option<u64>,
    /// What reclaim can take without swap.
    pub reclaimable: Option<u64>,
    /// The rest of the usage.
    pub unreclaimable: Option<u64>,
    /// Limit less usage.
    pub headroom: Option<i64>,
    /// The same with reclaimable cache given back.
    pub headroom_with_cache: Option<i64>,
    /// A group above that has less room below its own limit than this.
    pub crowded: Option<Crowded>,
}

/// A group above, and how full it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Crowded {
    pub path: String,
    /// Bytes.
    pub usage: u64,
    pub limit: u64,
}

impl Crowded {
    /// The group above with the least room, where that is less than `room`.
    fn of(above: &[Sample], room: i64) -> Option<Self> {
        let of_group = |group: &Sample| {
            Some(Self { path: group.path.clone(), usage: usage(group)?, limit: own_limit(group)?.number()? })
        };
        let least = above.iter().filter_map(of_group).min_by_key(Self::room)?;
        (least.room() < room).then_some(least)
    }

    /// What is left below its limit.
    pub fn room(&self) -> i64 {
        signed(self.limit) - signed(self.usage)
    }

    /// Usage by limit.
    pub fn fill(&self) -> Option<f64> {
        share(Some(self.usage), Some(self.limit))
    }
}

/// One disjoint part of the usage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    pub name: &'static str,
    /// Its letter in the bar.
    pub letter: char,
    /// Bytes; negative only for what is left over.
    pub bytes: i64,
}

/// A field of v1's `memory.stat` with the groups below, which `total_` stands for.
fn total(sample: &Sample, name: &str) -> Option<u64> {
    sample.stat(&format!("total_{name}")).or_else(|| sample.stat(name))
}

/// A field by its v2 and its v1 name.
pub(super) fn either(sample: &Sample, v2: &str, v1: &str) -> Option<u64> {
    if sample.version.is_v2() { sample.stat(v2) } else { total(sample, v1) }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// What one of two files says, that of the sample's own version first. Some copies have the statistics of one and the
/// limits of the other.
pub(super) fn own_first<T>(sample: &Sample, v2: &str, v1: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    let (own, other) = if sample.version.is_v2() { (v2, v1) } else { (v1, v2) };
    read(own).or_else(|| read(other))
}

/// A file of one number by its v2 and its v1 name.
pub(super) fn amount(sample: &Sample, v2: &str, v1: &str) -> Option<Amount> {
    own_first(sample, v2, v1, |file| sample.value(file))
}

/// The group's own limit.
pub fn own_limit(sample: &Sample) -> Option<Amount> {
    amount(sample, "memory.max", "memory.limit_in_bytes")
}

/// What is charged to the group, as its file says.
pub fn usage(sample: &Sample) -> Option<u64> {
    amount(sample, "memory.current", "memory.usage_in_bytes").and_then(Amount::number)
}

/// The least limit, and whose it is.
fn limit(sample: &Sample, host: Option<u64>) -> Option<(u64, String)> {
    let groups = std::iter::once(sample).chain(&sample.above);
    let own = groups.filter_map(|group| Some((own_limit(group)?.number()?, group.path.clone())));
    let hierarchical = sample.stat("hierarchical_memory_limit").and_then(|limit| Amount::of(limit).number());
    let above = hierarchical.map(|limit| (limit, "a parent cgroup".to_owned()));
    let host = sample.host("MemTotal").or(host).map(|total| (total, "host".to_owned()));
    // Of equal ones the first, which is the nearest.
    own.chain(above).chain(host).min_by_key(|(limit, _)| *limit)
}

impl Account {
    /// Takes a sample apart. `host` is the machine's memory where the sample does not say.
    pub fn of(sample: &Sample, host: Option<u64>) -> Self {
        let v2 = sample.version.is_v2();
        let stat = |name: &str| if v2 { sample.stat(name) } else { None };
        let mut account = Self {
            usage: usage(sample),
            anon: either(sample, "anon", "rss"),
            file: either(sample, "file", "cache"),
            file_active: either(sample, "active_file", "active_file"),
            file_inactive: either(sample, "inactive_file", "inactive_file"),
            file_mapped: either(sample, "file_mapped", "mapped_file"),
            file_dirty: either(sample, "file_dirty", "dirty"),
            file_writeback: either(sample, "file_writeback", "writeback"),
            shmem: either(sample, "shmem", "shmem"),
            unevictable: either(sample, "unevictable", "unevictable"),
            slab_reclaimable: stat("slab_reclaimable"),
            slab_unreclaimable: stat("slab_unreclaimable"),
            kernel_stack: stat("kernel_stack"),
            pagetables: stat("pagetables"),
            percpu: stat("percpu"),
            vmalloc: stat("vmalloc"),
            kernel: if v2 { stat("kernel") } else { sample.number("memory.kmem.usage_in_bytes") },
            sock: if v2 { stat("sock") } else { sample.number("memory.kmem.tcp.usage_in_bytes") },
            swap: if v2 { None } else { total(sample, "swap") }.or_else(|| sample.number("memory.swap.current")),
            peak: amount(sample, "memory.peak", "memory.max_usage_in_bytes").and_then(Amount::number),
            ..Self::default()
        };
        if let Some((limit, by)) = limit(sample, host) {
            account.limit = Some(limit);
            account.limit_by = by;
        }
        let reported = account.accounted(sample);
        if account.usage.is_none() && v2 && sample.is_root() && account.anon.is_some() {
            account.usage = u64::try_from(reported).ok();
        }
        let Some(usage) = account.usage else { return account };
        account.unexplained = account.anon.is_some().then(|| signed(usage) - reported);
        account.working_set = account.file_inactive.map(|inactive| usage.saturating_sub(inactive));
        if let (Some(active), Some(inactive)) = (account.file_active, account.file_inactive) {
            let busy = account.file_dirty.unwrap_or(0) + account.file_writeback.unwrap_or(0);
            let cache = (active + inactive).saturating_sub(busy) + account.slab_reclaimable.unwrap_or(0);
            account.reclaimable = Some(cache.saturating_sub(sample.protected_below).min(usage));
        }
        account.unreclaimable = account.reclaimable.map(|reclaimable| usage - reclaimable);
        account.headroom = account.limit.map(|limit| signed(limit) - signed(usage));
        account.crowded = account.headroom.and_then(|room| Crowded::of(&sample.above, room));
        account.headroom_with_cache =
            account.headroom.zip(account.reclaimable).map(|(headroom, cache)| headroom + signed(cache));
        account
    }

    /// What the kernel's own memory comes to, within the usage.
    fn kernel_bytes(&self, sample: &Sample) -> i64 {
        if !sample.version.is_v2() {
            // The top of a v1 hierarchy is reported as anonymous memory and files alone.
            return if sample.is_root() { 0 } else { signed(self.kernel.unwrap_or(0)) };
        }
        signed(self.kernel.unwrap_or(self.named_kernel_bytes())) + signed(self.sock.unwrap_or(0))
    }

    /// The sum of the kernel's parts that have a name of their own (v2).
    fn named_kernel_bytes(&self) -> u64 {
        let named = [
            self.slab_reclaimable,
            self.slab_unreclaimable,
            self.kernel_stack,
            self.pagetables,
            self.percpu,
            self.vmalloc,
        ];
        named.into_iter().flatten().sum()
    }

    /// The sum of all that the kernel accounts for.
    fn accounted(&self, sample: &Sample) -> i64 {
        signed(self.anon.unwrap_or(0)) + signed(self.file.unwrap_or(0)) + self.kernel_bytes(sample)
    }

    /// Parts that do not overlap and add up to the usage.
    pub fn parts(&self, sample: &Sample) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut add = |name, letter, bytes: Option<i64>| parts.extend(bytes.map(|bytes| Part { name, letter, bytes }));
        let of = |bytes: Option<u64>| bytes.map(signed);
        add("anonymous (heap, stacks)", 'A', of(self.anon));
        add("shared memory, tmpfs", 'M', of(self.shmem));
        add("file cache, active", 'F', of(self.file_active));
        add("file cache, inactive", 'f', of(self.file_inactive));
        // Locked pages, and those that are on their way to a list.
        let lists = [self.shmem, self.file_active, self.file_inactive];
        let listed: i64 = lists.into_iter().flatten().map(signed).sum();
        add("file cache, on neither LRU list", 'o', of(self.file).map(|file| file - listed).filter(|rest| *rest != 0));
        if sample.version.is_v2() {
            add("slab, reclaimable", 's', of(self.slab_reclaimable));
            add("slab, not reclaimable", 'S', of(self.slab_unreclaimable));
            add("kernel stacks", 'K', of(self.kernel_stack));
            add("page tables", 'P', of(self.pagetables));
            add("per-CPU", 'C', of(self.percpu));
            add("vmalloc", 'V', of(self.vmalloc));
            let named = signed(self.named_kernel_bytes());
            add("kernel, other", 'k', of(self.kernel).map(|kernel| kernel - named).filter(|rest| *rest != 0));
            add("sockets", 'T', of(self.sock));
        } else if !sample.is_root() {
            add("kernel (slab, stacks, page tables …)", 'K', of(self.kernel));
        }
        add("unexplained", '?', self.unexplained);
        parts
    }

    /// Usage by limit.
    pub fn fill(&self) -> Option<f64> {
        share(self.usage, self.limit)
    }

    /// What can't be reclaimed, by limit.
    pub fn firm(&self) -> Option<f64> {
        share(self.unreclaimable, self.limit)
    }

    /// The same without cache that waits for the disk: it goes once it is written.
    pub fn firm_without_dirty(&self) -> Option<f64> {
        let busy = self.file_dirty.unwrap_or(0) + self.file_writeback.unwrap_or(0);
        share(self.unreclaimable.map(|bytes| bytes.saturating_sub(busy)), self.limit)
    }

    /// Page cache in bytes, without shared memory.
    pub fn cache(&self) -> Option<u64> {
        self.file.map(|file| file.saturating_sub(self.shmem.unwrap_or(0)))
    }
}

fn share(bytes: Option<u64>, limit: Option<u64>) -> Option<f64> {
    let limit = limit.filter(|limit| *limit > 0)?;
    Some(bytes? as f64 / limit as f64)
}
