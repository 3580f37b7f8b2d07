//! The terminal UI: what is shown, how keys change it, how it is drawn. Nothing here reads a source or runs a command:
//! what is wanted goes out as an [`Effect`] and comes back as a [`Msg`], so all of it runs without a terminal and
//! without a cluster.
//!
//! [`State::update`] takes a message and gives effects, [`draw::draw`] draws a state. [`term`] is the only part that
//! knows a terminal.

pub mod ask;
mod clock;
mod copy;
pub mod draw;
mod found;
pub mod grid;
pub mod icicle;
pub mod keys;
mod mouse;
mod overview;
mod pane;
mod popup;
mod scene;
pub mod sheet;
mod state;
pub mod term;
pub mod theme;
mod timeline;
mod typed;
mod update;
pub mod want;

pub use clock::Clock;
pub use found::{FleetCluster, SourceKinds};
pub use sheet::{Answer, Course, Part};
pub use state::{Standing, State, Status};
pub use theme::Theme;
pub use want::{Ask, Want};

use crate::model::report::{Severity, Table};
use crate::model::time::Micros;
use crossterm::event::{KeyEvent, MouseEvent};

/// A tab.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tab {
    /// How the control plane does.
    #[default]
    Overview,
    /// Requests by any dimensions.
    Traffic,
    /// How each client behaves; without audit logs, who holds the seats.
    Clients,
    /// What fills etcd.
    Keyspace,
    /// Memory of cgroups.
    Memory,
    /// What the Go heap holds.
    Heap,
    /// How full quotas are, and what they should be.
    Quotas,
    /// When limits will be reached.
    Forecast,
    /// Dangerous operations.
    Guard,
    /// What plimsoll itself did, and failed to read.
    Log,
    /// Many clusters side by side, of which one is opened for the other tabs.
    Fleet,
}

impl Tab {
    /// All, in the order of their keys: 1 to 9, 0, F.
    pub const ALL: [Self; 11] = [
        Self::Overview,
        Self::Traffic,
        Self::Clients,
        Self::Keyspace,
        Self::Memory,
        Self::Heap,
        Self::Quotas,
        Self::Forecast,
        Self::Guard,
        Self::Log,
        Self::Fleet,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Traffic => "Traffic",
            Self::Clients => "Clients",
            Self::Keyspace => "Etcd",
            Self::Memory => "Memory",
            Self::Heap => "Heap",
            Self::Quotas => "Quotas",
            Self::Forecast => "Forecast",
            Self::Guard => "Guard",
            Self::Log => "Log",
            Self::Fleet => "Fleet",
        }
    }

    /// What it shows, in a sentence without its period.
    pub fn about(self) -> &'static str {
        match self {
            Self::Overview => "Control-plane health: load over time, and findings of all tabs",
            Self::Traffic => "Requests by any dimensions: Enter opens a row, Esc goes back",
            Self::Clients => "Client profiles, findings and remedies; without audit logs: holders of seats",
            Self::Keyspace => "etcd key space by key prefix: width is size",
            Self::Memory => "cgroup memory by type, and whether it is short",
            Self::Heap => "Go heap of an apiserver, by caller: width is size",
            Self::Quotas => "Quota usage and proposals",
            Self::Forecast => "Capacity forecast",
            Self::Guard => "Dangerous operations: who, what, and the cascade",
            Self::Log => "Messages of plimsoll, and sources that failed",
            Self::Fleet => "Clusters side by side: Enter opens one, F comes back",
        }
    }

    /// Its place among [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The key that goes there.
    pub fn key(self) -> char {
        match self {
            Self::Fleet => 'F',
            other => char::from(b'0' + (other.index() as u8 + 1) % 10),
        }
    }
}

/// Something that happened.
#[derive(Debug)]
pub enum Msg {
    /// A key was pressed.
    Key(KeyEvent),
    /// The mouse was used.
    Mouse(MouseEvent),
    /// The terminal has so many columns and lines.
    Resize(u16, u16),
    /// What time it is.
    Tick(Micros),
    /// What kinds of sources there are.
    SourceKinds(SourceKinds),
    /// What was asked for.
    Answer(Box<Answer>),
    /// The logs of the cluster that was opened so many-th are held in memory, in tiles of this length (µs): windows are
    /// cut at their edges from here on.
    Held(u64, Micros),
    /// Something is to be remembered in the log.
    Said(Severity, String),
    /// What is looked at is called this.
    Name(String),
    /// How a live source stands.
    Source(Status),
    /// An effect that takes time has ended: what came of it.
    Done(String),
    /// The program is to end.
    Quit,
}

/// What is to be done outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Something is to be found out; it comes back as [`Msg::Answer`].
    Ask(Ask),
    /// A cluster is to be looked at: what there is of it comes back as [`Msg::SourceKinds`].
    Open {
        /// How many were opened, with it.
        opened: u64,
        sources: Vec<String>,
        history: Vec<String>,
    },
    /// A text is to be put into the clipboard.
    Copy(String),
    /// What a want comes to is to be written to a file, in the form that its ending names.
    Export {
        want: Want,
        /// The rows that are shown, for forms that hold nothing but rows.
        rows: Option<Table>,
        /// Where to.
        path: String,
    },
    /// What was read live is to be written as a bundle.
    Save(String),
    /// All of the screen is to be drawn again, whatever stands there.
    Redraw,
    /// The program is to be put to sleep until the shell wakes it.
    Suspend,
    /// The program is to end.
    Quit,
}
