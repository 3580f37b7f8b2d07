//! Keys: what each does, under what name it can be given another, and what `?` says of it.

use super::Tab;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::BTreeMap;

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// To this tab.
    Go(Tab),
    NextTab,
    /// To the tab before.
    LastTab,
    /// To the next part of a tab: its other tables, findings, notes.
    NextPart,
    /// To the part before.
    LastPart,
    /// Up a row.
    Up,
    /// Down a row.
    Down,
    /// To the left: columns, or the call beside.
    Left,
    Right,
    PageUp,
    PageDown,
    /// To the first row.
    First,
    /// To the last row.
    Last,
    /// Into what is selected.
    Enter,
    Back,
    /// Filter rows.
    Filter,
    /// Type a command.
    Command,
    /// What the keys do.
    Help,
    /// Sort by the next column.
    Sort,
    /// Turn the order around.
    Reverse,
    /// Break down by other dimensions.
    By,
    /// Compare, or not.
    Compare,
    /// From audit logs, or from metrics.
    From,
    /// Copy what is selected.
    Copy,
    /// Copy the command that prints what is shown.
    CopyCommand,
    /// Write what is shown to a file.
    Export,
    /// Write what was read live as a bundle.
    Save,
    /// Play, or stand still.
    Play,
    /// A step back in time.
    Earlier,
    /// A step on.
    Later,
    /// To the mark before.
    LastMark,
    NextMark,
    /// A shorter window.
    Shorter,
    /// A longer window.
    Longer,
    /// All of the time.
    Always,
    /// Play slower.
    Slower,
    /// Play faster.
    Faster,
    /// Ask again.
    Refresh,
    /// Other colours.
    Theme,
    /// Sleep until the shell wakes us.
    Suspend,
    /// End.
    Quit,
}

/// An action as the configuration and `?` show it.
#[derive(Debug, Clone, Copy)]
struct Entry {
    action: Action,
    /// In the configuration.
    name: &'static str,
    /// The default keys.
    keys: &'static [&'static str],
    /// What `?` shows.
    help: &'static str,
    place: Where,
}

const fn entry(
    action: Action,
    name: &'static str,
    keys: &'static [&'static str],
    help: &'static str,
    place: Where,
) -> Entry {
    Entry { action, name, keys, help, place }
}

/// Where an action does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    Everywhere,
    Tables,
    Time,
    Only(Tab),
}

