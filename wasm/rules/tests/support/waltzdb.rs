//! Waltzdb: the labels of the lines of a drawing of blocks.

use be_tree_rules::{Engine, Limits, Owned};

use super::{assert_all, text, Row};

pub const RULES: &str = include_str!("../../workloads/waltzdb.rules");

const LABELS: &str = include_str!("../../workloads/waltzdb.labels");
const DRAWING: &str = include_str!("../../workloads/waltzdb.drawing");

/// Returns the lines of a drawing of `regions` regions.
fn lines(regions: i64) -> Vec<(i64, i64)> {
    let drawing: Vec<(&str, Vec<i64>)> = DRAWING
        .lines()
        .map(|row| {
            let (part, numbers) = row.split_once(' ').unwrap();
            (part, numbers.split(' ').map(|number| number.parse().unwrap()).collect())
        })
        .collect();
    let mut lines = Vec::new();
    for cell in 0..=regions {
        let mut add = |part: &str, x: i64, y: i64| {
            let point = |numbers: &[i64]| 10_000 * (numbers[0] + x + 12 * cell) + numbers[1] + y;
            let rows = drawing.iter().filter(|(of, _)| *of == part);
            lines.extend(rows.map(|(_, numbers)| (point(&numbers[..2]), point(&numbers[2..]))));
        };
        add("links", 0, 0);
        for (x, y) in [(0, 0), (6, 0), (0, 6), (6, 6)] {
            add("block", x, y);
        }
        if cell > 0 {
            add("back", 0, 0);
        }
    }
    lines
}

/// Returns the facts of a drawing of `regions` regions.
pub fn facts(regions: i64) -> Vec<Row> {
    let mut facts: Vec<Row> = Vec::new();
    for (id, label) in (1..).zip(LABELS.lines()) {
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
    let mut engine = Engine::new(RULES, limits).unwrap();
    assert_all(&mut engine, &facts(regions));
    engine
}
