//! Facts in front of an engine.

use be_tree_rules::{Arrival, Engine, Error, Owned};

use crate::support::Row;

/// A fact: the number of its type, its time in milliseconds, and its fields in their order.
#[derive(Clone)]
pub struct Fact {
    pub ty: usize,
    pub time: Option<i64>,
    pub values: Vec<Owned>,
    /// The number of the type's fields. Fields without a value are undefined.
    pub fields: usize,
}

impl Fact {
    /// Returns a row as a fact of an engine. A row has the type's fields in order.
    pub fn of((ty, fields): &Row, engine: &Engine) -> Fact {
        let ty = engine.types().find(ty).expect("the type is declared");
        let count = engine.types().field_count(ty);
        Fact { ty, time: None, fields: count, values: fields.iter().map(|(_, value)| value.clone()).collect() }
    }

    /// Announces facts to the engine before their insertion.
    pub fn announce(facts: &[Fact], engine: &mut Engine) {
        engine.announce(facts.iter().map(|fact| {
            let value = move |field: usize| fact.values.get(field).map(Owned::borrowed);
            (fact.ty, fact.time, value)
        }));
    }

    pub fn assert(&self, engine: &mut Engine) -> Result<u64, Error> {
        let mut values = [None; 8];
        for (place, value) in values.iter_mut().zip(&self.values) {
            *place = Some(value.borrowed());
        }
        engine.assert(Arrival::new(self.ty, self.time, &values[..self.fields]))
    }
}

/// Returns the fields of a row as a JSON object.
pub fn json((_, fields): &Row) -> String {
    let value = |value: &Owned| match value {
        Owned::Integer(integer) => integer.to_string(),
        Owned::Float(float) => format!("{float:?}"),
        Owned::Boolean(boolean) => boolean.to_string(),
        Owned::String(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
    };
    let pairs: Vec<String> = fields.iter().map(|(name, field)| format!("{name:?}:{}", value(field))).collect();
    format!("{{{}}}", pairs.join(","))
}

/// Returns a row as a line for other engines: the type, and the fields with their values, separated by tabs.
pub fn line((ty, fields): &Row) -> String {
    let mut line = (*ty).to_owned();
    for (name, value) in fields {
        line += &match value {
            Owned::Integer(integer) => format!("\t{name}={integer}"),
            Owned::Float(float) => format!("\t{name}={float:?}"),
            Owned::Boolean(boolean) => format!("\t{name}={boolean}"),
            Owned::String(bytes) => format!("\t{name}='{}'", String::from_utf8_lossy(bytes)),
        };
    }
    line
}
