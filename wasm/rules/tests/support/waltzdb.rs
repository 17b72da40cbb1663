//! Waltzdb: the labels of the lines of a drawing of blocks.

use be_tree_rules::{Engine, Limits, Owned};

use super::{assert_all, text, Row};

const FACTS: &str = "
fact stage(value: string in ('duplicate', 'detect', 'initial', 'second', 'labeling', 'visit3', 'visit2', 'marking', 'checking',
                             'remove', 'done'))
fact line(p1: integer, p2: integer)
fact edge(p1: integer, p2: integer, joined: boolean)
fact junction(base: integer, p1: integer, p2: integer, p3: integer, kind: integer in (2, 3),
              name: string in ('L', 'fork', 'tee', 'arrow'), visited: string in ('no', 'now', 'check', 'yes'))
fact label(name: string, id: integer, n1: string, n2: string, n3: string)
fact edge_label(p1: integer, p2: integer, name: string in ('B', '+', '-'), id: integer)
fact illegal(base: integer, id: integer)
";

/// Returns the angle at `base` between two points.
fn between(base: &str, a: &str, b: &str) -> String {
    let direction = |to: &str| {
        let part = |operator: &str| format!("({to} {operator} 100 - {base} {operator} 100)");
        format!("atan2({}, {})", part("mod"), part("div"))
    };
    let angle = format!("abs({} - {})", direction(a), direction(b));
    format!("min({angle}, 6.283185307179586 - {angle})")
}

