//! The last step: one `Run` as a terminal screen, as JSON, as a self-contained HTML page.
