//! The circles on the earth's surface that expressions ask for.
//!
//! A place is a point of a sphere in space, and a circle is the part of the sphere in a ball. Space is divided into cubes: in
//! grids of decreasing size, each with half the edge of the grid before. A circle stands under the cube of its center, in the
//! finest grid whose edge is at least the ball's radius. So the circles around a point stand under the cubes around its own, 27
//! in each grid that has circles. Poles and the date line are no exceptions, as they are none in space.
//!
//! The distance through the sphere decides nearly all circles without trigonometry. The haversine formula decides the others,
//! so the result is that of the formula.

use std::hash::Hasher;

use crate::handles::PredicateId;
use crate::support::hash::Words;
use crate::support::headroom::{growth, trim, AROUND};
use crate::support::id_table::IdTable;
use crate::support::sphere::{chord_squared, chord_squared_of, haversine, point, Point};

/// The number of grids. The edge of the first is 2, the diameter of the sphere is two edges, and that of the last is 12
/// millimetres.
const GRIDS: usize = 30;

/// The relative and the absolute margin within which the formula decides. Both exceed the rounding errors of chords by far.
const RELATIVE: f64 = 1e-9;
const ABSOLUTE: f64 = 1e-15;
/// The square of the chord beyond which the formula decides, because it rounds near the opposite side.
const OPPOSITE: f64 = 3.9;

/// The center of a circle in degrees, and its radius in kilometres.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circle {
    pub latitude: f64,
    pub longitude: f64,
    pub radius: f64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Circles {
    /// The positions in `cubes`, by hash of the cube.
    by_cube: IdTable,
    cubes: Vec<List>,
    /// The greatest capacity of a list so far.
    longest: usize,
    len: usize,
    /// The number of circles in each grid.
    grids: [u32; GRIDS],
    /// Circles whose centers are no places on the earth. The formula has a result for them too.
    elsewhere: Vec<PredicateId>,
}

/// The circles of a cube, one behind the other, because a search reads all of them.
#[derive(Clone, Debug)]
struct List {
    cube: Cube,
    balls: Vec<Ball>,
}

/// A circle in space.
#[derive(Clone, Copy, Debug)]
struct Ball {
    center: Point,
    /// The square of the radius.
    squared: f64,
    id: PredicateId,
}

/// A cube of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cube {
    grid: u32,
    place: [i32; 3],
}

impl Cube {
    /// Returns the cube of a grid that contains a point of the sphere.
    fn of(grid: u32, point: Point) -> Cube {
        // A power of two, so the product is exact.
        let per_unit = f64::from(1_u32 << grid) / 2.0;
        Cube { grid, place: point.map(|coordinate| (coordinate * per_unit).floor() as i32) }
    }

    fn hash(self) -> u64 {
        let [x, y, z] = self.place.map(|place| u64::from(place as u32));
        Words::default().add(x | y << 32).add(z | u64::from(self.grid) << 32).finish()
    }

    /// Returns the cubes around this one, and itself.
    fn around(self) -> impl Iterator<Item = Cube> {
        let [x, y, z] = self.place;
        let near = |at: i32| at - 1..=at + 1;
        near(x).flat_map(move |x| {
            near(y).flat_map(move |y| near(z).map(move |z| Cube { grid: self.grid, place: [x, y, z] }))
        })
    }
}

/// Returns the circle in space, and its cube, if its center is a place on the earth.
fn ball_of(circle: Circle, id: PredicateId) -> Option<(Ball, Cube)> {
    is_on_earth(circle.latitude, circle.longitude).then(|| {
        let squared = chord_squared_of(circle.radius);
        let radius = squared.sqrt() * (1.0 + RELATIVE) + ABSOLUTE;
        let finest = (0..GRIDS as u32).rev().find(|&grid| 2.0 / f64::from(1_u32 << grid) >= radius);
        let center = point(circle.latitude, circle.longitude);
        // The greatest radius is 2, the edge of the first grid.
        (Ball { center, squared, id }, Cube::of(finest.unwrap_or(0), center))
    })
}

