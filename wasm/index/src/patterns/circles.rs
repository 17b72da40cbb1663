//! An index of the circles on the earth's surface that expressions test for.
//!
//! A circle is the part of the sphere inside a ball. It is filed under the cell of its center, in the finest grid whose edge
//! is at least the ball's radius. So the circles that contain a place are in a few cells near it, in each grid that has
//! circles.
//!
//! The circles of a cell are tested four at a time, by chord length. That takes no trigonometry, and 32 bits are enough for
//! nearly all circles. The haversine formula decides the others, so results always equal the formula's.

use super::cells::{per_unit, Cell, GRIDS};
use crate::handles::PredicateId;
use crate::support::bits::ones;
use crate::support::chunks::Chunks;
use crate::support::footprint::of_table;
use crate::support::headroom::{growth, trim};
use crate::support::id_table::IdTable;
use crate::support::simd::{Fastest, Vector};
use crate::support::sphere::{chord_squared_of, haversine, point};

/// A generous bound of the error of a point of the sphere, and of the formula. The unit is the radius of the sphere.
const ERROR: f64 = 1e-13;
/// A generous bound of the error of a squared distance in 32 bits. The unit is the square of a cell's edge.
const ROUNDING: f64 = 1e-5;

/// The number of circles in a block.
const LANES: usize = 4;
/// No block, or no lane.
const NONE: u32 = u32::MAX;

/// The center of a circle in degrees, and its radius in kilometres.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circle {
    pub latitude: f64,
    pub longitude: f64,
    pub radius: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Circles {
    /// The first block of each cell, by the hash of the cell. All other blocks of a cell are full.
    by_cell: IdTable,
    blocks: Chunks<Block>,
    /// The head of the free list of blocks, linked through `next`.
    free: u32,
    grids: [Grid; GRIDS],
    /// Circles whose centers are out of range ([`is_on_earth`]). The formula decides each of them.
    elsewhere: Vec<PredicateId>,
    len: usize,
}

/// The positions of the circles of all attributes, by predicate id.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// A circle's lane, counted through all blocks; its position in `elsewhere`, marked [`ELSEWHERE`]; or [`NONE`].
    lanes: Chunks<u32>,
    used: usize,
}

/// The mark of a position in `elsewhere`.
const ELSEWHERE: u32 = 1 << 31;

impl Places {
    fn of(&self, id: PredicateId) -> u32 {
        self.lanes[id.index()]
    }

    fn set(&mut self, id: PredicateId, lane: u32) {
        while self.lanes.len() <= id.index() {
            self.lanes.push(NONE);
        }
        self.lanes[id.index()] = lane;
    }

    /// Removes the position of a circle. Allocates nothing.
    fn drop_one(&mut self, id: PredicateId) {
        self.lanes[id.index()] = NONE;
        self.used -= 1;
        if self.used == 0 {
            self.lanes.clear();
        }
    }

    /// Returns the heap bytes of the table.
    pub fn heap_bytes(&self) -> usize {
        self.lanes.heap_bytes()
    }

    /// Returns the bytes by which circles with ids below `ids` may grow the table.
    pub fn growth(&self, ids: usize) -> usize {
        self.lanes.growth(ids.saturating_sub(self.lanes.len()))
    }
}

/// The circles of a grid.
#[derive(Clone, Copy, Debug, Default)]
struct Grid {
    len: u32,
    /// An upper bound of the balls' radii.
    reach: f64,
}

/// Some circles of a cell, in the cell's local coordinates ([`Cell::relative`]).
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The coordinates of the centers.
    centers: [[f32; LANES]; 3],
    /// The squares of the radii, or [`NO_BALL`].
    squared: [f32; LANES],
    /// The ids of the circles. Used lanes come first.
    ids: [PredicateId; LANES],
    cell: Cell,
    /// The next block of the cell, or [`NONE`].
    next: u32,
}

/// The square of the radius of an unused lane: no distance is as small.
const NO_BALL: f32 = f32::NEG_INFINITY;

/// A circle in its cell's local coordinates.
#[derive(Clone, Copy, Debug)]
struct Ball {
    center: [f32; 3],
    squared: f32,
    id: PredicateId,
}

impl Default for Circles {
    fn default() -> Self {
        Circles {
            by_cell: IdTable::default(),
            blocks: Chunks::default(),
            free: NONE,
            grids: [Grid::default(); GRIDS],
            elsewhere: Vec::new(),
            len: 0,
        }
    }
}

