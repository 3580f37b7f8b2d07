//! Many clusters in the terminal UI: which are shown, and how one is opened.

use super::console::Console;
use crate::commands::fleet;
use crate::views::tui::keys::Keys;
use crate::views::tui::want::Role;
use crate::views::tui::{Ask, Effect, FleetCluster, Msg, SourceKinds, State, Tab, Theme};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Named clusters, and one whose data say what it is called.
fn fleet_of(sources: &[&str]) -> Console {
    let arguments: Vec<String> = sources.iter().map(|source| (*source).to_owned()).collect();
    let clusters = fleet::several(&arguments).unwrap().into_iter();
    let clusters =
        clusters.map(|own| FleetCluster { shown: own.shown(), sources: own.sources, history: Vec::new() }).collect();
    let state = State::new("", false, Keys::default(), Theme::usual()).of_fleet(&arguments, clusters);
    let mut console = Console::new(state);
    console.send(Msg::Tick(0));
    console
}

fn line_with<'s>(screen: &'s str, text: &str) -> &'s str {
    screen.lines().find(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text} in\n{screen}"))
}

#[test]
fn one_begins_with_all_clusters_opens_one_and_comes_back() {
    let mut console = fleet_of(&["calm=samples/quiet", "stormy=samples/overload-restart", "lost=samples/damage"]);
    for (width, height) in [(80, 24), (200, 50)] {
        let screen = console.screen(width, height);
        assert!(line_with(&screen, "plimsoll").contains("fleet  3 clusters"), "{screen}");
        // Of no cluster in particular there is no time, and no other tab than the log.
        assert!(line_with(&screen, "F Fleet").ends_with("0 Log"), "{screen}");
        assert!(["calm", "stormy", "lost"].iter().all(|name| screen.contains(name)), "{screen}");
        assert!(screen.lines().last().unwrap().contains("Enter open the cluster"), "{screen}");
    }
    console.key('3');
    assert_eq!(console.state.tab, Tab::Fleet);
    assert!(console.screen(80, 24).contains("no cluster is open"));
    // Those in trouble stand first.
    console.press(KeyCode::Enter);
    assert_eq!((console.state.tab, console.state.name.as_str()), (Tab::Overview, "stormy"));
    let screen = console.screen(120, 40);
    assert!(screen.contains("F Fleet") && screen.contains("critical OUTAGE"), "{screen}");
    console.key('2');
    console.press(KeyCode::Enter);
    assert!(!console.state.pivot.filters.is_empty());
    // A cluster that is opened later shows nothing of the one before.
    console.key('F');
    let row = |console: &mut Console, name: &str| {
        console.key('g');
        let screen = console.screen(120, 24);
        let at = screen.lines().skip_while(|line| !line.contains("CLUSTER")).position(|line| line.starts_with(name));
        (1..at.unwrap_or_else(|| panic!("{screen}"))).for_each(|_| console.key('j'));
    };
    row(&mut console, "calm");
    console.press(KeyCode::Enter);
    let state = &console.state;
    assert_eq!((state.name.as_str(), state.pivot.filters.len(), state.opened), ("calm", 0, 2));
    let screen = console.screen(120, 40);
    assert!(!screen.contains("critical OUTAGE") && screen.to_lowercase().contains("no incident"), "{screen}");
    console.press(KeyCode::Esc);
    assert_eq!(console.state.tab, Tab::Fleet);
}

#[test]
fn what_comes_late_of_a_cluster_that_was_left_is_dropped() {
    let mut console = fleet_of(&["calm=samples/quiet", "stormy=samples/list-storm"]);
    let enter = Msg::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
    let mut effects = console.state.update(enter);
    let Some(Effect::Open { opened: 1, sources, .. }) = effects.pop() else { panic!("{effects:?}") };
    let found = SourceKinds { opened: 1, ..SourceKinds::default() };
    let with_sources = |found: &SourceKinds| SourceKinds {
        holders: sources.iter().map(|own| (crate::model::cause::Source::Audit, own.clone())).collect(),
        ..found.clone()
    };
    let asked: Vec<Ask> = console
        .state
        .update(Msg::SourceKinds(with_sources(&found)))
        .into_iter()
        .filter_map(|effect| if let Effect::Ask(ask) = effect { Some(ask) } else { None })
        .filter(|ask| matches!(ask.role, Role::Course | Role::Story))
        .collect();
    assert_eq!(asked.len(), 2);
    let answers: Vec<_> = asked.into_iter().map(|ask| console.answer(ask)).collect();
    // Meanwhile the other one was opened.
    console.key('F');
    console.key('G');
    let effects = console.state.update(Msg::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE)));
    assert!(matches!(effects[..], [Effect::Open { opened: 2, .. }]), "{effects:?}");
    answers.into_iter().for_each(|answer| console.send(Msg::Answer(Box::new(answer))));
    console.send(Msg::SourceKinds(found));
    console.send(Msg::Held(1, 60_000_000));
    let state = &console.state;
    assert!(state.course.is_none() && state.story.is_empty() && state.found.is_none() && state.marks.is_empty());
    assert_ne!(state.clock.tile, 60_000_000);
}