/// Returns whether these degrees are those of a place. Beyond, angles lose precision.
fn is_on_earth(latitude: f64, longitude: f64) -> bool {
    latitude.abs() <= 90.0 && longitude.abs() <= 360.0
}

impl Circles {
    pub fn insert(&mut self, circle: Circle, id: PredicateId) {
        self.len += 1;
        let Some((ball, cube)) = ball_of(circle, id) else { return self.elsewhere.push(id) };
        self.grids[cube.grid as usize] += 1;
        let position = self.position(cube).unwrap_or_else(|| {
            self.by_cube.insert(cube.hash(), self.cubes.len() as u32);
            self.cubes.push(List { cube, balls: Vec::with_capacity(1) });
            self.cubes.len() - 1
        });
        let List { balls, .. } = &mut self.cubes[position];
        balls.push(ball);
        self.longest = self.longest.max(balls.capacity());
    }

    pub fn remove(&mut self, circle: Circle, id: PredicateId) {
        self.len -= 1;
        let Some((_, cube)) = ball_of(circle, id) else { return self.elsewhere.retain(|&other| other != id) };
        self.grids[cube.grid as usize] -= 1;
        let Some(position) = self.position(cube) else { unreachable!("circle {id} was inserted") };
        let List { balls, .. } = &mut self.cubes[position];
        if let Some(place) = balls.iter().position(|ball| ball.id == id) {
            balls.swap_remove(place);
        }
        if !balls.is_empty() {
            return trim(balls);
        }
        self.by_cube.remove(cube.hash(), position as u32);
        self.cubes.swap_remove(position);
        if let Some(moved) = self.cubes.get(position) {
            self.by_cube.renumber(moved.cube.hash(), self.cubes.len() as u32, position as u32);
        }
        trim(&mut self.cubes);
    }

    /// Returns the number of circles.
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn position(&self, cube: Cube) -> Option<usize> {
        let is = |position: u32| self.cubes[position as usize].cube == cube;
        self.by_cube.find(cube.hash(), is).map(|position| position as usize)
    }

    /// Calls `found` with each circle around a place. `circle` returns the circle with a number.
    pub fn each(
        &self,
        latitude: f64,
        longitude: f64,
        circle: impl Fn(PredicateId) -> Circle,
        found: &mut impl FnMut(PredicateId),
    ) {
        let decide = |id| {
            let circle = circle(id);
            haversine(latitude, longitude, circle.latitude, circle.longitude) <= circle.radius
        };
        self.elsewhere.iter().filter(|&&id| decide(id)).for_each(|&id| found(id));
        if !is_on_earth(latitude, longitude) {
            let all = self.cubes.iter().flat_map(|list| &list.balls);
            return all.filter(|ball| decide(ball.id)).for_each(|ball| found(ball.id));
        }
        let place = point(latitude, longitude);
        for grid in (0..GRIDS as u32).filter(|&grid| self.grids[grid as usize] > 0) {
            for position in Cube::of(grid, place).around().filter_map(|cube| self.position(cube)) {
                for ball in &self.cubes[position].balls {
                    let chord = chord_squared(place, ball.center);
                    let margin = ball.squared * RELATIVE + ABSOLUTE;
                    let is_open = (chord - ball.squared).abs() <= margin || chord > OPPOSITE;
                    if if is_open { decide(ball.id) } else { chord < ball.squared } {
                        found(ball.id);
                    }
                }
            }
        }
    }

    /// Returns the bytes by which `more` circles may grow the tables.
    pub fn growth(&self, more: usize) -> usize {
        // A list doubles, and its former elements still exist.
        let lists = 3 * (self.longest + more + 4) * size_of::<Ball>() + more * (size_of::<Ball>() + AROUND);
        self.by_cube.growth(more) + growth(&self.cubes, more) + lists + growth(&self.elsewhere, more)
    }
}