const ENTRIES: [Entry; 40] = [
    entry(Action::NextTab, "next-tab", &["tab"], "next tab (1 to 9, 0, F: that tab)", Where::Everywhere),
    entry(Action::LastTab, "last-tab", &["backtab"], "tab before", Where::Everywhere),
    entry(Action::NextPart, "next-part", &["v"], "next part of the tab: tables, findings, notes", Where::Everywhere),
    entry(Action::LastPart, "last-part", &["V"], "part before", Where::Everywhere),
    entry(Action::Up, "up", &["k", "up"], "up", Where::Everywhere),
    entry(Action::Down, "down", &["j", "down"], "down", Where::Everywhere),
    entry(
        Action::Left,
        "left",
        &["h", "left"],
        "columns to the left; in a flame graph: the one beside",
        Where::Everywhere,
    ),
    entry(Action::Right, "right", &["l", "right"], "columns to the right", Where::Everywhere),
    entry(Action::PageUp, "page-up", &["pageup", "ctrl-u", "ctrl-b"], "a page up", Where::Everywhere),
    entry(Action::PageDown, "page-down", &["pagedown", "ctrl-d", "ctrl-f"], "a page down", Where::Everywhere),
    entry(Action::First, "first", &["g", "home"], "first row", Where::Everywhere),
    entry(Action::Last, "last", &["G", "end"], "last row", Where::Everywhere),
    entry(Action::Enter, "enter", &["enter"], "open the selected row", Where::Everywhere),
    entry(Action::Back, "back", &["esc", "backspace"], "back: close a row, a filter, a zoom", Where::Everywhere),
    entry(
        Action::Filter,
        "filter",
        &["/"],
        "filter rows: /regex, /!regex (those that don't match), /-f fuzzy",
        Where::Tables,
    ),
    entry(
        Action::Sort,
        "sort",
        &["s"],
        "sort by the next column; in the key space: live, history, keys, revisions",
        Where::Tables,
    ),
    entry(Action::Reverse, "reverse", &["S"], "reverse the sort order", Where::Tables),
    entry(
        Action::By,
        "by",
        &["b"],
        "break down by other dimensions (:by user,agent for any)",
        Where::Only(Tab::Traffic),
    ),
    entry(Action::From, "from", &["f"], "switch between audit logs and metrics", Where::Only(Tab::Traffic)),
    entry(
        Action::Compare,
        "compare",
        &["d"],
        "compare the first snapshot with the last, and back",
        Where::Only(Tab::Keyspace),
    ),
    entry(Action::Copy, "copy", &["y"], "copy what is selected", Where::Tables),
    entry(Action::CopyCommand, "copy-command", &["Y"], "copy the command that prints what is shown", Where::Everywhere),
    entry(
        Action::Export,
        "export",
        &["e"],
        "export the view to a file: .csv .json .yaml .md .txt, .svg for a flame graph",
        Where::Everywhere,
    ),
    entry(Action::Save, "save", &["B"], "save the live data as a bundle", Where::Time),
    entry(Action::Play, "play", &["space"], "play or pause; live: look back, or follow again", Where::Time),
    entry(Action::Earlier, "earlier", &[","], "one step back in time (:time 09:21:55 jumps there)", Where::Time),
    entry(Action::Later, "later", &["."], "one step forward", Where::Time),
    entry(Action::LastMark, "last-mark", &["<"], "previous event", Where::Time),
    entry(Action::NextMark, "next-mark", &[">"], "next event", Where::Time),
    entry(Action::Shorter, "shorter", &["w"], "shorten the time window", Where::Time),
    entry(Action::Longer, "longer", &["W"], "lengthen the time window", Where::Time),
    entry(Action::Always, "always", &["a"], "show all of the time", Where::Time),
    entry(Action::Slower, "slower", &["-"], "play slower", Where::Time),
    entry(Action::Faster, "faster", &["+", "="], "play faster", Where::Time),
    entry(Action::Refresh, "refresh", &["r", "ctrl-l"], "refresh, redraw", Where::Everywhere),
    entry(
        Action::Theme,
        "theme",
        &["T"],
        "colour theme: default, safe (for the colour-blind), none",
        Where::Everywhere,
    ),
    entry(
        Action::Command,
        "command",
        &[":"],
        "type a command: :by :where :time :window :export :save :theme :quit",
        Where::Everywhere,
    ),
    entry(Action::Help, "help", &["?"], "this", Where::Everywhere),
    entry(Action::Suspend, "suspend", &["ctrl-z"], "suspend (fg resumes)", Where::Everywhere),
    entry(Action::Quit, "quit", &["q", "ctrl-c"], "end", Where::Everywhere),
];

/// Which key does what.
#[derive(Debug, Clone, PartialEq)]
pub struct Keys(BTreeMap<String, Action>);

impl Default for Keys {
    fn default() -> Self {
        let own = ENTRIES.iter().flat_map(|entry| entry.keys.iter().map(|key| ((*key).to_owned(), entry.action)));
        let tabs = Tab::ALL.iter().map(|tab| (tab.key().to_string(), Action::Go(*tab)));
        Self(own.chain(tabs).collect())
    }
}

impl Keys {
    /// The default keys, replaced by these: the name of an action, and its keys with blanks between.
    pub fn with(changes: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut keys = Self::default();
        for (name, own) in changes {
            let known = || ENTRIES.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
            let Some(Entry { action, .. }) = ENTRIES.iter().find(|entry| entry.name == name) else {
                return Err(format!("unknown key '{name}'; use one of: {}", known()));
            };
            keys.0.retain(|_, is| is != action);
            for key in own.split_whitespace() {
                let is_key = key.chars().count() == 1
                    || [
                        "tab",
                        "backtab",
                        "up",
                        "down",
                        "left",
                        "right",
                        "pageup",
                        "pagedown",
                        "home",
                        "end",
                        "enter",
                        "esc",
                        "backspace",
                    ]
                    .contains(&key)
                    || ["space", "delete"].contains(&key)
                    || key.strip_prefix("ctrl-").is_some_and(|rest| rest.chars().count() == 1)
                    || key.strip_prefix('f').is_some_and(|number| number.parse::<u8>().is_ok());
                if !is_key {
                    return Err(format!(
                        "{name} = \"{own}\": '{key}' is not a key; one is a character, ctrl-x, f5, enter, esc, \
                         space, pageup …"
                    ));
                }
                keys.0.insert(key.to_owned(), *action);
            }
        }
        // Somebody who can't leave is lost.
        match keys.0.values().any(|action| *action == Action::Quit) {
            true => Ok(keys),
            false => Err("quit: it needs a key".to_owned()),
        }
    }

