//! stub
pub(super) fn page(_run: &crate::run::Run) -> String {
    String::new()
}
