//! temporary
use linerate::watch::{
    Moment,
    board::Board,
    page::{Page, PageSettings},
    terminal,
};
use std::sync::{Arc, atomic::AtomicBool};
fn main() {
    let board = Arc::new(Board::default());
    let moment: Moment = serde_json::from_str(include_str!("../tests/watch/moment.json")).unwrap();
    let b = board.clone();
    std::thread::spawn(move || {
        let mut n = 0f64;
        loop {
            let mut m = moment.clone();
            m.at_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()
                as i64;
            n += 1.0;
            let f = 0.75 + 0.25 * (n / 7.0).sin();
            for nic in &mut m.nics {
                for w in [&mut nic.send, &mut nic.receive] {
                    w.bits_per_second = w.bits_per_second.map(|v| v * f);
                    w.share_of_link = w.share_of_link.map(|v| v * f);
                }
            }
            b.tell(m);
            std::thread::sleep(std::time::Duration::from_millis(1000));
        }
    });
    let page = Page::start(
        board.clone(),
        PageSettings {
            listen: "127.0.0.1:7414".parse().unwrap(),
            token: None,
            metrics: |_| "# EOF\n".into(),
        },
    )
    .unwrap();
    if std::env::args().nth(1).as_deref() == Some("page") {
        println!("{}", page.url());
        loop {
            std::thread::park();
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    for s in [2, 15] {
        signal_hook::flag::register(s, stop.clone()).unwrap();
    }
    terminal::show(&board, &stop, &page.url()).unwrap();
}
