//! Which card goes into which free slot, so that a flow is fastest: every placement is tried that is not the same as another
//! one by like slots and like cards.

use crate::plan::parts::{ByteDevice, DeviceKind, Joint, JointKind, MachineParts, PartPlace, show_link};
use linerate_facts::units::show_bits_rate;
use linerate_machine::rates::pcie::raw_bytes_per_second;

/// The most placements that are tried: each solves the flow once. Where some are left out, a note says so.
const MOST_TRIED: usize = 4096;
/// Rates less than this share apart are one.
const DUST: f64 = 1e-9;

/// The best placement that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardPlacement {
    /// Card and its new slot, of each card that is moved.
    pub moves: Vec<(String, String)>,
    /// Placements that were tried.
    pub tried: usize,
    /// Those are all that there are.
    pub is_complete: bool,
}

/// The cards in slots that have one of these devices on them, by their names.
pub fn cards_in_slots(parts: &MachineParts, is_end: &dyn Fn(&ByteDevice) -> bool) -> Vec<String> {
    let in_slot = |joint: &&Joint| matches!(&joint.up, PartPlace::Joint(up) if is_slot(parts, up));
    let cards =
        parts.joints.iter().filter(|joint| matches!(joint.kind, JointKind::Card | JointKind::Controller));
    let has_end = |card: &&Joint| devices_of(parts, &card.name).any(is_end);
    cards.filter(in_slot).filter(has_end).map(|card| card.name.clone()).collect()
}

fn is_slot(parts: &MachineParts, name: &str) -> bool {
    parts.joint(name).is_some_and(|joint| joint.kind == JointKind::Slot)
}

fn devices_of<'a>(parts: &'a MachineParts, card: &'a str) -> impl Iterator<Item = &'a ByteDevice> {
    parts.devices.iter().filter(move |device| parts.above(&device.place).iter().any(|up| up.name == card))
}

/// Slots that are alike: free, or with a card that may be moved.
struct SlotClass<'a> {
    slots: Vec<&'a Joint>,
}

struct Card<'a> {
    joint: &'a Joint,
    /// Of cards that are alike the same.
    class: usize,
    /// Class of the slot that it is in.
    own: Option<usize>,
}

struct Search<'a> {
    parts: &'a MachineParts,
    rate: &'a dyn Fn(&MachineParts) -> Option<f64>,
    cards: Vec<Card<'a>>,
    classes: Vec<SlotClass<'a>>,
    /// Class of the slot of each card so far.
    chosen: Vec<usize>,
    tried: usize,
    is_complete: bool,
    best: Option<Candidate>,
}

/// A placement with what speaks for it: the rate, then few moves, then wide slots that stay free.
struct Candidate {
    rate: f64,
    moves: Vec<(String, String)>,
    width: f64,
}

/// The best placement of these cards in the slots that are free, or theirs. `is_end`: the flow begins or ends there, so that
/// the card is like no other that has none; `rate`: of the flow, on such a machine.
pub fn best_placement(
    parts: &MachineParts,
    cards: &[String],
    is_end: &dyn Fn(&ByteDevice) -> bool,
    rate: &dyn Fn(&MachineParts) -> Option<f64>,
) -> CardPlacement {
    let mut classes: Vec<SlotClass> = Vec::new();
    let usable = |slot: &&Joint| parts.occupant(&slot.name).is_none_or(|card| cards.contains(&card.name));
    for slot in parts.joints.iter().filter(|joint| joint.kind == JointKind::Slot).filter(usable) {
        let alike =
            |class: &&mut SlotClass| class.slots.iter().any(|one| one.up == slot.up && one.link == slot.link);
        match classes.iter_mut().find(alike) {
            Some(class) => class.slots.push(slot),
            None => classes.push(SlotClass { slots: vec![slot] }),
        }
    }
    let mut kinds: Vec<String> = Vec::new();
    let mut found: Vec<Card> = Vec::new();
    for joint in cards.iter().filter_map(|name| parts.joint(name)) {
        let kind = kind(parts, joint, is_end);
        let class = kinds.iter().position(|other| *other == kind).unwrap_or(kinds.len());
        if class == kinds.len() {
            kinds.push(kind);
        }
        let is_own = |slot: &&Joint| joint.up == PartPlace::Joint(slot.name.clone());
        let own = classes.iter().position(|class| class.slots.iter().any(is_own));
        found.push(Card { joint, class, own });
    }
    found.sort_by_key(|card| card.class);
    let (chosen, best) = (Vec::new(), None);
    let mut search = Search { parts, rate, cards: found, classes, chosen, tried: 0, is_complete: true, best };
    search.place_next();
    let moves = search.best.map(|best| best.moves).unwrap_or_default();
    CardPlacement { moves, tried: search.tried, is_complete: search.is_complete }
}

