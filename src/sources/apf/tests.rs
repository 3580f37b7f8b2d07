use super::*;

/// What Go's tabwriter (minimum width 8, padding 1) makes of rows.
fn tabbed(rows: &[&[&str]]) -> String {
    let columns = rows[0].len();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count() + 2).max().unwrap().max(8);
    let line = |row: &&[&str]| {
        let cells = row.iter().take(columns - 1).enumerate();
        let padded: String = cells.map(|(at, cell)| format!("{:<1$}", format!("{cell},"), width(at))).collect();
        format!("{padded}{}\n", row[columns - 1])
    };
    rows.iter().map(line).collect()
}

fn requests(page: &str) -> (Vec<Request>, Vec<Fault>) {
    let mut faults = Vec::new();
    match read(page.as_bytes(), |fault| faults.push(fault)) {
        Some(Rows::Requests { requests, .. }) => (requests, faults),
        other => panic!("{other:?}"),
    }
}

const HEADINGS: [&str; 18] = [
    "PriorityLevelName",
    "FlowSchemaName",
    "QueueIndex",
    "RequestIndexInQueue",
    "FlowDistingsher",
    "ArriveTime",
    "InitialSeats",
    "FinalSeats",
    "AdditionalLatency",
    "StartTime",
    "UserName",
    "Verb",
    "APIPath",
    "Namespace",
    "Name",
    "APIVersion",
    "Resource",
    "SubResource",
];

fn row<'r>(flow: &'r str, user: &'r str, path: &'r str, started: &'r str) -> [&'r str; 18] {
    let arrived = "2026-11-21T21:40:17.183959764Z";
    ["low", "some", "7", "0", flow, arrived, "2", "10", "5ms", started, user, "list", path, "", "", "v1", "pods", ""]
}

const WAITS: &str = "0001-01-01T00:00:00Z";
const RUNS: &str = "2026-11-21T21:40:18Z";

/// Users and paths that a caller may choose.
const ODD: [&str; 8] =
    ["plain", "smith, jane", "a,b,,c", "Zoë  Müller, 日本", "list, /x", "2026-11-21T21:40:18Z, 1", ",", "trailing,"];

#[test]
fn names_may_hold_what_divides_cells() {
    for user in ODD {
        let path = format!("/x/{user}/y");
        let rows = [row(user, user, &path, WAITS), row("", "short", "/api/v1/pods", RUNS)];
        let (found, faults) = requests(&tabbed(&[&HEADINGS, &rows[0], &rows[1]]));
        assert_eq!(faults, [], "{user}");
        let details = found[0].details.clone().unwrap();
        assert_eq!((found[0].flow.as_str(), details.user.as_str(), details.path.as_str()), (user, user, path.as_str()));
        assert_eq!(
            (details.verb.as_str(), details.resource.as_str(), details.version.as_str()),
            ("list", "pods", "v1")
        );
        assert_eq!((found[0].executes, found[1].executes, found[0].seats), (false, true, 10), "{user}");
        assert_eq!(found[0].arrived, 1_795_297_217_183_959);
        assert_eq!(found[1].started, Some(1_795_297_218_000_000));
    }
}

#[test]
fn squeezed_blanks_are_no_loss() {
    for user in ["plain", "smith, jane", "a, b, c"] {
        let rows = [row(user, user, "/api/v1/pods", WAITS)];
        let squeezed =
            tabbed(&[&HEADINGS, &rows[0]]).split(' ').filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        let (found, faults) = requests(&squeezed);
        assert_eq!(faults, [], "{squeezed}");
        assert_eq!((found[0].flow.as_str(), found[0].details.clone().unwrap().user.as_str()), (user, user));
        let bare = squeezed.replace(", ", ",").replace("smith,jane", "smith, jane");
        assert_eq!(requests(&bare).0.len(), 1, "{bare}");
    }
}

