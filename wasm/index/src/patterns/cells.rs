//! Cells of the earth's surface, which find the circles near a place.
//!
//! A place is a point of a sphere in space, so poles and the date line are no special cases. A point belongs to one of six
//! *faces* (a cube map), chosen by the axis and the sign of its greatest coordinate. The other two coordinates are its
//! position on the face. A face is divided into square cells, in grids of decreasing size: each halves the edge of the grid
//! before.
//!
//! A projection shortens distances. So the points within a distance of a place are in the cells within that distance on its
//! face, and on any other face whose border is as near.

use std::hash::Hasher;

use crate::support::hash::Words;
use crate::support::number::greater;
use crate::support::sphere::Point;

/// The number of grids. Edges are 2 in the first, the diameter of the sphere, and 24 millimetres in the last.
pub(super) const GRIDS: usize = 30;
const FACES: u8 = 6;

/// A square of a grid on a face.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    grid: u8,
    face: u8,
    place: [i32; 2],
}

/// A point in a face's coordinates: the position on the face, and the height above the plane through the sphere's center.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnFace([f64; 3]);

/// Returns the number of cells in a unit of length. It is a power of two, so products with it are exact.
pub(super) fn per_unit(grid: usize) -> f64 {
    f64::from(1_u32 << grid) / 2.0
}

/// Returns the position of the cell of a grid that contains a coordinate.
#[inline(always)]
fn at(coordinate: f64, per_unit: f64) -> i32 {
    (coordinate * per_unit).floor() as i32
}

impl Cell {
    /// Returns the cell of a point of the sphere in a grid, and the point on the cell's face.
    pub fn of(grid: usize, point: Point) -> (Cell, OnFace) {
        let mut face = 0;
        for other in 1..FACES {
            if OnFace::of(other, point).height() > OnFace::of(face, point).height() {
                face = other;
            }
        }
        let on_face = OnFace::of(face, point);
        let OnFace([u, v, _]) = on_face;
        let place = [u, v].map(|coordinate| at(coordinate, per_unit(grid)));
        (Cell { grid: grid as u8, face, place }, on_face)
    }

    /// Calls `each` with the cells of a grid that may contain points within `reach` of `point`, and with `point` on their faces.
    #[inline(always)]
    pub fn each_near(grid: usize, point: Point, reach: f64, mut each: impl FnMut(Cell, OnFace)) {
        let greatest = point.iter().fold(0.0, |greatest, coordinate| greater(greatest, coordinate.abs()));
        let per_unit = per_unit(grid);
        for face in 0..FACES {
            let on_face = OnFace::of(face, point);
            // On this face the height is the greatest coordinate. No coordinate of a point within reach differs from that of
            // `point` by more than `reach`.
            if on_face.height() < greatest - 2.0 * reach {
                continue;
            }
            let OnFace([u, v, _]) = on_face;
            let [from_u, from_v] = [u, v].map(|coordinate| at(coordinate - reach, per_unit));
            let [to_u, to_v] = [u, v].map(|coordinate| at(coordinate + reach, per_unit));
            for u in from_u..to_u + 1 {
                for v in from_v..to_v + 1 {
                    each(Cell { grid: grid as u8, face, place: [u, v] }, on_face);
                }
            }
        }
    }

    /// Returns the number of the cell's grid.
    pub fn grid(self) -> usize {
        self.grid.into()
    }

    #[inline(always)]
    pub fn hash(self) -> u64 {
        let [u, v] = self.place.map(|place| u64::from(place as u32));
        let kind = u64::from(self.grid) << 8 | u64::from(self.face);
        Words::default().add(kind).add(u | v << 32).finish()
    }

    /// Returns a point in the local coordinates of the cell. The origin is the middle of its part of the sphere, and the
    /// unit is its edge. Coordinates near the cell are near zero, so 32 bits lose little precision.
    #[inline(always)]
    pub fn relative(self, OnFace([u, v, height]): OnFace) -> [f32; 3] {
        let per_unit = per_unit(self.grid());
        let [middle_u, middle_v] = self.place.map(|place| (f64::from(place) + 0.5) / per_unit);
        // The middle of a large cell may lie beside the sphere.
        let middle_height = greater(1.0 - middle_u * middle_u - middle_v * middle_v, 0.0).sqrt();
        [u - middle_u, v - middle_v, height - middle_height].map(|distance| (distance * per_unit) as f32)
    }
}

impl OnFace {
    #[inline(always)]
    fn of(face: u8, [x, y, z]: Point) -> OnFace {
        OnFace(match face {
            0 => [y, z, x],
            1 => [y, z, -x],
            2 => [z, x, y],
            3 => [z, x, -y],
            4 => [x, y, z],
            _ => [x, y, -z],
        })
    }

    #[inline(always)]
    fn height(self) -> f64 {
        let OnFace([_, _, height]) = self;
        height
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::random::Random;
    use crate::support::sphere::{chord_squared, point};

    fn distance(a: Point, b: Point) -> f64 {
        chord_squared(a, b).sqrt()
    }

    /// Places at the poles, at the borders and corners of faces, and anywhere.
    fn place(random: &mut Random) -> Point {
        let corner = (2.0_f64).sqrt().recip().atan().to_degrees();
        let (lat, lon) =
            random.pick(&[(90.0, 0.0), (-90.0, 0.0), (0.0, 45.0), (0.0, 180.0), (corner, 45.0), (45.0, 0.0)]);
        let spread = random.pick(&[1e-9, 1e-4, 1.0, 180.0]);
        let mut near = || (random.below(2001) as f64 / 1000.0 - 1.0) * spread;
        point((lat + near()).clamp(-90.0, 90.0), lon + near())
    }

    #[test]
    fn the_cells_near_a_place_are_those_of_all_points_around_it() {
        let mut random = Random::new(1);
        let mut near = 0;
        for _ in 0..20_000 {
            let (one, other) = (place(&mut random), place(&mut random));
            let reach = distance(one, other) + 1e-14;
            let grid = (0..GRIDS).rev().find(|&grid| reach * per_unit(grid) <= 1.0).unwrap_or(0);
            let (cell, of_other) = Cell::of(grid, other);
            let (mut cells, mut relative) = (Vec::new(), None);
            Cell::each_near(grid, one, reach, |each, of_one| {
                if each == cell {
                    relative = Some((each.relative(of_one), each.relative(of_other)));
                }
                cells.push(each);
            });
            assert_eq!(cells.iter().filter(|each| **each == cell).count(), 1, "{one:?} {other:?}");
            assert!(cells.len() <= 6 * 16 && (grid < 4 || cells.len() <= 3 * 9), "{} cells", cells.len());
            let Some((one_to, other_to)) = relative else { unreachable!("the cell was found") };
            let expected = distance(one, other) * per_unit(grid);
            let found = distance(one_to.map(f64::from), other_to.map(f64::from));
            assert!((found - expected).abs() < 2e-6, "{found} {expected}, grid {grid}");
            near += usize::from(expected > 0.0 && grid > 8);
        }
        assert!(near > 1000, "{near}");
    }
}