/// What of a card matters to a flow, in words that are the same for cards that are alike.
fn kind(parts: &MachineParts, card: &Joint, is_end: &dyn Fn(&ByteDevice) -> bool) -> String {
    let what = Joint { up: PartPlace::Unknown, running: None, name: String::new(), ..card.clone() };
    let of = |device: &ByteDevice| {
        let what: &DeviceKind = &device.what;
        format!("{what:?} {} {}", is_end(device), parts.above(&device.place).len())
    };
    let mut devices: Vec<String> = devices_of(parts, &card.name).map(of).collect();
    devices.sort_unstable();
    format!("{what:?} {devices:?}")
}

impl Search<'_> {
    fn place_next(&mut self) {
        let at = self.chosen.len();
        if at == self.cards.len() {
            return self.try_chosen();
        }
        // Like cards are not told apart: the later one takes no earlier slot.
        let first = match at.checked_sub(1).map(|before| (&self.cards[before], self.chosen[before])) {
            Some((before, chosen)) if before.class == self.cards[at].class => chosen,
            _ => 0,
        };
        for class in first..self.classes.len() {
            let taken = self.chosen.iter().filter(|other| **other == class).count();
            if taken < self.classes[class].slots.len() && self.is_complete {
                self.chosen.push(class);
                self.place_next();
                self.chosen.pop();
            }
        }
    }

    fn try_chosen(&mut self) {
        if self.tried == MOST_TRIED {
            self.is_complete = false;
            return;
        }
        self.tried += 1;
        let moves = self.moves();
        let mut parts = self.parts.clone();
        put(&mut parts, &moves);
        let Some(rate) = (self.rate)(&parts) else { return };
        let width = |class: &usize| {
            self.classes[*class].slots[0]
                .link
                .map_or(f64::INFINITY, |link| link.gt_per_second * f64::from(link.width))
        };
        let found = Candidate { rate, moves, width: self.chosen.iter().map(width).sum() };
        if self.best.as_ref().is_none_or(|best| found.is_better_than(best)) {
            self.best = Some(found);
        }
    }

    /// Cards that can stay do; the others take what is left of their class of slots.
    fn moves(&self) -> Vec<(String, String)> {
        let left = &self.chosen;
        let mut of_card: Vec<Option<usize>> = vec![None; self.cards.len()];
        let like = |card: usize, other: usize| self.cards[card].class == self.cards[other].class;
        let mut given = vec![false; left.len()];
        for own_only in [true, false] {
            for (card, class) in of_card.iter_mut().enumerate().filter(|(_, class)| class.is_none()) {
                let fits = |at: &usize| {
                    let is_own = self.cards[card].own == Some(left[*at]);
                    !given[*at] && like(card, *at) && (is_own || !own_only)
                };
                if let Some(at) = (0..left.len()).find(fits) {
                    (*class, given[at]) = (Some(left[at]), true);
                }
            }
        }
        let stays = |card: usize| of_card[card].is_some() && of_card[card] == self.cards[card].own;
        let kept: Vec<&PartPlace> = (0..self.cards.len())
            .filter(|card| stays(*card))
            .map(|card| &self.cards[card].joint.up)
            .collect();
        let mut used: Vec<&str> = Vec::new();
        let mut moves = Vec::new();
        for card in (0..self.cards.len()).filter(|card| !stays(*card)) {
            let Some(class) = of_card[card] else { continue };
            let is_free = |slot: &&&Joint| {
                !used.contains(&slot.name.as_str()) && !kept.contains(&&PartPlace::Joint(slot.name.clone()))
            };
            if let Some(slot) = self.classes[class].slots.iter().find(is_free) {
                used.push(&slot.name);
                moves.push((self.cards[card].joint.name.clone(), slot.name.clone()));
            }
        }
        moves
    }
}