#[test]
fn a_newline_in_a_path_costs_its_own_row() {
    let rows = [row("u", "u", "/x\n/y", WAITS), row("smith, jane", "smith, jane", "/api/v1/pods", RUNS)];
    let (found, faults) = requests(&tabbed(&[&HEADINGS, &rows[0], &rows[1]]));
    assert_eq!(faults.iter().map(|fault| fault.line).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((found.len(), found[0].flow.as_str()), (1, "smith, jane"));
}

/// Headings and rows as the sources of these versions write them.
#[test]
fn pages_of_older_apiservers_are_read_by_their_headings() {
    // 1.20: no seats, and levels without queues have `<none>`.
    let level = ["PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests"];
    let none = ["exempt", "<none>", "<none>", "<none>", "<none>", "<none>"];
    let page = tabbed(&[&level, &none, &["low", "1", "false", "true", "3", "2"]]);
    assert!(begins_like_one(page.as_bytes()));
    let Some(Rows::Levels(levels)) = read(page.as_bytes(), |fault| panic!("{fault:?}")) else { panic!() };
    assert_eq!(
        (levels[0].waiting, levels[1].waiting, levels[1].quiescing, levels[1].rejected),
        (None, Some(3), Some(true), None)
    );
    let queue = ["PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "VirtualStart"];
    let page =
        tabbed(&[&queue, &["exempt", "<none>", "<none>", "<none>", "<none>"], &["low", "7", "3", "2", "1.5000"]]);
    let Some(Rows::Queues(queues)) = read(page.as_bytes(), |fault| panic!("{fault:?}")) else { panic!() };
    assert_eq!(
        queues,
        [Queue { level: "low".into(), index: Some(7), waiting: Some(3), executing: Some(2), seats: None }]
    );
    let (found, faults) = requests(&tabbed(&[&HEADINGS[..6], &row("u, v", "", "", WAITS)[..6]]));
    assert_eq!((found[0].flow.as_str(), found[0].seats, found[0].executes, faults.len()), ("u, v", 1, false, 0));
    // 1.18: as it stands in kubernetes/kubernetes#93376; each line ends in a comma.
    let page = "\
PriorityLevelName, FlowSchemaName, QueueIndex, RequestIndexInQueue, FlowDistingsher, ArriveTime, UserName, Verb,   \
APIPath, Namespace, Name,   APIVersion, Resource, SubResource,
exempt,            <none>,         <none>,     <none>,              <none>,          <none>,     <none>,   <none>, \
<none>,  <none>,    <none>, <none>,     <none>,   <none>,
";
    assert_eq!(requests(page), (vec![], vec![]));
    // 1.24: seats, no start; what is listed waits.
    let without = |row: &[&'static str]| {
        row.iter().enumerate().filter(|(at, _)| *at != 9).map(|(_, cell)| *cell).collect::<Vec<_>>()
    };
    let page = tabbed(&[&without(&HEADINGS), &without(&row("u", "w, x", "/y", WAITS))]);
    let Some(Rows::Requests { requests, details, executing }) = read(page.as_bytes(), |fault| panic!("{fault:?}"))
    else {
        panic!()
    };
    assert_eq!(
        (requests[0].executes, requests[0].details.as_ref().unwrap().user.as_str(), details, executing),
        (false, "w, x", true, false)
    );
}

#[test]
fn what_is_no_page_is_none() {
    for text in ["", "\n", "PriorityLevelName", "a,b,c\n1,2,3\n", "PriorityLevelName, Index\n", "# HELP x y\n"] {
        assert!(!begins_like_one(text.as_bytes()), "{text}");
        assert_eq!(read(text.as_bytes(), |_| ()), None, "{text}");
    }
}

#[test]
fn a_page_cut_anywhere_is_read_or_told() {
    let rows = [row("smith, jane", "smith, jane", "/api", WAITS), row("é", "é", "/x, y", RUNS)];
    let page = tabbed(&[&HEADINGS, &rows[0], &rows[1]]);
    let heading = page.find('\n').unwrap();
    for end in heading + 1..page.len() {
        let mut faults = 0;
        let Some(Rows::Requests { requests, .. }) = read(&page.as_bytes()[..end], |_| faults += 1) else {
            panic!("{end}")
        };
        assert!(
            requests.len() + faults <= 2
                && requests.len() >= (end > page[..page.len() - 1].rfind('\n').unwrap()).into(),
            "{end}"
        );
        for one in requests {
            assert!(["smith, jane", "é"].contains(&one.flow.as_str()), "{end}: {one:?}");
        }
    }
}
