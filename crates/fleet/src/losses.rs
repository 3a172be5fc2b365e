//! Members that are lost while a fleet measures.

use crate::product::FleetResult;
use crate::spec::FleetEvent;
use crate::window::Conversation;

/// Names members that were lost since this was asked last.
pub(crate) fn note_lost(
    conversation: &Conversation,
    result: &mut FleetResult,
    listening: &mut dyn FnMut(FleetEvent<'_>),
) {
    for (member, lost) in result.members.iter_mut().zip(conversation.losses()) {
        member.lost.clone_from(lost);
    }
    for member in result.members.iter().filter(|member| member.lost.is_some()) {
        let why = member.lost.as_deref().unwrap_or_default();
        let sentence = format!("{} was lost: {why}", member.name);
        if !result.errors.contains(&sentence) {
            listening(FleetEvent::Lost { name: &member.name, why });
            result.errors.push(sentence);
        }
    }
}
