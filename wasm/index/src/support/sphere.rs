//! Distances on a sphere.

/// The radius of the earth in kilometres, with the value that the field's programs use.
pub(crate) const EARTH_RADIUS: f64 = 6372.8;

/// Returns the distance of two places in kilometres, by the haversine formula. Angles are in degrees.
pub(crate) fn haversine(lat1: f64, lon1: f64, lat2: f64, lon2: f64) -> f64 {
    let half_lat = (lat2 - lat1).to_radians() / 2.0;
    let half_lon = (lon2 - lon1).to_radians() / 2.0;
    let a = half_lat.sin().powi(2) + lat1.to_radians().cos() * lat2.to_radians().cos() * half_lon.sin().powi(2);
    2.0 * EARTH_RADIUS * a.sqrt().min(1.0).asin()
}

/// A point in space.
pub(crate) type Point = [f64; 3];

/// Returns the place at these degrees as a point of the unit sphere, where poles and the date line need no special cases.
pub(crate) fn point(lat: f64, lon: f64) -> Point {
    let (lat_sin, lat_cos) = lat.to_radians().sin_cos();
    let (lon_sin, lon_cos) = lon.to_radians().sin_cos();
    [lat_cos * lon_cos, lat_cos * lon_sin, lat_sin]
}

/// Returns the squared chord of two places at this distance in kilometres on the earth's surface. The chord is the straight
/// line through the sphere.
pub(crate) fn chord_squared_of(distance: f64) -> f64 {
    let half = (distance / (2.0 * EARTH_RADIUS)).clamp(0.0, std::f64::consts::FRAC_PI_2);
    4.0 * half.sin().powi(2)
}

/// Returns the square of the distance of two points, straight through the sphere.
#[cfg(test)]
pub(crate) fn chord_squared(a: Point, b: Point) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chords_agree_with_the_haversine() {
        let places =
            [(0.0, 0.0), (45.5, -73.6), (-33.9, 151.2), (90.0, 0.0), (-90.0, 77.0), (10.0, 179.9), (10.0, -179.9)];
        for (lat1, lon1) in places {
            for (lat2, lon2) in places {
                let chord = chord_squared(point(lat1, lon1), point(lat2, lon2));
                let expected = chord_squared_of(haversine(lat1, lon1, lat2, lon2));
                assert!((chord - expected).abs() < 1e-12, "{lat1} {lon1} {lat2} {lon2}: {chord} {expected}");
            }
        }
    }
}
