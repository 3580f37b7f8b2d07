//! What a URI shows, remembered: the same ones are asked for again and again.

use crate::model::event::Event;
use crate::model::uri::{ReadShape, Scope, path_scope};

/// Places; a power of two. Of two URIs with one place, the later is remembered.
const PLACES: usize = 1 << 11;

/// Longest URI that is remembered.
const MAX_LENGTH: usize = 512;

/// Bytes of URIs held before all are forgotten.
const MAX_TEXT: usize = 1 << 20;

/// What a URI shows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Route {
    /// How wide its path reaches, if it is one of an API resource.
    pub path: Option<Scope>,
    /// Of reads: how they ask to be served.
    pub shape: Option<ReadShape>,
}

/// URIs met by one thread.
#[derive(Debug, Default)]
pub struct Routes {
    places: Vec<RouteEntry>,
    text: Vec<u8>,
}

#[derive(Debug, Clone, Copy, Default)]
struct RouteEntry {
    hash: u64,
    from: u32,
    length: u32,
    route: Route,
}

impl Routes {
    /// What the event's URI, whose hash is `hash`, reports a request with `verb`.
    #[inline]
    pub fn find(&mut self, event: &Event<'_>, verb: &[u8], hash: u64) -> Route {
        let reads = match verb {
            b"watch" => 2,
            b"get" | b"list" | b"deletecollection" => 1,
            _ => 0,
        };
        let uri = event.uri.raw();
        if uri.len() > MAX_LENGTH {
            return route(event, reads);
        }
        let place = place(hash, reads);
        if let Some(known) = self.places.get(place)
            && known.hash == hash
            // Escapes follow from the text; what kind of request it is, does not.
            && &self.text[known.from as usize..(known.from + known.length) as usize] == uri
            && (known.route.shape.map_or(0, |shape| 1 + u64::from(shape.timeout.is_some()))) == reads
        {
            return known.route;
        }
        self.learn(event, reads, hash)
    }

    #[inline(never)]
    fn learn(&mut self, event: &Event<'_>, reads: u64, hash: u64) -> Route {
        let route = route(event, reads);
        if self.places.is_empty() || self.text.len() > MAX_TEXT {
            self.places = vec![RouteEntry::default(); PLACES];
            self.text.clear();
        }
        let uri = event.uri.raw();
        let known = RouteEntry { hash, from: self.text.len() as u32, length: uri.len() as u32, route };
        self.text.extend_from_slice(uri);
        self.places[place(hash, reads)] = known;
        route
    }
}

/// Where a URI may stand: a GET and an UPDATE of the same object apart, since they take turns.
#[inline]
fn place(hash: u64, reads: u64) -> usize {
    (hash ^ reads) as usize & (PLACES - 1)
}

fn route(event: &Event<'_>, reads: u64) -> Route {
    let shape = (reads > 0).then(|| shape(event, reads == 2));
    Route { path: path_scope(event.uri.raw()), shape }
}

/// How a read asks to be served; only a URI with a query has to be looked at.
fn shape(event: &Event<'_>, watch: bool) -> ReadShape {
    if memchr::memchr(b'?', event.uri.raw()).is_none() {
        return ReadShape::of("", watch);
    }
    ReadShape::of(&event.uri.decode(), watch)
}
