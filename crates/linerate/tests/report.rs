mod support;
#[test]
fn show() {
    for (name, run) in support::all() {
        for w in [110, 80] {
            println!("==== {name}\n{}", linerate::report::terminal(&run, w, false));
        }
        std::fs::write(format!("/tmp/rep-{name}.html"), linerate::report::html(&run)).expect("write");
    }
}