impl Candidate {
    fn is_better_than(&self, other: &Candidate) -> bool {
        match self.rate / other.rate - 1.0 {
            more if more > DUST => true,
            less if less < -DUST => false,
            _ => (self.moves.len(), self.width) < (other.moves.len(), other.width),
        }
    }
}

/// Makes all moves at once: a card may go into a slot that another one leaves.
fn put(parts: &mut MachineParts, moves: &[(String, String)]) {
    for (card, slot) in moves {
        for joint in parts.joints.iter_mut().filter(|joint| joint.name == *card) {
            // In another slot the link trains again.
            (joint.up, joint.running) = (PartPlace::Joint(slot.clone()), None);
        }
    }
}

/// Makes the moves of a placement, and gives a note on each: the slot, and how fast the card's link runs there.
pub(super) fn place(parts: &mut MachineParts, placement: &CardPlacement) -> Vec<String> {
    put(parts, &placement.moves);
    let note = |(card, slot): &(String, String)| {
        let link = parts.joint(card).and_then(|joint| parts.link_of(joint))?;
        let there = parts.joint(slot)?;
        let wide = there.link.map_or("of unknown width".into(), show_link);
        let words = if there.words.is_empty() { String::new() } else { format!(" ({})", there.words) };
        let rate = raw_bytes_per_second(link.gt_per_second, link.width)
            .map_or(String::new(), |rate| format!(": {}", show_bits_rate(rate)));
        Some(format!("{slot}{words} is {wide}, and {card} runs at {} there{rate}", show_link(link)))
    };
    let more = (!placement.is_complete).then(|| {
        format!("of the placements {} were tried, and there are more: another may be faster", placement.tried)
    });
    placement.moves.iter().filter_map(note).chain(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::flow::{Flow, Method, likely_rate};
    use crate::plan::machine_file::parse;
    use linerate_facts::protocol::Protocol;
    use linerate_facts::random::Random;

    fn rate(parts: &MachineParts) -> Option<f64> {
        let flow = Flow::between(parts, [&["disk"], &["nic"]], Protocol::Udp, Method::Direct).ok()?;
        likely_rate(parts, &flow)
    }

    /// Two sockets, four slots, two NICs and a controller with disks, all at random.
    fn server(random: &mut Random) -> MachineParts {
        let mut pick = |of: &[&str]| of[random.below(of.len() as u64) as usize].to_string();
        let links = ["1.0 x4", "2.0 x4", "2.0 x8", "3.0 x8", "3.0 x16"];
        let mut text = String::from(
            "[processor]\nsockets = 2\ncores = 8\n[memory]\nrate = \"80GB/s\"\n[[socket_link]]\nbetween = [0, 1]\nlink = \"qpi 6.4\"\n",
        );
        for slot in 0..4 {
            let (node, link) = (pick(&["node0", "node1"]), pick(&links));
            text += &format!("[[slot]]\nname = \"slot{slot}\"\non = \"{node}\"\npcie = \"{link}\"\n");
        }
        for nic in 0..2 {
            let (link, rate) = (pick(&["2.0 x8", "3.0 x8", "3.0 x16"]), pick(&["10G", "40G", "100G"]));
            text += &format!(
                "[[nic]]\nname = \"eth{nic}\"\non = \"slot{nic}\"\npcie = \"{link}\"\nrate = \"{rate}\"\nmtu = 9000\n"
            );
        }
        let link = pick(&["2.0 x8", "3.0 x8"]);
        text +=
            &format!("[[controller]]\nname = \"hba\"\non = \"slot2\"\npcie = \"{link}\"\ndisk_ports = 16\n");
        text +=
            "[[disk]]\nname = \"ssd\"\ncount = 4\non = \"hba\"\nread = \"1500MB/s\"\nwrite = \"1500MB/s\"\n";
        parse(&text).expect("a server")
    }

    /// Every card in every slot.
    fn by_brute_force(
        parts: &MachineParts,
        cards: &[String],
        slots: &[String],
        moves: &mut Vec<(String, String)>,
    ) -> f64 {
        let Some(card) = cards.get(moves.len()) else {
            let mut moved = parts.clone();
            put(&mut moved, moves);
            return rate(&moved).unwrap_or(0.0);
        };
        let free: Vec<&String> =
            slots.iter().filter(|slot| !moves.iter().any(|(_, taken)| taken == *slot)).collect();
        let mut best = 0.0f64;
        for slot in free {
            moves.push((card.clone(), slot.clone()));
            best = best.max(by_brute_force(parts, cards, slots, moves));
            moves.pop();
        }
        best
    }

    #[test]
    fn the_placement_on_random_servers_is_the_best_by_brute_force() {
        let mut random = Random::new(9);
        let (mut moved, mut better) = (0, 0);
        for _ in 0..20 {
            let parts = server(&mut random);
            let cards = cards_in_slots(&parts, &|_| true);
            assert_eq!(cards.len(), 3);
            let slots: Vec<String> = (0..4).map(|slot| format!("slot{slot}")).collect();
            let best = by_brute_force(&parts, &cards, &slots, &mut Vec::new());
            let placement = best_placement(&parts, &cards, &|_| true, &rate);
            let mut placed = parts.clone();
            put(&mut placed, &placement.moves);
            let reached = rate(&placed).expect("a rate");
            assert!(
                placement.is_complete && (reached / best - 1.0).abs() < 1e-6,
                "{reached} of {best}: {placement:?}"
            );
            moved += usize::from(!placement.moves.is_empty());
            better += usize::from(reached > rate(&parts).expect("a rate") * (1.0 + 1e-8));
            // What is in its best slot stays there.
            assert!(best_placement(&placed, &cards, &|_| true, &rate).moves.is_empty());
        }
        assert!(moved == better && moved >= 5, "{moved} {better}");
    }

    /// D1.3 §5: the card in the x4 slot belongs into the x8 slot that is free.
    #[test]
    fn a_card_of_a_t610_goes_into_its_wide_slot() {
        let text = include_str!("../../../../../examples/machines/dell-t610.toml");
        let mut parts = parse(text).expect("the T610");
        super::super::remove(&mut parts, "eth2").expect("a card");
        let rate = |parts: &MachineParts| {
            let flow = Flow::between(parts, [&["memory"], &["nic"]], Protocol::Udp, Method::Direct).ok()?;
            likely_rate(parts, &flow)
        };
        let is_nic = |device: &ByteDevice| device.what.word() == "nic";
        let cards = cards_in_slots(&parts, &is_nic);
        let placement = best_placement(&parts, &cards, &is_nic, &rate);
        let [(card, slot)] = &placement.moves[..] else { panic!("{placement:?}") };
        assert_eq!(
            (parts.joint(card).map(|joint| &joint.up), slot.as_str()),
            (Some(&PartPlace::Joint("slot1".into())), "slot3")
        );
        let notes = place(&mut parts, &placement);
        assert!(
            notes[0].starts_with("slot3 is PCIe 2.0 x8")
                && notes[0].ends_with("PCIe 1.0 x8 there: 16.0 Gb/s"),
            "{notes:?}"
        );
        // The two of them are alike: which of them is where is one placement.
        assert!(placement.tried <= 6, "{placement:?}");
    }
}
