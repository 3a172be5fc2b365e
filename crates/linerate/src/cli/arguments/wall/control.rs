//! `linerate wall control`.

use crate::cli::arguments::values::one_of;
use clap::{ArgAction, Args, Subcommand};
use linerate_wall::control::View;
use std::path::PathBuf;

/// `linerate wall control`.
#[derive(Debug, Args)]
pub struct ControlArgs {
    /// Where the server of the wall is; port 7412 where none is given
    #[arg(long, value_name = "HOST[:PORT]", default_value = "127.0.0.1", global = true)]
    pub server: String,
    /// File with the key of the server [default: the digits in LINERATE_KEY]
    #[arg(long, value_name = "FILE", global = true)]
    pub key_file: Option<PathBuf>,
    #[arg(from_global)]
    pub json: bool,
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// What to say; without any of them: JSON lines from standard input to the server, its messages as JSON lines
/// on standard output.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Go on from the current frame
    Play,
    /// Stand still
    Pause,
    /// Go on from another frame
    Seek {
        #[arg(value_name = "FRAME")]
        frame: u32,
    },
    /// Frames of the movie for each frame of the wall; 1 is as it was made, -1 backwards
    Speed {
        #[arg(value_name = "FACTOR", allow_negative_numbers = true, value_parser = finite)]
        speed: f64,
    },
    /// Begin again after the last frame, or not
    Loop {
        #[arg(value_name = "SWITCH", value_parser = one_of(&[("on", "", true), ("off", "", false)]), action = ArgAction::Set)]
        switch: bool,
    },
    /// Which part of the movie the wall shows: its left and upper edge in movie pixels, and wall pixels for
    /// each movie pixel
    View {
        #[arg(value_name = "LEFT,TOP,ZOOM", allow_hyphen_values = true, value_parser = view)]
        view: View,
    },
    /// List the movies that the server has
    Movies,
    /// Play another movie of the same grid and tile size
    Open {
        #[arg(value_name = "NAME")]
        movie: String,
    },
    /// Show how the whole wall does
    Status,
    /// Show it every second, until Ctrl-C
    Watch,
}

fn finite(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("“{text}” is not a number: write one like 1, 0.5 or -2"))
}

fn view(text: &str) -> Result<View, String> {
    let wrong = || format!("“{text}” is not a view: write LEFT,TOP,ZOOM, like 0,0,1; zoom is above 0");
    let numbers: Vec<f64> = text.split(',').map(finite).collect::<Result<_, _>>().map_err(|_| wrong())?;
    match numbers[..] {
        [left, top, zoom] if zoom > 0.0 => Ok(View { left, top, zoom }),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_three_numbers() {
        assert_eq!(view("-1.5,2,0.5"), Ok(View { left: -1.5, top: 2.0, zoom: 0.5 }));
        for text in ["", "1,2", "1,2,0", "1,2,-1", "1,2,3,4", "a,b,c", "1,2,inf", "nan,0,1"] {
            assert!(view(text).is_err(), "{text}");
        }
        assert!(finite("1e999").is_err() && finite("-2") == Ok(-2.0));
    }
}