pub fn rules() -> String {
    let mut rules = FACTS.to_owned();
    let mut rule = |name: &str, priority: i32, stage: &str, conditions: &str, actions: &str| {
        rules +=
            &format!("rule {name} priority {priority}\n  when t: stage({stage})\n{conditions}  then {actions}\n\n");
    };
    let at = |stage: &str| format!("value = '{stage}'");
    let to = |stage: &str| format!("modify t(value: '{stage}')");
    rule(
        "reverse_edges",
        0,
        &at("duplicate"),
        "l: line\n",
        "assert edge(p1: l.p1, p2: l.p2, joined: false), assert edge(p1: l.p2, p2: l.p1, joined: false), retract l",
    );
    rule("done_reversing", 0, &at("duplicate"), "none line\n", &to("detect"));
    let (a, c, d) =
        (between("e1.p1", "e1.p2", "e2.p2"), between("e1.p1", "e1.p2", "e3.p2"), between("e1.p1", "e2.p2", "e3.p2"));
    let pick = |first: &str, second: &str, third: &str| {
        format!("if s1 < s2 and s1 < s3 then {first} else (if not s1 < s2 and s2 < s3 then {second} else {third})")
    };
    let pi = "3.141592653589793";
    rule(
        "make_3_junction",
        0,
        &at("detect"),
        "e1: edge(not joined)\n e2: edge(not joined, p1 = e1.p1, p2 <> e1.p2)\n
         e3: edge(not joined, p1 = e1.p1, p2 <> e1.p2, p2 <> e2.p2)\n",
        &format!(
            "let a = {a}, let c = {c}, let d = {d}, let s1 = a + c, let s2 = a + d, let s3 = c + d, let s = {},
             assert junction(base: e1.p1, p1: {}, p2: {}, p3: {}, kind: 3, visited: 'no',
                             name: if abs(s - {pi}) < 0.001 then 'tee' else (if s > {pi} then 'fork' else 'arrow')),
             modify e1(joined: true), modify e2(joined: true), modify e3(joined: true)",
            pick("s1", "s2", "s3"),
            pick("e2.p2", "e1.p2", "e1.p2"),
            pick("e1.p2", "e2.p2", "e3.p2"),
            pick("e3.p2", "e3.p2", "e2.p2"),
        ),
    );
    rule(
        "make_L",
        0,
        &at("detect"),
        "e1: edge(not joined)\n e2: edge(not joined, p1 = e1.p1, p2 <> e1.p2)\n
         none edge(p1 = e1.p1, p2 <> e1.p2, p2 <> e2.p2)\n",
        "assert junction(base: e1.p1, p1: e1.p2, p2: e2.p2, p3: 0, kind: 2, name: 'L', visited: 'no'),
         modify e1(joined: true), modify e2(joined: true)",
    );
    rule("done_detecting", 0, &at("detect"), "none edge(not joined)\n", &to("initial"));
    for (stage, next, order) in [("initial", "second", ">"), ("second", "labeling", "<")] {
        rule(
            &format!("{stage}_L"),
            0,
            &at(stage),
            &format!(
                "j: junction(kind = 2)\n e1: edge(p1 = j.base, p2 = j.p1)\n e2: edge(p1 = j.base, p2 = j.p2)\n
                 none junction(base {order} j.base)\n"
            ),
            &format!(
                "modify j(visited: 'yes'), assert edge_label(p1: j.base, p2: j.p1, name: 'B', id: 1),
                 assert edge_label(p1: j.base, p2: j.p2, name: 'B', id: 1), {}",
                to(next)
            ),
        );
        rule(
            &format!("{stage}_arrow"),
            0,
            &at(stage),
            &format!(
                "j: junction(kind = 3, name = 'arrow')\n e1: edge(p1 = j.base, p2 = j.p1)\n
                 e2: edge(p1 = j.base, p2 = j.p2)\n e3: edge(p1 = j.base, p2 = j.p3)\n
                 none junction(base {order} j.base)\n"
            ),
            &format!(
                "modify j(visited: 'yes'), assert edge_label(p1: j.base, p2: j.p1, name: 'B', id: 14),
                 assert edge_label(p1: j.base, p2: j.p2, name: '+', id: 14),
                 assert edge_label(p1: j.base, p2: j.p3, name: 'B', id: 14), {}",
                to(next)
            ),
        );
    }
    for (sides, priority) in [(3, 2), (2, 1)] {
        let visit = format!("visit{sides}");
        rule(
            &format!("start_{visit}"),
            priority,
            &at("labeling"),
            &format!("j: junction(kind = {sides}, visited = 'no')\n"),
            &format!("{}, modify j(visited: 'now')", to(&visit)),
        );
        for unknown in 0..1 << sides {
            let mut conditions = format!("j: junction(kind = {sides}, visited = 'now')\n l: label(name = j.name)\n");
            let mut actions = Vec::new();
            for side in 1..=sides {
                conditions += &match unknown >> (side - 1) & 1 {
                    0 => format!("x{side}: edge_label(p1 = j.p{side}, p2 = j.base, name = l.n{side})\n"),
                    _ => format!("none edge_label(p1 = j.p{side}, p2 = j.base)\n"),
                };
                actions.push(format!("assert edge_label(p1: j.base, p2: j.p{side}, name: l.n{side}, id: l.id)"));
            }
            conditions += "none edge_label(p1 = j.base, id = l.id)\n";
            rule(&format!("{visit}_{unknown}"), 10, &at(&visit), &conditions, &actions.join(", "));
        }
    }
    rule("end_visit", 0, "value in ('visit3', 'visit2')", "j: junction(visited = 'now')\n", &to("marking"));
    rule(
        "marking",
        3,
        &at("marking"),
        "j: junction(visited = 'now')\n e: edge(p2 = j.base)\n q: junction(base = e.p1, visited = 'yes')\n",
        "modify q(visited: 'check')",
    );
    rule("stop_marking", 2, &at("marking"), "j: junction(visited = 'now')\n", "modify j(visited: 'yes')");
    rule("start_checking", 1, &at("marking"), "", &to("checking"));
    rule(
        "checking",
        3,
        &at("checking"),
        "j: junction(visited = 'check')\n x: edge_label(p1 = j.base)\n q: junction(base = x.p2, visited = 'yes')\n
         none edge_label(p1 = x.p2, p2 = j.base, name = x.name)\n",
        &format!("{}, assert illegal(base: x.p1, id: x.id)", to("remove")),
    );
    for sides in [3, 2] {
        let mut conditions = format!("i: illegal\n j: junction(kind = {sides}, base = i.base)\n");
        let mut actions = format!("{}, retract i", to("checking"));
        for side in 1..=sides {
            conditions += &format!("x{side}: edge_label(p1 = j.base, p2 = j.p{side}, id = i.id)\n");
            actions += &format!(", retract x{side}");
        }
        rule(&format!("remove_label_{sides}j"), 0, &at("remove"), &conditions, &actions);
    }
    rule("checking_done_one", 2, &at("checking"), "j: junction(visited = 'check')\n", "modify j(visited: 'yes')");
    rule("stop_checking", 1, &at("checking"), "", &to("labeling"));
    rule("done_labeling", 0, &at("labeling"), "", &to("done"));
    rule("done", 0, &at("done"), "", "notify done");
    rules
}

