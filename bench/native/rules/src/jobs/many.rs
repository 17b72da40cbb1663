//! Many rules of two conditions, ten for each sensor. An event's facts concern one sensor, so ten rules share them.

use be_tree_rules::{Call, Engine, Limits, Owned};

use super::{totals, Job, Totals};
use crate::input::{line, Fact};
use crate::random::Random;
use crate::support::Row;

const EVENTS: usize = 2_000;
/// Rules of one sensor.
const SHARED: u32 = 10;

pub struct Many {
    rules: String,
    sensors: u64,
    random: Random,
    now: i64,
    rows: Vec<Row>,
    facts: Vec<Fact>,
    engine: Engine,
    notices: u64,
}

impl Many {
    pub fn new(count: u32) -> Many {
        let mut rules = String::from("fact reading(sensor: integer, level: integer)\nfact failure(sensor: integer)\n");
        for number in 0..count {
            let (sensor, level) = (number / SHARED, number % SHARED);
            rules += &format!(
                "rule r{number}\n  when a: reading(sensor = {sensor}, level >= {level})\n       \
                 b: failure(sensor = {sensor}), after a within 1 seconds\n  \
                 then retract a, notify alarm(sensor: b.sensor, level: a.level)\n"
            );
        }
        let limits = Limits { firings: u32::MAX, notices: u32::MAX, ..Limits::default() };
        let engine = Engine::new(&rules, limits).expect("the rules are right");
        let sensors = u64::from(count.div_ceil(SHARED));
        let random = Random(0x1234_5678_9abc_def1);
        Many { rules, sensors, random, now: 0, rows: vec![], facts: vec![], engine, notices: 0 }
    }
}

impl Job for Many {
    fn fill(&mut self) {
        self.rows.clear();
        self.facts.clear();
        let (reading, failure) = (0, 1);
        for _ in 0..EVENTS {
            self.now += 1;
            let sensor = self.random.below(self.sensors);
            let level = self.random.below(10) as i64;
            let is_failure = self.random.below(4) == 0;
            let mut fields = vec![("sensor", Owned::Integer(sensor as i64))];
            if !is_failure {
                fields.push(("level", Owned::Integer(level)));
            }
            let values: Vec<Owned> = fields.iter().map(|(_, value)| value.clone()).collect();
            let ty = if is_failure { failure } else { reading };
            self.facts.push(Fact { ty, time: Some(self.now), fields: values.len(), values });
            self.rows.push((if is_failure { "failure" } else { "reading" }, fields));
        }
    }

    fn run(&mut self) {
        for fact in &self.facts {
            self.engine.begin(Call::Fire, 0).expect("there is memory");
            fact.assert(&mut self.engine).expect("the facts fit");
            self.engine.run().expect("the facts fit");
        }
        self.notices += self.engine.take_notices().len() as u64;
    }

    fn events(&self) -> u64 {
        EVENTS as u64
    }

    fn totals(&self) -> Totals {
        let mut totals = totals(&self.engine);
        totals.push(("notices", self.notices));
        totals
    }

    fn text(&self) -> (String, Vec<String>) {
        (self.rules.clone(), self.rows.iter().map(line).collect())
    }
}
