// Trades the token for a cookie: from the form, or from behind the “#” of the address, which browsers do not send.

import { byId } from './numbers.js';

const tokenOf = (text) => /[0-9a-f]{64}\s*$/i.exec(text)?.[0].trim().toLowerCase();

async function open(text) {
  const token = tokenOf(text);
  if (!token) return say('That is not a token: it has 64 digits and letters from a to f.');
  try {
    const answer = await fetch('/login', { method: 'POST', body: token });
    if (answer.ok) location.replace('/');
    else say('The server has another token.');
  } catch {
    say('The server does not answer.');
  }
}

function say(text) {
  byId('why').textContent = text;
  byId('why').className = 'problem';
  byId('token').focus();
}

byId('login-form').addEventListener('submit', (event) => {
  event.preventDefault();
  open(byId('token').value);
});

if (location.hash.length > 1) {
  const text = location.hash;
  history.replaceState(null, '', '/');
  open(text);
} else {
  byId('token').focus();
}