const LABELS: &str =
    "L BB, L +B, L B+, L -B, L B-, fork +++, fork ---, fork B-B, fork -BB, fork BB-, tee B+B, tee B-B, \
                      tee BBB, arrow B+B, arrow -+-, arrow +-+";

/// Returns the lines of a drawing of `regions` regions.
fn lines(regions: i64) -> Vec<(i64, i64)> {
    const LINKS: [[i64; 4]; 4] = [[5, 3, 6, 3], [3, 5, 3, 6], [8, 5, 8, 6], [5, 8, 6, 8]];
    const BLOCK: [[i64; 4]; 17] = [
        [0, 0, 2, 0],
        [2, 0, 3, 0],
        [3, 0, 4, 0],
        [0, 0, 0, 2],
        [0, 2, 0, 3],
        [0, 3, 0, 4],
        [0, 4, 4, 4],
        [4, 4, 4, 0],
        [4, 0, 5, 1],
        [5, 1, 5, 2],
        [5, 2, 5, 3],
        [5, 3, 5, 5],
        [5, 5, 4, 4],
        [5, 5, 3, 5],
        [3, 5, 2, 5],
        [2, 5, 1, 5],
        [1, 5, 0, 4],
    ];
    const BACK: [[i64; 4]; 4] = [[-1, 3, 0, 3], [-3, 5, -3, 6], [2, 5, 2, 6], [-1, 8, 0, 8]];
    let mut lines = Vec::new();
    for cell in 0..=regions {
        let mut add = |links: &[[i64; 4]], x: i64, y: i64| {
            let point = |px: i64, py: i64| 10_000 * (px + x + 12 * cell) + py + y;
            lines.extend(links.iter().map(|[x1, y1, x2, y2]| (point(*x1, *y1), point(*x2, *y2))));
        };
        add(&LINKS, 0, 0);
        for (x, y) in [(0, 0), (6, 0), (0, 6), (6, 6)] {
            add(&BLOCK, x, y);
        }
        if cell > 0 {
            add(&BACK, 0, 0);
        }
    }
    lines
}

/// Returns the facts of a drawing of `regions` regions.
pub fn facts(regions: i64) -> Vec<Row> {
    let mut facts: Vec<Row> = Vec::new();
    for (id, label) in (1..).zip(LABELS.split(", ")) {
        let (name, ends) = label.split_once(' ').unwrap();
        let mut fields = vec![("name", text(name)), ("id", Owned::Integer(id))];
        for (side, field) in ["n1", "n2", "n3"].into_iter().enumerate() {
            fields.push((field, text(ends.get(side..side + 1).unwrap_or(""))));
        }
        facts.push(("label", fields));
    }
    for (p1, p2) in lines(regions) {
        facts.push(("line", vec![("p1", Owned::Integer(p1)), ("p2", Owned::Integer(p2))]));
    }
    facts.push(("stage", vec![("value", text("duplicate"))]));
    facts
}

/// Returns an engine with the facts of a drawing. The next run labels it.
pub fn engine(regions: i64, limits: Limits) -> Engine {
    let mut engine = Engine::new(&rules(), limits).unwrap();
    assert_all(&mut engine, &facts(regions));
    engine
}
