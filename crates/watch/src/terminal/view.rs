//! What a screen shows.

use super::state::ViewState;
use super::theme::Theme;
use crate::history::History;
use crate::model::Moment;

/// Everything that a screen is made of.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub moment: &'a Moment,
    pub history: &'a History,
    pub state: &'a ViewState,
    pub theme: Theme,
    /// A word on where the moments come from or go to (`replay of FILE`, `page at http://…`); may be empty.
    pub note: &'a str,
    /// Nothing more comes: the recording has ended.
    pub ended: bool,
}