/// Returns the cell of a circle, its ball in the cell's coordinates, and the ball's radius. `None`: the center is off the
/// earth.
fn ball_of(circle: Circle, id: PredicateId) -> Option<(Cell, Ball, f64)> {
    is_on_earth(circle.latitude, circle.longitude).then(|| {
        let squared = chord_squared_of(circle.radius);
        let reach = squared.sqrt() + ERROR;
        // The greatest radius is 2, the edge of the first grid.
        let finest = (0..GRIDS).rev().find(|&grid| reach * per_unit(grid) <= 1.0).unwrap_or(0);
        let (cell, center) = Cell::of(finest, point(circle.latitude, circle.longitude));
        let squared = squared * per_unit(finest) * per_unit(finest);
        (cell, Ball { center: cell.relative(center), squared: squared as f32, id }, reach)
    })
}

/// Returns whether these degrees are in range. Beyond it, angles lose precision.
fn is_on_earth(latitude: f64, longitude: f64) -> bool {
    latitude.abs() <= 90.0 && longitude.abs() <= 360.0
}

impl Circles {
    pub fn insert(&mut self, places: &mut Places, circle: Circle, id: PredicateId) {
        self.len += 1;
        places.used += 1;
        let Some((cell, ball, reach)) = ball_of(circle, id) else {
            places.set(id, ELSEWHERE | self.elsewhere.len() as u32);
            return self.elsewhere.push(id);
        };
        let grid = &mut self.grids[cell.grid()];
        *grid = Grid { len: grid.len + 1, reach: grid.reach.max(reach) };
        let first = self.first(cell);
        let block = match first {
            Some(first) if self.blocks[first as usize].len() < LANES => first,
            _ => self.add_block(cell, first),
        };
        let lane = self.blocks[block as usize].len();
        self.put(places, ball, block, lane);
    }

    /// Removes the circle `id`. Allocates nothing.
    pub fn remove(&mut self, places: &mut Places, id: PredicateId) {
        self.len -= 1;
        let lane = places.of(id);
        debug_assert_ne!(lane, NONE, "circle {id} was inserted");
        if lane & ELSEWHERE != 0 {
            self.remove_elsewhere(places, (lane & !ELSEWHERE) as usize);
        } else {
            self.remove_lane(places, id, lane as usize);
        }
        places.drop_one(id);
    }

    /// Removes the circle at a position of `elsewhere`. The last one takes its place.
    fn remove_elsewhere(&mut self, places: &mut Places, position: usize) {
        self.elsewhere.swap_remove(position);
        if let Some(&moved) = self.elsewhere.get(position) {
            places.set(moved, ELSEWHERE | position as u32);
        }
        trim(&mut self.elsewhere);
    }

    fn remove_lane(&mut self, places: &mut Places, id: PredicateId, lane: usize) {
        let cell = self.blocks[lane / LANES].cell;
        let grid = &mut self.grids[cell.grid()];
        grid.len -= 1;
        if grid.len == 0 {
            *grid = Grid::default();
        }
        let Some(first) = self.first(cell) else { unreachable!("circle {id} was inserted") };
        // The last circle of the first block takes the place.
        let moved = self.blocks[first as usize].take_last();
        if moved.id != id {
            self.put(places, moved, (lane / LANES) as u32, lane % LANES);
        }
        if self.blocks[first as usize].len() == 0 {
            self.free_block(first);
        }
    }

    /// Returns the number of circles.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the first block of a cell.
    #[inline(always)]
    fn first(&self, cell: Cell) -> Option<u32> {
        self.by_cell.find(cell.hash(), |block| self.blocks[block as usize].cell == cell)
    }

    /// Puts a ball into a lane of a block of its cell.
    fn put(&mut self, places: &mut Places, ball: Ball, block: u32, lane: usize) {
        self.blocks[block as usize].put(lane, ball);
        places.set(ball.id, block * LANES as u32 + lane as u32);
    }

    /// Adds an empty block in front of `first`, the present first one of its cell.
    fn add_block(&mut self, cell: Cell, first: Option<u32>) -> u32 {
        let new = Block { cell, ..Block::empty(first.unwrap_or(NONE)) };
        let block = match self.blocks.get(self.free as usize).map(|free| free.next) {
            Some(next) => {
                let block = std::mem::replace(&mut self.free, next);
                self.blocks[block as usize] = new;
                block
            }
            None => {
                self.blocks.push(new);
                self.blocks.len() as u32 - 1
            }
        };
        match first {
            Some(first) => self.by_cell.renumber(cell.hash(), first, block),
            None => self.by_cell.insert(cell.hash(), block),
        }
        block
    }