    /// What a key does.
    pub fn action(&self, key: &KeyEvent) -> Option<Action> {
        self.0.get(&name(key)?).copied()
    }

    /// The keys of an action, as people read them.
    pub fn of(&self, action: Action) -> String {
        let own: Vec<&str> = self.0.iter().filter(|(_, is)| **is == action).map(|(key, _)| key.as_str()).collect();
        own.join(" ")
    }

    /// What `?` says for a tab: keys, and what they do.
    pub fn help(&self, tab: Tab) -> Vec<(String, &'static str)> {
        let applies = |place: Where| match place {
            Where::Everywhere | Where::Time => true,
            Where::Tables => tab != Tab::Overview,
            Where::Only(only) => tab == only,
        };
        ENTRIES.iter().filter(|entry| applies(entry.place)).map(|entry| (self.of(entry.action), entry.help)).collect()
    }
}

/// The key that came right behind Esc, if this is what both look like together. Alt and a key are sent as Esc and the
/// key; so are Esc and a key that are typed quickly, or over a slow line. None of our keys is one with Alt, so Esc was
/// meant: else it, and what stands behind it, would be lost.
pub(super) fn behind_escape(key: &KeyEvent) -> Option<KeyEvent> {
    let is_one_byte = matches!(key.code, KeyCode::Char(_) | KeyCode::Enter | KeyCode::Tab | KeyCode::Backspace);
    let modifiers = key.modifiers - KeyModifiers::ALT;
    (is_one_byte && modifiers != key.modifiers).then(|| KeyEvent::new(key.code, modifiers))
}

/// A key's name in the configuration.
fn name(key: &KeyEvent) -> Option<String> {
    let name = match key.code {
        KeyCode::Char(' ') => "space".to_owned(),
        KeyCode::Char(c) if key.modifiers.contains(KeyModifiers::CONTROL) => format!("ctrl-{}", c.to_ascii_lowercase()),
        KeyCode::Char(c) => c.to_string(),
        KeyCode::Tab => "tab".to_owned(),
        KeyCode::BackTab => "backtab".to_owned(),
        KeyCode::Enter => "enter".to_owned(),
        KeyCode::Esc => "esc".to_owned(),
        KeyCode::Backspace => "backspace".to_owned(),
        KeyCode::Delete => "delete".to_owned(),
        KeyCode::Up => "up".to_owned(),
        KeyCode::Down => "down".to_owned(),
        KeyCode::Left => "left".to_owned(),
        KeyCode::Right => "right".to_owned(),
        KeyCode::PageUp => "pageup".to_owned(),
        KeyCode::PageDown => "pagedown".to_owned(),
        KeyCode::Home => "home".to_owned(),
        KeyCode::End => "end".to_owned(),
        KeyCode::F(number) => format!("f{number}"),
        _ => return None,
    };
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_key_does_two_things_and_no_name_stands_twice() {
        let keys: Vec<&str> = ENTRIES.iter().flat_map(|entry| entry.keys).copied().collect();
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
        assert_eq!(ENTRIES.iter().map(|entry| entry.name).collect::<BTreeSet<_>>().len(), ENTRIES.len());
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        assert_eq!(Keys::default().action(&key(KeyCode::Char('0'))), Some(Action::Go(Tab::Log)));
        assert_eq!(
            Keys::default().action(&KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)),
            Some(Action::Quit)
        );
    }

    #[test]
    fn keys_can_be_given_others_but_never_none_to_leave_by() {
        let with = |name: &str, keys: &str| Keys::with(&[(name.to_owned(), keys.to_owned())].into());
        let keys = with("play", "p f5").unwrap();
        let of = |code| keys.action(&KeyEvent::new(code, KeyModifiers::NONE));
        assert_eq!(
            (of(KeyCode::Char('p')), of(KeyCode::F(5)), of(KeyCode::Char(' '))),
            (Some(Action::Play), Some(Action::Play), None)
        );
        assert!(with("quit", "").unwrap_err().contains("needs a key"));
        assert!(with("play", "hyper-x").unwrap_err().contains("is not a key"));
        assert!(with("jump", "x").unwrap_err().contains("use one of: next-tab"));
    }
}
