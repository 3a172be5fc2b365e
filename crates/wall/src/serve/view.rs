//! Which part of the movie the wall shows, moved by a joystick: arithmetic on [`View`].

use crate::control::View;
use crate::geometry::Size;

/// A movie pixel is at most so many wall pixels wide.
const MOST_ZOOM: f64 = 16.0;

/// The view moved by wall pixels and enlarged about the wall's centre, kept on the movie.
pub(crate) fn panned(view: View, right: f64, down: f64, zoom: f64, wall: Size, movie: Size) -> View {
    let finite = |value: f64, otherwise: f64| if value.is_finite() { value } else { otherwise };
    let new = limited(view.zoom * finite(zoom, 1.0).max(0.0), wall, movie);
    let centre = |start: f64, moved: f64, length: u32| {
        start + finite(moved, 0.0) / view.zoom + f64::from(length) / 2.0 / view.zoom
            - f64::from(length) / 2.0 / new
    };
    let (left, top) = (centre(view.left, right, wall.width), centre(view.top, down, wall.height));
    fitted(View { left, top, zoom: new }, wall, movie)
}

/// A wished view kept on the movie: no edge of the movie lies within the wall unless the movie is smaller
/// than it, and then it lies in the middle.
pub(crate) fn fitted(view: View, wall: Size, movie: Size) -> View {
    let zoom = limited(view.zoom, wall, movie);
    let place = |start: f64, wall: u32, movie: u32| {
        let room = f64::from(movie) - f64::from(wall) / zoom;
        let start = if start.is_finite() { start } else { 0.0 };
        let start = if room >= 0.0 { start.clamp(0.0, room) } else { room / 2.0 };
        // Unenlarged pixels stay pixels.
        if zoom == 1.0 { start.round() } else { start }
    };
    View {
        left: place(view.left, wall.width, movie.width),
        top: place(view.top, wall.height, movie.height),
        zoom,
    }
}

/// From all of the movie on the wall to pixels as large as bricks.
fn limited(zoom: f64, wall: Size, movie: Size) -> f64 {
    let whole = (f64::from(wall.width) / f64::from(movie.width))
        .min(f64::from(wall.height) / f64::from(movie.height));
    let zoom = if zoom.is_finite() { zoom.clamp(whole.min(1.0), MOST_ZOOM) } else { 1.0 };
    // Steps of a joystick come back to where they began only nearly.
    if (zoom - 1.0).abs() < 1e-3 { 1.0 } else { zoom }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WALL: Size = Size { width: 1280, height: 800 };
    const MOVIE: Size = Size { width: 3200, height: 1200 };

    #[test]
    fn a_step_there_and_back() {
        let there = panned(View::WHOLE, 100.0, 50.0, 1.0, WALL, MOVIE);
        assert_eq!(there, View { left: 100.0, top: 50.0, zoom: 1.0 });
        assert_eq!(panned(there, -100.0, -50.0, 1.0, WALL, MOVIE), View::WHOLE);
        let near = panned(there, 0.0, 0.0, 2.0, WALL, MOVIE);
        assert_eq!(near, View { left: 420.0, top: 250.0, zoom: 2.0 });
        assert_eq!(panned(near, 0.0, 0.0, 0.5, WALL, MOVIE), there);
        // A movie that is as large as the wall cannot be moved, only enlarged.
        assert_eq!(panned(View::WHOLE, 9.0, 9.0, 1.0, WALL, WALL), View::WHOLE);
    }

    proptest! {
        #[test]
        fn the_wall_never_leaves_the_movie(
            left in prop::num::f64::ANY, right in -1e6f64..1e6, zoom in prop::num::f64::ANY, wide in 1u32..8000, high in 1u32..8000,
        ) {
            let movie = Size { width: wide, height: high };
            let first = fitted(View { left, top: left, zoom }, WALL, movie);
            for view in [first, panned(first, right, -right, 1.3, WALL, movie), panned(first, left, right, zoom, WALL, movie)] {
                prop_assert!(view.zoom > 0.0 && view.zoom <= MOST_ZOOM);
                let shown = (f64::from(WALL.width) / view.zoom, f64::from(WALL.height) / view.zoom);
                let within = |start: f64, shown: f64, all: u32| {
                    let all = f64::from(all);
                    if shown <= all { start >= -0.6 && start + shown <= all + 0.6 } else { (2.0 * start + shown - all).abs() < 2.0 }
                };
                prop_assert!(within(view.left, shown.0, wide) && within(view.top, shown.1, high), "{view:?}");
            }
        }
    }
}
