//! The values that actions compute, against a naive evaluator, and the matches that a modification makes valid.

#[path = "naive/random.rs"]
mod random;

use be_tree_rules::{Engine, Limits, Owned, Value};
use random::Random;

const FACT: &str = "fact f(a: integer, b: integer optional)\n";

/// An expression over the fields of `f`, and over values by name.
#[derive(Clone)]
enum Expr {
    Constant(i64),
    Name(&'static str),
    Binary(&'static str, Box<[Expr; 2]>),
    Call(&'static str, Box<[Expr; 2]>),
    Absolute(Box<Expr>),
    If(Box<[Expr; 4]>),
}

/// The values of a fact and of the names.
struct Values {
    a: i64,
    b: Option<i64>,
    x: Option<i64>,
    y: Option<i64>,
}

impl Expr {
    fn text(&self) -> String {
        match self {
            Expr::Constant(constant) => constant.to_string(),
            Expr::Name(name) => (*name).to_owned(),
            Expr::Binary(operator, of) => format!("({} {operator} {})", of[0].text(), of[1].text()),
            Expr::Call(name, of) => format!("{name}({}, {})", of[0].text(), of[1].text()),
            Expr::Absolute(of) => format!("abs({})", of.text()),
            Expr::If(of) => {
                let [left, right, yes, no] = of.each_ref().map(Expr::text);
                format!("(if {left} < {right} then {yes} else {no})")
            }
        }
    }

    fn value(&self, values: &Values) -> Option<i64> {
        Some(match self {
            Expr::Constant(constant) => *constant,
            Expr::Name("f.a") => values.a,
            Expr::Name("f.b") => values.b?,
            Expr::Name("x") => values.x?,
            Expr::Name(_) => values.y?,
            Expr::Binary(operator, of) => {
                let (left, right) = (of[0].value(values)?, of[1].value(values)?);
                match *operator {
                    "+" => left.checked_add(right)?,
                    "-" => left.checked_sub(right)?,
                    "*" => left.checked_mul(right)?,
                    "div" => left.checked_div_euclid(right)?,
                    _ => left.checked_rem_euclid(right)?,
                }
            }
            Expr::Call(name, of) => {
                let (left, right) = (of[0].value(values)?, of[1].value(values)?);
                if *name == "min" {
                    left.min(right)
                } else {
                    left.max(right)
                }
            }
            Expr::Absolute(of) => of.value(values)?.checked_abs()?,
            Expr::If(of) => {
                let is_less = of[0].value(values).zip(of[1].value(values)).is_some_and(|(left, right)| left < right);
                of[if is_less { 2 } else { 3 }].value(values)?
            }
        })
    }
}

impl Random<'_> {
    /// Returns an expression made of earlier ones, which it joins to them.
    fn expr(&mut self, known: &mut Vec<Expr>) -> Expr {
        let mut part = || known[self.below(known.len() as u64) as usize].clone();
        let parts = [part(), part(), part(), part()];
        let [first, second, ..] = parts.clone();
        let expr = match self.below(9) {
            0 => Expr::Absolute(Box::new(first)),
            1 => Expr::Call("min", Box::new([first, second])),
            2 => Expr::Call("max", Box::new([first, second])),
            3 => Expr::If(Box::new(parts)),
            4 => Expr::Binary("div", Box::new([first, second])),
            5 => Expr::Binary("mod", Box::new([first, second])),
            6 => Expr::Binary("*", Box::new([first, second])),
            7 => Expr::Binary("-", Box::new([first, second])),
            _ => Expr::Binary("+", Box::new([first, second])),
        };
        if expr.text().len() < 400 {
            known.push(expr.clone());
        }
        expr
    }
}

#[test]
fn expressions_with_repeated_parts_have_their_values() {
    let mut random = Random::of_seed(11);
    let (mut defined, mut undefined) = (0, 0);
    for case in 0..400 {
        let mut known = vec![Expr::Name("f.a"), Expr::Name("f.b"), Expr::Constant(random.below(5) as i64)];
        let x = (0..4).map(|_| random.expr(&mut known)).last().unwrap();
        known.push(Expr::Name("x"));
        let y = (0..4).map(|_| random.expr(&mut known)).last().unwrap();
        known.push(Expr::Name("y"));
        let exprs: Vec<Expr> = (0..12).map(|_| random.expr(&mut known)).collect();
        let texts: Vec<String> =
            exprs.iter().enumerate().map(|(place, expr)| format!("v{place}: {}", expr.text())).collect();
        let (early, late) = texts.split_at(6);
        let rules = format!(
            "{FACT}rule r when f: f then let x = {}, let y = {}, notify early({}), notify late({})",
            x.text(),
            y.text(),
            early.join(", "),
            late.join(", ")
        );
        let mut engine = Engine::new(&rules, Limits::default()).unwrap_or_else(|error| panic!("case {case}: {error}"));
        for (a, b) in [(0, None), (3, Some(7)), (-5, Some(0)), (i64::MAX, Some(2)), (4, Some(i64::MIN))] {
            let mut fields = vec![("a", Value::Integer(a))];
            fields.extend(b.map(|b| ("b", Value::Integer(b))));
            engine.assert(&engine.types().fact("f", None, &fields).unwrap()).unwrap();
            engine.run().unwrap();
            let mut values = Values { a, b, x: None, y: None };
            values.x = x.value(&values);
            values.y = y.value(&values);
            let notices = engine.take_notices();
            let found: Vec<Option<Owned>> =
                notices.into_iter().flat_map(|notice| notice.values).map(|(_, value)| value).collect();
            let expected: Vec<Option<Owned>> =
                exprs.iter().map(|expr| expr.value(&values).map(Owned::Integer)).collect();
            assert_eq!(found, expected, "case {case}: {rules}");
            defined += expected.iter().flatten().count();
            undefined += expected.iter().filter(|value| value.is_none()).count();
        }
    }
    assert!(defined > 5_000 && undefined > 2_000, "{defined} defined, {undefined} undefined");
}

#[test]
fn a_modified_fact_frees_the_matches_that_it_blocked() {
    let rules = "
        fact stage(name: string)
        fact edge(id: integer, joined: boolean)
        rule done priority 1
          when t: stage
               none edge(not joined)
          then notify done(name: t.name)
        rule join
          when e: edge(not joined)
          then modify e(joined: true)
        ";
    let mut engine = Engine::new(rules, Limits::default()).unwrap();
    let edge = |id| [("id", Value::Integer(id)), ("joined", Value::Boolean(false))];
    let steps = [
        (vec![edge(1), edge(2)], "a", vec!["a"]),
        (vec![], "b", vec!["b"]),
        // The edge blocks both stages, and is modified before the next one comes. That frees them, newest first.
        (vec![edge(3)], "c", vec!["b", "a", "c"]),
    ];
    for (edges, stage, expected) in steps {
        for edge in edges {
            engine.assert(&engine.types().fact("edge", None, &edge).unwrap()).unwrap();
        }
        let stage = engine.types().fact("stage", None, &[("name", Value::String(stage.as_bytes()))]).unwrap();
        engine.assert(&stage).unwrap();
        engine.run().unwrap();
        let names: Vec<_> = engine.take_notices().into_iter().map(|notice| notice.values[0].1.clone()).collect();
        let expected: Vec<_> = expected.iter().map(|name| Some(Owned::String(name.as_bytes().to_vec()))).collect();
        assert_eq!(names, expected);
    }
}
