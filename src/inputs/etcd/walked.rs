//! Walks over databases. What several questions ask of one database is answered by one walk, and kept until all that
//! are asked together have their answers.

use super::opened::{Ask, Looks, Opened, SharedDatabases, Walked};
use crate::analysis::keyspace::check::Revisions;
use crate::analysis::keyspace::history::Clock;
use crate::analysis::keyspace::{Hand, Keyspace};
use crate::cli::Context;
use crate::model::keyspace::{Object, Seen, Want};
use crate::sources::etcd::KeyWorker;
use crate::sources::etcd::mvcc::{KeyValue, Revision};
use crate::sources::etcd::object;
use std::collections::HashSet;
use std::sync::Arc;

impl Opened {
    /// What a question asks, by a walk of its own if nobody has asked the same.
    pub(crate) fn walked(&self, prefix: Option<&str>, ask: &Ask, context: &mut Context<'_>) -> Arc<Walked> {
        let kept = context.shared.get::<SharedDatabases>().and_then(|shared| {
            let is_it = |(path, of, own): &&(String, Option<String>, Arc<Walked>)| {
                *path == self.path && of.as_deref() == prefix && own.ask == *ask
            };
            shared.walked.iter().find(is_it).map(|own| Arc::clone(&own.2))
        });
        if let Some(kept) = kept {
            return kept;
        }
        self.walk_ahead(prefix, std::slice::from_ref(ask), context).swap_remove(0)
    }

    /// Walks once for several questions; what it comes to is kept for those who ask later, if there are such.
    pub(crate) fn walk_ahead(&self, prefix: Option<&str>, asks: &[Ask], context: &mut Context<'_>) -> Vec<Arc<Walked>> {
        let made = self.walk_for(prefix, asks, context);
        if let Some(shared) = context.shared.get_mut::<SharedDatabases>() {
            let kept = made.iter().map(|made| (self.path.clone(), prefix.map(str::to_owned), Arc::clone(made)));
            shared.walked.extend(kept);
        }
        made
    }

    fn walk_for(&self, prefix: Option<&str>, asks: &[Ask], context: &Context<'_>) -> Vec<Arc<Walked>> {
        let store = &self.database.store;
        let space = |ask: &Ask| {
            let space = Keyspace::new(prefix, ask.mode.clone(), store.compacted());
            let space = if ask.looks == Looks::Whole { space.noting(store.compacting_to()) } else { space };
            space.expect(self.database.key_pages());
            space
        };
        let spaces: Vec<Keyspace> = asks.iter().map(space).collect();
        let want = union(asks.iter().zip(&spaces).map(|(ask, space)| ask.want(space)));
        let compacted = store.compacted();
        let make = || Worker {
            parts: asks.iter().zip(&spaces).map(|(ask, space)| Part::new(ask.looks, space.hand())).collect(),
            want: &want,
            looks_at_all: asks.iter().any(|ask| matches!(ask.looks, Looks::Times | Looks::Whole)),
            compacted,
        };
        let hashes = asks.iter().any(|ask| ask.hashes);
        let (workers, walk) = self.database.walk(context.settings.threads, hashes, make);
        let walk = Arc::new(walk);
        let mut sums: Vec<Sums> = vec![Sums::default(); asks.len()];
        for part in workers.into_iter().flat_map(|worker| worker.parts.into_iter().enumerate()) {
            let (number, Part { hand, clock, revisions, .. }) = part;
            let sum = &mut sums[number];
            sum.clock.merge(clock);
            sum.revisions.merge(revisions);
            // What a hand still holds is counted once it is finished.
            sum.dropped.extend(hand.finish());
        }
        let made = asks.iter().cloned().zip(spaces).zip(sums).map(|((ask, space), sums)| {
            let Sums { clock, revisions, dropped } = sums;
            Arc::new(Walked { ask, space, walk: Arc::clone(&walk), clock, revisions, dropped })
        });
        made.collect()
    }
}

/// A revision as analysis takes it.
fn seen<'k>(at: Revision, is_tombstone: bool, kv: &KeyValue<'k>, stored: usize) -> Seen<'k> {
    Seen {
        key: kv.key,
        revision: at.main,
        is_tombstone,
        value: kv.value,
        created: kv.created,
        modified: kv.modified,
        version: kv.version,
        lease: kv.lease,
        stored: stored as u64,
    }
}

/// All that several want of an object; of labels the first, as there is one place for it.
fn union(wants: impl Iterator<Item = Want>) -> Want {
    wants.fold(Want::default(), |all, one| Want {
        owners: all.owners || one.owners,
        managers: all.managers || one.managers,
        label: all.label.or(one.label),
        time: all.time || one.time,
    })
}

/// What all threads made of revisions for one question.
#[derive(Debug, Clone, Default)]
struct Sums {
    clock: Clock,
    revisions: Revisions,
    dropped: HashSet<(u64, u64)>,
}

/// What one question makes of revisions, on one thread.
struct Part<'s> {
    looks: Looks,
    hand: Hand<'s>,
    clock: Clock,
    revisions: Revisions,
}

impl<'s> Part<'s> {
    fn new(looks: Looks, hand: Hand<'s>) -> Self {
        Self { looks, hand, clock: Clock::default(), revisions: Revisions::default() }
    }
}

/// All of them, on one thread.
struct Worker<'s> {
    parts: Vec<Part<'s>>,
    want: &'s Want,
    /// Whether a question looks at all values.
    looks_at_all: bool,
    compacted: u64,
}

impl KeyWorker for Worker<'_> {
    fn revision(&mut self, at: Revision, is_tombstone: bool, kv: &KeyValue<'_>, stored: usize) {
        let seen = seen(at, is_tombstone, kv, stored);
        // Each value is looked at once, and those that are superseded only if somebody looks at all of them.
        let look = || if is_tombstone { Object::default() } else { object::look(kv.value, self.want) };
        let object = self.looks_at_all.then(look);
        for part in &mut self.parts {
            match (part.looks, &object) {
                (Looks::Living, None) => part.hand.take(&seen, |_| look()),
                (Looks::Keys, _) | (_, None) => part.hand.take_object(&seen, &Object::default()),
                (looks, Some(object)) => {
                    match looks {
                        Looks::Times => part.clock.take(object.written, at.main > self.compacted),
                        Looks::Whole => part.revisions.take(&seen, object, || part.hand.is_no_object(&seen)),
                        Looks::Keys | Looks::Living => {}
                    }
                    part.hand.take_object(&seen, object);
                }
            }
        }
    }
}