    /// Frees an empty block, the first one of its cell.
    fn free_block(&mut self, block: u32) {
        let Block { cell, next, .. } = self.blocks[block as usize];
        match next {
            NONE => self.by_cell.remove(cell.hash(), block),
            next => self.by_cell.renumber(cell.hash(), block, next),
        }
        self.blocks[block as usize] = Block::empty(std::mem::replace(&mut self.free, block));
        if self.by_cell.len() == 0 {
            self.blocks.clear();
            self.free = NONE;
        }
    }

    /// Calls `found` with each circle that contains a place. `circle` returns the circle of an id.
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
            let all = self.blocks.iter().flat_map(|block| &block.ids[..block.len()]);
            return all.filter(|&&id| decide(id)).for_each(|&id| found(id));
        }
        let place = point(latitude, longitude);
        for (grid, Grid { reach, .. }) in self.grids.iter().enumerate().filter(|(_, grid)| grid.len > 0) {
            let margin = ROUNDING + ERROR * per_unit(grid);
            let margin = Fastest::splat_f32(margin as f32);
            Cell::each_near(grid, place, *reach, |cell, place| {
                let is = |block: &&Block| block.cell == cell;
                let first = self.by_cell.find_map(cell.hash(), |block| self.blocks.get(block as usize).filter(is));
                let Some(first) = first else { return };
                let place = cell.relative(place).map(Fastest::splat_f32);
                let mut next = Some(first);
                while let Some(block) = next {
                    let (within, near) = block.around(place, margin);
                    for lane in ones(near.into()) {
                        let id = block.ids[lane % LANES];
                        if within >> lane & 1 == 1 || decide(id) {
                            found(id);
                        }
                    }
                    next = self.blocks.get(block.next as usize);
                }
            });
        }
    }

    /// Returns the bytes that the tables take of the heap, without [`Places`].
    pub fn heap_bytes(&self) -> usize {
        self.by_cell.heap_bytes() + self.blocks.heap_bytes() + of_table(&self.elsewhere)
    }

    /// Returns the bytes by which `more` circles may grow the tables, without [`Places`].
    pub fn growth(&self, more: usize) -> usize {
        self.by_cell.growth(more) + self.blocks.growth(more) + growth(&self.elsewhere, more)
    }
}

impl Block {
    fn empty(next: u32) -> Block {
        Block {
            centers: [[0.0; LANES]; 3],
            squared: [NO_BALL; LANES],
            ids: [PredicateId::NONE; LANES],
            cell: Cell::default(),
            next,
        }
    }

    /// Returns the number of circles.
    fn len(&self) -> usize {
        self.ids.iter().take_while(|id| **id != PredicateId::NONE).count()
    }

    fn put(&mut self, lane: usize, ball: Ball) {
        self.centers.iter_mut().zip(ball.center).for_each(|(lanes, coordinate)| lanes[lane] = coordinate);
        self.squared[lane] = ball.squared;
        self.ids[lane] = ball.id;
    }

    /// Removes the last circle. There is at least one.
    fn take_last(&mut self) -> Ball {
        let last = self.len() - 1;
        let taken =
            Ball { center: self.centers.map(|lanes| lanes[last]), squared: self.squared[last], id: self.ids[last] };
        self.put(last, Ball { center: [0.0; 3], squared: NO_BALL, id: PredicateId::NONE });
        taken
    }

    /// Returns the lanes of the circles that contain a place, and the lanes of those that may contain it, as two bit masks.
    /// The squares of distances have an error of at most `margin`.
    #[inline(always)]
    fn around<V: Vector>(&self, place: [V; 3], margin: V) -> (u8, u8) {
        let [x, y, z] = [0, 1, 2].map(|axis| {
            let difference = V::of_f32(&self.centers[axis]).sub_f32(place[axis]);
            difference.mul_f32(difference)
        });
        // Negative within the circle.
        let beyond = x.add_f32(y).add_f32(z).sub_f32(V::of_f32(&self.squared));
        (beyond.add_f32(margin).signs_u32(), beyond.sub_f32(margin).signs_u32())
    }
}
