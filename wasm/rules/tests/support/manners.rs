//! Miss Manners: guests in a row whose neighbours differ in sex and share a hobby.

use be_tree_rules::{Engine, Limits, Owned};

use super::{assert_all, text, Row};

pub const RULES: &str = "
fact guest(name: string, sex: string in ('m', 'f'), hobby: integer 1..9)
fact last_seat(seat: integer)
fact counter(value: integer)
fact context(state: string in ('start', 'assign', 'make', 'check', 'print'))
fact seating(id: integer, pid: integer, left_seat: integer, left_name: string, right_seat: integer, right_name: string,
             path_done: boolean)
fact path(id: integer, name: string, seat: integer)
fact chosen(id: integer, name: string, hobby: integer)

rule assign_first_seat
  when x: context(state = 'start')
       g: guest
       c: counter
  then assert seating(id: c.value, pid: 0, left_seat: 1, left_name: g.name, right_seat: 1, right_name: g.name, path_done: true),
       assert path(id: c.value, name: g.name, seat: 1),
       modify c(value: c.value + 1),
       modify x(state: 'assign')

rule find_seating
  when x: context(state = 'assign')
       s: seating(path_done)
       a: guest(name = s.right_name)
       b: guest(sex <> a.sex, hobby = a.hobby)
       c: counter
       none path(id = s.id, name = b.name)
       none chosen(id = s.id, name = b.name, hobby = a.hobby)
  then assert seating(id: c.value, pid: s.id, left_seat: s.right_seat, left_name: s.right_name, right_seat: s.right_seat + 1,
                      right_name: b.name, path_done: false),
       assert path(id: c.value, name: b.name, seat: s.right_seat + 1),
       assert chosen(id: s.id, name: b.name, hobby: a.hobby),
       modify c(value: c.value + 1),
       modify x(state: 'make')

rule make_path priority 1
  when x: context(state = 'make')
       s: seating(not path_done)
       p: path(id = s.pid)
       none path(id = s.id, name = p.name)
  then assert path(id: s.id, name: p.name, seat: p.seat)

rule path_done
  when x: context(state = 'make')
       s: seating(not path_done)
  then modify s(path_done: true), modify x(state: 'check')

rule are_we_done priority 1
  when x: context(state = 'check')
       l: last_seat
       s: seating(right_seat = l.seat)
  then modify x(state: 'print')

rule continue
  when x: context(state = 'check')
  then modify x(state: 'assign')

rule print_results priority 1
  when x: context(state = 'print')
       l: last_seat
       s: seating(right_seat = l.seat)
       p: path(id = s.id)
  then retract p, notify seat(name: p.name, seat: p.seat)

rule all_done
  when x: context(state = 'print')
  then notify done
";

const GUESTS: [&str; 5] = [
    "m32 m23 m123 f32 f123 f312 f32 m31",
    "f312 f32 m13 m21 m23 m21 f213 f32 f132 m23 m321 m31 m231 f31 f312 f321",
    "m13 f321 f12 f31 f12 m123 f213 f132 f132 m21 m21 m32 m13 m32 f213 f321 m32 f21 f123 f123 m231 f123 f312 m13 f321 f321 \
     m312 m31 m321 m213 m21 m132",
    "m213 f213 m32 m321 m213 m231 f123 m31 m231 m321 m132 f312 m23 m12 m231 f23 f32 m132 f31 f132 m23 m23 f12 f312 f312 m213 \
     f231 m12 f231 f213 m123 m12 m231 f213 f23 m21 m21 f132 m312 f123 m213 m31 m132 m312 m12 f123 m12 f32 m32 m23 f213 m123 \
     f21 f123 f123 f213 f321 f312 f123 f31 f32 f123 f312 f32",
    "m23145 f32145 f542 m3214 m253 f14253 f1235 m35 m3524 m23451 m2451 f352 f51 m3514 m52134 m254 m43 f2451 m52 m23 m4321 m124 \
     f452 f43215 m45 m12 m352 f41325 f35 m21 m314 f215 f54 m452 f31452 m1423 f421 f3124 m52 m23 f53 m54 m345 f2431 m24 m415 \
     m254 f31 m15432 m243 m1254 f5314 f51423 f13 m24 m23 f214 m53214 f235 f4235 m1243 f32541 f23415 f24153 m53214 f534 f14 \
     m4215 m341 f35142 m314 m431 f413 f14253 f42 f54321 m15 m51 f13425 m5124 m41 m34125 f134 m34 f41 m34 m5423 m25314 f5241 \
     m245 f23514 f3125 f312 f25 f34 m14253 f425 m54 f25 m2354 f21534 f21534 m21435 m53412 f42 f451 f31254 f45123 f12 m5412 f32 \
     f43521 f1352 m32 m2154 m3451 f452 f243 m53 m51324 f4235 m125 m2315 f234 f3524 f2314 f51 f2413",
];

/// Returns the facts of `guests` guests: 8, 16, 32, 64 or 128.
pub fn facts(guests: usize) -> Vec<Row> {
    let mut facts: Vec<Row> = Vec::new();
    let data = GUESTS[(guests / 8).ilog2() as usize];
    for (number, guest) in data.split_whitespace().enumerate() {
        let (name, sex) = ((number + 1).to_string(), &guest[..1]);
        for hobby in guest[1..].bytes() {
            let fields =
                vec![("name", text(&name)), ("sex", text(sex)), ("hobby", Owned::Integer((hobby - b'0').into()))];
            facts.push(("guest", fields));
        }
    }
    facts.push(("last_seat", vec![("seat", Owned::Integer(guests as i64))]));
    facts.push(("counter", vec![("value", Owned::Integer(1))]));
    facts.push(("context", vec![("state", text("start"))]));
    facts
}

/// Returns an engine with the facts of `guests` guests. The next run seats them.
pub fn engine(guests: usize, limits: Limits) -> Engine {
    let mut engine = Engine::new(RULES, limits).unwrap();
    assert_all(&mut engine, &facts(guests));
    engine
}
